import type { OperationTracingOptions } from "@azure/core-tracing";
import type { QueueLike } from "../clients.js";
import { MessageLostError } from "../errors.js";
import { delay } from "../core/delay.js";
import { isLostMessage } from "../core/storage-errors.js";
import { boundedCall } from "./bounded-call.js";
import { startClock } from "./clock.js";
import type { Clock } from "./clock.js";
import { KeepAlive } from "./keep-alive.js";
import type { Renewal } from "./keep-alive.js";

/** What became of a delete or a release. */
export type Farewell =
  /** The queue did it. */
  | "done"
  /** The message was somebody else's already. */
  | "lost"
  /** It could not be done, or nobody knows: the message is delivered again when its time is over. */
  | "unsettled";

/** The handler is through: nobody should wait long for an answer that is not coming. */
const farewellBoundInMs = 5_000;

/** What a message was received with. */
export interface OwnershipFacts {
  readonly messageId: string;
  readonly popReceipt: string;
  readonly visibilityInSeconds: number;
  /** Started before the receive was sent. */
  readonly clock: Clock;
  /** How long the message lives from then on: the queue refuses to hide it any longer. */
  readonly lifeInMs: number;
}

/**
 * The one owner of a message's pop receipt. Each update changes the receipt, so renewing, deleting and releasing go
 * one after the other; two at once would refute each other.
 *
 * D is the end of the time that is certain (counted from before the request was sent), U the end of the time that an
 * update without an answer would bring, were it carried out.
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
export class MessageOwnership {
  /** Parent of the spans of its requests, once a handler works on it. */
  tracingOptions: OperationTracingOptions | undefined;
  /** How many were made. */
  requests = 0;
  readonly #queue: QueueLike;
  readonly #facts: OwnershipFacts;
  readonly #keepAlive: KeepAlive;
  readonly #lost = new AbortController();
  readonly #abandoned = new AbortController();
  #receipt: string | undefined;
  #doubt: { readonly clock: Clock; readonly holdInMs: number } | undefined;
  #text: string | undefined;
  #tail: Promise<unknown> = Promise.resolve();
  #gone = false;

  constructor(queue: QueueLike, facts: OwnershipFacts) {
    this.#queue = queue;
    this.#facts = facts;
    this.#receipt = facts.popReceipt;
    this.#keepAlive = new KeepAlive(
      {
        renew: (boundInMs) => this.#inTurn(() => this.#update(this.#renewalInSeconds(), boundInMs)),
        lost: (error, expired) => this.#setLost(expired ? "expired" : "taken", error),
      },
      facts.clock,
      facts.visibilityInSeconds * 1_000,
    );
  }

  /** Aborts with a {@link MessageLostError} before anybody else can get the message. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** How long nobody else can get the message. */
  get remainingInMs(): number {
    return this.#lost.signal.aborted ? 0 : this.#keepAlive.remainingInMs;
  }

  /** A new text for the message, which goes with the next update. */
  setText(text: string): void {
    this.#text = text;
  }

  /** Hides the message for at least `seconds` from now, and writes the text that was set. */
  async extend(seconds: number): Promise<void> {
    const renewal = await this.#inTurn(() =>
      this.#update(Math.max(seconds, this.#renewalInSeconds()), Math.max(1, this.remainingInMs / 3)),
    );
    this.#keepAlive.adopt(renewal);
    if (this.#lost.signal.aborted) throw this.#lost.signal.reason;
    if (renewal.kind === "failed") throw renewal.error;
  }

  /** No more renewals: the message comes back when its time is over. */
  letRunOut(): void {
    this.#keepAlive.letRunOut();
  }

  /** Deletes the message. Tries until it is done or the time is over. */
  delete(): Promise<Farewell> {
    return this.#inTurn(() => this.#delete());
  }

  /** Makes the message visible again in `seconds`, with a new text if given. */
  release(seconds: number, text?: string): Promise<Farewell> {
    if (text !== undefined) this.#text = text;
    return this.#inTurn(() => this.#release(seconds));
  }

  /** Drops the message as it is: no timers, no more requests, and what is in flight is cut off. */
  abandon(): void {
    this.#gone = true;
    this.#keepAlive.stop();
    this.#abandoned.abort();
  }

  #inTurn<R>(action: () => Promise<R>): Promise<R> {
    const result = this.#tail.then(action);
    this.#tail = result.catch(() => undefined);
    return result;
  }

  async #update(seconds: number, boundInMs: number): Promise<Renewal> {
    const receipt = this.#receipt;
    if (this.#gone || receipt === undefined) return { kind: "failed", error: new Error("the pop receipt is not known any more") };
    const clock = startClock();
    const holdInMs = seconds * 1_000;
    const text = this.#text;
    this.requests++;
    const outcome = await boundedCall(
      boundInMs,
      (options) => this.#queue.updateMessage(this.#facts.messageId, receipt, text, seconds, options),
      { abortSignal: this.#abandoned.signal, tracingOptions: this.tracingOptions },
    );
    if (outcome.kind === "ok") {
      this.#receipt = outcome.value.popReceipt;
      this.#doubt = undefined;
      if (this.#text === text) this.#text = undefined;
      return { kind: this.#receipt === undefined ? "last" : "renewed", clock, holdInMs };
    }
    const { error } = outcome;
    const notOurs = isLostMessage(error);
    if (outcome.kind === "unknown") this.#doubt = earlier(this.#doubt, { clock, holdInMs });
    if (!notOurs) return { kind: "failed", error };
    if (!this.#doubt || this.remainingInMs <= 0) {
      // At once: what is next in turn should know.
      this.#setLost("taken", error);
      return { kind: "lost", error };
    }
    this.#receipt = undefined;
    return { kind: "last", ...this.#doubt };
  }

  async #delete(): Promise<Farewell> {
    this.#keepAlive.letRunOut();
    let sentBefore = false;
    for (;;) {
      const receipt = this.#receipt;
      const { remainingInMs } = this;
      if (this.#gone) return "unsettled";
      if (remainingInMs <= 0) return "lost";
      if (receipt === undefined) return this.#leave("unsettled");
      this.requests++;
      const outcome = await boundedCall(
        Math.min(farewellBoundInMs, remainingInMs / 3),
        (options) => this.#queue.deleteMessage(this.#facts.messageId, receipt, options),
        { abortSignal: this.#abandoned.signal, tracingOptions: this.tracingOptions },
      );
      if (outcome.kind === "ok") return this.#leave("done");
      sentBefore ||= outcome.kind === "unknown";
      if (isLostMessage(outcome.error)) {
        if (this.#doubt) return this.#leave("unsettled");
        if (sentBefore && this.remainingInMs > 0) return this.#leave("done");
        this.#setLost("taken", outcome.error);
        return "lost";
      }
      await this.#pause();
    }
  }

  async #release(seconds: number): Promise<Farewell> {
    this.#keepAlive.letRunOut();
    for (let attempt = 1; ; attempt++) {
      if (this.#gone) return "unsettled";
      const { remainingInMs } = this;
      if (remainingInMs <= 0) return "lost";
      if (this.#receipt === undefined) return this.#leave("unsettled");
      const renewal = await this.#update(this.#withinLife(seconds, 0), Math.min(farewellBoundInMs, remainingInMs / 3));
      if (renewal.kind === "renewed") return this.#leave("done");
      if (renewal.kind === "lost") return "lost";
      // It comes back by itself when its time is over: no reason to hold anybody up for long.
      if (renewal.kind === "last" || attempt === 3) return this.#leave(renewal.kind === "last" ? "done" : "unsettled");
      await this.#pause();
    }
  }

  #leave(farewell: Farewell): Farewell {
    this.abandon();
    return farewell;
  }

  async #pause(): Promise<void> {
    const inMs = Math.max(1, Math.min(1_000, this.#facts.visibilityInSeconds * 100, this.remainingInMs));
    await delay(inMs, this.#abandoned.signal).catch(() => undefined);
  }

  /** Never less than what is left, after an extension by the handler: an update replaces the time, it adds nothing. */
  #renewalInSeconds(): number {
    return this.#withinLife(Math.max(this.#facts.visibilityInSeconds, Math.ceil(this.remainingInMs / 1_000)), 1);
  }

  #withinLife(seconds: number, min: number): number {
    const left = Math.floor((this.#facts.lifeInMs - this.#facts.clock()) / 1_000);
    return Math.max(min, Math.min(seconds, left));
  }

  #setLost(reason: "taken" | "expired", cause: unknown): void {
    if (this.#gone || this.#lost.signal.aborted) return;
    this.#keepAlive.stop();
    const what =
      reason === "taken"
        ? "is another consumer's now, or was deleted"
        : "could not be renewed in time, so another consumer may get it any moment";
    this.#lost.abort(
      new MessageLostError(`message ${this.#facts.messageId} of queue ${this.#queue.name} ${what}; stop working on it`, {
        messageId: this.#facts.messageId,
        reason,
        cause,
      }),
    );
  }
}

/** Of two updates that may have landed, the first that did changed the receipt: count on the shorter time. */
function earlier<D extends { readonly clock: Clock; readonly holdInMs: number }>(a: D | undefined, b: D): D {
  return a && a.holdInMs - a.clock() < b.holdInMs - b.clock() ? a : b;
}
