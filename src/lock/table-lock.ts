import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { sha256 } from "../core/identity.js";
import { read } from "../core/request.js";
import { describeSpan, redactUrl, withSpan } from "../core/telemetry.js";
import type { SpanDetails } from "../core/telemetry.js";
import { checkOneOf, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, LockModeMismatchError } from "../errors.js";
import { useLease } from "../lease/with-lease.js";
import { jsonBlob } from "../target/blob-content.js";
import { tableUrl } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import { createIfNotExists } from "../update/create-if-not-exists.js";
import type { BlobLocks } from "./blob-locks.js";
import { acquireLockOptionNames, tryAcquireLockOptionNames } from "./lock-options.js";
import type { AcquireLockOptions, TryAcquireLockOptions } from "./lock-options.js";
import { LockedTableImpl } from "./locked-table.js";
import type { LockedKey, LockedTable } from "./locked-table.js";

/** How much of a table one lock covers. See {@link TableLock}. */
export type TableLockGranularity = "table" | "partition" | "entity";

/** What to lock. It follows from the granularity of the {@link TableLock}: nothing, a partition key, or the keys of an entity. */
export type TableLockKey<G extends TableLockGranularity> = {
  table: readonly [];
  partition: readonly [partitionKey: string];
  entity: readonly [key: { readonly partitionKey: string; readonly rowKey: string }];
}[G];

/** Options of {@link TableLock}. */
export interface TableLockOptions<G extends TableLockGranularity = TableLockGranularity> {
  /**
   * How much one lock covers. Must be the same in all processes that lock the table; the first one records it.
   * @defaultValue "table": excludes all other holders
   */
  granularity?: G | undefined;
}

/**
 * A lock for a table, a partition or an entity. Tables have no leases, so a designated blob is leased instead. Writes under the
 * lock are fenced: see {@link LockedTable.partition}.
 * @example
 * ```ts
 * const lock = new TableLock(table, new BlobLocks(container), { granularity: "partition" });
 * await lock.withLock("customer-17", async (locked) => {
 *   const partition = await locked.partition<Order>();
 *   await partition.update("order-1", (order) => { order.state = "paid"; });
 * });
 * ```
 */
export class TableLock<G extends TableLockGranularity = "table"> {
  /** How much one lock covers. */
  readonly granularity: G;
  readonly #table: TableLike;
  readonly #locks: BlobLocks;
  #recorded: Promise<void> | undefined;

  /**
   * The locks are kept in `locks`: tables have no leases.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(table: TableLike, locks: BlobLocks, options: TableLockOptions<G> = {}) {
    if (typeof (table as Partial<TableLike> | null | undefined)?.submitTransaction !== "function") throw new TypeError("TableLock needs a TableClient");
    if (typeof (locks as Partial<BlobLocks> | null | undefined)?.acquireFor !== "function") throw new TypeError("TableLock needs a BlobLocks");
    checkOptions("TableLock", options, tableLockOptionNames);
    this.#table = table;
    this.#locks = locks;
    this.granularity = checkOneOf<TableLockGranularity>("granularity", options.granularity ?? "table", ["table", "partition", "entity"]) as G;
  }

  /**
   * Runs `fn` while holding the lock: `withLock(fn)`, `withLock(partitionKey, fn)` or `withLock({ partitionKey, rowKey }, fn)`.
   * @throws {@link LeaseUnavailableError} if another holder still has the lock after `waitInMs`.
   * @throws {@link LeaseLostError} if the lock was lost while `fn` ran.
   * @throws {@link LockModeMismatchError} if another process locks the table with another granularity.
   * @throws `TypeError` if the call is made inside a function that holds the same lock.
   */
  async withLock<R>(
    ...args: [...key: TableLockKey<G>, fn: (table: LockedTable) => Promise<R> | R, options?: AcquireLockOptions | undefined]
  ): Promise<R> {
    const call = "TableLock.withLock";
    const { key, rest } = this.#split(call, args);
    const [fn, options = {}] = rest as [(table: LockedTable) => Promise<R> | R, AcquireLockOptions?];
    if (typeof fn !== "function") throw this.#misuse(call);
    return withSpan(call, options, async (tracingOptions, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      const held = await this.#acquire(call, key, { ...options, tracingOptions });
      describeSpan(span, { epoch: held.epoch });
      return useLease(call, held, fn);
    }, this.#spanDetails());
  }

  /**
   * Waits for the lock: `acquire()`, `acquire(partitionKey)` or `acquire({ partitionKey, rowKey })`. The caller releases it.
   * @throws {@link LeaseUnavailableError} if another holder still has the lock after `waitInMs`.
   * @throws {@link LockModeMismatchError} if another process locks the table with another granularity.
   * @throws `TypeError` if the call is made inside a function that holds the same lock.
   */
  async acquire(...args: [...key: TableLockKey<G>, options?: AcquireLockOptions | undefined]): Promise<LockedTable> {
    const call = "TableLock.acquire";
    const { key, rest } = this.#split(call, args);
    return this.#acquire(call, key, rest[0] as AcquireLockOptions | undefined);
  }

  /**
   * Acquires the lock if it is free now; undefined if it is not.
   * @throws {@link LockModeMismatchError} if another process locks the table with another granularity.
   */
  async tryAcquire(...args: [...key: TableLockKey<G>, options?: TryAcquireLockOptions | undefined]): Promise<LockedTable | undefined> {
    const call = "TableLock.tryAcquire";
    const { key, rest } = this.#split(call, args);
    const [options = {}] = rest as [TryAcquireLockOptions?];
    return withSpan(call, options, async (tracingOptions, span) => {
      checkOptions(call, options, tryAcquireLockOptionNames);
      const name = await this.#prepare(key, { ...options, tracingOptions });
      const lock = await this.#locks.tryAcquireFor(call, name, { ...options, tracingOptions });
      lock?.setTracingParent(options.tracingOptions);
      describeSpan(span, { outcome: lock ? "acquired" : "taken", epoch: lock?.epoch });
      return lock && new LockedTableImpl(this.#table, lock, key);
    }, this.#spanDetails());
  }

  /** `call` is the public call that needs the lock, for error messages. */
  #acquire(call: string, key: LockedKey | undefined, options: AcquireLockOptions = {}): Promise<LockedTableImpl> {
    return withSpan("TableLock.acquire", options, async (tracingOptions, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      const name = await this.#prepare(key, { ...options, tracingOptions });
      const lock = await this.#locks.acquireFor(call, name, { ...options, tracingOptions });
      lock.setTracingParent(options.tracingOptions);
      describeSpan(span, { outcome: "acquired", epoch: lock.epoch });
      return new LockedTableImpl(this.#table, lock, key);
    }, this.#spanDetails());
  }

  #spanDetails(): SpanDetails {
    return { targetKind: "tableLock", url: tableUrl(this.#table) };
  }

  /** The key, as the granularity demands it, and the arguments after it. */
  #split(call: string, args: readonly unknown[]): { key: LockedKey | undefined; rest: readonly unknown[] } {
    if (this.granularity === "table") {
      // A string can only be the key of a partition.
      if (typeof args[0] === "string") throw this.#misuse(call);
      return { key: undefined, rest: args };
    }
    const [given, ...rest] = args;
    if (this.granularity === "partition") {
      if (typeof given !== "string") throw this.#misuse(call);
      checkKey("partitionKey", given);
      return { key: { partitionKey: given, rowKey: undefined }, rest };
    }
    const { partitionKey, rowKey } = (given ?? {}) as { partitionKey?: unknown; rowKey?: unknown };
    if (typeof partitionKey !== "string" || typeof rowKey !== "string") throw this.#misuse(call);
    checkKey("partitionKey", partitionKey);
    checkKey("rowKey", rowKey);
    return { key: { partitionKey, rowKey }, rest };
  }

  #misuse(call: string): TypeError {
    const fn = call.endsWith("withLock") ? ["fn"] : [];
    const key = { table: [], partition: ["partitionKey"], entity: ["{ partitionKey, rowKey }"] }[this.granularity];
    return new TypeError(`${call}: the granularity of this lock is "${this.granularity}". Call ${call}(${[...key, ...fn, "options"].join(", ")})`);
  }

  async #prepare(key: LockedKey | undefined, { tracingOptions, abortSignal }: CallOptions): Promise<string> {
    const recorded = (this.#recorded ??= this.#record(tracingOptions).catch((error: unknown) => {
      this.#recorded = undefined;
      throw error;
    }));
    // Shared by all callers, so a caller that is cancelled stops waiting, and does not cancel it.
    await read(() => recorded, { abortSignal });
    const keys = key ? [key.partitionKey, ...(key.rowKey === undefined ? [] : [key.rowKey])] : [];
    return lockName([this.#table.tableName, ...keys]);
  }

  /** The first process that locks the table writes its granularity into the designated blob; all others compare theirs. */
  async #record(tracingOptions: CallOptions["tracingOptions"]): Promise<void> {
    const blob = this.#locks.blobOf(await lockName([this.#table.tableName]));
    const wanted = { granularity: this.granularity as string };
    const { value } = await createIfNotExists(jsonBlob<{ granularity: string }>(blob), wanted, { journal: false, tracingOptions });
    if (value.granularity === this.granularity) return;
    throw createError(
      LockModeMismatchError,
      `The table ${this.#table.tableName} is locked with the granularity "${value.granularity}", not "${this.granularity}". Use the same granularity everywhere.`,
      { url: redactUrl(this.#table.url), setting: "granularity", expected: this.granularity, found: value.granularity },
    );
  }
}

const tableLockOptionNames: OptionNames<TableLockOptions> = { granularity: 1 };

/** Keys may be long, and the length of lock names is limited: a hash replaces a name that is too long. */
async function lockName(parts: readonly string[]): Promise<string> {
  const name = JSON.stringify(["table", ...parts]);
  return new TextEncoder().encode(name).length * 3 < 900 ? name : `table-sha256-${await sha256(name)}`;
}
