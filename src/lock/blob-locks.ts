import type { ContainerLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import { linkSignals, onAbort } from "../core/deadline.js";
import { read } from "../core/request.js";
import { startStopwatch } from "../core/stopwatch.js";
import { isNotFound, isParentNotFound } from "../core/storage-errors.js";
import { describeSpan, redactUrl, withAttempts, withSpan } from "../core/telemetry.js";
import type { Attempts, CallSpan } from "../core/telemetry.js";
import { createError, isConcurrencyError, LeaseUnavailableError, TargetNotFoundError } from "../errors.js";
import { LeaseWaiter } from "../lease/acquire.js";
import type { AcquireRequest } from "../lease/acquire.js";
import { acquireGuarded } from "../lease/crash-guard.js";
import { leaseAdapterOf } from "../lease/lease-adapters.js";
import { LockHandle } from "../lease/lease-guard.js";
import type { LeaseHandle } from "../lease/lease-guard.js";
import { checkLeaseOptions, checkWait } from "../lease/lease-options.js";
import type { AcquireLeaseOptions, GuardedAcquireRequest, TryAcquireLeaseOptions } from "../lease/lease-options.js";
import { waiterQueueFor } from "../lease/waiter-queue.js";
import type { WaiterQueue } from "../lease/waiter-queue.js";
import { checkFunction, useLease } from "../lease/with-lease.js";
import { epochAllocator } from "./epoch-allocator.js";
import { breakLease, inspectLease, leaseInfo } from "./inspect-lease.js";
import type { BreakLeaseOptions, LeaseInfo } from "./inspect-lease.js";
import { blobNameOf, checkHolder, lockNameOf, parseLockRecord, thisProcess } from "./lock-record.js";
import { LockSet } from "./lock-set.js";

/** Options of {@link BlobLocks}. */
export interface BlobLocksOptions {
  /**
   * The prefix of the locks' blobs in the container.
   * @defaultValue "locks/"
   */
  prefix?: string | undefined;
  /**
   * Identifies the holder of the locks of this object, for operators who inspect them.
   * @defaultValue host, process id and a random id
   */
  holder?: string | undefined;
  /** Options of every call, unless the call has its own. */
  defaults?: AcquireLockOptions | undefined;
}

/** Options of a single attempt to acquire a lock. */
export type TryAcquireLockOptions = Omit<TryAcquireLeaseOptions, "createIfNotExists" | "crashGuard" | "leaseId">;
/** Options of acquiring a lock. */
export type AcquireLockOptions = Omit<AcquireLeaseOptions, "createIfNotExists" | "crashGuard" | "leaseId">;

/** A lock, held or not. */
export interface LockStatus extends LeaseInfo {
  name: string;
}

/**
 * Named mutexes that all processes with access to a container share. A lock is an empty blob. It is created when it is first
 * used, and kept forever, as its metadata count its holders.
 */
export class BlobLocks {
  readonly #container: ContainerLike;
  readonly #prefix: string;
  readonly #holder: string;
  readonly #defaults: AcquireLockOptions;

  constructor(container: ContainerLike, options: BlobLocksOptions = {}) {
    if (typeof (container as Partial<ContainerLike> | null | undefined)?.getBlockBlobClient !== "function") {
      throw new TypeError("BlobLocks needs a ContainerClient");
    }
    this.#container = container;
    this.#prefix = options.prefix ?? "locks/";
    this.#holder = checkHolder(options.holder ?? thisProcess());
    this.#defaults = { ...options.defaults };
  }

  /** Runs `fn` while holding the lock. See {@link withLease} for what happens if it is lost. Costs 4 requests. */
  withLock<R>(name: string, fn: (lock: LockHandle) => Promise<R> | R, options?: AcquireLockOptions): Promise<R> {
    return this.#spanned("withLock", options, async (merged, span) => {
      checkFunction(fn);
      const lock = await this.acquire(name, merged);
      describeSpan(span, { url: lock.url, epoch: lock.epoch });
      return useLease(lock, fn);
    });
  }

  /** Waits for the lock. After `waitInMs` it rejects with a `LeaseUnavailableError` that names the holder. */
  acquire(name: string, options?: AcquireLockOptions): Promise<LockHandle> {
    return this.#acquiring("acquire", options, (merged, trace, span) => this.#acquire(name, merged, trace, span));
  }

  /** @internal As `acquire`, but other processes see each holder, including those to which this process hands the lock over. */
  acquireVisibly(name: string, options?: AcquireLockOptions): Promise<LockHandle> {
    return this.#acquiring("acquire", options, (merged, trace, span) => this.#acquire(name, merged, trace, span, true));
  }

  /** Acquires the lock if it is free right now; `null` if it is not. */
  tryAcquire(name: string, options?: TryAcquireLockOptions): Promise<LockHandle | null> {
    return this.#acquiring("tryAcquire", options, async (merged, trace, span) => {
      const waiter = new LeaseWaiter({ ...this.#request(name, merged, trace, span), waitInMs: "try" });
      this.#queue(name, merged).tryAcquire(waiter);
      const grant = await waiter.promise;
      describeSpan(span, { outcome: grant ? "acquired" : "taken", epoch: grant?.token?.epoch });
      return grant ? new LockHandle(name, grant) : null;
    });
  }

  /**
   * Runs `fn` while holding several locks. All callers acquire them in the same order, whatever the order of `names`, so that
   * two callers that want the same locks never wait for each other.
   */
  withLocks<R>(names: readonly string[], fn: (locks: LockSet) => Promise<R> | R, options?: AcquireLockOptions): Promise<R> {
    return this.#spanned("withLocks", options, async (merged) => {
      checkFunction(fn);
      return useLease(await this.#acquireAll(names, merged), fn);
    });
  }

  /** Reads the state and the holder of the lock. Costs 1 request. */
  async inspect(name: string, options: CallOptions = {}): Promise<LockStatus> {
    try {
      return { name, ...(await inspectLease(this.#blob(name), options)) };
    } catch (error) {
      if (!isUnused(error)) throw error;
      return { name, ...leaseInfo({}, parseLockRecord(undefined)) };
    }
  }

  /**
   * All locks that were ever used, held or not. Costs 1 request for every 5,000. Throws a `TargetNotFoundError` if the container
   * does not exist.
   */
  async *list(options: { abortSignal?: AbortSignal } = {}): AsyncIterableIterator<LockStatus> {
    const blobs = this.#container.listBlobsFlat({ ...options, prefix: this.#prefix, includeMetadata: true });
    try {
      for await (const blob of blobs) {
        const name = lockNameOf(this.#prefix, blob.name);
        if (name !== undefined) yield { name, ...leaseInfo(blob.properties, parseLockRecord(blob.metadata)) };
      }
    } catch (error) {
      if (!isParentNotFound(error)) throw error;
      // An error rather than an empty list: most likely the name of the container is wrong.
      const url = redactUrl(this.#container.url);
      throw createError(TargetNotFoundError, `${url} does not exist: create the container of the locks first`, { url, cause: error });
    }
  }

  /**
   * Breaks the lease of the lock's holder. With `expectedEpoch`, as `inspect` returned it, only that of the inspected holder.
   * False if that holder does not hold the lock (any more).
   */
  break(name: string, options?: BreakLeaseOptions): Promise<boolean> {
    return breakLease(this.#blob(name), options).catch((error: unknown) => {
      if (isUnused(error)) return false;
      throw error;
    });
  }

  /** @internal For leases that have these locks as their `crashGuard`. */
  acquireGuarded(request: GuardedAcquireRequest): Promise<LeaseHandle | undefined> {
    return acquireGuarded(this, request);
  }

  /** @internal The blob of a lock. */
  blobOf(name: string): ReturnType<ContainerLike["getBlockBlobClient"]> {
    return this.#blob(name);
  }

  /** @internal The options of a call, completed by the defaults. */
  withDefaults<O extends AcquireLockOptions>(options: O | undefined): O {
    const given = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
    return { ...this.#defaults, ...Object.fromEntries(given) } as O;
  }

  async #acquire(name: string, options: AcquireLockOptions, trace: Attempts, span: CallSpan, visibly = false): Promise<LockHandle> {
    const waitInMs = checkWait(options.waitInMs);
    const queue = this.#queue(name, options, visibly);
    const waiter = new LeaseWaiter({ ...this.#request(name, options, trace, span), waitInMs });
    queue.enqueue(waiter);
    const grant = await waiter.promise.catch(async (error: unknown) => {
      throw isConcurrencyError(error, "LEASE_UNAVAILABLE") ? await this.#nameHolder(name, error, options) : error;
    });
    if (!grant) throw new TypeError("the lease was not granted");
    describeSpan(span, { outcome: "acquired", epoch: grant.token?.epoch });
    return new LockHandle(name, grant);
  }

  async #acquireAll(names: readonly string[], options: AcquireLockOptions): Promise<LockSet> {
    const waitInMs = checkWait(options.waitInMs);
    const given: unknown = names;
    if (!Array.isArray(given)) throw new TypeError("names must be an array");
    for (const name of names) this.#blob(name); // Rejects an invalid name before anything is locked.
    const waitedInMs = startStopwatch();
    const held: LockHandle[] = [];
    // If one of the locks is lost while waiting for the others, the rest of the wait is pointless.
    const { controller, unlink } = linkSignals(options.abortSignal);
    const offs = [unlink];
    try {
      for (const name of [...new Set(names)].sort()) {
        const left = Math.max(0, waitInMs - waitedInMs());
        const lock = await this.acquire(name, { ...options, abortSignal: controller.signal, waitInMs: left });
        held.push(lock);
        offs.push(onAbort(lock.signal, () => controller.abort(lock.signal.reason)));
      }
      for (const lock of held) lock.assertHeld();
      return new LockSet(held);
    } catch (error) {
      await Promise.all(held.map((lock) => lock[Symbol.asyncDispose]()));
      throw error;
    } finally {
      for (const off of offs) off();
    }
  }


  #blob(name: string): ReturnType<ContainerLike["getBlockBlobClient"]> {
    return this.#container.getBlockBlobClient(blobNameOf(this.#prefix, name));
  }

  #queue(name: string, options: TryAcquireLockOptions, visibly = false): WaiterQueue {
    const blob = this.#blob(name);
    const settings = { ...checkLeaseOptions(options), createIfNotExists: true };
    return waiterQueueFor(leaseAdapterOf(blob), settings, epochAllocator(blob, this.#holder, visibly));
  }

  #request(name: string, { abortSignal, tracingOptions }: CallOptions, trace: Attempts, span: CallSpan): Omit<AcquireRequest, "waitInMs"> {
    const url = redactUrl(this.#blob(name).url);
    describeSpan(span, { url });
    return { what: `the lock ${JSON.stringify(name)}`, url, abortSignal, trace, holderTracing: tracingOptions };
  }

  /** Best effort: a caller whose wait is over must not wait much longer for the name of the holder. */
  async #nameHolder(name: string, error: LeaseUnavailableError, { abortSignal }: CallOptions): Promise<LeaseUnavailableError> {
    const inspect = (signal: AbortSignal): Promise<LockStatus> => this.inspect(name, { abortSignal: signal });
    const info = await read(inspect, { timeoutInMs: nameHolderTimeoutInMs, abortSignal }).catch(() => undefined);
    if (!info?.holder || (info.state !== "leased" && info.state !== "breaking")) return error;
    const since = info.acquiredOn ? ` since ${info.acquiredOn.toISOString()}` : "";
    return createError(LeaseUnavailableError, `${error.message}; its holder is ${info.holder}${since}`, {
      url: error.url,
      waitedInMs: error.waitedInMs,
      holder: info.holder,
      cause: error.cause,
    });
  }


  /** A call that consists of other calls. */
  #spanned<O extends AcquireLockOptions, R>(method: string, options: O | undefined, run: (merged: O, span: CallSpan) => Promise<R>): Promise<R> {
    const merged = this.withDefaults(options);
    const name = `BlobLocks.${method}`;
    return withSpan(name, merged, (tracingOptions, span) => run({ ...merged, tracingOptions }, span), { targetKind: "lock" });
  }

  /** A call that tries to acquire the lock, once or repeatedly. */
  #acquiring<O extends AcquireLockOptions, R>(
    method: string,
    options: O | undefined,
    run: (merged: O, trace: Attempts, span: CallSpan) => Promise<R>,
  ): Promise<R> {
    const merged = this.withDefaults(options);
    return withAttempts(`BlobLocks.${method}`, merged, (trace, span) => run(merged, trace, span), { targetKind: "lock" });
  }
}

const nameHolderTimeoutInMs = 1_000;

/** The blob does not exist before the lock is first used. A missing container is a different case. */
function isUnused(error: unknown): boolean {
  return isConcurrencyError(error, "TARGET_NOT_FOUND") && isNotFound(error.cause);
}
