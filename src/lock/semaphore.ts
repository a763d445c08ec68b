import { Deadline, delay, onAbort, throwIfAborted } from "../core/deadline.js";
import { pollDelay } from "../core/retry.js";
import { startStopwatch } from "../core/stopwatch.js";
import { isTransient } from "../core/storage-errors.js";
import { describeSpan, withAttempts, withSpan } from "../core/telemetry.js";
import type { Attempts, CallSpan } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { createError, LeaseUnavailableError } from "../errors.js";
import type { LockHandle } from "../lease/lease-guard.js";
import { checkLeaseOptions, checkWait } from "../lease/lease-options.js";
import { FailureStreak } from "../lease/poll-pacing.js";
import { checkFunction, useLease } from "../lease/with-lease.js";
import type { BlobLocks, AcquireLockOptions, TryAcquireLockOptions } from "./blob-locks.js";
import { blobNameOf } from "./lock-record.js";

/**
 * At most `slots` holders at a time, across all processes. Each slot is a lock, and a holder has any one of them. All users must
 * pass the same number.
 */
export class Semaphore {
  readonly name: string;
  readonly slots: number;
  readonly #locks: BlobLocks;
  /** Settles when all callers of this object have left the queue: the first one polls, the others wait for their turn. */
  #lastInQueue: Promise<unknown> = Promise.resolve();
  /** Counts the slots that were released through this object. */
  #released = 0;
  /** Ends the pause of the caller that polls: a slot was released. */
  #wake: (() => void) | undefined;

  constructor(locks: BlobLocks, name: string, slots: number) {
    this.slots = checkNumber("slots", slots, { min: 1, max: 10_000, integer: true });
    blobNameOf("", name);
    locks.blobOf(`${name}/${slots - 1}`); // The longest name of all slots must fit.
    this.#locks = locks;
    this.name = name;
  }

  /** Runs `fn` while holding a slot. */
  withSlot<R>(fn: (slot: LockHandle) => Promise<R> | R, options: AcquireLockOptions = {}): Promise<R> {
    return withSpan("Semaphore.withSlot", options, async (tracingOptions, span) => {
      checkFunction(fn);
      const slot = await this.acquire({ ...options, tracingOptions });
      describeSpan(span, { url: slot.url, epoch: slot.epoch });
      return useLease(slot, fn);
    }, spanDetails);
  }

  /** Waits for a slot. A poll costs one request for each slot that this process does not hold. */
  acquire(options?: AcquireLockOptions): Promise<LockHandle> {
    const merged = this.#locks.withDefaults(options);
    return withAttempts("Semaphore.acquire", merged, (trace, span) => this.#acquire(merged, trace, span), spanDetails);
  }

  /** Acquires a slot if one is free right now; `null` if none is. */
  tryAcquire(options: TryAcquireLockOptions = {}): Promise<LockHandle | null> {
    return withAttempts("Semaphore.tryAcquire", options, async (trace, span) => {
      const slot = await this.#pollOnce(options, trace);
      describeSpan(span, { outcome: slot ? "acquired" : "taken", url: slot?.url, epoch: slot?.epoch });
      return slot;
    }, spanDetails);
  }

  async #acquire(merged: AcquireLockOptions, trace: Attempts, span: CallSpan): Promise<LockHandle> {
    const { abortSignal } = merged;
    const waitInMs = checkWait(merged.waitInMs);
    checkLeaseOptions(merged); // From here on a poll fails only because a request does.
    const deadline = new Deadline(waitInMs, () => this.#unavailable(waitInMs), abortSignal);
    const before = this.#lastInQueue;
    const turn = deadline.race(before).then(
      () => this.#poll(merged, deadline.signal, trace),
      async (reason: unknown) => {
        // Its time was over before its turn came: no poll has been made for it yet.
        throwIfAborted(abortSignal);
        const slot = await this.#pollOnce(merged, trace);
        if (slot) return slot;
        throw reason;
      },
    );
    // The next caller must not overtake the ones before it: they may still be in the queue when this one has left it.
    this.#lastInQueue = Promise.allSettled([before, turn]).then(() => undefined);
    try {
      const slot = await turn;
      describeSpan(span, { outcome: "acquired", url: slot.url, epoch: slot.epoch });
      return slot;
    } finally {
      deadline.dispose();
    }
  }

  /** Polls until a slot is free. A poll that is in flight when the time is over may still acquire one. */
  async #poll(options: AcquireLockOptions, deadline: AbortSignal, trace: Attempts): Promise<LockHandle> {
    const waitedInMs = startStopwatch();
    const failures = new FailureStreak();
    for (;;) {
      const released = this.#released;
      try {
        const slot = await this.#pollOnce(options, trace);
        if (slot) return slot;
        failures.end();
      } catch (error) {
        trace.end("failed", error);
        throwIfAborted(options.abortSignal);
        if (!isTransient(error) || failures.add()) throw error;
        if (deadline.aborted) throw this.#unavailable(waitedInMs(), error);
      }
      throwIfAborted(deadline);
      // The poll may have missed a slot that was released in the meantime.
      if (released === this.#released) await this.#pause(pollDelay(waitedInMs()), deadline);
    }
  }

  /** One attempt: tries each slot once. */
  async #pollOnce(options: TryAcquireLockOptions, trace: Attempts): Promise<LockHandle | null> {
    trace.begin();
    const slot = await this.#trySlots({ ...options, tracingOptions: trace.tracingOptions });
    slot?.setTracingParent(options.tracingOptions);
    trace.end(slot ? "acquired" : "taken");
    return slot;
  }

  async #trySlots(options: TryAcquireLockOptions): Promise<LockHandle | null> {
    // Each caller starts at a random slot, so that they do not all compete for the first one.
    const start = Math.floor(Math.random() * this.slots);
    for (let i = 0; i < this.slots; i++) {
      throwIfAborted(options.abortSignal);
      const slot = await this.#locks.tryAcquire(`${this.name}/${(start + i) % this.slots}`, options);
      if (slot) {
        slot.onReleased = () => {
          this.#released++;
          this.#wake?.();
        };
        return slot;
      }
    }
    return null;
  }

  async #pause(ms: number, deadline: AbortSignal): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    const off = onAbort(deadline, this.#wake);
    await delay(ms, woken.signal).catch(() => undefined);
    off();
    this.#wake = undefined;
    throwIfAborted(deadline);
  }

  #unavailable(waitedInMs: number, cause?: unknown): LeaseUnavailableError {
    const name = JSON.stringify(this.name);
    const message =
      cause === undefined
        ? `all ${this.slots} slots of ${name} were taken for ${waitedInMs} ms (waitInMs)`
        : `no slot of ${name} could be had in time (waitInMs): the last request failed`;
    return createError(LeaseUnavailableError, message, { url: this.#locks.blobOf(this.name).url, waitedInMs, holder: undefined, cause });
  }
}

const spanDetails = { targetKind: "semaphore" };
