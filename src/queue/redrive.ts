import type { CallOptions } from "../clients/call.js";
import type { QueueCallOptions, QueueLike, QueueMessageLike } from "../clients/queue.js";
import { throwIfAborted } from "../core/deadline.js";
import { isPopReceiptMismatch } from "../core/storage-errors.js";
import { describeSpan, withSpan } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { byteLength, encodeText, maxMessageBytes, openEnvelope, sealEnvelope } from "./envelope.js";
import type { PoisonFacts } from "./envelope.js";

/** Options of {@link redrive}. */
export interface RedriveOptions extends CallOptions {
  /** How many messages to bring back at most. @defaultValue all that are there when it begins */
  maxMessages?: number | undefined;
  /** Which ones; the others stay. Messages without facts are those that had no room for them. @defaultValue all */
  filter?: ((facts: PoisonFacts | undefined) => boolean) | undefined;
}

/** What {@link redrive} returns. */
export interface RedriveResult {
  readonly moved: number;
  readonly skipped: number;
}

/** Long enough to move 32 messages one by one over a bad line. */
const visibilityTimeout = 120;

/**
 * Brings messages from a poison queue back, with their original key and a clean count of attempts. First sends, then
 * deletes: a crash in between leaves two messages with the same key, which an inbox lets take effect once.
 */
export function redrive(poisonQueue: QueueLike, queue: QueueLike, options: RedriveOptions = {}): Promise<RedriveResult> {
  const max = checkNumber("maxMessages", options.maxMessages ?? Infinity, { min: 1 });
  return withSpan("redrive", options, async (tracingOptions, span) => {
    const call = { ...(options.abortSignal && { abortSignal: options.abortSignal as AbortSignal }), ...(tracingOptions && { tracingOptions }) };
    const skipped: QueueMessageLike[] = [];
    let moved = 0;
    let requests = 0;
    let startedOn: Date | undefined;
    let newer = false;
    try {
      while (moved < max && !newer) {
        throwIfAborted(options.abortSignal);
        requests++;
        const answer = await poisonQueue.receiveMessages({ ...call, numberOfMessages: Math.min(32, max - moved), visibilityTimeout });
        startedOn ??= answer.date ?? new Date();
        if (answer.receivedMessageItems.length === 0) break;
        for (const message of answer.receivedMessageItems) {
          const { again, facts } = returning(message);
          // What was poisoned since would be brought back in circles.
          const since = message.insertedOn > startedOn;
          newer ||= since;
          if (since || options.filter?.(facts) === false) skipped.push(message);
          else {
            requests += 2;
            await queue.sendMessage(again, call);
            await deleteMoved(poisonQueue, message, call);
            moved++;
          }
        }
      }
    } finally {
      // They were hidden only to look at them. If this fails they come back in two minutes.
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
    // Deleted by a first try whose answer was lost; or taken by another redrive, whose copy has the same key.
    if (!isPopReceiptMismatch(error)) throw error;
  }
}

function returning(message: QueueMessageLike): { again: string; facts: PoisonFacts | undefined } {
  const { poison, key, body, text } = openEnvelope(message.messageText, "text");
  if (!poison) return { again: message.messageText, facts: undefined };
  if (poison.raw) return { again: text ?? "", facts: poison };
  // A foreign text goes back in an envelope too: its new message has another id, and its key was the old one.
  const again = sealEnvelope({ asc: 1, key, ...(text === undefined ? { body } : { text }) }, poison.encoding);
  const fits = text === undefined || byteLength(again) <= maxMessageBytes;
  return { again: fits ? again : encodeText(text, poison.encoding), facts: poison };
}
