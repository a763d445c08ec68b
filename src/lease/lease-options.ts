import type { CallOptions } from "../clients/call.js";
import { checkNumber } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { LeaseTimes } from "./held-lease.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import type { LockHandleLike } from "./lease-handle.js";
import { checkLeaseId } from "./lease-adapters.js";

/** Options of {@link tryAcquireLease}. */
export interface TryAcquireLeaseOptions extends CallOptions {
  /**
   * How long the lease lasts if it is not renewed: 15 to 60, or Infinity. A longer duration means fewer renewals, and a longer
   * wait for all other clients after a crash. The service never ends an infinite lease. The lease of a file is always infinite.
   * @defaultValue 30: a crash blocks other clients for half a minute (the service may need up to a minute more); Infinity for a file
   */
  durationInSeconds?: number | undefined;
  /**
   * Whether the lease is renewed automatically. If not, it is lost after its duration unless `renew()` is called: for functions
   * that are frozen between requests.
   * @defaultValue true: work may take longer than expected
   */
  autoRenew?: boolean | undefined;
  /**
   * The interval between renewals.
   * @defaultValue a third of the duration: two renewals may fail before the lease is in danger; 30 s for an infinite lease, which
   * needs no renewal, but would not detect otherwise that it was broken (the lease of a file is confirmed by a read)
   */
  renewIntervalInMs?: number | undefined;
  /**
   * How long before its end the lease counts as lost. It covers the difference between clocks, and the time that work needs to
   * stop.
   * @defaultValue a twentieth of the duration: clocks drift far less
   */
  safetyMarginInMs?: number | undefined;
  /**
   * Create an empty block blob if none exists. Needs a `BlockBlobClient`.
   * @defaultValue false: a missing blob is more often a wrong name
   */
  createIfNotExists?: boolean | undefined;
  /**
   * The id of the lease, a GUID.
   * @defaultValue a new one for each acquisition: late requests of an earlier holder are rejected
   */
  leaseId?: string | undefined;
  /**
   * For leases that never expire, mainly those of files: a {@link BlobLocks}. One of its locks is acquired first. The lock does
   * expire, so the next holder can take over the lease of a holder that died. All users of the file must pass the same
   * locks, and reach both the file and the locks under the same host names.
   * @defaultValue none: a dead holder blocks the file until an operator calls `breakLease`
   */
  crashGuard?: LockProviderLike | undefined;
}

/** Options of {@link acquireLease} and {@link withLease}. */
export interface AcquireLeaseOptions extends TryAcquireLeaseOptions {
  /**
   * How long to wait for a lease that another client holds, before a `LeaseUnavailableError`. Only a response shows whether another
   * client holds it: the first one is awaited for up to 200 ms longer. 0 means one attempt, whose response has 5 seconds.
   * @defaultValue Infinity; 60_000 for a file without a `crashGuard`, as a dead holder keeps its lease forever
   */
  waitInMs?: number | undefined;
}

/** For `checkOptions`. Both are complete on their own: a spread at module level would defeat tree-shaking. */
export const tryAcquireLeaseOptionNames: OptionNames<TryAcquireLeaseOptions> = {
  durationInSeconds: 1,
  autoRenew: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
  createIfNotExists: 1,
  leaseId: 1,
  crashGuard: 1,
  abortSignal: 1,
  tracingOptions: 1,
};
export const acquireLeaseOptionNames: OptionNames<AcquireLeaseOptions> = {
  durationInSeconds: 1,
  autoRenew: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
  createIfNotExists: 1,
  leaseId: 1,
  crashGuard: 1,
  waitInMs: 1,
  abortSignal: 1,
  tracingOptions: 1,
};

/** The options with defaults filled in and checked. */
export interface LeaseSettings extends LeaseTimes {
  readonly createIfNotExists: boolean;
  readonly leaseId: string | undefined;
}

const defaults = Object.freeze({ durationInSeconds: 30, infiniteRenewEveryInMs: 30_000, waitInMs: Infinity, fileWaitInMs: 60_000 });

export function checkLeaseOptions(options: TryAcquireLeaseOptions & { maxHoldInMs?: number | undefined }, kind: LeaseAdapter["kind"] = "blob"): LeaseSettings {
  const defaultDuration = kind === "file" ? Infinity : defaults.durationInSeconds;
  const { durationInSeconds = defaultDuration, autoRenew = true, createIfNotExists = false, leaseId } = options;
  if (kind === "file" && durationInSeconds !== Infinity) {
    throw new RangeError(`durationInSeconds must be Infinity for a file, whose lease never expires; got ${durationInSeconds}`);
  }
  if (durationInSeconds !== Infinity) {
    checkNumber("durationInSeconds (15 to 60, or Infinity)", durationInSeconds, { min: 15, max: 60, integer: true });
  }
  const durationInMs = durationInSeconds * 1_000;
  const margin = options.safetyMarginInMs ?? (Number.isFinite(durationInMs) ? durationInMs / 20 : 0);
  const renewEvery = options.renewIntervalInMs ?? (Number.isFinite(durationInMs) ? durationInMs / 3 : defaults.infiniteRenewEveryInMs);
  const span = Number.isFinite(durationInMs) ? durationInMs : 2 ** 31 - 1;
  if (leaseId !== undefined) checkLeaseId("leaseId", leaseId);
  checkNumber("safetyMarginInMs", margin, { min: 0 });
  checkNumber("renewIntervalInMs", renewEvery, { min: 0 });
  if (autoRenew && renewEvery >= durationInMs - margin) {
    throw new RangeError(`renewIntervalInMs must be less than the duration without safetyMarginInMs; got ${renewEvery}`);
  }
  return {
    durationInMs,
    safetyMarginInMs: checkNumber("safetyMarginInMs", margin, { min: 0, max: span / 2 }),
    renewIntervalInMs: checkNumber("renewIntervalInMs", renewEvery, { min: 100, max: span / 2 }),
    autoRenew,
    maxHoldInMs: checkNumber("maxHoldInMs", options.maxHoldInMs ?? Infinity, { min: 1 }),
    createIfNotExists,
    leaseId,
    isIdChosen: leaseId !== undefined,
  };
}

export function checkWait(waitInMs: number | undefined, kind: LeaseAdapter["kind"] = "blob"): number {
  return checkNumber("waitInMs", waitInMs ?? (kind === "file" ? defaults.fileWaitInMs : defaults.waitInMs), { min: 0 });
}

/**
 * Named locks of any implementation, for `crashGuard` and for {@link NamedLockRef}. {@link BlobLocks} is one. `acquire` waits,
 * `tryAcquire` makes one attempt.
 *
 * As a `crashGuard`, its locks must expire when their holder dies, and each handle needs an `epoch` that is larger than that of
 * every earlier holder: it says whose the lease is. `url`, `previousEpoch` and `remainingInMs` are used if a handle has them.
 */
export interface LockProviderLike {
  /**
   * Waits for the lock, at most for `waitInMs`.
   * @throws {@link LeaseUnavailableError} or an error of the implementation if the lock is not free by then.
   */
  acquire(name: string, options?: CallOptions & { waitInMs?: number | undefined }): Promise<LockHandleLike & { readonly epoch?: number }>;
  /**
   * Acquires the lock if it is free now; undefined if it is not.
   * @throws an error of the implementation if the request fails.
   */
  tryAcquire(name: string, options?: CallOptions): Promise<(LockHandleLike & { readonly epoch?: number }) | undefined>;
}

/** Throws a TypeError for a guard that cannot be used, before any request. */
export function checkCrashGuard(guard: LockProviderLike, settings: LeaseSettings): void {
  const { acquire, tryAcquire } = guard as Partial<LockProviderLike>;
  if (typeof acquire !== "function" || typeof tryAcquire !== "function") {
    throw new TypeError("crashGuard must be a BlobLocks, or another provider of locks with acquire and tryAcquire");
  }
  if (settings.durationInMs !== Infinity) {
    throw new TypeError("crashGuard is for leases that never expire, and this one does. Leave it out, or pass durationInSeconds: Infinity");
  }
  if (settings.leaseId !== undefined) throw new TypeError("leaseId cannot be chosen with a crashGuard: the id identifies the holder");
}
