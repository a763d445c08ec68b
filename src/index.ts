export { appendExactlyOnce } from "./append/append-exactly-once.js";
export type { AppendExactlyOnceOptions } from "./append/append-options.js";
export type { AppendResult } from "./append/append-call.js";
export type { CreateAppendBlobOptions } from "./append/append-state.js";
export type { AppendBlobLike, BlockBlobLike, ContainerLike, LeasableBlobLike, PageBlobLike } from "./clients/blob.js";
export type {
  AbortSignalLike,
  AdapterRequest,
  CallOptions,
  ConflictRetryOptions,
  PurgeOptions,
  PurgeResult,
  TimedCallOptions,
  WriteOutcomeOptions,
} from "./clients/call.js";
export type { DirectoryEntryLike, DirectoryLike, FileLike, LeasableShareLike, ShareLike } from "./clients/file.js";
export type { LeasableLike } from "./clients/leasable.js";
export type { CounterLike, HistogramLike, InstrumentOptionsLike, MeterLike, MeterProviderLike, MetricAttributesLike, ObservableGaugeLike, ObservableResultLike } from "./clients/metrics.js";
export type { QueueLike } from "./clients/queue.js";
export type { SchemaIssue, SchemaResult, StandardSchemaLike } from "./clients/schema.js";
export type { EntityInput, EntityPatch, TableAction, TableLike } from "./clients/table.js";
export type { BackgroundService, StopOptions } from "./core/background-service.js";
export { reportFailuresTo } from "./core/failures.js";
export type { UnhandledFailure } from "./core/failures.js";
export { useMetrics } from "./core/metrics.js";
export type { TypedEvents } from "./core/typed-events.js";
export { logger } from "./core/telemetry.js";
export {
  AlreadyExistsError,
  CommitUnknownError,
  ConcurrencyError,
  ConflictError,
  ContentChangedError,
  ContentTooLargeError,
  FencedError,
  FileInUseError,
  IdCounterError,
  LeaseLostError,
  LeaseReleaseError,
  LeaseUnavailableError,
  LimitError,
  LockModeMismatchError,
  IdempotencyMismatchError,
  InProgressError,
  MessageLostError,
  OperationTimeoutError,
  PreconditionError,
  SchemaError,
  TargetNotFoundError,
  TargetStateError,
  WatchFailedError,
  isConcurrencyError,
} from "./errors.js";
export type { AnyConcurrencyError, ConcurrencyErrorCode, ConcurrencyErrorMap } from "./errors.js";
export { ConcurrentBlob } from "./facade/concurrent-blob.js";
export type { ConcurrentBlobOptions } from "./facade/concurrent-blob.js";
export { ConcurrentFile } from "./facade/concurrent-file.js";
export type { ConcurrentFileOptions } from "./facade/concurrent-file.js";
export { ConcurrentQueue } from "./facade/concurrent-queue.js";
export type { ConcurrentQueueOptions } from "./facade/concurrent-queue.js";
export { ConcurrentTable } from "./facade/concurrent-table.js";
export type { ConcurrentTableOptions } from "./facade/concurrent-table.js";
export type { ConcurrentLeasable, ConcurrentTarget, TargetDefaults } from "./facade/concurrent-target.js";
export type { ShardContext, WorkBalancerEvents, WorkBalancerOptions } from "./balancer/balancer-options.js";
export { WorkBalancer } from "./balancer/work-balancer.js";
export { IdAllocator } from "./ids/id-allocator.js";
export type { IdAllocatorOptions, IdCounter, IdCounterTarget } from "./ids/id-allocator.js";
export type { LeaseHandle, LockHandle, LockHandleLike } from "./lease/lease-handle.js";
export type { AcquireLeaseOptions, LockProviderLike, TryAcquireLeaseOptions } from "./lease/lease-options.js";
export { acquireLease, tryAcquireLease, withLease } from "./lease/with-lease.js";
export { BlobLocks } from "./lock/blob-locks.js";
export type { FencedPartition } from "./lock/fenced-partition.js";
export { breakLease, inspectLease } from "./lock/inspect-lease.js";
export type { BreakLeaseOptions, LeaseInfo } from "./lock/inspect-lease.js";
export { LeaderElection } from "./lock/leader-election.js";
export type { LeaderElectionEvents, LeaderElectionOptions } from "./lock/leader-election.js";
export type { LeadershipTerm } from "./lock/term.js";
export type { AcquireLockOptions, BlobLocksOptions, LockStatus, TryAcquireLockOptions } from "./lock/lock-options.js";
export type { LockSet } from "./lock/lock-set.js";
export type { LockedTable } from "./lock/locked-table.js";
export type { ObserveOptions } from "./lock/observe-lock.js";
export { ReaderWriterLock } from "./lock/reader-writer-lock.js";
export { Semaphore } from "./lock/semaphore.js";
export { TableLock } from "./lock/table-lock.js";
export type { TableLockGranularity } from "./lock/fence-row.js";
export type { TableLockKey, TableLockOptions } from "./lock/table-lock.js";
export { Once } from "./once/once.js";
export type { OnceContext, OnceOptions, OnceRecordOptions, OnceResult, OnceRunOptions, OnceState, OnceTransactionOptions } from "./once/once-options.js";
export { Outbox } from "./outbox/outbox.js";
export type { OutboxEvents, OutboxMessage, OutboxMessageOptions, OutboxOptions } from "./outbox/outbox-options.js";
export { claimPages } from "./page/page-writer.js";
export type { ClaimPagesOptions, PageWriter } from "./page/page-writer.js";
export { QueueConsumer } from "./queue/consumer.js";
export type { QueueConsumerHealth } from "./queue/consumer.js";
export type {
  CommitMessageContext,
  CommitOptions,
  CommitTransaction,
  CommitTransactionOptions,
  CommitTransactionResult,
  MessageContext,
  MessageHandler,
  MessageInfo,
  QueueConsumerEvents,
} from "./queue/context.js";
export { enqueue } from "./queue/enqueue.js";
export type { EnqueueOptions, EnqueueResult } from "./queue/enqueue.js";
export { enqueueMany } from "./queue/enqueue-many.js";
export type { EnqueueManyOptions } from "./queue/enqueue-many.js";
export type { PoisonDetails, QueueEncoding } from "./queue/envelope.js";
export { ClaimInbox } from "./queue/inbox/claim-inbox.js";
export type { ClaimInboxOptions } from "./queue/inbox/claim-inbox.js";
export type { InboxGroupInfo } from "./queue/inbox/groups.js";
export { CommitInbox } from "./queue/inbox/commit-inbox.js";
export type { CommitResult } from "./queue/inbox/commit-inbox.js";
export type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult, InboxHandOver } from "./queue/inbox/inbox.js";
export type { ClaimRecordOptions, CommitRecordOptions, InboxOptions, InboxRecordInfo } from "./queue/inbox/inbox-table.js";
export type { PurgeInboxOptions } from "./queue/inbox/purge.js";
export type { MessageProperties } from "./queue/message-properties.js";
export type { CommitConsumerOptions, QueueConsumerOptions } from "./queue/options.js";
export type { OutgoingMessage } from "./queue/outgoing.js";
export { purgeOverflow } from "./queue/overflow/purge-overflow.js";
export { redrive } from "./queue/redrive.js";
export type { RedriveOptions, RedriveResult } from "./queue/redrive.js";
export { downloadConsistent } from "./read/download-consistent.js";
export type { ConsistentDownload } from "./read/download-consistent.js";
export { downloadConsistentStream } from "./read/download-consistent-stream.js";
export type { DownloadOptions, DownloadProgress, DownloadStreamOptions } from "./read/download-options.js";
export type { WatchOptions, WatchState } from "./read/poller.js";
export { watch } from "./read/watch.js";
export type { Watch } from "./read/watch.js";
export { Schedule } from "./schedule/schedule.js";
export type { JobContext, JobStatus, JobTrigger, ScheduledJob, ScheduledRun, ScheduleEvents, ScheduleOptions, TriggerOptions } from "./schedule/schedule-options.js";
export { bytesBlob, encodedBlob, jsonBlob, textBlob } from "./target/blob-content.js";
export type { BlobContentOptions, JsonBlobOptions } from "./target/blob-content.js";
export { blobHttpHeaders, blobMetadata } from "./target/blob-properties.js";
export { blobTags } from "./target/blob-tags.js";
export type { Codec } from "./target/codec.js";
export { containerAccessPolicy, containerMetadata } from "./target/container-properties.js";
export type { ContainerAccessPolicy, StoredAccessPolicy } from "./target/container-properties.js";
export { defineTarget } from "./target/define-target.js";
export type { StoredValue, TargetAdapter } from "./target/define-target.js";
export type { EdmType } from "./target/edm.js";
export { bytesFile, encodedFile, jsonFile, textFile } from "./target/file-content.js";
export type { FileContentOptions, JsonFileOptions } from "./target/file-content.js";
export { fileHttpHeaders, fileMetadata } from "./target/file-properties.js";
export type { HttpHeaders } from "./target/property-set.js";
export { excludeLibraryRows, isLibraryRow } from "./target/library-rows.js";
export { queueMetadata } from "./target/queue-metadata.js";
export { shareMetadata } from "./target/share-metadata.js";
export { tableEntity } from "./target/table-entity.js";
export type { Entity, EntityKey, EntityKeyLike, PropertiesOf, TableEntityOptions } from "./target/table-entity.js";
export type { AnyInput, LeasedTarget, ReadResult, Target, UpdateTarget } from "./target/target.js";
export { listEntities } from "./transaction/list-entities.js";
export type { ListEntitiesOptions } from "./transaction/list-entities.js";
export { runTransaction } from "./transaction/run-transaction.js";
export type { RunTransactionOptions } from "./transaction/run-transaction.js";
export { purgeTombstones } from "./transaction/tombstone-cleanup.js";
export type { PurgeTombstonesOptions } from "./transaction/tombstone-cleanup.js";
export type { Transaction, TransactionQuery, TransactionReadOptions } from "./transaction/transaction.js";
export { DELETE } from "./update/mutator.js";
export type { Mutator, MutatorContext, MutatorResult, ReadonlyValue, UpdateResult } from "./update/mutator.js";
export { createIfNotExists } from "./update/create-if-not-exists.js";
export type { LeasedUpdateOptions, NamedLockRef } from "./update/exclusive-access.js";
export { leasedUpdate } from "./update/leased-update.js";
export { optimisticUpdate } from "./update/optimistic-update.js";
export type { LeaseCondition, OptimisticUpdateOptions, TargetOptions } from "./update/options.js";
export { purgeStagingFiles } from "./update/purge-staging-files.js";
export type { PurgeStagingFilesOptions } from "./update/purge-staging-files.js";
export { readIfChanged, readTarget, tryReadTarget } from "./update/read-target.js";
export type { ReadIfChangedResult } from "./update/read-target.js";
export { retryWhileInUse } from "./update/retry-while-in-use.js";
export type { RetryContext, RetryWhileInUseOptions } from "./update/retry-while-in-use.js";
export { deleteIfUnchanged } from "./update/delete-if-unchanged.js";
export type { DeleteTargetOptions } from "./update/delete-if-unchanged.js";
export { overwrite } from "./update/overwrite.js";
export type { WriteTargetOptions } from "./update/overwrite.js";
export { resolveOutcome } from "./update/resolve-outcome.js";
