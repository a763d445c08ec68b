import type { CallOptions } from "../clients/call.js";
import type { LeasableLike } from "../clients/leasable.js";
import { isNotFound } from "../core/storage-errors.js";
import { checkNumber, checkOneOf } from "../core/validate.js";
import { isConcurrencyError } from "../errors.js";
import { leaseAdapterOf } from "../lease/lease-adapters.js";
import type { LeaseHandle, LeaseHandleImpl, LockHandleLike } from "../lease/lease-handle.js";
import type { AcquireLeaseOptions, LockProviderLike } from "../lease/lease-options.js";
import { acquireLeaseFor } from "../lease/with-lease.js";
import type { ServiceAdapter } from "../target/target.js";

/** A named lock that replaces a lease. */
export interface NamedLockRef {
  readonly locks: LockProviderLike;
  /** Must be the same for all writers of the target. */
  readonly name: string;
}

/** Options of {@link leasedUpdate}: those of the lease, and those of the update. */
export interface LeasedUpdateOptions<T> extends Omit<AcquireLeaseOptions, "createIfNotExists" | "leaseId"> {
  /** The initial value if the target does not exist, which is then created. Without it: `TargetNotFoundError`. */
  initial?: T | (() => T) | undefined;
  /**
   * A lease on the target that the caller holds: the update neither acquires nor releases a lease. Without this option, an
   * update inside `withLease` on the same target would wait for itself.
   */
  lease?: LeaseHandle | undefined;
  /** For a target without leases (`queueMetadata`): the lock that all its writers acquire instead. */
  lock?: NamedLockRef | undefined;
  /**
   * How often the mutator is applied before the call gives up with a `ConflictError`. It runs again only if another client
   * created or deleted the target in between, or wrote to it in spite of the lease.
   * @defaultValue 10
   */
  maxAttempts?: number | undefined;
  /**
   * The time for the whole call, including the wait for the lease.
   * @defaultValue Infinity: `waitInMs` limits the wait, and what the mutator takes is the caller's business
   */
  timeoutInMs?: number | undefined;
  /**
   * What to do if the outcome of a write is unknown: `"throw"` a `CommitUnknownError`, or `"retry"`, which may apply the
   * mutator twice.
   * @defaultValue "throw"
   */
  onUnknown?: "throw" | "retry" | undefined;
  /**
   * For blobs: whether writes carry a journal, and under which name. Optimistic writers must use the same name.
   * @defaultValue true: under the name "asc_journal"
   */
  journal?: boolean | string | undefined;
}

/** The options of the lease. */
export function leaseOptionsOf<T>(options: LeasedUpdateOptions<T>): AcquireLeaseOptions {
  const { durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, waitInMs, crashGuard, abortSignal, tracingOptions } = options;
  return { durationInSeconds, autoRenew, renewIntervalInMs, safetyMarginInMs, waitInMs, crashGuard, abortSignal, tracingOptions };
}

const defaults = Object.freeze({ maxAttempts: 10, timeoutInMs: Infinity });

interface CheckedLeasedOptions {
  maxAttempts: number;
  timeoutInMs: number;
  retryDelayInMs: number;
  maxRetryDelayInMs: number;
  onUnknown: "throw" | "retry";
}

export function checkLeasedOptions(options: LeasedUpdateOptions<never>): CheckedLeasedOptions {
  for (const name of ["createIfNotExists", "leaseId", "conditions"]) {
    if (name in options) throw new TypeError(`${name} is no option of leasedUpdate: pass initial, or a lease that you hold as lease`);
  }
  return {
    maxAttempts: checkNumber("maxAttempts", options.maxAttempts ?? defaults.maxAttempts, { min: 1, integer: true }),
    timeoutInMs: checkNumber("timeoutInMs", options.timeoutInMs ?? defaults.timeoutInMs, { min: 1 }),
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
}

/** Acquires what excludes other writers. */
export type AcquireAccess = (options: CallOptions) => Promise<ExclusiveAccess>;

/** Decides, before any request, what an update of this target has to hold. */
export function planAccess<T>(adapter: ServiceAdapter<T, unknown>, options: LeasedUpdateOptions<T>): AcquireAccess {
  const { leasable } = adapter;
  const { lease, lock } = options;
  if (leasable) {
    if (lock) throw new TypeError(`lock: ${adapter.kind} has a lease of its own, which the service knows of`);
    leaseAdapterOf(leasable);
    if (!lease) return (call) => acquireTargetLease(leasable, options, call);
    if (lease.url !== adapter.url) throw new TypeError(`lease is on ${lease.url}, not on ${adapter.url}`);
    // Only the library creates handles.
    return () => Promise.resolve({ held: lease, lease: lease as LeaseHandleImpl, callerOwned: true, leaseIdReused: true });
  }
  if (!adapter.requiresLease) throw new TypeError(`${adapter.kind} has no lease: use optimisticUpdate, or a TableLock`);
  if (!isLockChoice(lock)) {
    throw new TypeError(`${adapter.kind} has no lease: pass lock: { locks, name }, the same for all its writers`);
  }
  const { locks, name } = lock;
  return async (call) => {
    const held = await locks.acquire(name, { ...call, ...(options.waitInMs !== undefined && { waitInMs: options.waitInMs }) });
    return { held, lease: undefined, callerOwned: false, leaseIdReused: false };
  };
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
