import type { CallOptions } from "../clients/call.js";
import type { OptionNames } from "../core/validate.js";
import type { TryAcquireLeaseOptions } from "../lease/lease-options.js";
import type { LeaseInfo } from "./inspect-lease.js";

/** Options of `tryAcquire` of locks, for example {@link BlobLocks.tryAcquire}. */
export interface TryAcquireLockOptions extends Omit<TryAcquireLeaseOptions, "createIfNotExists" | "crashGuard" | "leaseId"> {
  /**
   * A short text that `inspect` and `list` show, for example what the holder is doing; at most 1,024 characters when percent-encoded.
   * Costs up to 2 requests more if it differs from that of the holder before. Callers with different data do not hand the lock
   * over to each other within a process.
   * @defaultValue none: the name of the holder says who it is
   */
  data?: string | undefined;
  /**
   * The lock counts as lost after this time, renewed or not: a bound for work that hangs. It is then released, so that others need
   * not wait for its expiry. Each holder has its own time, also if the lock is handed over within the process.
   * @defaultValue Infinity: the lock is held as long as the work takes
   */
  maxHoldInMs?: number | undefined;
}

/** Options of `acquire` and `with…` of locks, for example {@link BlobLocks.withLock}. */
export interface AcquireLockOptions extends TryAcquireLockOptions {
  /**
   * How long to wait for a lock that another holder has, before a `LeaseUnavailableError`. 0 means one attempt.
   * @defaultValue Infinity: a dead holder's lock expires, so the wait ends
   */
  waitInMs?: number | undefined;
}

/** Options of {@link BlobLocks}. */
export interface BlobLocksOptions {
  /**
   * The prefix of the locks' blobs in the container.
   * @defaultValue "locks/": the container may have other blobs, too
   */
  prefix?: string | undefined;
  /**
   * Identifies the holder of the locks of this object, for operators who inspect them.
   * @defaultValue host name, process id and a random id: unique, and readable in a log
   */
  holder?: string | undefined;
  /**
   * First come, first served, over all processes: each caller draws a ticket, and the tickets are served in their order. All
   * users of a lock must agree; the first one records it with the lock.
   * @defaultValue false: a lock that no other process waits for costs half the requests
   */
  fair?: boolean | undefined;
  /**
   * Options of every call, unless the call has its own.
   * @defaultValue none: each option has the default that is described there
   */
  defaults?: Omit<AcquireLockOptions, keyof CallOptions> | undefined;
}

/** A named lock, held or not. See {@link BlobLocks.inspect}. */
export interface LockStatus extends LeaseInfo {
  /** The name of the lock. */
  readonly name: string;
  /** Whether its users are served in the order in which they came, over all processes. See {@link BlobLocksOptions.fair}. */
  readonly fair: boolean;
  /** The text that the process which acquired it last gave with the option `data`. As `holder`, it stays after the release. */
  readonly data: string | undefined;
}

/** The options of a lock that can be set for all calls: all but those of a single call. */
export type LockDefaults = Omit<AcquireLockOptions, keyof CallOptions>;

export const tryAcquireLockOptionNames: OptionNames<TryAcquireLockOptions> = {
  durationInSeconds: 1,
  autoRenew: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
  data: 1,
  maxHoldInMs: 1,
  abortSignal: 1,
  tracingOptions: 1,
};
export const acquireLockOptionNames: OptionNames<AcquireLockOptions> = {
  durationInSeconds: 1,
  autoRenew: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
  data: 1,
  maxHoldInMs: 1,
  waitInMs: 1,
  abortSignal: 1,
  tracingOptions: 1,
};
export const lockDefaultNames: OptionNames<LockDefaults> = {
  durationInSeconds: 1,
  autoRenew: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
  data: 1,
  maxHoldInMs: 1,
  waitInMs: 1,
};
export const callOptionNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };
export const blobLocksOptionNames: OptionNames<BlobLocksOptions> = { prefix: 1, holder: 1, fair: 1, defaults: 1 };
