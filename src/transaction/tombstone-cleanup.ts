import type { CallOptions } from "../clients/call.js";
import type { TransactionTableLike } from "../clients/table.js";
import { throwIfAborted } from "../core/deadline.js";
import { read } from "../core/request.js";
import { isConflict, isNotFound } from "../core/storage-errors.js";
import { logger, withSpan } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { tableUrl, tombstoneName } from "../target/stored-entity.js";
import { quoted, readRow } from "./row.js";

/** No caller waits for the clean-up, but the next batch waits for its end. */
const timeoutInMs = 5_000;

/** The tombstones of transactions that are over, to be removed when there is time. */
export class TombstoneCleanup {
  readonly #table: TransactionTableLike;
  readonly #partitionKey: string;
  /** By row key, the ETag; undefined: the response that carried it was lost. */
  #tombstones = new Map<string, string | undefined>();

  constructor(table: TransactionTableLike, partitionKey: string) {
    this.#table = table;
    this.#partitionKey = partitionKey;
  }

  get size(): number {
    return this.#tombstones.size;
  }

  add(rowKey: string, etag: string | undefined): void {
    this.#tombstones.set(rowKey, etag);
  }

  /** An entity is in its place. */
  delete(rowKey: string): void {
    this.#tombstones.delete(rowKey);
  }

  /** Deletes them for good. What fails is left for `purgeTombstones`: to all transactions the entity does not exist. */
  async clear(): Promise<void> {
    const tombstones = [...this.#tombstones];
    this.#tombstones = new Map();
    const outcomes = await Promise.allSettled(
      tombstones.map(([rowKey, etag]) => read((abortSignal) => this.#delete(rowKey, etag, abortSignal), { timeoutInMs })),
    );
    const left = outcomes.filter(({ status }) => status === "rejected").length;
    if (left > 0) logger.verbose(`${left} tombstones were left in partition ${JSON.stringify(this.#partitionKey)}`);
  }

  async #delete(rowKey: string, known: string | undefined, abortSignal: AbortSignal): Promise<void> {
    let etag = known;
    if (etag === undefined) {
      const row = await readRow(this.#table, this.#partitionKey, rowKey, { abortSignal });
      if (row.stored || row.etag === undefined) return;
      etag = row.etag;
    }
    await this.#table.deleteEntity(this.#partitionKey, rowKey, { etag, abortSignal });
  }
}

/** Options of {@link purgeTombstones}. */
export interface PurgeTombstonesOptions extends CallOptions {
  /** Of this partition only. @defaultValue the whole table, which is a scan */
  partitionKey?: string | undefined;
  /**
   * Younger ones are left alone: the transaction that made one may still have to look at it.
   * @defaultValue an hour
   */
  olderThanInMs?: number | undefined;
}

/**
 * Removes the tombstones that transactions left behind because their process died between the commit and its cleaning
 * up. Returns how many. Costs a query, and a request for each.
 */
export function purgeTombstones(table: TransactionTableLike, options: PurgeTombstonesOptions = {}): Promise<number> {
  return withSpan("purgeTombstones", options, async (tracingOptions) => {
    const { partitionKey, abortSignal } = options;
    const age = checkNumber("olderThanInMs", options.olderThanInMs ?? 3_600_000, { min: 0 });
    const before = new Date(Date.now() - age).toISOString();
    const filter = [
      ...(partitionKey === undefined ? [] : [`PartitionKey eq ${quoted(partitionKey)}`]),
      `${tombstoneName} eq true`,
      `Timestamp lt datetime${quoted(before)}`,
    ].join(" and ");
    const traced = tracingOptions && { tracingOptions };
    let removed = 0;
    for await (const page of table.listEntities({ ...traced, queryOptions: { filter } }).byPage()) {
      for (const entity of page as readonly { partitionKey: string; rowKey: string; etag: string }[]) {
        throwIfAborted(abortSignal);
        try {
          const { partitionKey: partition, rowKey, etag } = entity;
          await read((signal) => table.deleteEntity(partition, rowKey, { ...traced, etag, abortSignal: signal }), { abortSignal });
          removed++;
        } catch (error) {
          // Another client has put an entity in its place, or deleted it first.
          if (!isConflict(error) && !isNotFound(error)) throw error;
        }
      }
    }
    return removed;
  }, { targetKind: "table", url: tableUrl(table) });
}
