import type { OperationTracingOptions } from "@azure/core-tracing";
import type { QueueCallOptions, QueueLike } from "../clients/queue.js";
import { RenewalLoop } from "../core/renewal.js";
import type { Renewal, RenewalTimes } from "../core/renewal.js";
import { request } from "../core/request.js";
import { resolveWrite } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { startStopwatch } from "../core/stopwatch.js";
import type { Clock } from "../core/stopwatch.js";
import { isPopReceiptMismatch } from "../core/storage-errors.js";
import { MessageLostError } from "../errors.js";

/** What became of a delete or a release. */
export type SettleResult =
  /** The queue carried it out. */
  | "done"
  /** Another consumer has the message already. */
  | "lost"
  /** It could not be done, or its outcome is unknown: the message is delivered again when its time is over. */
  | "unsettled";

/** The handler has ended: no caller should wait long for a response that is not coming. */
const settleTimeoutInMs = 5_000;
const maxReleases = 3;

/**
 * The times of messages and inbox claims: renewed halfway through. No single renewal may take more than half of what is left:
 * enough for another one, but no less, as one that is cut off leaves open whether it was carried out.
 */
export const renewHalfway: RenewalTimes = Object.freeze({
  marginInMs: (durationInMs) => Math.min(1_000, durationInMs / 10),
  renewAfterInMs: (durationInMs) => durationInMs / 2,
  timeoutInMs: (remainingInMs) => remainingInMs / 2,
  retryAfterInMs: (durationInMs) => Math.min(1_000, durationInMs / 10),
} satisfies RenewalTimes);

/** What a message was received with. */
export interface ReceivedReceipt {
  readonly messageId: string;
  readonly popReceipt: string;
  readonly visibilityInSeconds: number;
  /** Started before the receive was sent. */
  readonly clock: Clock;
  /** How long the message lives from then on: the queue refuses to hide it any longer. */
  readonly lifeInMs: number;
}

/**
 * The lease on a received message, by its pop receipt. Each update changes the receipt, so renewing, deleting and releasing go
 * one after the other; two at once would invalidate each other.
 *
 * D is the end of the time that is certain (counted from before the request was sent), U the end of the time that an
 * update without a response would bring if it was carried out.
 *
 * | state    | event                                        | next                                                        |
 * |----------|----------------------------------------------|-------------------------------------------------------------|
 * | held     | update answered 2xx                          | held: new receipt, new D                                    |
 * | held     | update sent once, "not your receipt"         | lost: another consumer has it, or somebody deleted it       |
 * | held     | update without answer, 5xx, 403, ...         | doubtful: same receipt, same D, U; again in a second        |
 * | held     | update re-sent by the SDK, "not your receipt"| adrift until U: it was our own first send that changed it   |
 * | doubtful | update answered 2xx                          | held: the earlier one had not landed                        |
 * | doubtful | "not your receipt", before D                 | adrift until U: nobody else could have it before D          |
 * | any      | D (adrift: U) is reached                     | lost                                                        |
 * | held     | delete answered 2xx                          | gone                                                        |
 * | held     | delete sent once, "not your receipt"         | lost                                                        |
 * | held     | delete sent again, "not your receipt", < D   | gone: our own first delete did it                           |
 * | doubtful | delete answered 2xx                          | gone                                                        |
 * | doubtful | delete "not your receipt"                    | adrift: it cannot be deleted                                |
 * | adrift   | delete, release                              | unsettled, without a request                                |
 *
 * Adrift means that the receipt is lost with the answer that carried it, and nothing brings it back. The handler may
 * finish in the time that is left, as nobody else can get the message before; but it will be delivered once more,
 * and the inbox is what recognises it then.
 */
export class MessageLease {
  /** Parent of the spans of its requests, once a handler works on it. */
  tracingOptions: OperationTracingOptions | undefined;
  /** How many were made. */
  requests = 0;
  readonly #queue: QueueLike;
  readonly #received: ReceivedReceipt;
  readonly #loop: RenewalLoop;
  readonly #lost = new AbortController();
  readonly #abandoned = new AbortController();
  #receipt: string | undefined;
  #doubt: { readonly clock: Clock; readonly holdInMs: number } | undefined;
  #text: string | undefined;
  #line: Promise<unknown> = Promise.resolve();
  #gone = false;

  constructor(queue: QueueLike, received: ReceivedReceipt) {
    this.#queue = queue;
    this.#received = received;
    this.#receipt = received.popReceipt;
    this.#loop = new RenewalLoop(
      {
        renew: (timeoutInMs) => this.#inLine(() => this.#update(this.#renewalInSeconds(), timeoutInMs)),
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

  /** How long no other consumer can receive the message. */
  get remainingInMs(): number {
    return this.#lost.signal.aborted ? 0 : this.#loop.remainingInMs;
  }

  /** A new text for the message, which goes with the next update. */
  setText(text: string): void {
    this.#text = text;
  }

  /** Hides the message for at least `seconds` from now, and writes the text that was set. */
  async extend(seconds: number): Promise<void> {
    const renewal = await this.#inLine(() =>
      this.#update(Math.max(seconds, this.#renewalInSeconds()), Math.max(1, this.remainingInMs / 3)),
    );
    this.#loop.adopt(renewal);
    if (this.#lost.signal.aborted) throw this.#lost.signal.reason;
    if (renewal.kind === "failed") throw renewal.error;
  }

  /** No more renewals: the message becomes visible when its time is over. */
  letExpire(): void {
    this.#loop.letExpire();
  }

  /** Deletes the message. Tries until it is done or the time is over. */
  delete(): Promise<SettleResult> {
    return this.#inLine(() => this.#delete());
  }

  /** Makes the message visible again in `seconds`, with a new text if given. */
  release(seconds: number, text?: string): Promise<SettleResult> {
    if (text !== undefined) this.#text = text;
    return this.#inLine(() => this.#release(seconds));
  }

  /** Drops the message as it is: no timers, no more requests, and what is in flight is cut off. */
  abandon(): void {
    this.#gone = true;
    this.#loop.stop();
    this.#abandoned.abort();
  }

  #inLine<R>(run: () => Promise<R>): Promise<R> {
    const result = this.#line.then(run);
    this.#line = result.catch(() => undefined);
    return result;
  }

  async #update(seconds: number, timeoutInMs: number): Promise<Renewal> {
    const receipt = this.#receipt;
    if (this.#gone || receipt === undefined) return { kind: "failed", error: new Error("the pop receipt is not known any more") };
    const clock = startStopwatch();
    const holdInMs = seconds * 1_000;
    const text = this.#text;
    const updated = await request(
      (abortSignal) => this.#queue.updateMessage(this.#received.messageId, receipt, text, seconds, this.#options(abortSignal)),
      { timeoutInMs, abortSignal: this.#abandoned.signal },
    );
    if (updated.kind === "ok") {
      this.#receipt = updated.value.popReceipt;
      this.#doubt = undefined;
      if (this.#text === text) this.#text = undefined;
      return { kind: this.#receipt === undefined ? "last" : "renewed", clock, holdInMs };
    }
    const { error } = updated;
    if (updated.kind === "unknown") this.#doubt = earlier(this.#doubt, { clock, holdInMs });
    if (!isPopReceiptMismatch(error)) return { kind: "failed", error };
    if (!this.#doubt || this.remainingInMs <= 0) {
      // At once: the next operation in line should know.
      this.#setLost("taken", error);
      return { kind: "lost", error };
    }
    this.#receipt = undefined;
    return { kind: "last", ...this.#doubt };
  }

  /** A message cannot be read by its id: what a lost delete did is told only by the response to the next one. */
  async #delete(): Promise<SettleResult> {
    this.#loop.letExpire();
    const receipt = this.#receipt;
    if (this.#gone) return "unsettled";
    if (this.remainingInMs <= 0) return "lost";
    if (receipt === undefined) return this.#settled("unsettled");
    const outcome = await resolveWrite<unknown, undefined>(
      {
        send: (abortSignal) => this.#queue.deleteMessage(this.#received.messageId, receipt, this.#options(abortSignal)),
        readBack: () => Promise.resolve(undefined),
        recognise: (_found, _reason, error) => {
          if (this.remainingInMs <= 0) return "not committed";
          return isPopReceiptMismatch(error) ? (this.#doubt ? "unknown" : "committed") : "unchanged";
        },
      },
      {
        abortSignal: this.#abandoned.signal,
        timeoutInMs: () => Math.min(settleTimeoutInMs, Math.max(1, this.remainingInMs / 3)),
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
        // An update whose response was lost may have changed the receipt: then the message is still this consumer's.
        if (isPopReceiptMismatch(outcome.error) && this.#doubt) return this.#settled("unsettled");
        if (this.remainingInMs > 0) this.#setLost("taken", outcome.error);
        return "lost";
    }
  }

  /** The message becomes visible by itself when its time is over: no reason to hold up a caller for long. */
  async #release(seconds: number): Promise<SettleResult> {
    this.#loop.letExpire();
    const releaseOnce = async (): Promise<SettleResult> => {
      if (this.#gone) return "unsettled";
      const { remainingInMs } = this;
      if (remainingInMs <= 0) return "lost";
      if (this.#receipt === undefined) return this.#settled("unsettled");
      const renewal = await this.#update(this.#withinLife(seconds, 0), Math.min(settleTimeoutInMs, remainingInMs / 3));
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

  /** Never less than what is left, after an extension by the handler: an update replaces the time, it adds nothing. */
  #renewalInSeconds(): number {
    return this.#withinLife(Math.max(this.#received.visibilityInSeconds, Math.ceil(this.remainingInMs / 1_000)), 1);
  }

  #withinLife(seconds: number, min: number): number {
    const left = Math.floor((this.#received.lifeInMs - this.#received.clock()) / 1_000);
    return Math.max(min, Math.min(seconds, left));
  }

  #setLost(reason: "taken" | "expired", cause: unknown): void {
    if (this.#gone || this.#lost.signal.aborted) return;
    this.#loop.stop();
    const what =
      reason === "taken"
        ? "is another consumer's now, or was deleted"
        : "could not be renewed in time, so another consumer may get it any moment";
    this.#lost.abort(
      new MessageLostError(`message ${this.#received.messageId} of queue ${this.#queue.name} ${what}; stop working on it`, {
        messageId: this.#received.messageId,
        reason,
        cause,
      }),
    );
  }
}

class NotReleased extends Error {
  constructor(cause: unknown) {
    super("the message was not released", { cause });
  }
}

/** Of two updates that may have been carried out, the first one changed the receipt: count on the shorter time. */
function earlier<D extends { readonly clock: Clock; readonly holdInMs: number }>(a: D | undefined, b: D): D {
  return a && a.holdInMs - a.clock() < b.holdInMs - b.clock() ? a : b;
}
