import type { QueueLike } from "../clients/queue.js";
import { request } from "../core/request.js";
import { isBadRequest } from "../core/storage-errors.js";

/** The messages that are to be moved have slots of the consumer, which others wait for. */
const timeoutInMs = 10_000;

/** The result of a send to the poison queue. */
export type PoisonSend =
  | { readonly kind: "sent" }
  | {
      readonly kind: "failed";
      readonly error: unknown;
      /** Not tried: the error is that of another message. */
      readonly skipped: boolean;
    };

/**
 * Sends to the poison queue of a consumer. While that queue fails, one message at a time is tried, and the others fail at once: if it
 * does not respond, each of them would keep a slot until its request times out, and the consumer would handle nothing else.
 *
 * | the last send          | sends in flight | the next one                     |
 * |------------------------|-----------------|----------------------------------|
 * | succeeded, or was none | any             | is tried                         |
 * | failed                 | none            | is tried                         |
 * | failed                 | one or more     | fails at once                    |
 */
export class PoisonSender {
  #failure: { readonly error: unknown } | undefined;
  #inFlight = 0;

  /** Poison messages wait until an operator inspects them, so they never expire. */
  async send(poisonQueue: QueueLike, text: string, limits: { readonly remainingInMs: number; readonly abortSignal: AbortSignal }): Promise<PoisonSend> {
    if (this.#failure && this.#inFlight > 0) return { kind: "failed", error: this.#failure.error, skipped: true };
    this.#inFlight++;
    try {
      const sent = await request((abortSignal) => poisonQueue.sendMessage(text, { abortSignal, messageTimeToLive: -1 }), {
        timeoutInMs: Math.max(1, Math.min(timeoutInMs, limits.remainingInMs)),
        abortSignal: limits.abortSignal,
      });
      if (sent.kind === "ok") {
        this.#failure = undefined;
        return { kind: "sent" };
      }
      // A message that is not accepted says nothing about the others.
      if (!isBadRequest(sent.error) && !limits.abortSignal.aborted) this.#failure = { error: sent.error };
      return { kind: "failed", error: sent.error, skipped: false };
    } finally {
      this.#inFlight--;
    }
  }
}
