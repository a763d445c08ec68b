import type { CallOptions } from "../clients/call.js";
import type { QueueCallOptions, QueueLike, QueueMessageLike } from "../clients/queue.js";
import { throwIfAborted } from "../core/deadline.js";
import { isPopReceiptMismatch } from "../core/storage-errors.js";
import { describeSpan, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { byteLength, encodeText, maxMessageBytes, openEnvelope, poisonDetailsOf, sealEnvelope } from "./envelope.js";
import type { PoisonDetails } from "./envelope.js";
import { checkQueue, observed } from "./options.js";

/** Options of {@link redrive}. */
export interface RedriveOptions extends CallOptions {
  /** The maximum number of messages to move. @defaultValue all that are there when it begins: those that fail again stay */
  maxMessages?: number | undefined;
  /** Selects the messages for which it returns `true`; the others stay. Messages that were too large for the details have none. @defaultValue all: most causes concern all messages */
  filter?: ((details: PoisonDetails | undefined) => boolean) | undefined;
}

const names: OptionNames<RedriveOptions> = { maxMessages: 1, filter: 1, abortSignal: 1, tracingOptions: 1 };

/** The result of {@link redrive}. */
export interface RedriveResult {
  /** How many messages were moved. */
  readonly moved: number;
  /** How many messages stayed: the filter excluded them, or they were poisoned after the call began. */
  readonly skipped: number;
}

/** Long enough to move 32 messages one by one over a slow connection. */
const visibilityTimeout = 120;

/**
 * Moves messages from a poison queue back to their queue, with the original key and a new count of attempts. First sends, then
 * deletes: a crash in between leaves two messages with the same key, and with an inbox they take effect once.
 * Costs 2 requests for each message, and 1 for each 32.
 * @throws `TypeError` if `filter` is not a function.
 * @throws `RangeError` if `maxMessages` is not a whole number of 1 or more.
 * @example
 * ```ts
 * const { moved } = await redrive(poisonQueue, queue, { filter: (details) => details?.reason === "failed 5 times" });
 * ```
 */
export async function redrive(poisonQueue: QueueLike, queue: QueueLike, options: RedriveOptions = {}): Promise<RedriveResult> {
  checkOptions("redrive", options, names);
  checkQueue("redrive", poisonQueue);
  checkQueue("redrive", queue);
  const max = checkNumber("maxMessages", options.maxMessages ?? Infinity, { min: 1, integer: true });
  // A caller without TypeScript may return anything: only `true` moves a message.
  const filter: ((details: PoisonDetails | undefined) => unknown) | undefined = options.filter;
  if (filter !== undefined && typeof filter !== "function") throw new TypeError("redrive: filter must be a function");
  return withSpan("redrive", options, async (tracingOptions, span) => {
    const call = { ...(options.abortSignal && { abortSignal: options.abortSignal as AbortSignal }), ...(tracingOptions && { tracingOptions }) };
    const skipped: QueueMessageLike[] = [];
    let moved = 0;
    let requests = 0;
    let startedOn: Date | undefined;
    let reachedNewer = false;
    try {
      while (moved < max && !reachedNewer) {
        throwIfAborted(options.abortSignal);
        requests++;
        const response = await poisonQueue.receiveMessages({ ...call, numberOfMessages: Math.min(32, max - moved), visibilityTimeout });
        startedOn ??= response.date ?? new Date();
        if (response.receivedMessageItems.length === 0) break;
        for (const message of response.receivedMessageItems) {
          const { text, details } = originalOf(message);
          // A message that was poisoned after the start would be moved back and forth.
          const newer = message.insertedOn > startedOn;
          reachedNewer ||= newer;
          if (newer || (filter && observed(filter(details)) !== true)) skipped.push(message);
          else {
            requests += 2;
            await queue.sendMessage(text, call);
            await deleteMoved(poisonQueue, message, call);
            moved++;
          }
        }
      }
    } finally {
      // They were hidden only to be inspected. If this fails, they become visible after two minutes.
      await Promise.allSettled(skipped.map((m) => poisonQueue.updateMessage(m.messageId, m.popReceipt, undefined, 0)));
      requests += skipped.length;
    }
    describeSpan(span, { outcome: `moved ${moved}, skipped ${skipped.length}`, requests });
    return { moved, skipped: skipped.length };
  }, { targetKind: "queue", url: queue.url });
}

async function deleteMoved(poisonQueue: QueueLike, message: QueueMessageLike, call: QueueCallOptions): Promise<void> {
  try {
    await poisonQueue.deleteMessage(message.messageId, message.popReceipt, call);
  } catch (error) {
    // Deleted by a first send whose response was lost; or received by another redrive, whose copy has the same key.
    if (!isPopReceiptMismatch(error)) throw error;
  }
}

/** The text of a message as it is sent to its queue again, and why it was poisoned. */
function originalOf(message: QueueMessageLike): { text: string; details: PoisonDetails | undefined } {
  const { poison, key, body, text } = openEnvelope(message.messageText, "text");
  if (!poison) return { text: message.messageText, details: undefined };
  const details = poisonDetailsOf(poison);
  if (poison.raw) return { text: text ?? "", details };
  // A message that was sent without an envelope gets one, too: its new message has another id, and its key was the old id.
  const sealed = sealEnvelope({ asc: 1, key, ...(text === undefined ? { body } : { text }) }, poison.encoding);
  const fits = text === undefined || byteLength(sealed) <= maxMessageBytes;
  return { text: fits ? sealed : encodeText(text, poison.encoding), details };
}
