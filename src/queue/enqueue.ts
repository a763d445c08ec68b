import type { CallOptions } from "../clients/call.js";
import type { QueueLike } from "../clients/queue.js";
import { throwIfAborted } from "../core/deadline.js";
import { describeSpan, withSpan } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { byteLength, checkEncoding, checkKey, maxMessageBytes, sealEnvelope } from "./envelope.js";
import type { QueueEncoding } from "./envelope.js";

/** Options of {@link enqueue}. */
export interface EnqueueOptions extends CallOptions {
  /**
   * Identifies what the message is about, and is the same whenever it is sent again: an order number, a request id. Messages with
   * the same key take effect once, however many there are.
   * @defaultValue a new one, which still recognises the duplicates that a re-sent request makes
   */
  idempotencyKey?: string | undefined;
  /** @defaultValue "text" */
  encoding?: QueueEncoding | undefined;
  /** After how many seconds the message expires; -1 for never. @defaultValue 7 days, as the service has it */
  timeToLiveInSeconds?: number | undefined;
  /** After how many seconds the message becomes visible. @defaultValue 0 */
  delayInSeconds?: number | undefined;
}

/** The result of {@link enqueue}. */
export interface EnqueueResult {
  readonly messageId: string;
  readonly key: string;
}

/**
 * Sends a payload, as JSON, with its idempotency key. If the response to a send is lost, the SDK sends again, which creates a
 * second message with another id: by the key, a consumer with an inbox recognises that they are the same.
 */
export async function enqueue(queue: QueueLike, payload: unknown, options: EnqueueOptions = {}): Promise<EnqueueResult> {
  if ((JSON.stringify(payload) as string | undefined) === undefined) throw new TypeError("the payload cannot be written as JSON");
  const encoding = checkEncoding(options.encoding);
  const key = options.idempotencyKey === undefined ? crypto.randomUUID() : checkKey("idempotencyKey", options.idempotencyKey);
  const text = sealEnvelope({ asc: 1, key, body: payload }, encoding);
  const bytes = byteLength(text);
  if (bytes > maxMessageBytes) {
    throw new RangeError(`the message would have ${bytes} bytes, and a queue takes ${maxMessageBytes}: put the payload into a blob and send its name`);
  }
  const timing = {
    ...(options.timeToLiveInSeconds !== undefined && {
      messageTimeToLive: options.timeToLiveInSeconds === -1 ? -1 : checkNumber("timeToLiveInSeconds", options.timeToLiveInSeconds, { min: 1, integer: true }),
    }),
    ...(options.delayInSeconds !== undefined && {
      visibilityTimeout: checkNumber("delayInSeconds", options.delayInSeconds, { min: 0, max: 7 * 86_400, integer: true }),
    }),
  };
  return withSpan("enqueue", options, async (tracingOptions, span) => {
    throwIfAborted(options.abortSignal);
    const { messageId } = await queue.sendMessage(text, {
      ...timing,
      ...(options.abortSignal && { abortSignal: options.abortSignal as AbortSignal }),
      ...(tracingOptions && { tracingOptions }),
    });
    describeSpan(span, { messageId, outcome: "sent" });
    return { messageId, key };
  }, { targetKind: "queue", url: queue.url, requests: 1 });
}
