/** Entry point with the helpers for files, for applications that only install `@azure/storage-file-share`. */
export {
  CommitUnknownError,
  ConcurrencyError,
  ConflictError,
  DeadlineError,
  FileInUseError,
  LeaseLeftError,
  LeaseLostError,
  LeaseUnavailableError,
  SchemaError,
  TargetNotFoundError,
  isCommitUnknownError,
  isConcurrencyError,
  isConflictError,
  isDeadlineError,
  isFileInUseError,
  isLeaseLeftError,
  isLeaseLostError,
  isLeaseUnavailableError,
  isSchemaError,
  isTargetNotFoundError,
} from "./errors.js";
export { ConcurrentFile } from "./facade/concurrent-file.js";
export type { ConcurrentFileOptions } from "./facade/concurrent-file.js";
export { LeaseGuard } from "./lease/lease-guard.js";
export type { AcquireLeaseOptions, CrashGuard, CrashGuardLock, TryAcquireLeaseOptions } from "./lease/lease-options.js";
export { acquireLease, tryAcquireLease, withLease } from "./lease/with-lease.js";
export { breakLease, inspectLease } from "./lock/inspect-lease.js";
export type { BreakLeaseOptions, LeaseInfo } from "./lock/inspect-lease.js";
export { bytesFile, jsonFile, textFile } from "./target/file-content.js";
export type { FileContentOptions, JsonFileOptions } from "./target/file-content.js";
export { fileHttpHeaders, fileMetadata } from "./target/file-properties.js";
export type { HttpHeadersValue } from "./target/property-set.js";
export { shareMetadata } from "./target/share-metadata.js";
export type { GuardedTarget, ReadResult } from "./target/target.js";
export { remove } from "./update/batch.js";
export type { Mutator, MutatorContext, UpdateResult } from "./update/batch.js";
export { createIfAbsent } from "./update/create-if-not-exists.js";
export type { HeldLike, LeasedUpdateOptions, LockChoice, LocksLike } from "./update/exclusive-access.js";
export { leasedUpdate } from "./update/leased-update.js";
export type { TargetConditions, TargetOptions } from "./update/options.js";
export { readTarget } from "./update/read-target.js";
export { retryWhileInUse } from "./update/retry-while-in-use.js";
export type { InUseAttempt, RetryWhileInUseOptions } from "./update/retry-while-in-use.js";
export { overwrite } from "./update/single-call.js";
export type { OverwriteOptions } from "./update/single-call.js";
