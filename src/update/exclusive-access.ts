import type { CallOptions, WriteOutcomeOptions } from "../clients/call.js";
import type { LeasableLike } from "../clients/leasable.js";
import { read } from "../core/request.js";
import { isNotFound } from "../core/storage-errors.js";
import { checkNumber, checkOneOf, checkOptions, checkTimeLimits } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { isConcurrencyError } from "../errors.js";
import { leaseAdapterOf } from "../lease/lease-adapters.js";
import type { LeaseHandle, LeaseHandleImpl, LockHandleLike } from "../lease/lease-handle.js";
import type { AcquireLeaseOptions, LockProviderLike } from "../lease/lease-options.js";
import { acquireLeaseFor } from "../lease/with-lease.js";
import type { ServiceAdapter } from "../target/target.js";

/** A named lock that replaces the lease in {@link leasedUpdate}, for a target without leases: {@link queueMetadata}. */
export interface NamedLockRef {
  /** Acquires the lock: a {@link BlobLocks}, or a provider of the application. */
  readonly locks: LockProviderLike;
  /** Must be the same for all writers of the target. */
  readonly name: string;
}

/** Options of {@link leasedUpdate}: those of the lease, and those of the update. */
export interface LeasedUpdateOptions<I> extends Omit<AcquireLeaseOptions, "createIfNotExists" | "leaseId">, WriteOutcomeOptions {
  /**
   * The value to start from if the target does not exist, which is then created.
   * @defaultValue none: a missing target is a {@link TargetNotFoundError}
   */
  initial?: I | (() => I) | undefined;
  /**
   * A lease on the target that the caller holds: the update neither acquires nor releases a lease. Excludes `lock`.
   * @defaultValue none: the update acquires the lease and releases it
   */
  lease?: LeaseHandle | undefined;
  /**
   * For a target without leases ({@link queueMetadata}): the lock that all its writers acquire instead.
   * @defaultValue none: the lease of the target excludes other writers
   */
  lock?: NamedLockRef | undefined;
  /**
   * How often the mutator runs before the call rejects with a {@link ConflictError}. It runs again only if another client created
   * or deleted the target in between, or wrote to it in spite of the lease.
   * @defaultValue 10: conflicts are rare under a lease
   */
  maxAttempts?: number | undefined;
  /**
   * The time limit of the whole call, including the wait for the lease.
   * @defaultValue Infinity: `waitInMs` limits the wait, and only the caller knows how long its mutator takes
   */
  timeoutInMs?: number | undefined;
  /**
   * The time limit of one try of a read or a write. See {@link TimedCallOptions}.
   * @defaultValue a quarter of `timeoutInMs`, at most 8_000
   */
  tryTimeoutInMs?: number | undefined;
  /**
   * For blobs: the name of the journal, the same for all writers, or `false` for none. See {@link TargetOptions}.
   * @defaultValue "asc_journal"
   */
  journal?: string | false | undefined;
}

const optionNames: OptionNames<LeasedUpdateOptions<unknown>> = {
  abortSignal: 1,
  tracingOptions: 1,
  durationInSeconds: 1,
  autoRenew: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
  crashGuard: 1,
  waitInMs: 1,
  operationId: 1,
  onUnknown: 1,
  initial: 1,
  lease: 1,
  lock: 1,
  maxAttempts: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  journal: 1,
};

/** The options of the lease. */
export function leaseOptionsOf<T>(options: LeasedUpdateOptions<T>): AcquireLeaseOptions {
  const { durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, waitInMs, crashGuard, abortSignal, tracingOptions } = options;
  return { durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, waitInMs, crashGuard, abortSignal, tracingOptions };
}

const defaults = Object.freeze({ maxAttempts: 10, timeoutInMs: Infinity });

interface CheckedLeasedOptions {
  maxAttempts: number;
  timeoutInMs: number;
  tryTimeoutInMs: number;
  retryDelayInMs: number;
  maxRetryDelayInMs: number;
  onUnknown: "throw" | "retry";
}

export function checkLeasedOptions<I>(options: LeasedUpdateOptions<I>): CheckedLeasedOptions {
  // What is not an object is rejected by the check that follows.
  for (const name of ["createIfNotExists", "leaseId", "conditions"]) {
    if (typeof options === "object" && name in options) throw new TypeError(`leasedUpdate has no option ${name}: pass initial, or the lease that you hold as lease.`);
  }
  checkOptions("leasedUpdate", options, optionNames);
  return {
    maxAttempts: checkNumber("maxAttempts", options.maxAttempts ?? defaults.maxAttempts, { min: 1, integer: true }),
    ...checkTimeLimits(options, defaults.timeoutInMs),
    retryDelayInMs: 10,
    maxRetryDelayInMs: 1_000,
    onUnknown: checkOneOf("onUnknown", options.onUnknown ?? "throw", ["throw", "retry"]),
  };
}

/** What gives an update exclusive access to its target. */
export interface ExclusiveAccess {
  /** Undefined: the target does not exist and so cannot be leased, and there is no lock. */
  readonly held: LockHandleLike | undefined;
  /** `held`, if it is a lease on the target. */
  readonly lease: LeaseHandleImpl | undefined;
  /** The caller holds it: the update does not release it, and does not replace it if it is lost. */
  readonly callerOwned: boolean;
  /** Whether another caller may hold the lease under the same id afterwards. */
  readonly leaseIdReused: boolean;
  /** Lets the next update under a lease of the caller begin. */
  readonly endTurn?: (() => void) | undefined;
}

/** Acquires what excludes other writers. */
export type AcquireAccess = (options: CallOptions) => Promise<ExclusiveAccess>;

/** Decides, before any request, what an update of this target has to hold. */
export function planAccess<T, I>(adapter: ServiceAdapter<T, unknown>, options: LeasedUpdateOptions<I>): AcquireAccess {
  const { leasable } = adapter;
  const { lease, lock } = options;
  if (leasable) {
    if (lock) throw new TypeError(`lock: the target of ${adapter.kind} has a lease, which the service enforces: leave out lock.`);
    leaseAdapterOf(leasable);
    if (!lease) return (call) => acquireTargetLease(leasable, options, call);
    if (typeof lease.leaseId !== "string") throw new TypeError("lease must be a lease that acquireLease has returned, or withLease has passed to its function.");
    if (lease.url !== adapter.url) throw new TypeError(`The lease is on ${lease.url}, not on ${adapter.url}.`);
    return (call) => takeTurn(lease, call);
  }
  if (!adapter.requiresLease) throw new TypeError(`The target of ${adapter.kind} has no lease: use optimisticUpdate, or a TableLock.`);
  if (!isLockChoice(lock)) {
    throw new TypeError(`The target of ${adapter.kind} has no lease: pass lock: { locks, name }, the same for all its writers.`);
  }
  const { locks, name } = lock;
  return async (call) => {
    const held = await locks.acquire(name, { ...call, ...(options.waitInMs !== undefined && { waitInMs: options.waitInMs }) });
    return { held, lease: undefined, callerOwned: false, leaseIdReused: false };
  };
}

/** For each lease of a caller: the end of the last update that was begun under it. */
const lastTurns = new WeakMap<LeaseHandle, Promise<void>>();

/**
 * Waits for the updates that were begun under the same lease of the caller. The service accepts the writes of all of them, because all have
 * the same lease id: two that read the same state would undo each other, and two that write content would fill the same staging file.
 */
async function takeTurn(lease: LeaseHandle, { abortSignal }: CallOptions): Promise<ExclusiveAccess> {
  const before = lastTurns.get(lease);
  let endTurn = (): void => undefined;
  const ended = new Promise<void>((resolve) => (endTurn = resolve));
  lastTurns.set(lease, before ? before.then(() => ended) : ended);
  try {
    // If the lease is lost meanwhile, the updates before this one end.
    if (before) await read(() => before, { abortSignal });
    lease.assertHeld();
  } catch (error) {
    endTurn();
    throw error;
  }
  // Only the library creates handles.
  return { held: lease, lease: lease as LeaseHandleImpl, callerOwned: true, leaseIdReused: true, endTurn };
}

async function acquireTargetLease<T>(leasable: LeasableLike, options: LeasedUpdateOptions<T>, call: CallOptions): Promise<ExclusiveAccess> {
  try {
    const lease = await acquireLeaseFor("leasedUpdate", leasable, { ...leaseOptionsOf(options), ...call });
    // With a crash guard each holder has its own lease id, by which its successor identifies it.
    return { held: lease, lease, callerOwned: false, leaseIdReused: !options.crashGuard };
  } catch (error) {
    if (!isConcurrencyError(error, "TARGET_NOT_FOUND") || !isNotFound(error.cause)) throw error;
    return { held: undefined, lease: undefined, callerOwned: false, leaseIdReused: false };
  }
}

function isLockChoice(lock: unknown): lock is NamedLockRef {
  const { locks, name } = (lock ?? {}) as { locks?: { acquire?: unknown } | null; name?: unknown };
  return typeof locks?.acquire === "function" && typeof name === "string" && name !== "";
}
