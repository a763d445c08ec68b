import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { sha256 } from "../core/identity.js";
import { read } from "../core/request.js";
import { withSpan } from "../core/telemetry.js";
import type { LockHandle } from "../lease/lease-guard.js";
import { partitionUrl } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import { Fence, fenceRowKey } from "./fence.js";
import { FencedPartition } from "./fenced-partition.js";

/** A table, partition or entity whose lock is held. */
export class LockedTable implements AsyncDisposable {
  readonly #table: TableLike;
  readonly #lock: LockHandle;
  /** What is locked; undefined: the whole table. */
  readonly #key: { partitionKey: string; rowKey: string | undefined } | undefined;
  readonly #partitions = new Map<string, Promise<FencedPartition>>();

  /** @internal */
  constructor(table: TableLike, lock: LockHandle, key: { partitionKey: string; rowKey: string | undefined } | undefined) {
    this.#table = table;
    this.#lock = lock;
    this.#key = key;
  }

  /** The fencing token of this holder: see {@link LockHandle.epoch}. */
  get epoch(): number {
    return this.#lock.epoch;
  }

  /** Aborts when the lock is lost. */
  get signal(): AbortSignal {
    return this.#lock.signal;
  }

  /** Throws if the lock is not held at this moment. */
  assertHeld(): void {
    this.#lock.assertHeld();
  }

  release(): Promise<void> {
    return this.#lock.release();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#lock[Symbol.asyncDispose]();
  }

  /**
   * A partition to read and write. Before anything is read, the epoch of this holder is written to a row of the partition. From
   * then on, the service rejects every write of an earlier holder. Costs 2 requests, once.
   */
  async partition(partitionKey?: string, options: CallOptions = {}): Promise<FencedPartition> {
    const key = partitionKey ?? this.#key?.partitionKey;
    if (key === undefined) throw new TypeError("name the partition: the lock is for the whole table");
    checkKey("partitionKey", key);
    if (this.#key && key !== this.#key.partitionKey) {
      throw new TypeError(`the lock is for partition ${JSON.stringify(this.#key.partitionKey)}, not for ${JSON.stringify(key)}`);
    }
    let partition = this.#partitions.get(key);
    if (!partition) {
      this.#partitions.set(key, (partition = this.#open(key, options)));
      partition.catch(() => this.#partitions.delete(key));
    }
    return partition;
  }

  async #open(partitionKey: string, options: CallOptions): Promise<FencedPartition> {
    const onlyRow = this.#key?.rowKey;
    const fence = new Fence(this.#table, partitionKey, await fenceRowOf(onlyRow), this.epoch);
    await withSpan("LockedTable.partition", options, (tracingOptions) =>
      read((abortSignal) => fence.raise({ abortSignal, ...(tracingOptions && { tracingOptions }) }), options),
      { targetKind: "tablePartition", url: partitionUrl(this.#table, partitionKey) },
    );
    return new FencedPartition(this.#table, partitionKey, fence, onlyRow);
  }
}

/** An entity that is locked individually has its own fence row. A key has at most 512 characters. */
async function fenceRowOf(onlyRow: string | undefined): Promise<string> {
  if (onlyRow === undefined) return fenceRowKey;
  const rowKey = `${fenceRowKey}~${onlyRow}`;
  return rowKey.length <= 512 ? rowKey : `${fenceRowKey}~sha256~${await sha256(onlyRow)}`;
}
