/** What concerns tables, for applications that have `@azure/data-tables` alone. */
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
export { HeldTable } from "./lock/held-table.js";
export { TableLock } from "./lock/table-lock.js";
export type { TableLockGranularity, TableLockKey, TableLockOptions } from "./lock/table-lock.js";
export type { EdmType } from "./table/edm.js";
export { purgeTombstones } from "./transaction/purge.js";
export type { PurgeTombstonesOptions } from "./transaction/purge.js";
export { runTransaction } from "./transaction/run-transaction.js";
export type { TransactionOptions } from "./transaction/run-transaction.js";
export type { TransactionResult } from "./transaction/transaction-call.js";
export type { EntityInput, Transaction, TransactionQuery } from "./transaction/transaction.js";
export type { WatchedState } from "./read/observer.js";
export { watch } from "./read/watch.js";
export type { Watch } from "./read/watch.js";
export type { WatchOptions } from "./read/watch-options.js";
export { createIfAbsent } from "./update/create-if-absent.js";
export { remove } from "./update/mutator.js";
export type { Mutator, MutatorContext } from "./update/mutator.js";
export { optimisticUpdate } from "./update/optimistic-update.js";
export type { OptimisticUpdateOptions, RequestOptions, TargetConditions, TargetOptions } from "./update/options.js";
export { overwrite } from "./update/overwrite.js";
export type { OverwriteOptions } from "./update/overwrite.js";
export { readTarget } from "./update/read-target.js";
export type { ReadResult, ReadTargetOptions } from "./update/read-target.js";
export { removeIfUnchanged } from "./update/remove-if-unchanged.js";
export type { UpdateTarget } from "./update/target.js";
export { tableEntity } from "./update/targets/table-entity.js";
export type { EntityValue, TableEntityOptions } from "./update/targets/table-entity.js";
export type { UpdateResult } from "./update/update-call.js";
