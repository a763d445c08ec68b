import type { PurgeResult } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { checkOptions, mergeDefined, omitOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import { TableLock } from "../lock/table-lock.js";
import type { TableLockGranularity } from "../lock/fence-row.js";
import { Once } from "../once/once.js";
import type { OnceOptions } from "../once/once-options.js";
import { Outbox } from "../outbox/outbox.js";
import type { OutboxOptions } from "../outbox/outbox-options.js";
import { Schedule } from "../schedule/schedule.js";
import type { ScheduledJob, ScheduleOptions } from "../schedule/schedule-options.js";
import { tableEntity } from "../target/table-entity.js";
import type { Entity, EntityKeyLike, TableEntityOptions } from "../target/table-entity.js";
import { requireClient } from "../target/target.js";
import { listEntities } from "../transaction/list-entities.js";
import type { ListEntitiesOptions } from "../transaction/list-entities.js";
import { runTransaction } from "../transaction/run-transaction.js";
import type { RunTransactionOptions } from "../transaction/run-transaction.js";
import { purgeTombstones } from "../transaction/tombstone-cleanup.js";
import type { PurgeTombstonesOptions } from "../transaction/tombstone-cleanup.js";
import type { Transaction } from "../transaction/transaction.js";
import type { Mutator, UpdateResult } from "../update/mutator.js";
import type { OptimisticUpdateOptions } from "../update/options.js";
import { checkDefaults, TargetFacade } from "./concurrent-target.js";
import type { ConcurrentTarget, TargetDefaults } from "./concurrent-target.js";

/** Options of {@link ConcurrentTable}. */
export interface ConcurrentTableOptions<G extends TableLockGranularity = "table"> extends TableEntityOptions {
  /** Stores the locks. @defaultValue none: `lock` cannot be used */
  locks?: BlobLocks | undefined;
  /** What one lock covers, the same for all users of the table. See {@link TableLock}. @defaultValue "table": it excludes every other holder */
  granularity?: G | undefined;
  /** Options of every call that knows them, unless the call has its own. @defaultValue none */
  defaults?: Omit<TargetDefaults<never>, "initial" | "conditions"> | undefined;
}

const optionNames: OptionNames<ConcurrentTableOptions> = { types: 1, locks: 1, granularity: 1, defaults: 1 };

/**
 * All helpers for the entities of one table in one class. `T` is their common type.
 *
 * @example
 * ```ts
 * const orders = new ConcurrentTable<{ total: number }>(table, { locks });
 * await orders.entity("eu", "42").update((draft) => { draft.total++; }, { initial: { total: 0 } });
 * await orders.lock.withLock(async (locked) => recalculate(await locked.partition("eu")));
 * ```
 */
export class ConcurrentTable<T extends object = Record<string, unknown>, G extends TableLockGranularity = "table"> {
  readonly #client: TableLike;
  readonly #options: ConcurrentTableOptions<G>;
  readonly #lock: TableLock<G> | undefined;

  /**
   * Checks the client and the options. Sends no request.
   * @throws `TypeError` or `RangeError` if `client` is not a table client, or an option is wrong.
   */
  constructor(client: TableLike, options: ConcurrentTableOptions<G> = {}) {
    requireClient("ConcurrentTable", client, "a TableClient", ["submitTransaction", "getEntity"]);
    checkOptions<ConcurrentTableOptions<TableLockGranularity>>("ConcurrentTable", options, optionNames);
    checkDefaults("ConcurrentTable", options.defaults ?? {});
    this.#client = client;
    this.#options = { ...options };
    this.#lock = options.locks && new TableLock<G>(client, options.locks, { granularity: options.granularity });
  }

  /** The client that was passed in. Not enumerable: it holds credentials, which must not be printed with the facade. */
  get client(): TableLike {
    return this.#client;
  }

  /**
   * The lock of the table, its partitions or its entities. See {@link TableLock}.
   * @throws `TypeError` if the option `locks` is not set.
   */
  get lock(): TableLock<G> {
    if (!this.#lock) throw new TypeError("ConcurrentTable.lock needs locks: new ConcurrentTable(client, { locks: new BlobLocks(container) }).");
    return this.#lock;
  }

  /**
   * One entity, by its keys. `E` is its type, for tables with several kinds. See {@link tableEntity}.
   * @throws `TypeError` or `RangeError` if a key cannot be stored.
   */
  entity<E extends object = T>(partitionKey: string, rowKey: string): ConcurrentTarget<Entity<E>, E>;
  /**
   * One entity, by an entity that was read before. Only its keys are used. See {@link tableEntity}.
   * @throws `TypeError` or `RangeError` if a key is missing or cannot be stored.
   */
  entity<E extends object = T>(key: EntityKeyLike): ConcurrentTarget<Entity<E>, E>;
  entity<E extends object = T>(key: string | EntityKeyLike, rowKey?: string): ConcurrentTarget<Entity<E>, E> {
    const { types, defaults } = this.#options;
    const { partitionKey, rowKey: row } = typeof key === "object" && (key as EntityKeyLike | null) !== null ? key : { partitionKey: key, rowKey };
    const target = tableEntity<E>(this.#client, partitionKey as string, row as string, { types });
    return new TargetFacade<Entity<E>, E>(target, { ...defaults });
  }

  /**
   * Changes one entity: short for `entity(key).update(...)`. `key` may be an entity that was read.
   * @throws {@link ConflictError} if other writers kept changing it: nothing was written.
   * @throws {@link TargetNotFoundError} if it does not exist and there is no `initial`: nothing was written.
   * @throws {@link CommitUnknownError} if a write was sent and its outcome cannot be determined.
   */
  async update<E extends object = T>(
    key: EntityKeyLike,
    mutator: Mutator<Entity<E>>,
    options?: NoInfer<OptimisticUpdateOptions<Entity<E>, E>>,
  ): Promise<UpdateResult<Entity<E>>> {
    return this.entity<E>(key).update(mutator, options);
  }

  /**
   * Reads and writes entities of one partition in isolation. See {@link runTransaction}.
   * @throws {@link ConflictError} if other writers kept changing what was read: nothing was written.
   * @throws {@link LimitError} if it exceeds a limit of the service: nothing was written.
   * @throws {@link CommitUnknownError} if the commit was sent and its outcome cannot be determined.
   */
  runTransaction<R>(partitionKey: string, fn: (tx: Transaction<T>) => Promise<R> | R, options?: RunTransactionOptions): Promise<R> {
    const { types, defaults = {} } = this.#options;
    const common = omitOptions(defaults, "journal");
    return runTransaction<T, R>(this.#client, partitionKey, fn, mergeDefined<RunTransactionOptions>({ types, ...common }, options));
  }

  /**
   * Idempotent calls whose results are stored in this table. See {@link Once}. Keep it: calls of one object share a run.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  once(options?: OnceOptions): Once {
    return new Once(this.#client, options);
  }

  /**
   * Messages that are sent if, and only if, a transaction of this table commits. See {@link Outbox}. Keep it, and stop it at the end. With the
   * option `locks`, one of the instances that have started it relays at a time.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  outbox(options: OutboxOptions): Outbox {
    const { locks } = this.#options;
    return locks ? new Outbox(this.#client, locks, options) : new Outbox(this.#client, options);
  }

  /**
   * Jobs that run once for each due time over all processes; their state is stored in this table. See {@link Schedule}.
   * @throws `TypeError` if the option `locks` is not set. `TypeError` or `RangeError` if a job or an option is wrong.
   */
  schedule<J extends string>(jobs: Readonly<Record<J, ScheduledJob>>, options?: ScheduleOptions): Schedule<J> {
    if (!this.#options.locks) throw new TypeError("ConcurrentTable.schedule needs locks: new ConcurrentTable(client, { locks: new BlobLocks(container) }).");
    return new Schedule(this.#client, this.#options.locks, jobs, options);
  }

  /**
   * The entities of the table that match an OData filter, without the rows of the library. See {@link listEntities}.
   * @throws `TypeError` if an option is unknown.
   */
  list<E extends object = T>(options?: ListEntitiesOptions): AsyncIterableIterator<Entity<E>> {
    return listEntities<E>(this.#client, options);
  }

  /**
   * Deletes the rows that transactions left in place of deleted entities. See {@link purgeTombstones}.
   * @throws `RestError` if the service rejects a request.
   */
  purgeTombstones(options?: PurgeTombstonesOptions): Promise<PurgeResult> {
    return purgeTombstones(this.#client, options);
  }
}
