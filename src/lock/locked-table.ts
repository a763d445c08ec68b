import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { throwIfAborted } from "../core/deadline.js";
import { sha256 } from "../core/identity.js";
import { read } from "../core/request.js";
import { withSpan } from "../core/telemetry.js";
import { checkOptions } from "../core/validate.js";
import type { LeaseLostError } from "../errors.js";
import type { LockHandleImpl, LockHandleLike } from "../lease/lease-handle.js";
import type { Held } from "../lease/with-lease.js";
import { partitionUrl } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import { Fence, fenceRowKey } from "./fence.js";
import { FencedPartitionImpl } from "./fenced-partition.js";
import type { FencedPartition } from "./fenced-partition.js";
import { callOptionNames } from "./lock-options.js";

/** A table, partition or entity whose lock is held. See {@link TableLock}. */
export interface LockedTable extends LockHandleLike, AsyncDisposable {
  /** The fencing token of this holder: see {@link LockHandle.epoch}. */
  readonly epoch: number;
  /**
   * A partition to read and write; without a key, the one that is locked. Before anything is read, the epoch of this holder is
   * written to a row of the partition. From then on, the service rejects every write of an earlier holder. Costs 2 requests, once.
   * @throws {@link FencedError} if the lock has a later holder.
   */
  partition<T extends object = Record<string, unknown>>(partitionKey?: string, options?: CallOptions): Promise<FencedPartition<T>>;
}

/** What is locked: a partition, or an entity. */
export interface LockedKey {
  readonly partitionKey: string;
  readonly rowKey: string | undefined;
}

export class LockedTableImpl implements LockedTable, Held {
  readonly #table: TableLike;
  readonly #lock: LockHandleImpl;
  /** Undefined: the whole table. */
  readonly #key: LockedKey | undefined;
  readonly #partitions = new Map<string, Promise<FencedPartition>>();
  readonly epoch: number;

  constructor(table: TableLike, lock: LockHandleImpl, key: LockedKey | undefined) {
    this.#table = table;
    this.#lock = lock;
    this.#key = key;
    this.epoch = lock.epoch;
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

  async partition<T extends object = Record<string, unknown>>(partitionKey?: string, options: CallOptions = {}): Promise<FencedPartition<T>> {
    checkOptions("partition", options, callOptionNames);
    const key = partitionKey ?? this.#key?.partitionKey;
    if (key === undefined) throw new TypeError("partition: the lock is for the whole table, so pass the key of the partition");
    checkKey("partitionKey", key);
    if (this.#key && key !== this.#key.partitionKey) {
      throw new TypeError(`partition: the lock is for partition ${JSON.stringify(this.#key.partitionKey)}, not for ${JSON.stringify(key)}`);
    }
    return (await this.#open(key, options));
  }

  /** One caller opens the partition, the others wait for it. If it fails or is cancelled, the next of them tries for itself. */
  async #open(partitionKey: string, options: CallOptions): Promise<FencedPartition> {
    for (let opening = this.#partitions.get(partitionKey); opening; opening = this.#partitions.get(partitionKey)) {
      const shared = opening;
      const opened = await read(() => shared, options).catch(() => undefined);
      if (opened) return opened;
      throwIfAborted(options.abortSignal);
    }
    const own = this.#raise(partitionKey, options);
    this.#partitions.set(partitionKey, own);
    return own.catch((error: unknown) => {
      this.#partitions.delete(partitionKey);
      throw error;
    });
  }

  async #raise(partitionKey: string, options: CallOptions): Promise<FencedPartition> {
    const onlyRow = this.#key?.rowKey;
    const fence = new Fence(this.#table, partitionKey, await fenceRowOf(onlyRow), this.epoch);
    await withSpan("LockedTable.partition", options, (tracingOptions) =>
      read((abortSignal) => fence.raise({ abortSignal, ...(tracingOptions && { tracingOptions }) }), options),
      { targetKind: "tablePartition", url: partitionUrl(this.#table, partitionKey) },
    );
    return new FencedPartitionImpl(this.#table, partitionKey, fence, onlyRow);
  }
}

/** An entity that is locked individually has its own fence row. A key has at most 512 characters. */
async function fenceRowOf(onlyRow: string | undefined): Promise<string> {
  if (onlyRow === undefined) return fenceRowKey;
  const rowKey = `${fenceRowKey}~${onlyRow}`;
  return rowKey.length <= 512 ? rowKey : `${fenceRowKey}~sha256~${await sha256(onlyRow)}`;
}
