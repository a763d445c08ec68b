/** What concerns files, for applications that have `@azure/storage-file-share` alone. */
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
export { bytesFile, jsonFile, textFile } from "./target/file-content.js";
export type { FileContentOptions, JsonFileOptions } from "./target/file-content.js";
export { fileHttpHeaders, fileMetadata } from "./target/file-properties.js";
export { retryWhileInUse } from "./update/retry-while-in-use.js";
export type { InUseAttempt, RetryWhileInUseOptions } from "./update/retry-while-in-use.js";
export { shareMetadata } from "./target/share-metadata.js";
export { acquireLease, tryAcquireLease } from "./lease/with-lease.js";
export type { CrashGuard, CrashGuardLock } from "./lease/lease-options.js";
export { breakLease, inspectLease } from "./lock/inspect-lease.js";
export type { BreakLeaseOptions, LeaseInfo } from "./lock/inspect-lease.js";
export { LeaseGuard } from "./lease/lease-guard.js";
export type { AcquireLeaseOptions, TryAcquireLeaseOptions } from "./lease/lease-options.js";
export { withLease } from "./lease/with-lease.js";
export { createIfAbsent } from "./update/create-if-not-exists.js";
export type { HeldLike, LeasedUpdateOptions, LockChoice, LocksLike } from "./update/exclusive-access.js";
export { leasedUpdate } from "./update/leased-update.js";
export { remove } from "./update/batch.js";
export type { Mutator, MutatorContext } from "./update/batch.js";
export type { TargetConditions, TargetOptions } from "./update/options.js";
export { overwrite } from "./update/single-call.js";
export type { OverwriteOptions } from "./update/single-call.js";
export { readTarget } from "./update/read-target.js";
export type { ReadResult } from "./target/target.js";
export type { GuardedTarget } from "./target/target.js";
export type { HttpHeadersValue } from "./target/property-set.js";
export type { UpdateResult } from "./update/batch.js";
