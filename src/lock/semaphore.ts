import type { CallOptions } from "../clients/call.js";
import { rejectNestedInAll } from "../core/hold-context.js";
import { describeSpan, redactUrl, withAttempts, withSpan } from "../core/telemetry.js";
import type { Attempts } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import { quotedText } from "../errors.js";
import type { LockHandle, LockHandleImpl } from "../lease/lease-handle.js";
import { checkWait } from "../lease/lease-options.js";
import { checkFunction, useLease } from "../lease/with-lease.js";
import type { BlobLocks } from "./blob-locks.js";
import { acquireLockOptionNames, callOptionNames, tryAcquireLockOptionNames } from "./lock-options.js";
import type { AcquireLockOptions, LockStatus, TryAcquireLockOptions } from "./lock-options.js";
import { blobNameOf, checkData } from "./lock-record.js";
import { slotQueueFor, SlotWaiter } from "./slot-queue.js";

/**
 * At most `slots` holders at a time, across all processes. Each slot is a lock, and a holder has any one of them. All users must
 * pass the same number; the first one records it. Within a process, callers get their slots in FIFO order, and hand them over
 * without a request.
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

  /**
   * All users of the semaphore must pass the same number of slots.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(locks: BlobLocks, name: string, slots: number) {
    if (typeof (locks as Partial<BlobLocks> | null | undefined)?.tryAcquireSlot !== "function") throw new TypeError("Semaphore needs a BlobLocks");
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
   * @throws {@link LockModeMismatchError} if another process uses the semaphore with another number of slots.
   * @throws `TypeError` if the call is made inside functions that hold all slots.
   */
  withSlot<R>(fn: (slot: LockHandle) => Promise<R> | R, options: AcquireLockOptions = {}): Promise<R> {
    return withSpan("Semaphore.withSlot", options, async (tracingOptions, span) => {
      checkOptions("Semaphore.withSlot", options, acquireLockOptionNames);
      checkFunction("Semaphore.withSlot", fn);
      const slot = await this.#acquireSlot("Semaphore.withSlot", { ...options, tracingOptions });
      describeSpan(span, { url: slot.url, epoch: slot.epoch });
      return useLease("Semaphore.withSlot", slot, fn, options.abortSignal);
    }, spanDetails);
  }

  /**
   * Waits for a slot. The caller releases it. While all slots are taken, one poll costs 1 request for all callers of this process.
   * @throws {@link LeaseUnavailableError} if all slots are still taken after `waitInMs`.
   * @throws {@link LockModeMismatchError} if another process uses the semaphore with another number of slots.
   * @throws `TypeError` if the call is made inside functions that hold all slots.
   */
  acquire(options?: AcquireLockOptions): Promise<LockHandle> {
    return this.#acquireSlot("Semaphore.acquire", options);
  }

  /**
   * Acquires a slot if one is free now; undefined if none is, or if other callers of this process wait for one.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   * @throws {@link LockModeMismatchError} if another process uses the semaphore with another number of slots.
   */
  tryAcquire(options?: TryAcquireLockOptions): Promise<LockHandle | undefined> {
    const merged = this.#locks.withDefaults(options);
    return withAttempts("Semaphore.tryAcquire", merged, async (trace, span) => {
      checkOptions("Semaphore.tryAcquire", options, tryAcquireLockOptionNames);
      const slot = await this.#enqueue(merged, "try", trace);
      describeSpan(span, { outcome: slot ? "acquired" : "taken", url: slot?.url, epoch: slot?.epoch });
      return slot;
    }, spanDetails);
  }

  /**
   * Reads which slots are held, and by which processes. Costs 1 request.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  inspect(options: CallOptions = {}): Promise<{ readonly slots: number; readonly holders: readonly LockStatus[] }> {
    return withSpan("Semaphore.inspect", options, async (tracingOptions) => {
      checkOptions("Semaphore.inspect", options, callOptionNames);
      const holders: LockStatus[] = [];
      for await (const { status } of this.#listHeld({ abortSignal: options.abortSignal, tracingOptions })) holders.push(status);
      return { slots: this.slots, holders };
    }, spanDetails);
  }

  #acquireSlot(call: string, options: AcquireLockOptions | undefined): Promise<LockHandleImpl> {
    const merged = this.#locks.withDefaults(options);
    return withAttempts("Semaphore.acquire", merged, async (trace, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      this.#rejectNested(call);
      const slot = await this.#enqueue(merged, checkWait(merged.waitInMs), trace);
      if (!slot) throw new TypeError("no slot was granted");
      describeSpan(span, { outcome: "acquired", url: slot.url, epoch: slot.epoch });
      return slot;
    }, spanDetails);
  }

  #enqueue(merged: AcquireLockOptions, waitInMs: number | "try", trace: Attempts): Promise<LockHandleImpl | undefined> {
    const { abortSignal, tracingOptions, durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, data, maxHoldInMs } = merged;
    const name = JSON.stringify(this.name);
    const waiter = new SlotWaiter(this.#locks, { durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, data: checkData(data), maxHoldInMs }, {
      kind: "semaphore",
      what: `a slot of ${name}`,
      taken: () => `Other clients still hold all ${this.slots} slots of ${name}`,
      url: redactUrl(this.#locks.blobOf(this.name).url),
      waitInMs,
      trace,
      abortSignal,
      tracingOptions,
      holderTracing: tracingOptions,
    });
    slotQueueFor(this.#locks, this.name, this.slots, async (signal) => {
      const taken = new Map<number, number>();
      for await (const { slot, status } of this.#listHeld({ abortSignal: signal })) taken.set(slot, status.epoch ?? 0);
      return taken;
    }).enqueue(waiter);
    return waiter.promise;
  }

  #rejectNested(call: string): void {
    const firstSlot = redactUrl(this.#locks.blobOf(`${this.name}/0`).url);
    const prefix = firstSlot.slice(0, -1);
    const indexOf = (url: string): number | undefined => (url.startsWith(prefix) ? slotOf(url.slice(prefix.length)) : undefined);
    rejectNestedInAll(call, this.slots, indexOf, `the ${this.slots === 1 ? "only slot" : "last slot"} of ${quotedText(this.name)}`);
  }

  async *#listHeld(options: CallOptions): AsyncGenerator<{ slot: number; status: LockStatus }> {
    const prefix = `${this.name}/`;
    for await (const status of this.#locks.list({ ...options, prefix })) {
      const isHeld = status.state === "leased" || status.state === "breaking";
      const slot = slotOf(status.name.slice(prefix.length));
      if (isHeld && slot !== undefined) yield { slot, status };
    }
  }
}

/** The number of a slot, which is the end of the name of its lock. */
function slotOf(text: string): number | undefined {
  return /^(0|[1-9]\d*)$/.test(text) ? Number(text) : undefined;
}

const spanDetails = { targetKind: "semaphore" };
