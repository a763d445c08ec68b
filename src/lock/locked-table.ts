import type { BlobLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import type { TableCallOptions, TableLike } from "../clients/table.js";
import { observed } from "../core/pending-call.js";
import { SharedRun } from "../core/shared-run.js";
import { leaseLossOf, toConcurrencyError } from "../core/storage-errors.js";
import { redactUrl, withSpan } from "../core/telemetry.js";
import { checkOptions, maxTryTimeoutInMs } from "../core/validate.js";
import { read } from "../core/request.js";
import { createError, LeaseLostError, quotedText } from "../errors.js";
import type { LockHandleImpl, LockHandleLike } from "../lease/lease-handle.js";
import type { Held } from "../lease/with-lease.js";
import { partitionUrl } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import { Fence } from "./fence.js";
import { entityFenceRowKey, fenceRowKey } from "./fence-row.js";
import type { TableLockGranularity } from "./fence-row.js";
import { FencedPartitionImpl } from "./fenced-partition.js";
import type { FencedPartition } from "./fenced-partition.js";
import { requireHeld, whileHeld } from "./held-call.js";
import { callOptionNames } from "./lock-options.js";

/**
 * A table, partition or entity whose lock is held. See {@link TableLock}. Its calls, and those of its partitions, are tied to the
 * lock: when it is lost or released, calls that are in flight end, and further calls reject before they send anything.
 */
export interface LockedTable extends LockHandleLike, AsyncDisposable {
  /** The fencing token of this holder: see {@link LockHandle.epoch}. */
  readonly epoch: number;
  /**
   * A partition to read and write; without a key, the one that is locked. Before anything is read, the epoch of this holder is
   * written to a row of the partition. From then on, the service rejects every write of an earlier holder. Costs 2 requests, once;
   * 3 if it is the first time that the partition, or the entity, is locked.
   * @throws {@link FencedError} if the lock has a later holder.
   * @throws {@link SchemaError} if another program has damaged the fence row of the partition.
   * @throws {@link LeaseLostError} if the lock is lost, or was released.
   * @throws {@link LockModeMismatchError} if another process has locked the partition with another granularity.
   */
  partition<T extends object = Record<string, unknown>>(partitionKey?: string, options?: CallOptions): Promise<FencedPartition<T>>;
}

/** What is locked: a partition, or an entity. */
export interface LockedKey {
  readonly partitionKey: string;
  readonly rowKey: string | undefined;
}

/** The lock of a table, partition or entity, and its designated blob. */
export interface TableLockHold {
  readonly lock: LockHandleImpl;
  readonly blob: Pick<BlobLike, "getProperties" | "url">;
  readonly granularity: TableLockGranularity;
  /** Undefined: the whole table. */
  readonly key: LockedKey | undefined;
}

export class LockedTableImpl implements LockedTable, Held {
  readonly #table: TableLike;
  readonly #hold: TableLockHold;
  readonly #lock: LockHandleImpl;
  readonly #opening = new Map<string, SharedRun<FencedPartition>>();
  readonly #partitions = new Map<string, FencedPartition>();
  readonly epoch: number;

  constructor(table: TableLike, hold: TableLockHold) {
    this.#table = table;
    this.#hold = hold;
    this.#lock = hold.lock;
    this.epoch = hold.lock.epoch;
  }

  get signal(): AbortSignal {
    return this.#lock.signal;
  }

  get loss(): LeaseLostError | undefined {
    return this.#lock.loss;
  }

  get holds(): readonly LockHandleImpl[] {
    return [this.#lock];
  }

  assertHeld(): void {
    this.#lock.assertHeld();
  }

  release(): Promise<void> {
    return this.#lock.release();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#lock[Symbol.asyncDispose]();
  }

  partition<T extends object = Record<string, unknown>>(partitionKey?: string, options: CallOptions = {}): Promise<FencedPartition<T>> {
    return observed(this.#partition(partitionKey, options));
  }

  async #partition(partitionKey: string | undefined, options: CallOptions): Promise<FencedPartition> {
    checkOptions("partition", options, callOptionNames);
    const { key: locked } = this.#hold;
    const key = partitionKey ?? locked?.partitionKey;
    if (key === undefined) throw new TypeError("partition: the lock is for the whole table, so pass the key of the partition");
    checkKey("partitionKey", key);
    if (locked && key !== locked.partitionKey) {
      throw new TypeError(`partition: the lock is for partition ${quotedText(locked.partitionKey)}, not for ${quotedText(key)}`);
    }
    const url = partitionUrl(this.#table, key);
    return withSpan("LockedTable.partition", options, (tracingOptions) =>
      whileHeld(this.#lock, url, options, async ({ signal }) => this.#partitions.get(key) ?? this.#openingOf(key).join({ abortSignal: signal }, tracingOptions)),
      { targetKind: "tablePartition", url },
    );
  }

  /** All callers that open the same partition at the same time share one raise of its fence. */
  #openingOf(partitionKey: string): SharedRun<FencedPartition> {
    let opening = this.#opening.get(partitionKey);
    if (!opening) this.#opening.set(partitionKey, (opening = new SharedRun((abortSignal, tracingOptions) => this.#open(partitionKey, { abortSignal, ...(tracingOptions && { tracingOptions }) }))));
    return opening;
  }

  async #open(partitionKey: string, { abortSignal, tracingOptions }: TableCallOptions): Promise<FencedPartition> {
    const { granularity, key } = this.#hold;
    const lock = this.#lock;
    const onlyRow = key?.rowKey;
    const rowKey = onlyRow === undefined ? fenceRowKey : await entityFenceRowKey(onlyRow);
    const fence = new Fence({ table: this.#table, partitionKey, rowKey, granularity, epoch: this.epoch, confirm: (options) => this.#confirm(options) });
    const url = partitionUrl(this.#table, partitionKey);
    const signal = abortSignal ?? new AbortController().signal;
    await fence.raise({ call: { signal, requireHeld: () => requireHeld(lock, url), beginWrite: ignore, endWrite: ignore }, tracingOptions });
    const partition = new FencedPartitionImpl({ table: this.#table, partitionKey, fence, lock, onlyRow });
    this.#partitions.set(partitionKey, partition);
    return partition;
  }

  /**
   * The service has the lease under this id: no other process had the lock before it processed the request. Holders of this process
   * share the id, one after the other; whether this one was released is known here.
   */
  async #confirm({ abortSignal, tracingOptions }: TableCallOptions): Promise<void> {
    const { blob } = this.#hold;
    const url = redactUrl(blob.url);
    const conditions = { leaseId: this.#lock.leaseId };
    try {
      await read((signal) => blob.getProperties({ conditions, abortSignal: signal, ...(tracingOptions && { tracingOptions }) }), { abortSignal, timeoutInMs: maxTryTimeoutInMs });
    } catch (error) {
      const reason = leaseLossOf(error);
      throw reason ? createError(LeaseLostError, `The lock is held by another process, or by none (${url}). Nothing was written.`, { url, reason, committed: false, cause: error }) : toConcurrencyError(error, url);
    }
    this.#lock.assertHeld();
  }
}

function ignore(): void {
  // Raising the fence changes nothing that a caller could have to know of.
}
