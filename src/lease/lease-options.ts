import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import type { Attempts } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { checkLeaseId } from "./held-lease.js";
import type { LeaseTimes } from "./held-lease.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import type { LeaseHandle } from "./lease-guard.js";

/** Options of a single attempt to acquire a lease. */
export interface TryAcquireLeaseOptions extends CallOptions {
  /**
   * How long the lease lasts if it is not renewed: 15 to 60, or Infinity. A longer duration means fewer renewals, and a longer
   * wait for all other clients after a crash. The service never ends an infinite lease. The lease of a file is always infinite.
   * @defaultValue 30; Infinity for a file
   */
  durationInSeconds?: number | undefined;
  /**
   * Whether the lease is renewed automatically. If not, it is lost after its duration unless `renew()` is called: for functions
   * that are frozen between requests.
   * @defaultValue true
   */
  autoRenew?: boolean | undefined;
  /**
   * The interval between renewals.
   * @defaultValue a third of the duration: two renewals may fail before it is in danger; 30 s for an infinite one,
   * which needs none, but would not notice otherwise that it was broken (the lease of a file cannot be renewed at all:
   * a read asks whether it is still there)
   */
  renewIntervalInMs?: number | undefined;
  /**
   * How long before its end the lease counts as lost. It covers the difference between clocks, and the time that work needs to
   * stop.
   * @defaultValue a twentieth of the duration
   */
  safetyMarginInMs?: number | undefined;
  /**
   * Create an empty block blob if none exists.
   * @defaultValue false
   */
  createIfNotExists?: boolean | undefined;
  /**
   * The id of the lease, a GUID.
   * @defaultValue a new one for each acquisition
   */
  leaseId?: string | undefined;
  /**
   * For leases that never expire, mainly those of files: a `BlobLocks`. One of its locks is acquired first. The lock does
   * expire, so the next holder can take over the lease of a holder that died. All users of the file must pass the same
   * `BlobLocks`, and reach both the file and the locks under the same host names.
   * @defaultValue none: a dead holder blocks the file until somebody calls `breakLease`
   */
  crashGuard?: CrashGuard | undefined;
}

/** Options of {@link acquireLease} and {@link withLease}. */
export interface AcquireLeaseOptions extends TryAcquireLeaseOptions {
  /**
   * How long to wait for a lease that another client holds, before a `LeaseUnavailableError`. The first request is always
   * awaited, as only its response shows whether another client holds the lease: 0 means one attempt.
   * @defaultValue Infinity; 60_000 for a file without a `crashGuard`, as a dead holder keeps its lease for ever
   */
  waitInMs?: number | undefined;
}

/** The options with defaults filled in and checked. */
export interface LeaseSettings extends LeaseTimes {
  readonly createIfNotExists: boolean;
  readonly leaseId: string | undefined;
}

const defaults = Object.freeze({ durationInSeconds: 30, infiniteRenewEveryInMs: 30_000, waitInMs: Infinity, fileWaitInMs: 60_000 });

export function checkLeaseOptions(options: TryAcquireLeaseOptions, kind: LeaseAdapter["kind"] = "blob"): LeaseSettings {
  const defaultDuration = kind === "file" ? Infinity : defaults.durationInSeconds;
  const { durationInSeconds = defaultDuration, autoRenew = true, createIfNotExists = false, leaseId } = options;
  if (kind === "file" && durationInSeconds !== Infinity) {
    throw new RangeError(`the lease of a file never expires: durationInSeconds must be Infinity; got ${durationInSeconds}`);
  }
  if (durationInSeconds !== Infinity) {
    checkNumber("durationInSeconds (15 to 60, or Infinity)", durationInSeconds, { min: 15, max: 60, integer: true });
  }
  const durationInMs = durationInSeconds * 1_000;
  const margin = options.safetyMarginInMs ?? (Number.isFinite(durationInMs) ? durationInMs / 20 : 0);
  const renewEvery = options.renewIntervalInMs ?? (Number.isFinite(durationInMs) ? durationInMs / 3 : defaults.infiniteRenewEveryInMs);
  const span = Number.isFinite(durationInMs) ? durationInMs : 2 ** 31 - 1;
  if (leaseId !== undefined) checkLeaseId("leaseId", leaseId);
  if (autoRenew && renewEvery >= durationInMs - margin) {
    throw new RangeError(`renewIntervalInMs must be less than the duration without safetyMarginInMs; got ${renewEvery}`);
  }
  return {
    durationInMs,
    safetyMarginInMs: checkNumber("safetyMarginInMs", margin, { min: 0, max: span / 2 }),
    renewIntervalInMs: checkNumber("renewIntervalInMs", renewEvery, { min: 100, max: span / 2 }),
    autoRenew,
    createIfNotExists,
    leaseId,
  };
}

export function checkWait(waitInMs: number | undefined, kind: LeaseAdapter["kind"] = "blob"): number {
  return checkNumber("waitInMs", waitInMs ?? (kind === "file" ? defaults.fileWaitInMs : defaults.waitInMs), { min: 0 });
}

/** A held lock, with what a crash guard needs of it: a `LockHandle`. */
export interface CrashGuardLock {
  readonly url: string;
  /** Aborts when the lock is lost. */
  readonly signal: AbortSignal;
  readonly remainingInMs: number;
  readonly epoch: number;
  readonly previousEpoch: number;
  release(): Promise<void>;
}

/** Named locks that expire when their holder dies: a `BlobLocks`. */
export interface CrashGuard {
  acquire(name: string, options?: CallOptions & { waitInMs?: number | undefined }): Promise<CrashGuardLock>;
  tryAcquire(name: string, options?: CallOptions): Promise<CrashGuardLock | null>;
  /**
   * @internal Acquires a lease under one of these locks; undefined if it was a single attempt, and another client holds it. The
   * guard provides the code for it, so that applications without a crash guard do not load it.
   */
  acquireGuarded(request: GuardedAcquireRequest): Promise<LeaseHandle | undefined>;
}

/** A request for a lease under a lock. */
export interface GuardedAcquireRequest {
  readonly adapter: LeaseAdapter;
  readonly settings: LeaseSettings;
  readonly waitInMs: number | "try";
  readonly abortSignal: AbortSignalLike | undefined;
  readonly trace: Attempts;
  /** Parent of the requests that renew and release the lease later. */
  readonly holderTracing: OperationTracingOptions | undefined;
}

export function checkCrashGuard(guard: CrashGuard, settings: LeaseSettings): void {
  if (typeof (guard as Partial<CrashGuard>).acquireGuarded !== "function") throw new TypeError("crashGuard must be a BlobLocks");
  if (settings.durationInMs !== Infinity) {
    throw new TypeError("crashGuard is for leases that never expire: this one frees itself; leave it out, or pass durationInSeconds: Infinity");
  }
  if (settings.leaseId !== undefined) throw new TypeError("leaseId cannot be chosen with a crashGuard: the id says whose the lease is");
}
