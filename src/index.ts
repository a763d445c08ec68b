export {
  CommitUnknownError,
  ConcurrencyError,
  ConflictError,
  DeadlineError,
  LeaseUnavailableError,
  MessageLostError,
  SchemaError,
  TargetNotFoundError,
  isCommitUnknownError,
  isConcurrencyError,
  isConflictError,
  isDeadlineError,
  isLeaseUnavailableError,
  isMessageLostError,
  isSchemaError,
  isTargetNotFoundError,
} from "./errors.js";
export type {
  AbortSignalLike,
  BlobAnswerLike,
  BlobCallOptions,
  BlobConditions,
  BlobDownloadLike,
  BlobHttpHeadersLike,
  BlobLike,
  BlobPropertiesLike,
  BlobUploadOptions,
  BlockBlobLike,
  CallOptions,
  InboxTableAction,
  InboxTableLike,
  QueueCallOptions,
  QueueLike,
  QueueMessageLike,
  SchemaIssue,
  SchemaOutcome,
  StandardSchemaLike,
  TableCallOptions,
  TableEntityLike,
  TableLike,
} from "./clients.js";
export { ConcurrentBlob } from "./facade/concurrent-blob.js";
export type { ConcurrentBlobOptions } from "./facade/concurrent-blob.js";
export { ConcurrentTable } from "./facade/concurrent-table.js";
export type { ConcurrentTableOptions } from "./facade/concurrent-table.js";
export { ConcurrentQueue } from "./facade/concurrent-queue.js";
export type { ConcurrentQueueOptions } from "./facade/concurrent-queue.js";
export { logger } from "./internal/log.js";
export type { EdmType } from "./table/edm.js";
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
export { createIfAbsent } from "./update/create-if-absent.js";
export { remove } from "./update/mutator.js";
export type { Mutator, MutatorContext } from "./update/mutator.js";
export { optimisticUpdate } from "./update/optimistic-update.js";
export type { OptimisticUpdateOptions, TargetConditions, TargetOptions } from "./update/options.js";
export { overwrite } from "./update/overwrite.js";
export type { OverwriteOptions } from "./update/overwrite.js";
export { readTarget } from "./update/read-target.js";
export type { ReadResult } from "./update/read-target.js";
export { removeIfUnchanged } from "./update/remove-if-unchanged.js";
export type { UpdateTarget } from "./update/target.js";
export { bytesBlob, jsonBlob, textBlob } from "./update/targets/blob-content.js";
export type { BlobContentOptions, JsonBlobOptions } from "./update/targets/blob-content.js";
export { blobHttpHeaders, blobMetadata } from "./update/targets/blob-properties.js";
export type { BlobHttpHeadersValue } from "./update/targets/blob-properties.js";
export { blobTags } from "./update/targets/blob-tags.js";
export { tableEntity } from "./update/targets/table-entity.js";
export type { EntityValue, TableEntityOptions } from "./update/targets/table-entity.js";
export type { UpdateResult } from "./update/update-call.js";
