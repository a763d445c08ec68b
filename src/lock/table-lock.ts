import type { CallOptions, PurgeOptions, PurgeResult } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { RequestTimeoutError, startStopwatch, throwIfAborted } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { SharedRun } from "../core/shared-run.js";
import { describeSpan, redactUrl, withSpan } from "../core/telemetry.js";
import type { SpanDetails } from "../core/telemetry.js";
import { checkOneOf, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, isConcurrencyError, LeaseUnavailableError, LockModeMismatchError } from "../errors.js";
import { remainingWait } from "../lease/acquire.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import { checkWait } from "../lease/lease-options.js";
import { useLease } from "../lease/with-lease.js";
import { textBlob } from "../target/blob-content.js";
import { tableUrl } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import { optimisticUpdate } from "../update/optimistic-update.js";
import type { BlobLocks } from "./blob-locks.js";
import type { TableLockGranularity } from "./fence-row.js";
import { purgeFenceRows } from "./purge-fence-rows.js";
import { acquireLockOptionNames, tryAcquireLockOptionNames } from "./lock-options.js";
import type { AcquireLockOptions, TryAcquireLockOptions } from "./lock-options.js";
import { LockedTableImpl } from "./locked-table.js";
import type { LockedKey, LockedTable } from "./locked-table.js";
import { tableLockName } from "./table-lock-name.js";

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
  readonly #recording = new SharedRun<void>((abortSignal, tracingOptions) => this.#record({ abortSignal, tracingOptions }));
  /** Since when the granularity is known to be recorded. */
  #recordedFor: Clock | undefined;

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
      return useLease(call, held, fn, options.abortSignal);
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
      await this.#checkGranularity(0, { ...options, tracingOptions });
      const name = await this.#nameOf(key);
      const lock = await this.#locks.tryAcquireFor(call, name, { ...options, tracingOptions });
      lock?.setTracingParent(options.tracingOptions);
      describeSpan(span, { outcome: lock ? "acquired" : "taken", epoch: lock?.epoch });
      return lock && this.#locked(lock, name, key);
    }, this.#spanDetails());
  }

  /**
   * Deletes the rows of fences that were not used for `olderThanInMs`, by default a day (86,400,000): one for each partition or
   * entity that was ever locked. Safe at any time: a holder whose row is deleted writes it again, and earlier holders are rejected
   * without it, too. `kept` counts the rows that were used meanwhile. Costs a scan of the table, and 1 request for each row.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   * @throws `RestError` if the service rejects a request; what was deleted by then stays deleted.
   */
  purge(options: PurgeOptions = {}): Promise<PurgeResult> {
    return purgeFenceRows(this.#table, options);
  }

  /** `call` is the public call that needs the lock, for error messages. */
  #acquire(call: string, key: LockedKey | undefined, options: AcquireLockOptions = {}): Promise<LockedTableImpl> {
    return withSpan("TableLock.acquire", options, async (tracingOptions, span) => {
      checkOptions(call, options, acquireLockOptionNames);
      const elapsedInMs = startStopwatch();
      const waitInMs = checkWait(this.#locks.withDefaults(options).waitInMs);
      await this.#checkGranularity(waitInMs, { ...options, tracingOptions });
      const name = await this.#nameOf(key);
      const lock = await this.#locks.acquireFor(call, name, { ...options, tracingOptions, waitInMs: remainingWait(waitInMs, elapsedInMs()) });
      lock.setTracingParent(options.tracingOptions);
      describeSpan(span, { outcome: "acquired", epoch: lock.epoch });
      return this.#locked(lock, name, key);
    }, this.#spanDetails());
  }

  #locked(lock: LockHandleImpl, name: string, key: LockedKey | undefined): LockedTableImpl {
    return new LockedTableImpl(this.#table, { lock, blob: this.#locks.blobOf(name), granularity: this.granularity, key });
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

  async #nameOf(key: LockedKey | undefined): Promise<string> {
    return tableLockName({ table: this.#table.tableName, ...key });
  }

  /**
   * Waits until the granularity is known to be recorded. All callers share the request; a caller that is cancelled, or whose time is
   * over, leaves it. Repeated from time to time: another program may have deleted or replaced the record.
   */
  async #checkGranularity(waitInMs: number, { abortSignal, tracingOptions }: CallOptions): Promise<void> {
    throwIfAborted(abortSignal);
    if (this.#recordedFor && this.#recordedFor() < recordValidInMs) return;
    const timeoutInMs = waitInMs === 0 ? minRecordWaitInMs : waitInMs;
    const elapsedInMs = startStopwatch();
    try {
      await this.#recording.join({ abortSignal, timeoutInMs }, tracingOptions);
    } catch (error) {
      if (!(error instanceof RequestTimeoutError)) throw error;
      const url = tableUrl(this.#table);
      throw createError(LeaseUnavailableError, `The lock of ${url} could not be acquired within ${waitInMs} ms (waitInMs): the blob that records its granularity did not respond`, {
        url,
        waitedInMs: elapsedInMs(),
        holder: undefined,
        cause: error,
      });
    }
  }

  /** The first process that locks the table writes its granularity into the designated blob; all others compare theirs. */
  async #record(options: CallOptions): Promise<void> {
    const clock = startStopwatch();
    const found = await this.#recordedGranularity(options);
    if (found !== this.granularity) {
      this.#recordedFor = undefined;
      throw createError(
        LockModeMismatchError,
        `The table ${this.#table.tableName} is locked with the granularity ${JSON.stringify(found)}, not "${this.granularity}". Use the same granularity everywhere.`,
        { url: redactUrl(this.#table.url), setting: "granularity", expected: this.granularity, found },
      );
    }
    this.#recordedFor = clock;
  }

  async #recordedGranularity(options: CallOptions): Promise<string> {
    const blob = textBlob(this.#locks.blobOf(await tableLockName({ table: this.#table.tableName })), { maxSizeInBytes: maxRecordInBytes });
    const record = JSON.stringify({ granularity: this.granularity });
    // The blob is empty if another program has deleted the record, and the lock of the table was acquired since. A write whose
    // response is lost can be repeated: it finds its own record, or that of another process.
    try {
      return granularityIn((await optimisticUpdate(blob, (text) => (text === "" ? record : text), { ...options, journal: false, initial: record, onUnknown: "retry" })).value);
    } catch (error) {
      // Only the lock of a whole table is in this blob, and it is held.
      if (isConcurrencyError(error, "LEASE_UNAVAILABLE")) return "table";
      if (isConcurrencyError(error, "CONTENT_TOO_LARGE")) return unknownGranularity;
      throw error;
    }
  }
}

/** How long a record counts as unchanged: the default duration of a lease. */
const recordValidInMs = 30_000;

/** A caller that does not wait for the lock gives the service the time for a response. */
const minRecordWaitInMs = 2_000;

/** What another program has written in place of the record is none: it is not known which granularity is in use. */
function granularityIn(text: string): string {
  try {
    const { granularity } = JSON.parse(text) as { granularity?: unknown };
    if (typeof granularity === "string") return granularity;
  } catch {
    // not JSON
  }
  return unknownGranularity;
}

const unknownGranularity = "unknown";

/** Many times a record: what is larger is none, and must not be read into memory, nor into the message of an error. */
const maxRecordInBytes = 1_024;

const tableLockOptionNames: OptionNames<TableLockOptions> = { granularity: 1 };
