/** What concerns blobs, for applications that have `@azure/storage-blob` alone. */
export {
  AppendLimitError,
  CommitUnknownError,
  ConcurrencyError,
  ConflictError,
  ContentChangedError,
  ContentTooLargeError,
  DeadlineError,
  FencedError,
  IdCounterError,
  LeaseLeftError,
  LeaseLostError,
  LeaseUnavailableError,
  SchemaError,
  TargetNotFoundError,
  isAppendLimitError,
  WatchFailedError,
  isCommitUnknownError,
  isConcurrencyError,
  isConflictError,
  isContentChangedError,
  isContentTooLargeError,
  isDeadlineError,
  isFencedError,
  isIdCounterError,
  isLeaseLeftError,
  isLeaseLostError,
  isLeaseUnavailableError,
  isSchemaError,
  isTargetNotFoundError,
  isWatchFailedError,
} from "./errors.js";
export { appendExactly } from "./append/append-exactly.js";
export type { AppendResult } from "./append/append-call.js";
export type { AppendExactlyOptions } from "./append/append-options.js";
export type { NewLog } from "./append/log-state.js";
export { IdAllocator } from "./ids/id-allocator.js";
export type { IdAllocatorOptions, IdCounter } from "./ids/id-allocator.js";
export { claimPages } from "./page/claim-pages.js";
export type { ClaimPagesOptions } from "./page/claim-pages.js";
export { PageWriter } from "./page/page-writer.js";
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
export { downloadConsistent } from "./read/download-consistent.js";
export type { ConsistentDownload } from "./read/download-consistent.js";
export { downloadConsistentStream } from "./read/download-consistent-stream.js";
export type { ConsistentStream } from "./read/download-consistent-stream.js";
export type { BlobVersion } from "./read/blob-version.js";
export type { DownloadOptions, DownloadProgress, DownloadStreamOptions } from "./read/download-options.js";
export type { WatchedState } from "./read/observer.js";
export { watch } from "./read/watch.js";
export type { Watch } from "./read/watch.js";
export type { WatchOptions } from "./read/watch-options.js";
export { createIfAbsent } from "./update/create-if-absent.js";
export type { HeldLike, LeasedUpdateOptions, LockChoice, LocksLike } from "./update/leased-options.js";
export { leasedUpdate } from "./update/leased-update.js";
export { remove } from "./update/mutator.js";
export type { Mutator, MutatorContext } from "./update/mutator.js";
export { optimisticUpdate } from "./update/optimistic-update.js";
export type { OptimisticUpdateOptions, RequestOptions, TargetConditions, TargetOptions } from "./update/options.js";
export { overwrite } from "./update/overwrite.js";
export type { OverwriteOptions } from "./update/overwrite.js";
export { readTarget } from "./update/read-target.js";
export type { ReadResult, ReadTargetOptions } from "./update/read-target.js";
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
