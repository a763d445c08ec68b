import type { BlobItemLike, ContainerLike } from "../clients/blob.js";
import type { CallOptions, PurgeOptions, PurgeResult } from "../clients/call.js";
import { RequestTimeoutError, startIdleTimer } from "../core/deadline.js";
import { FailureReports } from "../core/failures.js";
import { iterate } from "../core/iterate.js";
import { Recent } from "../core/recent.js";
import { SharedRun } from "../core/shared-run.js";
import { isNotFound, isParentNotFound, toTimeoutError } from "../core/storage-errors.js";
import { describeSpan, logger, redactUrl, withAttempts, withSpan } from "../core/telemetry.js";
import type { Attempts, CallSpan } from "../core/telemetry.js";
import { checkOptions, mergeDefined } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, isConcurrencyError, LeaseUnavailableError, printable, TargetNotFoundError, quotedText } from "../errors.js";
import { leaseTerms, LeaseWaiter } from "../lease/acquire.js";
import type { AcquireRequest, LeaseTerms, SeenHolder } from "../lease/acquire.js";
import { rejectNested } from "../core/hold-context.js";
import { leaseAdapterOf } from "../lease/lease-adapters.js";
import type { LeaseRequest } from "../lease/lease-adapters.js";
import { LockHandleImpl } from "../lease/lease-handle.js";
import type { FencingToken, LeaseGrant, LockHandle } from "../lease/lease-handle.js";
import { checkLeaseOptions, checkWait } from "../lease/lease-options.js";
import type { LockProviderLike } from "../lease/lease-options.js";
import { waiterQueueFor } from "../lease/waiter-queue.js";
import { checkFunction, useLease } from "../lease/with-lease.js";
import { breakLease, breakLeaseOptionNames, inspectLock, leaseStateOf, lockInfo } from "./inspect-lease.js";
import type { BreakLeaseOptions } from "./inspect-lease.js";
import { acquireLockOptionNames, blobLocksOptionNames, callOptionNames, lockDefaultNames, tryAcquireLockOptionNames } from "./lock-options.js";
import type { AcquireLockOptions, BlobLocksOptions, LockDefaults, LockStatus, TryAcquireLockOptions } from "./lock-options.js";
import { blobNameOf, checkData, checkHolder, checkPrefix, lockDataOf, lockNameOf, namePrefixOf, parseLockRecord, thisProcess } from "./lock-record.js";
import { lockRulesFor } from "./lock-turns.js";
import { purgeLocks } from "./purge-locks.js";
import { acquireLockSet } from "./lock-set.js";
import type { LockSet, LockSetImpl } from "./lock-set.js";

/**
 * Named mutexes that all processes with access to a container share. A lock is an empty blob. It is created when it is first
 * used, and kept, as its metadata count its holders; {@link BlobLocks.purge} deletes those that are not used any more.
 * @example
 * ```ts
 * const locks = new BlobLocks(container);
 * await locks.withLock("nightly-report", async (lock) => {
 *   await writeReport({ fencingToken: lock.epoch, abortSignal: lock.signal });
 * });
 * ```
 */
export class BlobLocks implements LockProviderLike {
  readonly #container: ContainerLike;
  readonly #prefix: string;
  /** The SDK takes 50 µs to create a client, and a call needs it several times. */
  readonly #inspections = new Recent<SharedRun<LockStatus | undefined>>(100);
  readonly #blobs = new Recent<ReturnType<ContainerLike["getBlockBlobClient"]>>(100);
  readonly #holder: string;
  readonly #fair: boolean;
  readonly #defaults: LockDefaults;

  /**
   * The locks are blobs of `container`, which must exist when a lock is acquired.
   * @throws `TypeError` if `container` is not a container client, or an option is unknown.
   */
  constructor(container: ContainerLike, options: BlobLocksOptions = {}) {
    const { getBlockBlobClient, listBlobsFlat, url } = (container as Partial<ContainerLike> | null | undefined) ?? {};
    if (typeof getBlockBlobClient !== "function" || typeof listBlobsFlat !== "function" || typeof url !== "string") {
      throw new TypeError("BlobLocks needs a ContainerClient");
    }
    checkOptions("BlobLocks", options, blobLocksOptionNames);
    checkOptions("BlobLocks: defaults", options.defaults, lockDefaultNames);
    const { prefix = "locks/", holder = thisProcess(), fair = false } = options;
    if (typeof fair !== "boolean") throw new TypeError("BlobLocks: fair must be true or false");
    if (fair && typeof container.getAppendBlobClient !== "function") throw new TypeError("BlobLocks: fair needs a ContainerClient with append blobs");
    this.#container = container;
    this.#prefix = checkPrefix(prefix);
    this.#holder = checkHolder(holder);
    this.#fair = fair;
    this.#defaults = mergeDefined(undefined, options.defaults ?? {});
  }

  /**
   * Runs `fn` while holding the lock. See {@link withLease} for what happens if it is lost. Costs 2 requests if no other process
   * has used the lock since this one did, otherwise 4; with `fair`, 4.
   * @throws {@link LeaseUnavailableError} if another holder still has the lock after `waitInMs`; it names the holder.
   * @throws {@link LeaseLostError} if the lock was lost while `fn` ran.
   * @throws {@link LockModeMismatchError} if other processes use the lock with another value of `fair`.
   * @throws `TypeError` if the call is made inside a function that holds the same lock.
   */
  withLock<R>(name: string, fn: (lock: LockHandle) => Promise<R> | R, options?: AcquireLockOptions): Promise<R> {
    return this.#spanned("withLock", options, async (call, merged, span) => {
      checkFunction(call, fn);
      const lock = await this.acquireFor(call, name, merged);
      describeSpan(span, { url: lock.url, epoch: lock.epoch });
      return useLease(call, lock, fn, merged.abortSignal);
    });
  }

  /**
   * Waits for the lock. The caller releases it.
   * @throws {@link LeaseUnavailableError} if another holder still has the lock after `waitInMs`; it names the holder.
   * @throws `TypeError` if the call is made inside a function that holds the same lock.
   */
  acquire(name: string, options?: AcquireLockOptions): Promise<LockHandle> {
    return this.acquireFor("BlobLocks.acquire", name, options);
  }

  /**
   * Acquires the lock if it is free now; undefined if it is not, or if others wait for it and this process released it less than a second
   * ago. Costs 1 request, or 3 if another process has used the lock since.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  tryAcquire(name: string, options?: TryAcquireLockOptions): Promise<LockHandle | undefined> {
    return this.tryAcquireFor("BlobLocks.tryAcquire", name, options);
  }

  /**
   * Runs `fn` while holding several locks. All callers acquire them in the same order, whatever the order of `names`, so that
   * two callers that want the same locks never wait for each other.
   * @throws {@link LeaseUnavailableError} if another holder still has one of the locks after `waitInMs`.
   * @throws {@link LeaseLostError} if one of the locks was lost while `fn` ran.
   * @throws `TypeError` if the call is made inside a function that holds one of the locks.
   */
  withLocks<R>(names: readonly string[], fn: (locks: LockSet) => Promise<R> | R, options?: AcquireLockOptions): Promise<R> {
    return this.#spanned("withLocks", options, async (call, merged) => {
      checkFunction(call, fn);
      return useLease(call, await this.#acquireAll(call, names, merged), fn, merged.abortSignal);
    });
  }

  /**
   * Waits for several locks, as {@link BlobLocks.withLocks} does. The caller releases them.
   * @throws {@link LeaseUnavailableError} if another holder still has one of the locks after `waitInMs`; no lock is held then.
   * @throws `TypeError` if the call is made inside a function that holds one of the locks.
   */
  acquireAll(names: readonly string[], options?: AcquireLockOptions): Promise<LockSet> {
    return this.#spanned("acquireAll", options, async (call, merged) => {
      const locks = await this.#acquireAll(call, names, merged);
      // The parent of later spans is the caller's, not the span of this call, which has ended by then.
      for (const lock of locks.holds) lock.setTracingParent(options?.tracingOptions);
      return locks;
    });
  }

  /**
   * Reads the state and the holder of the lock. Costs 1 request.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  async inspect(name: string, options?: CallOptions): Promise<LockStatus> {
    checkOptions("BlobLocks.inspect", options, callOptionNames);
    try {
      return { name, ...(await inspectLock(this.blobOf(name), options)) };
    } catch (error) {
      if (!isUnused(error)) throw error;
      return { name, ...lockInfo({}, parseLockRecord(undefined)) };
    }
  }

  /**
   * All locks that were ever used, held or not; with `prefix`, those whose names begin with it. Costs 1 request for every 5,000.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   * @throws {@link OperationTimeoutError} if the service does not respond to a request within 30 s.
   */
  list(options: CallOptions & { prefix?: string | undefined } = {}): AsyncIterableIterator<LockStatus> {
    return this.listFor("BlobLocks.list", options);
  }

  /** @internal As `list`. `primaryOnly`: rejects if the listing may be outdated. */
  listFor(call: string, options: CallOptions & { prefix?: string | undefined }, primaryOnly = false): AsyncIterableIterator<LockStatus> {
    return this.#list(call, options, primaryOnly, (name, { properties, metadata }) => ({ name, ...lockInfo(properties, parseLockRecord(metadata)) }));
  }

  /** @internal As `listFor`, without what takes most of the time for each of thousands of locks. */
  listHolders(call: string, options: CallOptions & { prefix?: string | undefined }): AsyncIterableIterator<Pick<LockStatus, "name" | "state" | "data">> {
    return this.#list(call, options, true, (name, { properties, metadata }) => ({ name, state: leaseStateOf(properties), data: lockDataOf(metadata) }));
  }

  async *#list<R>(call: string, options: CallOptions & { prefix?: string | undefined }, primaryOnly: boolean, map: (name: string, blob: BlobItemLike) => R): AsyncGenerator<R, undefined> {
    checkOptions(call, options, listOptionNames);
    const { abortSignal, tracingOptions } = options;
    const request = { prefix: namePrefixOf(this.#prefix, options.prefix ?? ""), includeMetadata: true, ...(tracingOptions && { tracingOptions }) };
    try {
      for await (const blob of iterate((signal) => this.#container.listBlobsFlat({ ...request, abortSignal: signal }), { abortSignal, primaryOnly, timeoutInMs: listTimeoutInMs })) {
        const name = lockNameOf(this.#prefix, blob.name);
        if (name !== undefined) yield map(name, blob);
      }
      return undefined;
    } catch (error) {
      const url = redactUrl(this.#container.url);
      if (error instanceof RequestTimeoutError) throw toTimeoutError(error, url);
      if (!isParentNotFound(error)) throw error;
      // An error rather than an empty list: most likely the name of the container is wrong.
      throw createError(TargetNotFoundError, `${url} does not exist: create the container of the locks first`, { url, cause: error });
    }
  }

  /**
   * Breaks the lease of the lock's holder. With `expectedEpoch`, as `inspect` returned it, only that of the inspected holder.
   * False if that holder does not hold the lock (any more).
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  async break(name: string, options?: BreakLeaseOptions): Promise<boolean> {
    checkOptions("BlobLocks.break", options, breakLeaseOptionNames);
    try {
      return await breakLease(this.blobOf(name), options);
    } catch (error) {
      if (isUnused(error)) return false;
      throw error;
    }
  }

  /**
   * Deletes locks that were not used for `olderThanInMs`, by default 31 days. Epochs keep growing: a deleted lock that is used again
   * starts above all that it had. Locks that are held are kept, and those of a crash guard that may still be needed. Costs 1
   * request for every 5,000 locks, 1 for each that is deleted, and 2 for every 500 of these.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   * @throws `RestError` if the service rejects a request; what was deleted by then stays deleted.
   */
  purge(options?: PurgeOptions): Promise<PurgeResult> {
    return purgeLocks(this.#container, this.#prefix, options);
  }

  /** @internal As `acquire`. `call` is the public call that needs the lock, for error messages. */
  acquireFor(call: string, name: string, options?: AcquireLockOptions): Promise<LockHandleImpl> {
    return this.#acquiring("acquire", options, (merged, trace, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      this.#rejectNested(call, name);
      return this.#acquire(call, name, merged, trace, span);
    });
  }

  /** @internal As `tryAcquire`. */
  tryAcquireFor(call: string, name: string, options?: TryAcquireLockOptions, purpose?: LockPurpose): Promise<LockHandleImpl | undefined> {
    return this.#acquiring("tryAcquire", options, async (merged, trace, span) => {
      checkOptions(call, options, tryAcquireLockOptionNames);
      const terms = this.#terms(name, merged, purpose);
      const waiter = new LeaseWaiter({ ...this.#request(name, merged, trace, span), kind: kindOf(call, purpose), terms, waitInMs: "try" });
      waiterQueueFor(terms.adapter).tryAcquire(waiter);
      const grant = await waiter.promise;
      describeSpan(span, { outcome: grant ? "acquired" : "taken", epoch: grant?.token?.epoch });
      return grant && new LockHandleImpl(name, grant);
    });
  }

  /** @internal As `tryAcquire`, for a semaphore, which hands the lease over between its own waiters. */
  tryAcquireSlot(name: string, options: TryAcquireLockOptions): Promise<SlotGrant | undefined> {
    return this.#acquiring("tryAcquire", options, async (merged, trace, span) => {
      const terms = this.#terms(name, merged, "slot");
      const waiter = new LeaseWaiter({ ...this.#request(name, merged, trace, span), terms, waitInMs: "try" });
      waiterQueueFor(terms.adapter).tryAcquire(waiter);
      const grant = await waiter.promise;
      describeSpan(span, { outcome: grant ? "acquired" : "taken", epoch: grant?.token?.epoch });
      const { rules } = terms;
      return grant && rules && { ...grant, next: (waiting, request) => rules.next(grant.lease, waiter, waiting, request) };
    });
  }

  /** @internal As `acquire`, but other processes see each holder, including those to which this process hands the lock over. */
  acquireVisibly(name: string, options?: AcquireLockOptions): Promise<LockHandleImpl> {
    return this.#acquiring("acquire", options, (merged, trace, span) => this.#acquire("LeaderElection", name, merged, trace, span, "election"));
  }

  /** @internal As `acquire`, first come, first served over all processes: for those that wait for a slot of a semaphore. */
  acquireInLine(name: string, options: AcquireLockOptions): Promise<LockHandleImpl> {
    return this.#acquiring("acquire", options, (merged, trace, span) => this.#acquire("Semaphore", name, merged, trace, span, "line"));
  }

  /** @internal For a crash guard: see {@link GuardingLocks}. */
  acquireGuard(name: string, options: AcquireLockOptions): Promise<LockHandleImpl> {
    return this.#acquiring("acquire", options, (merged, trace, span) => {
      this.#rejectNested("BlobLocks.acquire", name);
      return this.#acquire("BlobLocks.acquire", name, merged, trace, span, "guard");
    });
  }

  /** @internal For a crash guard. */
  tryAcquireGuard(name: string, options: TryAcquireLockOptions): Promise<LockHandleImpl | undefined> {
    return this.tryAcquireFor("BlobLocks.tryAcquire", name, options, "guard");
  }

  /** @internal The blob of a lock. */
  blobOf(name: string): ReturnType<ContainerLike["getBlockBlobClient"]> {
    return this.#blobs.get(name, () => this.#container.getBlockBlobClient(blobNameOf(this.#prefix, name)));
  }

  /** @internal A blob that belongs to a lock, but is not one: a dot is never part of the encoded name of a lock. */
  sideBlobOf(name: string, kind: string): ReturnType<ContainerLike["getBlockBlobClient"]> {
    return this.#container.getBlockBlobClient(`${blobNameOf(this.#prefix, name)}.${kind}`);
  }

  /** @internal The URL of the container, without the query. */
  get containerUrl(): string {
    return redactUrl(this.#container.url);
  }

  /** @internal What the record of a lock says of its holder. */
  get holder(): string {
    return this.#holder;
  }

  /** @internal Two callers with the same key can use the same lease, one after the other or together. */
  holderKey(options: TryAcquireLockOptions): string {
    return JSON.stringify([checkLeaseOptions(options), this.#holder, options.data]);
  }

  /** @internal The options of a call, completed by the defaults. */
  withDefaults<O extends AcquireLockOptions>(options: O | undefined): O {
    return mergeDefined<O>(this.#defaults as Partial<O>, options);
  }

  async #acquire(call: string, name: string, options: AcquireLockOptions, trace: Attempts, span: CallSpan, purpose?: LockPurpose): Promise<LockHandleImpl> {
    const waitInMs = checkWait(options.waitInMs);
    const terms = this.#terms(name, options, purpose);
    const waiter = new LeaseWaiter({ ...this.#request(name, options, trace, span), kind: kindOf(call, purpose), terms, waitInMs });
    waiterQueueFor(terms.adapter).enqueue(waiter);
    // A candidate waits for as long as there is a leader, and a process in line for as long as all slots are held.
    const isUsual = purpose === "election" || purpose === "line" || waitInMs <= longWaitInMs;
    const stopTimer = isUsual ? undefined : startIdleTimer(longWaitInMs, () => void this.#reportWait(name, waiter, terms));
    let grant: LeaseGrant | undefined;
    try {
      grant = await waiter.promise;
    } catch (error) {
      // If the last request failed, another one would only take more time.
      const isHeld = isConcurrencyError(error, "LEASE_UNAVAILABLE") && error.cause === undefined;
      throw isHeld ? await this.#nameHolder(name, error, options) : error;
    } finally {
      stopTimer?.();
    }
    if (!grant) throw new TypeError("the lease was not granted");
    describeSpan(span, { outcome: "acquired", epoch: grant.token?.epoch });
    return new LockHandleImpl(name, grant);
  }

  async #acquireAll(call: string, names: readonly string[], options: AcquireLockOptions): Promise<LockSetImpl> {
    const given: unknown = names;
    if (!Array.isArray(given)) throw new TypeError(`${call}: names must be an array`);
    // Rejects an invalid or nested name before anything is locked.
    for (const name of names) this.#rejectNested(call, name);
    return acquireLockSet(names, options, (name, more) => this.acquireFor(call, name, more));
  }

  #rejectNested(call: string, name: string): void {
    rejectNested(call, redactUrl(this.blobOf(name).url), `the lock ${quotedText(name)}`, "Use that lock");
  }

  /** How this object wants the lease of a lock: with the options of a call, and by the rules of the lock. */
  #terms(name: string, options: TryAcquireLockOptions, purpose?: LockPurpose): LeaseTerms {
    const blob = this.blobOf(name);
    const settings = { ...checkLeaseOptions(options), createIfNotExists: true };
    const adapter = leaseAdapterOf(blob);
    // All users of a semaphore wait for its slots in the same way, whatever their locks.
    const fair = purpose === "line" || (this.#fair && purpose !== "slot");
    const info = { holder: this.#holder, fair, visibly: purpose === "election", guards: purpose === "guard", data: checkData(options.data) };
    // No process draws tickets for a slot: those that wait for one stand in line for all of them.
    return leaseTerms(adapter, settings, lockRulesFor(adapter, this.#container, this.#prefix, blobNameOf(this.#prefix, name), info, purpose !== "slot"));
  }

  #request(name: string, { abortSignal, tracingOptions }: CallOptions, trace: Attempts, span: CallSpan): Omit<AcquireRequest, "waitInMs" | "terms"> {
    const url = redactUrl(this.blobOf(name).url);
    describeSpan(span, { url });
    return { what: `the lock ${JSON.stringify(name)}`, url, abortSignal, trace, holderTracing: tracingOptions };
  }

  /** Best effort: a caller whose wait is over must not wait much longer for the name of the holder. Callers whose waits end together share the request. */
  async #nameHolder(name: string, error: LeaseUnavailableError, { abortSignal }: CallOptions): Promise<LeaseUnavailableError> {
    const found = await this.#findHolder(name, { timeoutInMs: nameHolderTimeoutInMs, abortSignal });
    if (!found) return error;
    return createError(LeaseUnavailableError, `${error.message}; its holder is ${found.holder}${found.since}`, {
      url: error.url,
      waitedInMs: error.waitedInMs,
      holder: found.holder,
      cause: error.cause,
    });
  }

  /** Undefined: no process holds it now, or that could not be determined. */
  async #findHolder(name: string, limits: { readonly timeoutInMs: number } & CallOptions): Promise<{ readonly holder: string; readonly since: string } | undefined> {
    const inspection = this.#inspections.get(name, () => new SharedRun((signal) => this.inspect(name, { abortSignal: signal }).catch(() => undefined)));
    const info = await inspection.join(limits).catch(() => undefined);
    return info?.holder && (info.state === "leased" || info.state === "breaking") ? describeHolder({ holder: info.holder, acquiredOn: info.acquiredOn }) : undefined;
  }

  /** A lock that many callers want is held by another process most of the times: each of these is named once. */
  async #reportWait(name: string, waiter: LeaseWaiter, { rules }: LeaseTerms): Promise<void> {
    // Waiters read the record in any case: where thousands of processes wait for a minute, none sends a request only for this.
    const seen = rules?.otherHolderSeen(longWaitInMs);
    const found = seen ? describeHolder(seen) : await this.#findHolder(name, { timeoutInMs: reportTimeoutInMs });
    if (waiter.isSettled()) return;
    const lock = `the lock ${quotedText(name)} in ${this.containerUrl}`;
    const who = found ? `Its holder is ${found.holder}${found.since}${found.holder === this.#holder ? ", which is this process" : ""}` : "Its holder is not known";
    // The holder is text that another program has stored: it must not add a line to the log.
    const message = printable(`A caller has waited for ${lock} for longer than ${longWaitInMs / 1_000} s. ${who}. If that is not intended, pass waitInMs, and to the holder maxHoldInMs; BlobLocks.break takes the lock away from a holder that does not end.`);
    logger.warning(message);
    longWaits.report({ component: "BlobLocks", message, error: undefined }, JSON.stringify([this.containerUrl, this.#prefix, name, found?.holder]));
  }

  /** A call that consists of other calls. */
  #spanned<R>(
    method: string,
    options: AcquireLockOptions | undefined,
    run: (call: string, merged: AcquireLockOptions, span: CallSpan) => Promise<R>,
  ): Promise<R> {
    const merged = this.withDefaults(options);
    const call = `BlobLocks.${method}`;
    return withSpan(call, merged, async (tracingOptions, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      return run(call, { ...merged, tracingOptions }, span);
    }, { targetKind: "lock" });
  }

  /** A call that tries to acquire the lock, once or repeatedly. */
  #acquiring<O extends TryAcquireLockOptions, R>(
    method: string,
    options: O | undefined,
    run: (merged: O, trace: Attempts, span: CallSpan) => Promise<R>,
  ): Promise<R> {
    const merged = this.withDefaults(options);
    return withAttempts(`BlobLocks.${method}`, merged, async (trace, span) => run(merged, trace, span), { targetKind: "lock" });
  }
}

/** What the record of a lock has to show besides its epoch. */
type LockPurpose = "election" | "guard" | "slot" | "line";

/** What a lock is counted as in metrics, by the call that acquires it. The slots of a semaphore, and the line for them, are not counted here. */
function kindOf(call: string, purpose: LockPurpose | undefined): string | undefined {
  if (purpose === "line") return undefined;
  return purpose === "guard" ? "crashGuard" : (kinds[call.replace(/\..*/, "")] ?? "lock");
}

const kinds: Readonly<Record<string, string>> = {
  TableLock: "tableLock",
  ReaderWriterLock: "readerWriterLock",
  LeaderElection: "election",
  WorkBalancer: "balancer",
  Schedule: "schedule",
  Outbox: "outbox",
};

function describeHolder({ holder, acquiredOn }: SeenHolder): { readonly holder: string; readonly since: string } {
  return { holder, since: acquiredOn ? ` since ${acquiredOn.toISOString()}` : "" };
}

/** The lease of one slot of a semaphore. */
export interface SlotGrant extends LeaseGrant {
  /** Allocates the token of the next holder under the same lease. `waiting`: how many callers of this process wait. */
  next(waiting: number, request: Omit<LeaseRequest, "abortSignal">): Promise<FencingToken>;
}

const listOptionNames: OptionNames<CallOptions & { prefix?: string | undefined }> = { prefix: 1, abortSignal: 1, tracingOptions: 1 };

const nameHolderTimeoutInMs = 200;
const longWaits = /* @__PURE__ */ new FailureReports();
/** Longer than the lease of a holder that has died lasts: after that, a holder is alive and does not release the lock. */
const longWaitInMs = 60_000;
const reportTimeoutInMs = 5_000;
/** For one page of a listing. */
const listTimeoutInMs = 30_000;

/** The blob does not exist before the lock is first used. A missing container is a different case. */
function isUnused(error: unknown): boolean {
  return isConcurrencyError(error, "TARGET_NOT_FOUND") && isNotFound(error.cause);
}
