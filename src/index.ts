export {
  AlreadyExistsError,
  AppendLimitError,
  CommitUnknownError,
  ConcurrencyError,
  ConflictError,
  ContentChangedError,
  ContentTooLargeError,
  DeadlineError,
  FileInUseError,
  FencedError,
  GranularityMismatchError,
  IdCounterError,
  LeaseLeftError,
  LeaseLostError,
  LeaseUnavailableError,
  MessageLostError,
  SchemaError,
  TargetNotFoundError,
  TransactionLimitError,
  WatchFailedError,
  isAlreadyExistsError,
  isAppendLimitError,
  isCommitUnknownError,
  isConcurrencyError,
  isConflictError,
  isContentChangedError,
  isContentTooLargeError,
  isDeadlineError,
  isFileInUseError,
  isFencedError,
  isGranularityMismatchError,
  isIdCounterError,
  isLeaseLeftError,
  isLeaseLostError,
  isLeaseUnavailableError,
  isMessageLostError,
  isSchemaError,
  isTargetNotFoundError,
  isTransactionLimitError,
  isWatchFailedError,
} from "./errors.js";
export type { LeaseLossReason } from "./errors.js";
export type {
  AbortSignalLike,
  AppendBlobLike,
  AppendBlobPropertiesLike,
  AppendBlockOptions,
  BlobAnswerLike,
  BlobCallOptions,
  BlobConditions,
  BlobDownloadLike,
  BlobHttpHeadersLike,
  BlobLeasableLike,
  BlobLike,
  BlobPropertiesLike,
  BlobUploadOptions,
  BlockBlobLike,
  CallOptions,
  ContainerLike,
  DownloadableLike,
  FileAnswerLike,
  FileCallOptions,
  FileCreateOptions,
  FileDownloadLike,
  FileHttpHeadersLike,
  FileLike,
  FileRenameOptions,
  QueueMetadataLike,
  ShareLike,
  SignedIdentifierLike,
  FileLeasableLike,
  LeasableLike,
  LeaseAnswerLike,
  LeaseCallOptions,
  LeaseClientLike,
  LeasePropertiesLike,
  ShareLeasableLike,
  ShareLeaseCallOptions,
  ShareLeaseClientLike,
  LockContainerLike,
  InboxTableAction,
  InboxTableLike,
  PageBlobLike,
  PageWriteOptions,
  QueueCallOptions,
  QueueLike,
  QueueMessageLike,
  SchemaIssue,
  SchemaOutcome,
  StandardSchemaLike,
  TableCallOptions,
  TableEntityLike,
  TableLike,
  TransactionActionLike,
  TransactionTableLike,
} from "./clients.js";
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
export { ConcurrentTable } from "./facade/concurrent-table.js";
export type { ConcurrentTableOptions } from "./facade/concurrent-table.js";
export { ConcurrentFile } from "./facade/concurrent-file.js";
export type { ConcurrentFileOptions } from "./facade/concurrent-file.js";
export { bytesFile, jsonFile, textFile } from "./file/file-content.js";
export type { FileContentOptions, JsonFileOptions } from "./file/file-content.js";
export { fileHttpHeaders, fileMetadata } from "./file/file-properties.js";
export { shareMetadata } from "./file/share-metadata.js";
export { retryWhileInUse } from "./file/retry-while-in-use.js";
export type { InUseAttempt, RetryWhileInUseOptions } from "./file/retry-while-in-use.js";
export { ConcurrentQueue } from "./facade/concurrent-queue.js";
export type { ConcurrentQueueOptions } from "./facade/concurrent-queue.js";
export { logger } from "./internal/log.js";
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
export { FencedPartition } from "./lock/fenced-partition.js";
export type { PartitionAction } from "./lock/fenced-partition.js";
export { HeldTable } from "./lock/held-table.js";
export { TableLock } from "./lock/table-lock.js";
export type { TableLockGranularity, TableLockKey, TableLockOptions } from "./lock/table-lock.js";
export { Semaphore } from "./lock/semaphore.js";
export type { EdmType } from "./table/edm.js";
export { purgeTombstones } from "./transaction/purge.js";
export type { PurgeTombstonesOptions } from "./transaction/purge.js";
export { runTransaction } from "./transaction/run-transaction.js";
export type { TransactionOptions } from "./transaction/run-transaction.js";
export type { TransactionResult } from "./transaction/transaction-call.js";
export type { EntityInput, Transaction, TransactionQuery } from "./transaction/transaction.js";
export type { Clock } from "./queue/clock.js";
export { QueueConsumer } from "./queue/consumer.js";
export type { QueueConsumerHealth } from "./queue/consumer.js";
export type { MessageContext, MessageHandler } from "./queue/context.js";
export type { QueueEncoding } from "./queue/encoding.js";
export { enqueue } from "./queue/enqueue.js";
export type { EnqueueOptions, EnqueueResult } from "./queue/enqueue.js";
export type { PoisonFacts } from "./queue/envelope.js";
export type { MessageInfo, QueueConsumerEvents } from "./queue/events.js";
export type { Inbox, InboxClaim, InboxDelivery, InboxVerdict } from "./queue/inbox/inbox.js";
export { MemoryInbox } from "./queue/inbox/memory-inbox.js";
export { TableInbox } from "./queue/inbox/table-inbox.js";
export type { PurgeOptions, TableInboxOptions } from "./queue/inbox/table-inbox.js";
export type { Renewal } from "./queue/keep-alive.js";
export type { MessageFacts, QueueConsumerOptions } from "./queue/options.js";
export { redrive } from "./queue/redrive.js";
export type { RedriveOptions, RedriveResult } from "./queue/redrive.js";
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
export type { HttpHeadersValue } from "./update/targets/property-set.js";
export { queueMetadata } from "./update/targets/queue-metadata.js";
export { tableEntity } from "./update/targets/table-entity.js";
export type { EntityValue, TableEntityOptions } from "./update/targets/table-entity.js";
export type { UpdateResult } from "./update/update-call.js";
