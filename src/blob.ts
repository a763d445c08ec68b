/** Entry point with the helpers for blobs, for applications that only install `@azure/storage-blob`. */
export { appendExactly } from "./append/append-exactly.js";
export type { AppendExactlyOptions } from "./append/append-options.js";
export type { AppendResult } from "./append/append-queue.js";
export type { NewLog } from "./append/append-state.js";
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
  WatchFailedError,
  isAppendLimitError,
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
export { ConcurrentBlob } from "./facade/concurrent-blob.js";
export type { ConcurrentBlobOptions } from "./facade/concurrent-blob.js";
export { IdAllocator } from "./ids/id-allocator.js";
export type { IdAllocatorOptions, IdCounter } from "./ids/id-allocator.js";
export { LeaseGuard, LockGuard } from "./lease/lease-guard.js";
export type { AcquireLeaseOptions, CrashGuard, CrashGuardLock, TryAcquireLeaseOptions } from "./lease/lease-options.js";
export { acquireLease, tryAcquireLease, withLease } from "./lease/with-lease.js";
export { BlobLocks } from "./lock/blob-locks.js";
export type { BlobLocksOptions, LockInfo, LockOptions, TryLockOptions } from "./lock/blob-locks.js";
export { breakLease, inspectLease } from "./lock/inspect-lease.js";
export type { BreakLeaseOptions, LeaseInfo } from "./lock/inspect-lease.js";
export { LeaderElection } from "./lock/leader-election.js";
export type { LeaderElectionOptions, Term } from "./lock/leader-election.js";
export { LockSet } from "./lock/lock-set.js";
export { Semaphore } from "./lock/semaphore.js";
export { PageWriter, claimPages } from "./page/page-writer.js";
export type { ClaimPagesOptions } from "./page/page-writer.js";
export { downloadConsistent } from "./read/download-consistent.js";
export type { ConsistentDownload } from "./read/download-consistent.js";
export { downloadConsistentStream } from "./read/download-consistent-stream.js";
export type { ConsistentStream } from "./read/download-consistent-stream.js";
export type { DownloadOptions, DownloadProgress, DownloadStreamOptions } from "./read/download-options.js";
export type { BlobVersion } from "./read/pinned-range.js";
export type { WatchOptions, WatchedState } from "./read/poller.js";
export { watch } from "./read/watch.js";
export type { Watch } from "./read/watch.js";
export { bytesBlob, jsonBlob, textBlob } from "./target/blob-content.js";
export type { BlobContentOptions, JsonBlobOptions } from "./target/blob-content.js";
export { blobHttpHeaders, blobMetadata } from "./target/blob-properties.js";
export type { BlobHttpHeadersValue } from "./target/blob-properties.js";
export { blobTags } from "./target/blob-tags.js";
export { containerAccessPolicy, containerMetadata } from "./target/container-properties.js";
export type { ContainerAccessPolicyValue, StoredAccessPolicy } from "./target/container-properties.js";
export type { GuardedTarget, ReadResult, UpdateTarget } from "./target/target.js";
export { remove } from "./update/batch.js";
export type { Mutator, MutatorContext, UpdateResult } from "./update/batch.js";
export { createIfAbsent } from "./update/create-if-not-exists.js";
export type { HeldLike, LeasedUpdateOptions, LockChoice, LocksLike } from "./update/exclusive-access.js";
export { leasedUpdate } from "./update/leased-update.js";
export { optimisticUpdate } from "./update/optimistic-update.js";
export type { OptimisticUpdateOptions, RequestOptions, TargetConditions, TargetOptions } from "./update/options.js";
export { readTarget } from "./update/read-target.js";
export type { ReadTargetOptions } from "./update/read-target.js";
export { overwrite, removeIfUnchanged } from "./update/single-call.js";
export type { OverwriteOptions } from "./update/single-call.js";
