/** What concerns files, for applications that have `@azure/storage-file-share` alone. */
export {
  ConcurrencyError,
  FileInUseError,
  LeaseLeftError,
  LeaseLostError,
  LeaseUnavailableError,
  TargetNotFoundError,
  isConcurrencyError,
  isFileInUseError,
  isLeaseLeftError,
  isLeaseLostError,
  isLeaseUnavailableError,
  isTargetNotFoundError,
} from "./errors.js";
export { retryWhileInUse } from "./file/retry-while-in-use.js";
export type { InUseAttempt, RetryWhileInUseOptions } from "./file/retry-while-in-use.js";
export { acquireLease, tryAcquireLease } from "./lease/acquire-lease.js";
export type { CrashGuard, CrashGuardLock } from "./lease/crash-guard.js";
export { breakLease, inspectLease } from "./lease/inspect-lease.js";
export type { BreakLeaseOptions, LeaseInfo } from "./lease/inspect-lease.js";
export { LeaseGuard } from "./lease/lease-guard.js";
export type { AcquireLeaseOptions, TryAcquireLeaseOptions } from "./lease/lease-options.js";
export { withLease } from "./lease/with-lease.js";
