import type { CallOptions } from "../clients.js";
import { LeaseUnavailableError } from "../errors.js";
import { abortReason, onAbort } from "../internal/abort.js";
import { startStopwatch } from "../internal/stopwatch.js";
import type { LeaseGrant } from "./lease-queue.js";

/** One who wants a lease: settles once, with the lease, without it (undefined), or with an error. */
export class LeaseWaiter {
  readonly promise: Promise<LeaseGrant | undefined>;
  settled = false;
  onSettled: (() => void) | undefined;
  #resolve!: (grant: LeaseGrant | undefined) => void;
  #reject!: (error: unknown) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #off: (() => void) | undefined;

  constructor(url: string, waitInMs: number, options: CallOptions) {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const waited = startStopwatch();
    if (waitInMs < 2 ** 31) {
      this.#timer = setTimeout(() => {
        const waitedInMs = waited.elapsedInMs();
        const message = `somebody else holds the lease on ${url}, and still did after ${waitInMs} ms (waitInMs)`;
        this.reject(new LeaseUnavailableError(message, { url, waitedInMs }));
      }, waitInMs);
    }
    const { abortSignal } = options;
    this.#off = onAbort(abortSignal, () => abortSignal && this.reject(abortReason(abortSignal)));
    if (this.settled) this.#off();
  }

  resolve(grant: LeaseGrant): void {
    if (this.#settle()) this.#resolve(grant);
  }

  giveUp(): void {
    if (this.#settle()) this.#resolve(undefined);
  }

  reject(error: unknown): void {
    if (this.#settle()) this.#reject(error);
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
