import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients.js";
import { LeaseUnavailableError } from "../errors.js";
import { Attempts } from "../core/telemetry.js";
import { abortReason, onAbort } from "../core/abort.js";
import { startStopwatch } from "../core/stopwatch.js";
import type { LeaseGrant } from "./waiter-queue.js";

/** What is waited for, and how long: `"one look"` takes no for an answer. */
export interface LeaseWish extends CallOptions {
  /** For messages: `the lease on ...`. */
  readonly what: string;
  readonly url: string;
  /** What can be done about a holder that does not let go. */
  readonly advice?: string | undefined;
  readonly waitInMs: number | "one look";
  /** What is told of the looks that are made for it. */
  readonly trace?: Attempts | undefined;
  /** Parent of what is done with the lease later: to renew it, and to release it. */
  readonly holderTracing?: OperationTracingOptions | undefined;
}

/** One who wants a lease: settles once, with the lease, without it (undefined), or with an error. */
export class LeaseWaiter {
  readonly promise: Promise<LeaseGrant | undefined>;
  readonly trace: Attempts;
  readonly holderTracing: OperationTracingOptions | undefined;
  settled = false;
  onSettled: (() => void) | undefined;
  readonly #wish: LeaseWish;
  readonly #waited = startStopwatch();
  #resolve!: (grant: LeaseGrant | undefined) => void;
  #reject!: (error: unknown) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #off: (() => void) | undefined;
  #looked = false;
  #overdue = false;
  #lastFailure: unknown;

  constructor(wish: LeaseWish) {
    this.#wish = wish;
    this.trace = wish.trace ?? new Attempts("", wish.tracingOptions, undefined);
    this.holderTracing = wish.holderTracing ?? wish.tracingOptions;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { waitInMs, abortSignal } = wish;
    if (typeof waitInMs === "number" && waitInMs < 2 ** 31) this.#timer = setTimeout(() => this.#timeIsOver(), waitInMs);
    this.#off = onAbort(abortSignal, () => abortSignal && this.reject(abortReason(abortSignal)));
  }

  resolve(grant: LeaseGrant): void {
    if (!this.#settle()) return;
    this.trace.end("acquired");
    this.#resolve(grant);
  }

  reject(error: unknown): void {
    if (!this.#settle()) return;
    this.trace.end("failed", error);
    this.#reject(error);
  }

  /** Somebody looked, and did not get the lease: it is taken, or the request failed. */
  looked(failure?: unknown): void {
    this.#looked = true;
    this.#lastFailure = failure;
    if (this.#overdue) this.#giveUp();
    else if (this.#wish.waitInMs === "one look") {
      if (failure !== undefined) this.reject(failure);
      else if (this.#settle()) this.#resolve(undefined);
    }
  }

  /** The wait is for others who hold the lease: whether anybody does is not known before the first answer. */
  #timeIsOver(): void {
    if (this.#looked) this.#giveUp();
    else this.#overdue = true;
  }

  #giveUp(): void {
    const { what, url, waitInMs, advice } = this.#wish;
    const why =
      this.#lastFailure === undefined
        ? `somebody else holds ${what}, and still did after ${waitInMs} ms (waitInMs)${advice ? `: ${advice}` : ""}`
        : `${what} could not be acquired within ${waitInMs} ms (waitInMs): the last request failed`;
    this.reject(new LeaseUnavailableError(why, { url, waitedInMs: this.#waited.elapsedInMs(), cause: this.#lastFailure }));
  }

  #settle(): boolean {
    if (this.settled) return false;
    this.settled = true;
    clearTimeout(this.#timer);
    this.#off?.();
    this.onSettled?.();
    return true;
  }
}
