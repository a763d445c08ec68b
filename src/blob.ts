/** What concerns blobs, for applications that have `@azure/storage-blob` alone. */
export {
  CommitUnknownError,
  ConcurrencyError,
  ConflictError,
  DeadlineError,
  LeaseLeftError,
  LeaseLostError,
  LeaseUnavailableError,
  SchemaError,
  TargetNotFoundError,
  isCommitUnknownError,
  isConcurrencyError,
  isConflictError,
  isDeadlineError,
  isLeaseLeftError,
  isLeaseLostError,
  isLeaseUnavailableError,
  isSchemaError,
  isTargetNotFoundError,
} from "./errors.js";
export { ConcurrentBlob } from "./facade/concurrent-blob.js";
export type { ConcurrentBlobOptions } from "./facade/concurrent-blob.js";
export { acquireLease, tryAcquireLease } from "./lease/acquire-lease.js";
export type { CrashGuard, CrashGuardLock } from "./lease/crash-guard.js";
export { breakLease, inspectLease } from "./lease/inspect-lease.js";
export type { BreakLeaseOptions, LeaseInfo } from "./lease/inspect-lease.js";
export { LeaseGuard } from "./lease/lease-guard.js";
export type { AcquireLeaseOptions, TryAcquireLeaseOptions } from "./lease/lease-options.js";
export { withLease } from "./lease/with-lease.js";
export { BlobLocks } from "./lock/blob-locks.js";
export type { BlobLocksOptions, LockInfo, LockOptions, TryLockOptions } from "./lock/blob-locks.js";
export { LeaderElection } from "./lock/leader-election.js";
export type { LeaderElectionOptions, Term } from "./lock/leader-election.js";
export { LockGuard } from "./lock/lock-guard.js";
export { LockSet } from "./lock/lock-set.js";
export { Semaphore } from "./lock/semaphore.js";
export { createIfAbsent } from "./update/create-if-absent.js";
export type { HeldLike, LeasedUpdateOptions, LockChoice, LocksLike } from "./update/leased-options.js";
export { leasedUpdate } from "./update/leased-update.js";
export { remove } from "./update/mutator.js";
export type { Mutator, MutatorContext } from "./update/mutator.js";
export { optimisticUpdate } from "./update/optimistic-update.js";
export type { OptimisticUpdateOptions, TargetConditions, TargetOptions } from "./update/options.js";
export { overwrite } from "./update/overwrite.js";
export type { OverwriteOptions } from "./update/overwrite.js";
export { readTarget } from "./update/read-target.js";
export type { ReadResult } from "./update/read-target.js";
export { removeIfUnchanged } from "./update/remove-if-unchanged.js";
export type { GuardedTarget, UpdateTarget } from "./update/target.js";
export { bytesBlob, jsonBlob, textBlob } from "./update/targets/blob-content.js";
export type { BlobContentOptions, JsonBlobOptions } from "./update/targets/blob-content.js";
export { blobHttpHeaders, blobMetadata } from "./update/targets/blob-properties.js";
export type { BlobHttpHeadersValue } from "./update/targets/blob-properties.js";
export { blobTags } from "./update/targets/blob-tags.js";
export { containerAccessPolicy, containerMetadata } from "./update/targets/container-properties.js";
export type { ContainerAccessPolicyValue, StoredAccessPolicy } from "./update/targets/container-properties.js";
export type { UpdateResult } from "./update/update-call.js";
