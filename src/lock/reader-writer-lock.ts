import type { CallOptions } from "../clients/call.js";
import { linkSignals, startStopwatch, withinMoment } from "../core/deadline.js";
import { rejectNested } from "../core/hold-context.js";
import { read, toPublicError } from "../core/request.js";
import { pollDelay, retry } from "../core/retry.js";
import { isTransient } from "../core/storage-errors.js";
import { describeSpan, redactUrl, withAttempts, withSpan } from "../core/telemetry.js";
import type { Attempts } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import { createError, isConcurrencyError, LeaseUnavailableError, quotedText } from "../errors.js";
import { remainingWait, Waiter } from "../lease/acquire.js";
import type { LockHandle, LockHandleImpl, LockHandleLike } from "../lease/lease-handle.js";
import { checkWait } from "../lease/lease-options.js";
import { FailureStreak } from "../lease/poll-pacing.js";
import { checkFunction, useLease } from "../lease/with-lease.js";
import type { BlobLocks } from "./blob-locks.js";
import { acquireLockOptionNames, callOptionNames, tryAcquireLockOptionNames } from "./lock-options.js";
import type { AcquireLockOptions, LockStatus, TryAcquireLockOptions } from "./lock-options.js";
import { blobNameOf, checkData } from "./lock-record.js";
import { gateOf, readerGroupFor, readersOf, removeDeadReader } from "./reader-group.js";
import type { ReadLockHandle } from "./reader-group.js";

/** A listing of the readers takes no longer. */
const listTimeoutInMs = 5_000;
/** A reader creates its blob and leases it at once: one without a lease that is older than this was left behind. */
const abandonedAfterInMs = 60_000;
/** A writer deletes this many blobs that readers have left behind, besides its own requests. */
const maxRemoved = 16;

/**
 * Many readers or one writer, across all processes. A writer that waits keeps new readers out, and readers that have waited for two
 * seconds stand in line with the writers: neither can be kept out forever.
 * @example
 * ```ts
 * const lock = new ReaderWriterLock(new BlobLocks(container), "orders");
 * await lock.withReadLock(() => saveOrder(order)); // many at a time
 * await lock.withWriteLock((held) => rebuildIndex({ fencingToken: held.epoch })); // alone
 * ```
 */
export class ReaderWriterLock {
  /** The name of the lock. The writer holds the lock `name/write`, and readers hold locks whose names begin with `name/read/`. */
  readonly name: string;
  readonly #locks: BlobLocks;

  /**
   * All users of the lock pass the same name, and locks in the same container with the same prefix.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(locks: BlobLocks, name: string) {
    if (typeof (locks as Partial<BlobLocks> | null | undefined)?.acquireFor !== "function") throw new TypeError("ReaderWriterLock needs a BlobLocks");
    blobNameOf("", name);
    locks.blobOf(`${readersOf(name)}${crypto.randomUUID()}`); // The longest name must fit.
    this.#locks = locks;
    this.name = name;
  }

  /**
   * Runs `fn` as one of any number of readers. Costs 4 requests; none while other calls of this process read, except one every half
   * second to see whether a writer waits.
   * @throws {@link LeaseUnavailableError} if a writer still holds the lock, or waits for it, after `waitInMs`; it names the writer.
   * @throws {@link LeaseLostError} if the lock was lost while `fn` ran.
   * @throws `TypeError` if the call is made inside a function that holds the lock.
   */
  withReadLock<R>(fn: (lock: LockHandleLike & AsyncDisposable) => Promise<R> | R, options: AcquireLockOptions = {}): Promise<R> {
    const call = "ReaderWriterLock.withReadLock";
    return withSpan(call, options, async (tracingOptions, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      checkFunction(call, fn);
      const lock = await this.#acquireRead(call, { ...options, tracingOptions });
      describeSpan(span, { url: lock.url });
      return useLease(call, lock, fn, options.abortSignal);
    }, spanDetails);
  }

  /**
   * Waits until no writer holds the lock or waits for it. The caller releases it.
   * @throws {@link LeaseUnavailableError} if a writer still holds the lock, or waits for it, after `waitInMs`; it names the writer.
   * @throws `TypeError` if the call is made inside a function that holds the lock.
   */
  acquireReadLock(options?: AcquireLockOptions): Promise<LockHandleLike & AsyncDisposable> {
    return this.#acquireRead("ReaderWriterLock.acquireReadLock", options);
  }

  /**
   * Acquires the lock as a reader if no writer holds it or waits for it; undefined if one does.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  tryAcquireReadLock(options?: TryAcquireLockOptions): Promise<(LockHandleLike & AsyncDisposable) | undefined> {
    const call = "ReaderWriterLock.tryAcquireReadLock";
    const merged = this.#locks.withDefaults(options);
    return withAttempts(call, merged, async (trace, span) => {
      checkOptions(call, options, tryAcquireLockOptionNames);
      const lock = await this.#enqueue(merged, "try", trace);
      describeSpan(span, { outcome: lock ? "acquired" : "taken", url: lock?.url });
      return lock;
    }, spanDetails);
  }

  /**
   * Runs `fn` as the only holder: without readers, and without another writer. Costs 3 requests; one more for each poll while
   * readers have not left.
   * @throws {@link LeaseUnavailableError} if there are still readers, or another writer, after `waitInMs`; it names one of them.
   * @throws {@link LeaseLostError} if the lock was lost while `fn` ran.
   * @throws `TypeError` if the call is made inside a function that holds the lock.
   */
  withWriteLock<R>(fn: (lock: LockHandle) => Promise<R> | R, options: AcquireLockOptions = {}): Promise<R> {
    const call = "ReaderWriterLock.withWriteLock";
    return withSpan(call, options, async (tracingOptions, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      checkFunction(call, fn);
      const lock = await this.#acquireWrite(call, { ...options, tracingOptions });
      describeSpan(span, { url: lock.url, epoch: lock.epoch });
      return useLease(call, lock, fn, options.abortSignal);
    }, spanDetails);
  }

  /**
   * Waits until this caller is the only holder. New readers wait from the moment when this caller is the next writer. The caller
   * releases it.
   * @throws {@link LeaseUnavailableError} if there are still readers, or another writer, after `waitInMs`; it names one of them.
   * @throws `TypeError` if the call is made inside a function that holds the lock.
   */
  acquireWriteLock(options?: AcquireLockOptions): Promise<LockHandle> {
    return this.#acquireWrite("ReaderWriterLock.acquireWriteLock", options);
  }

  /**
   * Acquires the lock as a writer if no client holds it now; undefined if there are readers or another writer.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  tryAcquireWriteLock(options?: TryAcquireLockOptions): Promise<LockHandle | undefined> {
    const call = "ReaderWriterLock.tryAcquireWriteLock";
    const merged = this.#locks.withDefaults(options);
    return withSpan(call, merged, async (tracingOptions, span) => {
      checkOptions(call, options, tryAcquireLockOptionNames);
      const gate = await this.#locks.tryAcquireFor(call, gateOf(this.name), { ...options, tracingOptions });
      const lock = gate && (await this.#closeGate(gate, { abortSignal: merged.abortSignal, tracingOptions }, 0).catch(notIfTaken));
      lock?.setTracingParent(options?.tracingOptions);
      describeSpan(span, { outcome: lock ? "acquired" : "taken", url: lock?.url, epoch: lock?.epoch });
      return lock;
    }, spanDetails);
  }

  /**
   * Reads who holds the lock: a writer, which may still wait for readers to leave, and the processes that read. Costs 1 request.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  inspect(options: CallOptions = {}): Promise<{ readonly writer: LockStatus | undefined; readonly readers: readonly LockStatus[] }> {
    const call = "ReaderWriterLock.inspect";
    return withSpan(call, options, async (tracingOptions) => {
      checkOptions(call, options, callOptionNames);
      let writer: LockStatus | undefined;
      const readers: LockStatus[] = [];
      for await (const lock of this.#locks.listFor(call, { prefix: `${this.name}/`, abortSignal: options.abortSignal, tracingOptions })) {
        if (!isHeld(lock)) continue;
        if (lock.name === gateOf(this.name)) writer = lock;
        else if (isReader(this.name, lock)) readers.push(lock);
      }
      return { writer, readers };
    }, spanDetails);
  }

  #acquireRead(call: string, options: AcquireLockOptions | undefined): Promise<ReadLockHandle> {
    const merged = this.#locks.withDefaults(options);
    return withAttempts("ReaderWriterLock.acquireReadLock", merged, async (trace, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      this.#rejectNested(call);
      const lock = await this.#enqueue(merged, checkWait(merged.waitInMs), trace);
      if (!lock) throw new TypeError("the lock was not granted");
      describeSpan(span, { outcome: "acquired", url: lock.url });
      return lock;
    }, spanDetails);
  }

  async #enqueue(merged: AcquireLockOptions, waitInMs: number | "try", trace: Attempts): Promise<ReadLockHandle | undefined> {
    const { abortSignal, tracingOptions, durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, data, maxHoldInMs } = merged;
    if (maxHoldInMs !== undefined) checkNumber("maxHoldInMs", maxHoldInMs, { min: 1 });
    const group = readerGroupFor(this.#locks, this.name, { durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, data: checkData(data), maxHoldInMs });
    const name = JSON.stringify(this.name);
    const waiter = new Waiter<ReadLockHandle>({
      kind: "readerWriterLock",
      what: `the read lock ${name}`,
      taken: () => `The writer ${group.writer ?? ""} still holds the lock ${name}, or waits for it,`,
      holder: () => group.writer,
      url: this.#url,
      waitInMs,
      trace,
      abortSignal,
      tracingOptions,
      holderTracing: tracingOptions,
    });
    group.enqueue(waiter);
    return waiter.promise;
  }

  #acquireWrite(call: string, options: AcquireLockOptions | undefined): Promise<LockHandleImpl> {
    const merged = this.#locks.withDefaults(options);
    return withSpan("ReaderWriterLock.acquireWriteLock", merged, async (tracingOptions, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      this.#rejectNested(call);
      const waitInMs = checkWait(merged.waitInMs);
      const waitedInMs = startStopwatch();
      const attempt = async (): Promise<LockHandleImpl> => {
        const left = remainingWait(waitInMs, waitedInMs());
        const gate = await this.#locks.acquireFor(call, gateOf(this.name), { ...merged, tracingOptions, waitInMs: left });
        return this.#closeGate(gate, { abortSignal: merged.abortSignal, tracingOptions }, Math.max(0, waitInMs - waitedInMs()));
      };
      // The gate may be lost while readers have not left: this caller continues to wait.
      const policy = { maxAttempts: Infinity, shouldRetry: (error: unknown) => error instanceof GateLostError, timeoutInMs: waitInMs, abortSignal: merged.abortSignal };
      const lock = await retry(attempt, policy).catch((error: unknown) => {
        throw error instanceof GateLostError ? error.cause : error;
      });
      lock.setTracingParent(options?.tracingOptions);
      describeSpan(span, { outcome: "acquired", url: lock.url, epoch: lock.epoch });
      return lock;
    }, spanDetails);
  }

  /** Waits until the readers have left that came before the gate was leased: later ones find it held, and step back. */
  async #closeGate(gate: LockHandleImpl, options: CallOptions, waitInMs: number): Promise<LockHandleImpl> {
    const waitedInMs = startStopwatch();
    const failures = new FailureStreak();
    // maxHoldInMs is for the work under the lock.
    const startHold = gate.suspendHold();
    const { controller, unlink } = linkSignals(options.abortSignal, gate.signal);
    try {
      const look = async (): Promise<void> => {
        const readers = await this.#readers({ ...options, abortSignal: controller.signal });
        const [first] = readers;
        if (first) throw new ReadersError(readers.length, first);
      };
      await retry(look, {
        maxAttempts: Infinity,
        shouldRetry: (error) => {
          if (!(error instanceof ReadersError)) return isTransient(error) && !failures.add();
          failures.end();
          return true;
        },
        backoff: () => pollDelay(waitedInMs()),
        timeoutInMs: waitInMs,
        abortSignal: controller.signal,
      });
      gate.assertHeld();
      startHold();
      return gate;
    } catch (error) {
      const { loss } = gate;
      await withinMoment(gate[Symbol.asyncDispose]());
      if (loss && !options.abortSignal?.aborted) throw new GateLostError("the gate was lost", { cause: loss });
      throw error instanceof ReadersError ? this.#unavailable(error, waitedInMs()) : toPublicError(error, this.#url, waitedInMs());
    } finally {
      unlink();
    }
  }

  /** The readers that hold the lock. Deletes what dead ones have left behind. */
  async #readers(options: CallOptions): Promise<LockStatus[]> {
    const { all, abandoned } = await read(async (abortSignal) => {
      const found: { all: LockStatus[]; abandoned: LockStatus[] } = { all: [], abandoned: [] };
      for await (const lock of this.#locks.listFor("ReaderWriterLock", { ...options, prefix: readersOf(this.name), abortSignal }, true)) {
        if (isHeld(lock)) found.all.push(lock);
        else if (isAbandoned(lock)) found.abandoned.push(lock);
      }
      return found;
    }, { timeoutInMs: listTimeoutInMs, abortSignal: options.abortSignal });
    // Not awaited. If one has been leased since, the service refuses to delete it.
    for (const { name } of abandoned.slice(0, maxRemoved)) void removeDeadReader(this.#locks.blobOf(name));
    return all;
  }

  get #url(): string {
    return redactUrl(this.#locks.blobOf(gateOf(this.name)).url);
  }

  #rejectNested(call: string): void {
    rejectNested(call, this.#url, `the lock ${quotedText(this.name)}`, "Use that lock");
  }

  #unavailable({ count, first: { holder } }: ReadersError, waitedInMs: number): LeaseUnavailableError {
    const who = count === 1 ? `${holder ?? "A process"} still reads` : `${count} processes, one of them ${holder ?? "unknown"}, still read`;
    return createError(LeaseUnavailableError, `${who} under the lock ${JSON.stringify(this.name)} after ${Math.round(waitedInMs)} ms (waitInMs)`, {
      url: this.#url,
      waitedInMs,
      holder,
    });
  }
}

/** There are readers that have not left. */
class ReadersError extends Error {
  readonly count: number;
  readonly first: LockStatus;

  constructor(count: number, first: LockStatus) {
    super("there are readers");
    this.count = count;
    this.first = first;
  }
}

class GateLostError extends Error {}

function notIfTaken(error: unknown): undefined {
  if (isConcurrencyError(error, "LEASE_UNAVAILABLE") || error instanceof GateLostError) return undefined;
  throw error;
}

function isHeld({ state }: LockStatus): boolean {
  return state === "leased" || state === "breaking";
}

function isReader(name: string, lock: LockStatus): boolean {
  return lock.name.startsWith(readersOf(name));
}

/** Its lease has ended, or it was never leased. */
function isAbandoned({ state, acquiredOn }: LockStatus): boolean {
  return state !== "available" || (acquiredOn !== undefined && Date.now() - acquiredOn.getTime() > abandonedAfterInMs);
}

const spanDetails = { targetKind: "readerWriterLock" };
