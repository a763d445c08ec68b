import type { ContainerLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { throwIfAborted } from "../core/deadline.js";
import { observed } from "../core/pending-call.js";
import { request, whileRejectedForNow } from "../core/request.js";
import type { RequestOutcome } from "../core/request.js";
import { isRejectedForNow, toConcurrencyError } from "../core/storage-errors.js";
import { describeSpan, redactUrl, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { CommitUnknownError, createError } from "../errors.js";
import { byteLength, checkEncoding, checkKey, checkSequence, isReferenceBody, maxDelayInMs, maxMessageBytes, sealEnvelope } from "./envelope.js";
import type { Envelope, QueueEncoding } from "./envelope.js";
import { checkQueue } from "./options.js";
import { checkOverflow, maxTextBytes } from "../overflow/stored-text.js";
import { roomInBytes, uploadPayload } from "./overflow/upload-payload.js";
import type { LargeMessage } from "./overflow/upload-payload.js";
import { withTraceparent } from "./traced-text.js";

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
  /**
   * Handlers of messages with the same group run one at a time, over all consumers, if these have an inbox that claims keys. Messages with
   * the same key must have the same group.
   * @defaultValue none: messages are independent of each other
   */
  group?: string | undefined;
  /**
   * The position of the message in its group, for consumers with `order: "sequence"`: 1 for the first message, and 1 more for each that
   * follows. Needs `group`.
   * @defaultValue none: messages of a group are handled in any order
   */
  sequence?: number | undefined;
  /** After how many seconds the message expires; -1 for never. @defaultValue 7 days, as the service has it */
  timeToLiveInSeconds?: number | undefined;
  /**
   * After which time the message becomes visible: rounded up to whole seconds, 7 days at most, and less than the time to live.
   * @defaultValue 0: at once
   */
  delayInMs?: number | undefined;
  /**
   * The container for payloads that do not fit into a message (64 KiB, of which 1 KiB is left for the consumer), up to 64 MiB. Consumers
   * need the same container as their option `overflow`.
   * @defaultValue none: a payload that does not fit is a `RangeError`
   */
  overflow?: ContainerLike | undefined;
}

const names: OptionNames<EnqueueOptions> = {
  idempotencyKey: 1,
  delayInMs: 1,
  timeToLiveInSeconds: 1,
  group: 1,
  sequence: 1,
  encoding: 1,
  overflow: 1,
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
 * second message with another id: by the key, a consumer with an inbox recognises that they are the same. Costs 1 request, and 1 more
 * if the payload goes to a blob.
 *
 * Ends after 30 seconds at the latest; before that, the upload of a payload may take as long, and the wait for a queue that is being deleted. Without a response by then, or if the SDK
 * gives up, it is not known whether the message was sent: repeat the call with the `operationId` of the error as `idempotencyKey`.
 * @throws `TypeError` if the payload cannot be written as JSON.
 * @throws `RangeError` if the message would be larger than 64 KiB (with `overflow`, the payload larger than 64 MiB), or would expire before
 * it becomes visible.
 * @throws {@link TargetNotFoundError} if the container of `overflow` does not exist. No message was sent.
 * @throws {@link OperationTimeoutError} if the payload could not be uploaded within 30 seconds. No message was sent.
 * @throws {@link TargetStateError} if the queue is still being deleted after half a minute or more. No message was sent.
 * @throws {@link CommitUnknownError} if the queue did not respond.
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
    const result = await sendMessage("enqueue", queue, message, { abortSignal: options.abortSignal, tracingOptions }, whileRejectedForNow);
    describeSpan(span, { messageId: result.messageId, outcome: "sent", requests: message.large ? 2 : 1 });
    return result;
  }, { targetKind: "queue", url: queue.url }, { spanKind: "producer" });
}

/** A message that was checked, and can be sent. */
export interface PreparedMessage {
  readonly key: string;
  readonly text: string;
  readonly timing: { readonly messageTimeToLive?: number; readonly visibilityTimeout?: number };
  /** The payload is to be stored in a blob, and the text is not sent. */
  readonly large?: LargeMessage | undefined;
}

/** @throws `TypeError` or `RangeError` if the message cannot be sent. */
export function prepareMessage(call: string, payload: unknown, options: Omit<EnqueueOptions, keyof CallOptions>): PreparedMessage {
  // A promise would be sent as {}: the caller forgot to await it.
  if (typeof (observed(payload) as Partial<PromiseLike<unknown>> | null | undefined)?.then === "function") throw new TypeError(`${call}: the payload is a promise`);
  const content = JSON.stringify(payload) as string | undefined;
  if (content === undefined) throw new TypeError(`${call}: the payload cannot be written as JSON`);
  if (content.startsWith('{"ascOverflow"') && isReferenceBody(JSON.parse(content))) throw new TypeError(`${call}: a payload with the single property ascOverflow means a payload in a blob`);
  const encoding = checkEncoding(options.encoding);
  const container = options.overflow && checkOverflow(call, options.overflow);
  const key = options.idempotencyKey === undefined ? crypto.randomUUID() : checkKey("idempotencyKey", options.idempotencyKey);
  const envelope: Envelope = { asc: 1, key, ...positionOf(call, options) };
  const text = sealEnvelope({ ...envelope, body: payload }, encoding);
  const bytes = byteLength(text);
  if (bytes > maxMessageBytes && !container) {
    throw new RangeError(`${call}: the message would have ${bytes} bytes, and the limit is ${maxMessageBytes}. Store the payload in a blob: pass a container as the option overflow.`);
  }
  const large = container && bytes > maxMessageBytes - roomInBytes ? { container, key, content, envelope, encoding } : undefined;
  if (large && byteLength(content) > maxTextBytes) {
    throw new RangeError(`${call}: the payload has ${byteLength(content)} bytes, and the limit with overflow is ${maxTextBytes}. Store it in a blob and send its name.`);
  }
  return { key, text, timing: timingOf(call, options), large };
}

/** How long a message lives if its sender does not say so. */
const defaultTimeToLiveInSeconds = 7 * 86_400;

function timingOf(call: string, { timeToLiveInSeconds, delayInMs }: Pick<EnqueueOptions, "timeToLiveInSeconds" | "delayInMs">): PreparedMessage["timing"] {
  const messageTimeToLive = timeToLiveInSeconds === undefined || timeToLiveInSeconds === -1 ? timeToLiveInSeconds : checkNumber("timeToLiveInSeconds", timeToLiveInSeconds, { min: 1, integer: true });
  const visibilityTimeout = delayInMs === undefined ? undefined : Math.ceil(checkNumber("delayInMs", delayInMs, { min: 0, max: maxDelayInMs }) / 1_000);
  const lifetime = messageTimeToLive ?? defaultTimeToLiveInSeconds;
  // The service rejects it, or the message expires before any consumer could receive it.
  if (visibilityTimeout !== undefined && lifetime !== -1 && visibilityTimeout >= lifetime) {
    throw new RangeError(`${call}: the message would expire after ${lifetime} s, and be hidden for ${visibilityTimeout} s. Set a timeToLiveInSeconds that is longer than delayInMs, or -1.`);
  }
  return { ...(messageTimeToLive !== undefined && { messageTimeToLive }), ...(visibilityTimeout !== undefined && { visibilityTimeout }) };
}

function positionOf(call: string, { group, sequence }: Pick<EnqueueOptions, "group" | "sequence">): Pick<EnqueueOptions, "group" | "sequence"> {
  if (sequence !== undefined && group === undefined) throw new TypeError(`${call}: sequence needs the option group`);
  return { ...(group !== undefined && { group: checkKey("group", group) }), ...(sequence !== undefined && { sequence: checkSequence("sequence", sequence) }) };
}

/**
 * Sends a message in one bounded request: after its payload was stored, so that no consumer can miss it. `repeat`: whether to wait while the queue
 * is being deleted, when nothing is stored, and another client may be about to create it again.
 */
export async function sendMessage(
  call: string,
  queue: QueueLike,
  message: PreparedMessage,
  { abortSignal, tracingOptions }: CallOptions,
  repeat: typeof whileRejectedForNow = (attempt) => attempt(),
): Promise<EnqueueResult> {
  const { key, timing, large } = message;
  const traced = withTraceparent(large ? await uploadPayload(queue, large, { abortSignal, tracingOptions }) : message.text, tracingOptions);
  const send = (signal: AbortSignal): Promise<{ messageId: string }> =>
    queue.sendMessage(traced, { ...timing, abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
  const sendInTime = async (): Promise<RequestOutcome<{ messageId: string }>> => {
    const outcome = await request(send, { timeoutInMs, abortSignal });
    if (outcome.kind === "rejected" && isRejectedForNow(outcome.error)) throw outcome.error;
    return outcome;
  };
  const url = redactUrl(queue.url);
  const sent = await repeat(sendInTime, abortSignal).catch((error: unknown) => {
    throwIfAborted(abortSignal);
    throw toConcurrencyError(error, url);
  });
  if (sent.kind === "ok") return { messageId: sent.value.messageId, idempotencyKey: key };
  throwIfAborted(abortSignal);
  if (sent.kind === "rejected") throw sent.error;
  throw createError(
    CommitUnknownError,
    `${call}: it is not known whether the message was sent to ${url}: no response, or an error after which the service may have stored it. ` +
      `Repeat the call with the operationId of this error as idempotencyKey: a consumer with an inbox then recognises the duplicate.`,
    { url, attempts: 1, operationId: key, cause: sent.error },
  );
}
