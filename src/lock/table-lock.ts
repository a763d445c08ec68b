import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { sha256 } from "../core/identity.js";
import { describeSpan, redactUrl, withSpan } from "../core/telemetry.js";
import type { SpanDetails } from "../core/telemetry.js";
import { checkOneOf } from "../core/validate.js";
import { createError, LockModeMismatchError } from "../errors.js";
import type { LockHandle } from "../lease/lease-guard.js";
import { useLease } from "../lease/with-lease.js";
import { jsonBlob } from "../target/blob-content.js";
import { tableUrl } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import { createIfNotExists } from "../update/create-if-not-exists.js";
import type { BlobLocks, AcquireLockOptions, TryAcquireLockOptions } from "./blob-locks.js";
import { LockedTable } from "./locked-table.js";

/** How much of a table one lock covers. */
export type TableLockGranularity = "table" | "partition" | "entity";

/** What to lock: undefined for the whole table, the key of a partition, or the keys of an entity. */
export type TableLockKey = undefined | string | { partitionKey: string; rowKey: string };

/** Options of {@link TableLock}. */
export interface TableLockOptions {
  /** Must be the same in all processes that lock the table; the first one records it. @defaultValue "table" */
  granularity?: TableLockGranularity | undefined;
}

/**
 * A lock for a table, a partition or an entity. Tables have no leases, so a designated blob is leased instead. Writes under the
 * lock are fenced: see {@link LockedTable.partition}.
 */
export class TableLock {
  readonly granularity: TableLockGranularity;
  readonly #table: TableLike;
  readonly #locks: BlobLocks;
  #recorded: Promise<void> | undefined;

  constructor(table: TableLike, locks: BlobLocks, options: TableLockOptions = {}) {
    this.#table = table;
    this.#locks = locks;
    this.granularity = checkOneOf("granularity", options.granularity ?? "table", ["table", "partition", "entity"]);
  }

  /** Runs `fn` while holding the lock of the table. */
  withLock<R>(fn: (held: LockedTable) => Promise<R> | R, options?: AcquireLockOptions): Promise<R>;
  /** Runs `fn` while holding the lock of a partition or an entity. */
  withLock<R>(key: Exclude<TableLockKey, undefined>, fn: (held: LockedTable) => Promise<R> | R, options?: AcquireLockOptions): Promise<R>;
  async withLock<R>(...args: readonly unknown[]): Promise<R> {
    const [key, fn, options] = (typeof args[0] === "function" ? [undefined, ...args] : args) as [
      TableLockKey,
      (held: LockedTable) => Promise<R> | R,
      AcquireLockOptions | undefined,
    ];
    if (typeof fn !== "function") throw new TypeError("withLock needs a function");
    return withSpan("TableLock.withLock", options ?? {}, async (tracingOptions, span) => {
      const held = await this.acquire(key, { ...options, tracingOptions });
      describeSpan(span, { epoch: held.epoch });
      return useLease(held, fn);
    }, this.#spanDetails());
  }

  /** Waits for the lock. */
  acquire(key?: TableLockKey, options: AcquireLockOptions = {}): Promise<LockedTable> {
    return withSpan("TableLock.acquire", options, async (tracingOptions, span) => {
      const name = await this.#prepare(key, { ...options, tracingOptions });
      const lock = await this.#locks.acquire(name, { ...options, tracingOptions });
      lock.setTracingParent(options.tracingOptions);
      describeSpan(span, { outcome: "acquired", epoch: lock.epoch });
      return this.#held(key, lock);
    }, this.#spanDetails());
  }

  /** Acquires the lock if it is free right now; `null` if it is not. */
  tryAcquire(key?: TableLockKey, options: TryAcquireLockOptions = {}): Promise<LockedTable | null> {
    return withSpan("TableLock.tryAcquire", options, async (tracingOptions, span) => {
      const name = await this.#prepare(key, { ...options, tracingOptions });
      const lock = await this.#locks.tryAcquire(name, { ...options, tracingOptions });
      lock?.setTracingParent(options.tracingOptions);
      describeSpan(span, { outcome: lock ? "acquired" : "taken", epoch: lock?.epoch });
      return lock && this.#held(key, lock);
    }, this.#spanDetails());
  }

  #spanDetails(): SpanDetails {
    return { targetKind: "tableLock", url: tableUrl(this.#table) };
  }

  #held(key: TableLockKey, lock: LockHandle): LockedTable {
    return new LockedTable(this.#table, lock, typeof key === "string" ? { partitionKey: key, rowKey: undefined } : key);
  }

  async #prepare(key: TableLockKey, { tracingOptions }: CallOptions): Promise<string> {
    const kind = key === undefined ? "table" : typeof key === "string" ? "partition" : "entity";
    if (kind !== this.granularity) throw new TypeError(`this lock is by ${this.granularity}: ${usage[this.granularity]}`);
    const keys = key === undefined ? [] : typeof key === "string" ? [key] : [key.partitionKey, key.rowKey];
    for (const part of keys) checkKey("key", part);
    this.#recorded ??= this.#record(tracingOptions).catch((error: unknown) => {
      this.#recorded = undefined;
      throw error;
    });
    await this.#recorded;
    return lockName([this.#table.tableName, ...keys]);
  }

  /** The first process that locks the table writes its granularity into the designated blob; all others compare theirs. */
  async #record(tracingOptions: CallOptions["tracingOptions"]): Promise<void> {
    const blob = this.#locks.blobOf(await lockName([this.#table.tableName]));
    const wanted = { granularity: this.granularity };
    const { value } = await createIfNotExists(jsonBlob<{ granularity: string }>(blob), wanted, { journal: false, tracingOptions });
    if (value.granularity === this.granularity) return;
    throw createError(LockModeMismatchError, 
      `the table ${this.#table.tableName} is locked by ${value.granularity}, not by ${this.granularity}: all who lock it must agree`,
      { url: redactUrl(this.#table.url), setting: "granularity", expected: this.granularity, found: value.granularity },
    );
  }
}

const usage: Record<TableLockGranularity, string> = {
  table: "withLock(fn)",
  partition: "withLock(partitionKey, fn)",
  entity: "withLock({ partitionKey, rowKey }, fn)",
};

/** Keys may be long, and the length of lock names is limited: a hash replaces a name that is too long. */
async function lockName(parts: readonly string[]): Promise<string> {
  const name = JSON.stringify(["table", ...parts]);
  return new TextEncoder().encode(name).length * 3 < 900 ? name : `table-sha256-${await sha256(name)}`;
}
