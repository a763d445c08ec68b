import type { CallOptions } from "../clients/call.js";
import { Deadline, delay, onAbort, throwIfAborted } from "../core/deadline.js";
import { pollDelay } from "../core/retry.js";
import { startStopwatch } from "../core/deadline.js";
import { isTransient } from "../core/storage-errors.js";
import { describeSpan, redactUrl, withAttempts, withSpan } from "../core/telemetry.js";
import type { Attempts, CallSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import { createError, LeaseUnavailableError } from "../errors.js";
import type { LockHandle, LockHandleImpl } from "../lease/lease-handle.js";
import { checkLeaseOptions, checkWait } from "../lease/lease-options.js";
import { FailureStreak } from "../lease/poll-pacing.js";
import { checkFunction, useLease } from "../lease/with-lease.js";
import type { BlobLocks } from "./blob-locks.js";
import { acquireLockOptionNames, callOptionNames, tryAcquireLockOptionNames } from "./lock-options.js";
import type { AcquireLockOptions, LockStatus, TryAcquireLockOptions } from "./lock-options.js";
import { blobNameOf } from "./lock-record.js";

/**
 * At most `slots` holders at a time, across all processes. Each slot is a lock, and a holder has any one of them. All users must
 * pass the same number.
 * @example
 * ```ts
 * const semaphore = new Semaphore(new BlobLocks(container), "exports", 3);
 * await semaphore.withSlot((slot) => runExport({ abortSignal: slot.signal }));
 * ```
 */
export class Semaphore {
  /** The name of the semaphore. Its slots are the locks `name/0`, `name/1`, ... */
  readonly name: string;
  /** The number of slots. */
  readonly slots: number;
  readonly #locks: BlobLocks;
  /** Settles when all callers of this object have left the queue: the first one polls, the others wait for their turn. */
  #lastInQueue: Promise<unknown> = Promise.resolve();
  /** Counts the slots that were released through this object. */
  #released = 0;
  /** Ends the pause of the caller that polls: a slot was released. */
  #wake: (() => void) | undefined;

  /**
   * All users of the semaphore must pass the same number of slots.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(locks: BlobLocks, name: string, slots: number) {
    if (typeof (locks as Partial<BlobLocks> | null | undefined)?.tryAcquireFor !== "function") throw new TypeError("Semaphore needs a BlobLocks");
    this.slots = checkNumber("slots", slots, { min: 1, max: 10_000, integer: true });
    blobNameOf("", name);
    locks.blobOf(`${name}/${slots - 1}`); // The longest name of all slots must fit.
    this.#locks = locks;
    this.name = name;
  }

  /**
   * Runs `fn` while holding a slot.
   * @throws {@link LeaseUnavailableError} if all slots are still taken after `waitInMs`.
   * @throws {@link LeaseLostError} if the slot was lost while `fn` ran.
   */
  withSlot<R>(fn: (slot: LockHandle) => Promise<R> | R, options: AcquireLockOptions = {}): Promise<R> {
    return withSpan("Semaphore.withSlot", options, async (tracingOptions, span) => {
      checkOptions("Semaphore.withSlot", options, acquireLockOptionNames);
      checkFunction("Semaphore.withSlot", fn);
      const slot = await this.#acquireSlot({ ...options, tracingOptions });
      describeSpan(span, { url: slot.url, epoch: slot.epoch });
      return useLease("Semaphore.withSlot", slot, fn);
    }, spanDetails);
  }

  /**
   * Waits for a slot. The caller releases it. A poll costs one request for each slot that this process does not hold.
   * @throws {@link LeaseUnavailableError} if all slots are still taken after `waitInMs`.
   */
  acquire(options?: AcquireLockOptions): Promise<LockHandle> {
    return this.#acquireSlot(options);
  }

  /**
   * Acquires a slot if one is free now; undefined if none is.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  tryAcquire(options: TryAcquireLockOptions = {}): Promise<LockHandle | undefined> {
    return withAttempts("Semaphore.tryAcquire", options, async (trace, span) => {
      checkOptions("Semaphore.tryAcquire", options, tryAcquireLockOptionNames);
      const slot = await this.#pollOnce(options, trace);
      describeSpan(span, { outcome: slot ? "acquired" : "taken", url: slot?.url, epoch: slot?.epoch });
      return slot;
    }, spanDetails);
  }

  /**
   * Reads which slots are held, and by which processes. Costs 1 request. There are more holders than slots if another process
   * uses the semaphore with a larger number.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  inspect(options: CallOptions = {}): Promise<{ readonly slots: number; readonly holders: readonly LockStatus[] }> {
    return withSpan("Semaphore.inspect", options, async (tracingOptions) => {
      checkOptions("Semaphore.inspect", options, callOptionNames);
      const prefix = `${this.name}/`;
      const holders: LockStatus[] = [];
      for await (const lock of this.#locks.list({ prefix, abortSignal: options.abortSignal, tracingOptions })) {
        const isSlot = /^\d+$/.test(lock.name.slice(prefix.length));
        if (isSlot && (lock.state === "leased" || lock.state === "breaking")) holders.push(lock);
      }
      return { slots: this.slots, holders };
    }, spanDetails);
  }

  #acquireSlot(options: AcquireLockOptions | undefined): Promise<LockHandleImpl> {
    const merged = this.#locks.withDefaults(options);
    return withAttempts("Semaphore.acquire", merged, async (trace, span) => {
      checkOptions("Semaphore.acquire", options, acquireLockOptionNames);
      return this.#acquire(merged, trace, span);
    }, spanDetails);
  }

  async #acquire(merged: AcquireLockOptions, trace: Attempts, span: CallSpan): Promise<LockHandleImpl> {
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
  async #poll(options: AcquireLockOptions, deadline: AbortSignal, trace: Attempts): Promise<LockHandleImpl> {
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
  async #pollOnce(options: TryAcquireLockOptions, trace: Attempts): Promise<LockHandleImpl | undefined> {
    trace.begin();
    const { durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, abortSignal } = options;
    const { tracingOptions } = trace;
    const slot = await this.#trySlots({ durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, abortSignal, tracingOptions });
    slot?.setTracingParent(options.tracingOptions);
    trace.end(slot ? "acquired" : "taken");
    return slot;
  }

  async #trySlots(options: TryAcquireLockOptions): Promise<LockHandleImpl | undefined> {
    // Each caller starts at a random slot, so that they do not all compete for the first one.
    const start = Math.floor(Math.random() * this.slots);
    for (let i = 0; i < this.slots; i++) {
      throwIfAborted(options.abortSignal);
      const slot = await this.#locks.tryAcquireFor("Semaphore.acquire", `${this.name}/${(start + i) % this.slots}`, options);
      if (slot) {
        slot.onReleased = () => {
          this.#released++;
          this.#wake?.();
        };
        return slot;
      }
    }
    return undefined;
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
        ? `Other clients still hold all ${this.slots} slots of ${name} after ${waitedInMs} ms (waitInMs)`
        : `No slot of ${name} could be acquired in time (waitInMs): the last request failed`;
    return createError(LeaseUnavailableError, message, { url: redactUrl(this.#locks.blobOf(this.name).url), waitedInMs, holder: undefined, cause });
  }
}

const spanDetails = { targetKind: "semaphore" };
