import type { OperationTracingOptions } from "@azure/core-tracing";
import type { QueueCallOptions, QueueLike } from "../clients/queue.js";
import { redactUrl } from "../core/telemetry.js";
import { RenewalLoop } from "../core/renewal.js";
import type { Renewal, RenewalTimes } from "../core/renewal.js";
import { request } from "../core/request.js";
import { resolveWrite } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { isPopReceiptMismatch } from "../core/storage-errors.js";
import { createError, MessageLostError } from "../errors.js";

/** The outcome of a delete or a release. */
export type SettleResult =
  /** The queue carried it out. */
  | "done"
  /** Another consumer has the message already. */
  | "lost"
  /** It was not carried out, or its outcome is unknown: the message is delivered again when its visibility timeout is over. */
  | "unsettled";

/** The handler has ended: the consumer should not wait long for a response. */
const settleTimeoutInMs = 5_000;
const maxReleases = 3;

/**
 * The times of messages and inbox claims: renewed halfway through. No single renewal may take more than half of the remaining
 * time: that leaves enough for another one. It may not take less either, as the outcome of one that is cut off is unknown.
 */
export const renewHalfway: RenewalTimes = Object.freeze({
  marginInMs: (durationInMs) => Math.min(1_000, durationInMs / 10),
  renewAfterInMs: (durationInMs) => durationInMs / 2,
  timeoutInMs: (remainingInMs) => remainingInMs / 2,
  retryAfterInMs: (durationInMs) => Math.min(1_000, durationInMs / 10),
} satisfies RenewalTimes);

/** The receipt with which a message was received. */
export interface ReceivedReceipt {
  readonly messageId: string;
  readonly popReceipt: string;
  readonly visibilityInSeconds: number;
  /** Started before the receive was sent. */
  readonly clock: Clock;
  /** How long after that the message expires: the service rejects a longer visibility timeout. */
  readonly expiresInMs: number;
}

/**
 * The lease on a received message, by its pop receipt. Each update changes the receipt, so renewals, the delete and the release
 * are sent one at a time: two at once would invalidate each other.
 *
 * D is the end of the time for which the message is certainly hidden (counted from before the request was sent). U is the end of
 * the time that an update without a response would bring if it was committed. "Mismatch" is the response that the pop receipt is
 * not the current one.
 *
 * | state      | event                                | next                                                               |
 * |------------|--------------------------------------|--------------------------------------------------------------------|
 * | held       | update: 2xx                          | held: new receipt, new D                                           |
 * | held       | update, sent once: mismatch          | lost: another consumer has received it, or it was deleted          |
 * | held       | update: no response, 5xx, 403, ...   | in doubt: same receipt, same D, U; retried after a second          |
 * | held       | update, resent by the SDK: mismatch  | no receipt until U: the first send of this update has changed it   |
 * | in doubt   | update: 2xx                          | held: the earlier update was not committed                         |
 * | in doubt   | update: mismatch, before D           | no receipt until U: no other consumer can receive it before D      |
 * | any        | D (no receipt: U) is reached         | lost                                                               |
 * | held       | delete: 2xx                          | deleted                                                            |
 * | held       | delete, sent once: mismatch          | lost                                                               |
 * | held       | delete, sent again: mismatch, < D    | deleted: by the first send of this delete                          |
 * | in doubt   | delete: 2xx                          | deleted                                                            |
 * | in doubt   | delete: mismatch                     | no receipt: it cannot be deleted                                   |
 * | no receipt | delete, release                      | unsettled, without a request                                       |
 *
 * In the state "no receipt", the receipt was lost with the response that carried it, and cannot be recovered. The handler may
 * finish in the remaining time, as no other consumer can receive the message before; but it will be delivered once more, and
 * then the inbox recognises it.
 */
export class MessageLease {
  /** Parent of the spans of its requests, once a handler processes the message. */
  tracingOptions: OperationTracingOptions | undefined;
  /** How many requests were sent. */
  requests = 0;
  readonly #queue: QueueLike;
  readonly #received: ReceivedReceipt;
  readonly #loop: RenewalLoop;
  readonly #lost = new AbortController();
  readonly #abandoned = new AbortController();
  #receipt: string | undefined;
  /** An update whose outcome is unknown. */
  #inDoubt: { readonly clock: Clock; readonly claimDurationInMs: number } | undefined;
  #text: string | undefined;
  #lastRequest: Promise<unknown> = Promise.resolve();
  #ended = false;

  constructor(queue: QueueLike, received: ReceivedReceipt) {
    this.#queue = queue;
    this.#received = received;
    this.#receipt = received.popReceipt;
    this.#loop = new RenewalLoop(
      {
        renew: (timeoutInMs) => this.#serialize(() => this.#update(this.#renewalInSeconds(), timeoutInMs)),
        onLost: (error, expired) => this.#setLost(expired ? "expired" : "taken", error),
      },
      received.clock,
      received.visibilityInSeconds * 1_000,
      renewHalfway,
    );
  }

  /** Aborts with a {@link MessageLostError} before another consumer can receive the message. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Why the message is lost. */
  get lostError(): MessageLostError {
    return this.#lost.signal.aborted ? (this.#lost.signal.reason as MessageLostError) : this.#lostBy("expired", undefined);
  }

  /** How long no other consumer can receive the message. */
  get remainingInMs(): number {
    return this.#lost.signal.aborted ? 0 : this.#loop.remainingInMs;
  }

  /** How long until the queue deletes the message because its time to live is over. */
  get lifeInMs(): number {
    return this.#received.expiresInMs - this.#received.clock();
  }

  /** Sets a new text for the message, which is sent with the next update. */
  setText(text: string): void {
    this.#text = text;
  }

  /** Hides the message for at least `seconds` from now, and writes the text that was set. */
  async extend(seconds: number): Promise<void> {
    const renewal = await this.#serialize(() =>
      this.#update(Math.max(seconds, this.#renewalInSeconds()), Math.max(1, this.remainingInMs / 3)),
    );
    this.#loop.adopt(renewal);
    if (this.#lost.signal.aborted) throw this.#lost.signal.reason;
    if (renewal.kind === "failed") throw renewal.error;
  }

  /** Deletes the message. Retries until it is deleted or the time is over. */
  delete(): Promise<SettleResult> {
    return this.#serialize(() => this.#delete());
  }

  /** Makes the message visible again in `seconds`, with a new text if given. */
  release(seconds: number, text?: string): Promise<SettleResult> {
    if (text !== undefined) this.#text = text;
    return this.#serialize(() => this.#release(seconds));
  }

  /** Drops the message as it is: stops all timers, sends no more requests, and cuts off the request in flight. */
  abandon(): void {
    this.#ended = true;
    this.#loop.stop();
    this.#abandoned.abort();
  }

  #serialize<R>(run: () => Promise<R>): Promise<R> {
    const result = this.#lastRequest.then(run);
    this.#lastRequest = result.catch(() => undefined);
    return result;
  }

  async #update(seconds: number, timeoutInMs: number): Promise<Renewal> {
    const receipt = this.#receipt;
    if (this.#ended || receipt === undefined) return { kind: "failed", error: new Error("the pop receipt is not known any more") };
    const clock = startStopwatch();
    const claimDurationInMs = seconds * 1_000;
    const text = this.#text;
    const updated = await request(
      (abortSignal) => this.#queue.updateMessage(this.#received.messageId, receipt, text, seconds, this.#options(abortSignal)),
      { timeoutInMs, abortSignal: this.#abandoned.signal },
    );
    if (updated.kind === "ok") {
      this.#receipt = updated.value.popReceipt;
      this.#inDoubt = undefined;
      if (this.#text === text) this.#text = undefined;
      return { kind: this.#receipt === undefined ? "last" : "renewed", clock, claimDurationInMs };
    }
    const { error } = updated;
    if (updated.kind === "unknown") this.#inDoubt = earlier(this.#inDoubt, { clock, claimDurationInMs });
    if (!isPopReceiptMismatch(error)) return { kind: "failed", error };
    if (!this.#inDoubt || this.remainingInMs <= 0) {
      // At once, as the next operation in the queue depends on it.
      this.#setLost("taken", error);
      return { kind: "lost", error };
    }
    this.#receipt = undefined;
    return { kind: "last", ...this.#inDoubt };
  }

  /** A message cannot be read by its id: only the response to the next delete shows the outcome of one whose response was lost. */
  async #delete(): Promise<SettleResult> {
    this.#loop.letExpire();
    const receipt = this.#receipt;
    if (this.#ended) return "unsettled";
    if (this.remainingInMs <= 0) return "lost";
    if (receipt === undefined) return this.#settled("unsettled");
    const outcome = await resolveWrite<unknown, undefined>(
      {
        send: (abortSignal) => this.#queue.deleteMessage(this.#received.messageId, receipt, this.#options(abortSignal)),
        readBack: () => Promise.resolve(undefined),
        recognise: (_found, _reason, error) => {
          if (this.remainingInMs <= 0) return "not committed";
          return isPopReceiptMismatch(error) ? (this.#inDoubt ? "unknown" : "committed") : "unchanged";
        },
      },
      {
        abortSignal: this.#abandoned.signal,
        tryLimit: { timeoutInMs: () => Math.min(settleTimeoutInMs, Math.max(1, this.remainingInMs / 3)) },
        maxResends: Infinity,
        backoff: () => this.#pauseInMs(),
        retryRejected: (error) => !isPopReceiptMismatch(error) && this.remainingInMs > 0,
      },
    );
    switch (outcome.kind) {
      case "committed":
      case "recognised":
        return this.#settled("done");
      case "unknown":
        return this.#settled("unsettled");
      case "conflict":
      case "rejected":
        // An update whose response was lost may have changed the receipt: then this consumer still has the message.
        if (isPopReceiptMismatch(outcome.error) && this.#inDoubt) return this.#settled("unsettled");
        if (this.remainingInMs > 0) this.#setLost("taken", outcome.error);
        return "lost";
    }
  }

  /** The message becomes visible by itself when its time is over: there is no reason to delay the caller for long. */
  async #release(seconds: number): Promise<SettleResult> {
    this.#loop.letExpire();
    const releaseOnce = async (): Promise<SettleResult> => {
      if (this.#ended) return "unsettled";
      const { remainingInMs } = this;
      if (remainingInMs <= 0) return "lost";
      if (this.#receipt === undefined) return this.#settled("unsettled");
      const renewal = await this.#update(this.#beforeExpiry(seconds, 0), Math.min(settleTimeoutInMs, remainingInMs / 3));
      if (renewal.kind === "lost") return "lost";
      if (renewal.kind === "failed") throw new NotReleased(renewal.error);
      return this.#settled("done");
    };
    try {
      return await retry(releaseOnce, {
        maxAttempts: maxReleases,
        shouldRetry: (error) => error instanceof NotReleased,
        backoff: () => this.#pauseInMs(),
        abortSignal: this.#abandoned.signal,
      });
    } catch {
      return this.#settled("unsettled");
    }
  }

  #settled(result: SettleResult): SettleResult {
    this.abandon();
    return result;
  }

  #options(abortSignal: AbortSignal): QueueCallOptions {
    this.requests++;
    return { abortSignal, ...(this.tracingOptions && { tracingOptions: this.tracingOptions }) };
  }

  #pauseInMs(): number {
    return Math.max(1, Math.min(1_000, this.#received.visibilityInSeconds * 100, this.remainingInMs));
  }

  /** Never less than the time that is left after an extension by the handler: an update replaces the timeout. */
  #renewalInSeconds(): number {
    return this.#beforeExpiry(Math.max(this.#received.visibilityInSeconds, Math.ceil(this.remainingInMs / 1_000)), 1);
  }

  #beforeExpiry(seconds: number, min: number): number {
    const left = Math.floor(this.lifeInMs / 1_000);
    return Math.max(min, Math.min(seconds, left));
  }

  #setLost(reason: "taken" | "expired", cause: unknown): void {
    if (this.#ended || this.#lost.signal.aborted) return;
    this.#loop.stop();
    this.#lost.abort(this.#lostBy(reason, cause));
  }

  #lostBy(noticed: "taken" | "expired", cause: unknown): MessageLostError {
    const { messageId } = this.#received;
    // The queue has deleted it, and says the same as if another consumer had received it.
    const reason = this.lifeInMs <= 0 ? "timeToLive" : noticed;
    return createError(MessageLostError, `Message ${messageId} of queue ${this.#queue.name} was lost: ${lossTexts[reason]}. Stop working on it.`, {
      url: redactUrl(this.#queue.url),
      messageId,
      reason,
      cause,
    });
  }
}

const lossTexts = {
  taken: "another consumer received it, or it was deleted",
  expired: "it could not be renewed in time, so another consumer may receive it",
  timeToLive: "its time to live was over while it was handled, and the queue has deleted it",
};

class NotReleased extends Error {
  constructor(cause: unknown) {
    super("the message was not released", { cause });
  }
}

/** Of two updates that may have been committed, the first one changed the receipt: only the shorter time is certain. */
function earlier<D extends { readonly clock: Clock; readonly claimDurationInMs: number }>(a: D | undefined, b: D): D {
  return a && a.claimDurationInMs - a.clock() < b.claimDurationInMs - b.clock() ? a : b;
}
