/** Entry point with the helpers for tables, for applications that only install `@azure/data-tables`. */
export {
  AlreadyExistsError,
  CommitUnknownError,
  ConcurrencyError,
  ConflictError,
  DeadlineError,
  FencedError,
  GranularityMismatchError,
  LeaseLostError,
  LeaseUnavailableError,
  SchemaError,
  TargetNotFoundError,
  TransactionLimitError,
  WatchFailedError,
  isAlreadyExistsError,
  isCommitUnknownError,
  isConcurrencyError,
  isConflictError,
  isDeadlineError,
  isFencedError,
  isGranularityMismatchError,
  isLeaseLostError,
  isLeaseUnavailableError,
  isSchemaError,
  isTargetNotFoundError,
  isTransactionLimitError,
  isWatchFailedError,
} from "./errors.js";
export { ConcurrentTable } from "./facade/concurrent-table.js";
export type { ConcurrentTableOptions } from "./facade/concurrent-table.js";
export { FencedPartition } from "./lock/fenced-partition.js";
export type { PartitionAction } from "./lock/fenced-partition.js";
export { HeldTable } from "./lock/locked-table.js";
export { TableLock } from "./lock/table-lock.js";
export type { TableLockGranularity, TableLockKey, TableLockOptions } from "./lock/table-lock.js";
export type { WatchOptions, WatchedState } from "./read/poller.js";
export { watch } from "./read/watch.js";
export type { Watch } from "./read/watch.js";
export type { EdmType } from "./target/edm.js";
export { tableEntity } from "./target/table-entity.js";
export type { EntityValue, TableEntityOptions } from "./target/table-entity.js";
export type { ReadResult, UpdateTarget } from "./target/target.js";
export { runTransaction } from "./transaction/run-transaction.js";
export type { TransactionOptions } from "./transaction/run-transaction.js";
export { purgeTombstones } from "./transaction/tombstone-cleanup.js";
export type { PurgeTombstonesOptions } from "./transaction/tombstone-cleanup.js";
export type { EntityInput, Transaction, TransactionQuery } from "./transaction/transaction.js";
export type { TransactionResult } from "./transaction/transaction-batch.js";
export { remove } from "./update/batch.js";
export type { Mutator, MutatorContext, UpdateResult } from "./update/batch.js";
export { createIfAbsent } from "./update/create-if-not-exists.js";
export { optimisticUpdate } from "./update/optimistic-update.js";
export type { OptimisticUpdateOptions, RequestOptions, TargetConditions, TargetOptions } from "./update/options.js";
export { readTarget } from "./update/read-target.js";
export type { ReadTargetOptions } from "./update/read-target.js";
export { overwrite, removeIfUnchanged } from "./update/single-call.js";
export type { OverwriteOptions } from "./update/single-call.js";
