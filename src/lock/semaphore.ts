import { LeaseUnavailableError } from "../errors.js";
import { throwIfAborted } from "../internal/abort.js";
import { delay, waitBeforeLook } from "../internal/delay.js";
import { startStopwatch } from "../internal/stopwatch.js";
import { checkNumber } from "../internal/validate.js";
import { checkWait } from "../lease/lease-options.js";
import { useLease } from "../lease/with-lease.js";
import type { BlobLocks, LockOptions, TryLockOptions } from "./blob-locks.js";
import type { LockGuard } from "./lock-guard.js";

/**
 * At most `slots` holders at a time, over all processes. Each slot is a lock; a holder has one of them, any. All who
 * use it must agree on the number.
 */
export class Semaphore {
  readonly name: string;
  readonly slots: number;
  readonly #locks: BlobLocks;
  /** The end of the line of those who wait in this process: one of them looks, the others wait for their turn. */
  #line: Promise<unknown> = Promise.resolve();
  /** Ends the pause of the one who looks: a slot has become free in this process. */
  #wake: (() => void) | undefined;

  constructor(locks: BlobLocks, name: string, slots: number) {
    this.#locks = locks;
    this.name = name;
    this.slots = checkNumber("slots", slots, { min: 1, max: 10_000, integer: true });
  }

  /** Runs `fn` while holding a slot. */
  async withSlot<R>(fn: (slot: LockGuard) => Promise<R> | R, options?: LockOptions): Promise<R> {
    return useLease(await this.acquire(options), fn);
  }

  /** Waits for a slot. A look costs a request for each slot that is not held by this very process. */
  async acquire(options: LockOptions = {}): Promise<LockGuard> {
    const waitInMs = checkWait(options.waitInMs);
    const waited = startStopwatch();
    const before = this.#line;
    let done!: () => void;
    this.#line = new Promise<void>((resolve) => (done = resolve));
    try {
      await orTooLate(before, this.#patience(options, waitInMs));
      for (;;) {
        const slot = await this.tryAcquire(options);
        if (slot) return slot;
        const left = waitInMs - waited.elapsedInMs();
        if (left <= 0) throw this.#unavailable(waited.elapsedInMs());
        await this.#pause(Math.min(left, waitBeforeLook(waited.elapsedInMs())), options);
      }
    } finally {
      // Whoever comes next must not overtake those before: they may still be in line.
      void before.then(done);
    }
  }

  /** A slot if one is free right now, else `null`. */
  async tryAcquire(options: TryLockOptions = {}): Promise<LockGuard | null> {
    // Each starts somewhere else, so that they do not all meet at the first slot.
    const start = Math.floor(Math.random() * this.slots);
    for (let i = 0; i < this.slots; i++) {
      throwIfAborted(options.abortSignal);
      const slot = await this.#locks.tryAcquire(`${this.name}/${(start + i) % this.slots}`, options);
      if (slot) {
        slot.onReleased = () => this.#wake?.();
        return slot;
      }
    }
    return null;
  }

  async #pause(ms: number, options: LockOptions): Promise<void> {
    const woken = new AbortController();
    const off = (): void => woken.abort();
    this.#wake = off;
    options.abortSignal?.addEventListener("abort", off);
    try {
      await delay(ms, woken.signal).catch(() => undefined);
    } finally {
      this.#wake = undefined;
      options.abortSignal?.removeEventListener("abort", off);
    }
  }

  /** Rejects when the wait in line takes too long, or the caller has had enough. */
  #patience(options: LockOptions, waitInMs: number): { promise: Promise<never>; end: () => void } {
    const stop = new AbortController();
    const { abortSignal } = options;
    const onCallerAbort = (): void => stop.abort();
    abortSignal?.addEventListener("abort", onCallerAbort);
    const promise = delay(Math.min(waitInMs, 2 ** 31 - 1), stop.signal).then(
      () => Promise.reject(this.#unavailable(waitInMs)),
      () => {
        throwIfAborted(abortSignal);
        return new Promise<never>(() => undefined);
      },
    );
    promise.catch(() => undefined);
    const end = (): void => {
      abortSignal?.removeEventListener("abort", onCallerAbort);
      stop.abort();
    };
    return { promise, end };
  }

  #unavailable(waitedInMs: number): LeaseUnavailableError {
    return new LeaseUnavailableError(`all ${this.slots} slots of ${JSON.stringify(this.name)} were taken for ${Math.round(waitedInMs)} ms`, {
      url: this.name,
      waitedInMs,
    });
  }
}

async function orTooLate(turn: Promise<unknown>, patience: { promise: Promise<never>; end: () => void }): Promise<void> {
  try {
    await Promise.race([turn, patience.promise]);
  } finally {
    patience.end();
  }
}
