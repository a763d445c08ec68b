import type { TableLike } from "../clients/table.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import { TableLock } from "../lock/table-lock.js";
import type { TableLockGranularity } from "../lock/table-lock.js";
import type { WatchOptions } from "../read/poller.js";
import { watch } from "../read/watch.js";
import type { Watch } from "../read/watch.js";
import type { EdmType } from "../target/edm.js";
import { tableEntity } from "../target/table-entity.js";
import type { Entity } from "../target/table-entity.js";
import type { ReadResult, UpdateTarget } from "../target/target.js";
import { runTransaction } from "../transaction/run-transaction.js";
import type { RunTransactionOptions } from "../transaction/run-transaction.js";
import { purgeTombstones } from "../transaction/tombstone-cleanup.js";
import type { PurgeTombstonesOptions } from "../transaction/tombstone-cleanup.js";
import type { Transaction } from "../transaction/transaction.js";
import type { TransactionResult } from "../transaction/transaction-batch.js";
import type { Mutator, UpdateResult } from "../update/batch.js";
import { createIfNotExists } from "../update/create-if-not-exists.js";
import { optimisticUpdate } from "../update/optimistic-update.js";
import type { OptimisticUpdateOptions, TargetOptions } from "../update/options.js";
import { readTarget } from "../update/read-target.js";
import type { ReadTargetOptions } from "../update/read-target.js";
import { overwrite, deleteIfUnchanged } from "../update/single-call.js";
import type { WriteTargetOptions } from "../update/single-call.js";

/** Options of {@link ConcurrentTable}. */
export interface ConcurrentTableOptions {
  /** Stores the locks: needed for `withLock`. */
  locks?: BlobLocks | undefined;
  /** See {@link TableLock}. @defaultValue "table" */
  granularity?: TableLockGranularity | undefined;
  /** See {@link tableEntity}. */
  types?: Readonly<Record<string, EdmType>> | undefined;
  /** Options of every call, unless the call has its own. */
  defaults?: Omit<OptimisticUpdateOptions<never>, "initial" | "startFrom"> | undefined;
}

/** All helpers for the entities of one table. `T` is their common type. */
export class ConcurrentTable<T extends object = Record<string, unknown>> {
  readonly client: TableLike;
  readonly #options: ConcurrentTableOptions;
  readonly #lock: TableLock<TableLockGranularity> | undefined;

  constructor(client: TableLike, options: ConcurrentTableOptions = {}) {
    this.client = client;
    this.#options = { ...options };
    this.#lock = options.locks && new TableLock(client, options.locks, { granularity: options.granularity });
  }

  /** See {@link runTransaction}. */
  runTransaction<R>(partitionKey: string, fn: (tx: Transaction) => Promise<R> | R, options?: RunTransactionOptions): Promise<TransactionResult<R>> {
    return runTransaction(this.client, partitionKey, fn, { types: this.#options.types, ...this.#options.defaults, ...options });
  }

  /** See {@link purgeTombstones}. */
  purgeTombstones(options?: PurgeTombstonesOptions): Promise<number> {
    return purgeTombstones(this.client, options);
  }

  /** See {@link TableLock.withLock}. */
  get withLock(): TableLock<TableLockGranularity>["withLock"] {
    if (!this.#lock) throw new TypeError("withLock needs locks: new ConcurrentTable(client, { locks: new BlobLocks(container) })");
    const withLock: TableLock<TableLockGranularity>["withLock"] = this.#lock.withLock.bind(this.#lock);
    return withLock;
  }

  /** See {@link optimisticUpdate}. */
  update<E extends object = T>(
    partitionKey: string,
    rowKey: string,
    mutator: Mutator<Entity<E>>,
    options?: Omit<OptimisticUpdateOptions<Entity<E>>, "initial"> & { initial?: E | (() => E) | undefined },
  ): Promise<UpdateResult<Entity<E>>> {
    return optimisticUpdate(this.#entity<E>(partitionKey, rowKey), mutator, {
      ...this.#options.defaults,
      ...(options as OptimisticUpdateOptions<Entity<E>> | undefined),
    });
  }

  /** See {@link readTarget}. */
  read<E extends object = T>(
    partitionKey: string,
    rowKey: string,
    options?: ReadTargetOptions & { ifChangedSince?: undefined },
  ): Promise<ReadResult<Entity<E>>>;
  read<E extends object = T>(
    partitionKey: string,
    rowKey: string,
    options: ReadTargetOptions,
  ): Promise<ReadResult<Entity<E>> | "unchanged">;
  read<E extends object = T>(
    partitionKey: string,
    rowKey: string,
    options: ReadTargetOptions = {},
  ): Promise<ReadResult<Entity<E>> | "unchanged"> {
    return readTarget(this.#entity<E>(partitionKey, rowKey), { ...this.#options.defaults, ...options });
  }

  /** See {@link watch}. */
  watch<E extends object = T>(partitionKey: string, rowKey: string, options?: WatchOptions): Watch<Entity<E>> {
    return watch(this.#entity<E>(partitionKey, rowKey), { ...this.#options.defaults, ...options });
  }

  /** See {@link createIfNotExists}. */
  createIfNotExists<E extends object = T>(
    partitionKey: string,
    rowKey: string,
    value: E,
    options?: TargetOptions,
  ): Promise<UpdateResult<Entity<E>>> {
    return createIfNotExists(this.#entity<E>(partitionKey, rowKey), { ...value, partitionKey, rowKey }, { ...this.#options.defaults, ...options });
  }

  /** See {@link overwrite}. */
  overwrite(partitionKey: string, rowKey: string, value: T, options?: WriteTargetOptions): Promise<{ etag: string }> {
    return overwrite(this.#entity<T>(partitionKey, rowKey), { ...value, partitionKey, rowKey }, { ...this.#options.defaults, ...options });
  }

  /** See {@link deleteIfUnchanged}. */
  deleteIfUnchanged(partitionKey: string, rowKey: string, etag: string, options?: WriteTargetOptions): Promise<void> {
    return deleteIfUnchanged(this.#entity(partitionKey, rowKey), etag, { ...this.#options.defaults, ...options });
  }

  #entity<E extends object>(partitionKey: string, rowKey: string): UpdateTarget<Entity<E>> {
    return tableEntity<E>(this.client, partitionKey, rowKey, { types: this.#options.types });
  }
}
