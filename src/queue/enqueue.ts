import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { throwIfAborted } from "../core/deadline.js";
import { request } from "../core/request.js";
import { describeSpan, redactUrl, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { CommitUnknownError, createError } from "../errors.js";
import { byteLength, checkEncoding, checkKey, maxMessageBytes, sealEnvelope } from "./envelope.js";
import type { QueueEncoding } from "./envelope.js";
import { checkQueue, observed } from "./options.js";

/** Options of {@link enqueue}. */
export interface EnqueueOptions extends CallOptions {
  /**
   * Identifies what the message is about, and is the same whenever it is sent again: an order number, a request id. Messages with
   * the same key take effect once, however many there are.
   * @defaultValue a new one, which still recognises the duplicates that a re-sent request makes
   */
  idempotencyKey?: string | undefined;
  /** How the text of the message is encoded. @defaultValue "text": shorter, and readable in tools */
  encoding?: QueueEncoding | undefined;
  /** After how many seconds the message expires; -1 for never. @defaultValue 7 days, as the service has it */
  timeToLiveInSeconds?: number | undefined;
  /** After which time the message becomes visible: rounded up to whole seconds, 7 days at most. @defaultValue 0: at once */
  delayInMs?: number | undefined;
}

const names: OptionNames<EnqueueOptions> = {
  idempotencyKey: 1,
  delayInMs: 1,
  timeToLiveInSeconds: 1,
  encoding: 1,
  abortSignal: 1,
  tracingOptions: 1,
};

/** The result of {@link enqueue}. */
export interface EnqueueResult {
  /** The id that the queue assigned to the message. If the request was sent twice, that of the last message. */
  readonly messageId: string;
  /** The key that was sent with the message. */
  readonly idempotencyKey: string;
}

/** Longer than the SDK's own retries, which take 16 s. */
const timeoutInMs = 30_000;

/**
 * Sends a payload, as JSON, with its idempotency key. If the response to a send is lost, the SDK sends again, which creates a
 * second message with another id: by the key, a consumer with an inbox recognises that they are the same. Costs 1 request.
 *
 * Ends after 30 seconds at the latest. Without a response by then, or if the SDK gives up, it is not known whether the message was
 * sent: repeat the call with the `operationId` of the error as `idempotencyKey`.
 * @throws `TypeError` if the payload cannot be written as JSON.
 * @throws `RangeError` if the message would be larger than 64 KiB.
 * @throws {@link CommitUnknownError} if the service did not respond.
 * @example
 * ```ts
 * const { messageId } = await enqueue(queue, { order: 17 }, { idempotencyKey: "order-17", delayInMs: 5_000 });
 * ```
 */
export async function enqueue(queue: QueueLike, payload: unknown, options: EnqueueOptions = {}): Promise<EnqueueResult> {
  checkOptions("enqueue", options, names);
  checkQueue("enqueue", queue);
  const message = prepareMessage("enqueue", payload, options);
  return withSpan("enqueue", options, async (tracingOptions, span) => {
    const result = await sendMessage("enqueue", queue, message, { abortSignal: options.abortSignal, tracingOptions });
    describeSpan(span, { messageId: result.messageId, outcome: "sent" });
    return result;
  }, { targetKind: "queue", url: queue.url, requests: 1 });
}

/** A message that was checked, and can be sent. */
export interface PreparedMessage {
  readonly key: string;
  readonly text: string;
  readonly timing: { readonly messageTimeToLive?: number; readonly visibilityTimeout?: number };
}

/** @throws `TypeError` or `RangeError` if the message cannot be sent. */
export function prepareMessage(call: string, payload: unknown, options: Omit<EnqueueOptions, keyof CallOptions>): PreparedMessage {
  // A promise would be sent as {}: the caller forgot to await it.
  if (typeof (observed(payload) as Partial<PromiseLike<unknown>> | null | undefined)?.then === "function") throw new TypeError(`${call}: the payload is a promise`);
  if ((JSON.stringify(payload) as string | undefined) === undefined) throw new TypeError(`${call}: the payload cannot be written as JSON`);
  const encoding = checkEncoding(options.encoding);
  const key = options.idempotencyKey === undefined ? crypto.randomUUID() : checkKey("idempotencyKey", options.idempotencyKey);
  const text = sealEnvelope({ asc: 1, key, body: payload }, encoding);
  const bytes = byteLength(text);
  if (bytes > maxMessageBytes) {
    throw new RangeError(`${call}: the message would have ${bytes} bytes, and the limit is ${maxMessageBytes}. Store the payload in a blob and send its name.`);
  }
  const timing = {
    ...(options.timeToLiveInSeconds !== undefined && {
      messageTimeToLive: options.timeToLiveInSeconds === -1 ? -1 : checkNumber("timeToLiveInSeconds", options.timeToLiveInSeconds, { min: 1, integer: true }),
    }),
    ...(options.delayInMs !== undefined && {
      visibilityTimeout: Math.ceil(checkNumber("delayInMs", options.delayInMs, { min: 0, max: 7 * 86_400_000 }) / 1_000),
    }),
  };
  return { key, text, timing };
}

/** Sends a message in one bounded request. */
export async function sendMessage(call: string, queue: QueueLike, { key, text, timing }: PreparedMessage, { abortSignal, tracingOptions }: CallOptions): Promise<EnqueueResult> {
  const send = (signal: AbortSignal): Promise<{ messageId: string }> =>
    queue.sendMessage(text, { ...timing, abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
  const sent = await request(send, { timeoutInMs, abortSignal });
  if (sent.kind === "ok") return { messageId: sent.value.messageId, idempotencyKey: key };
  throwIfAborted(abortSignal);
  if (sent.kind === "rejected") throw sent.error;
  const url = redactUrl(queue.url);
  throw createError(
    CommitUnknownError,
    `${call}: it is not known whether the message was sent to ${url}: no response, or an error after which the service may have stored it. ` +
      `Repeat the call with the operationId of this error as idempotencyKey: a consumer with an inbox then recognises the duplicate.`,
    { url, attempts: 1, operationId: key, cause: sent.error },
  );
}
