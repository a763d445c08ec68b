import type { CallOptions, TransactionTableLike } from "../clients.js";
import { abortReason, throwIfAborted } from "../core/abort.js";
import { bounded } from "../core/bounded.js";
import { isMissing, isRace } from "../core/storage-errors.js";
import { logger, withSpan } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { tableUrl, tombstoneName } from "../target/stored-entity.js";
import { quoted, readRow } from "./row.js";

/** Nobody waits for the cleaning up, but those who come next wait for its end. */
const limitInMs = 5_000;

/** The tombstones of transactions that are over, to be removed when there is time. */
export class Graveyard {
  readonly #table: TransactionTableLike;
  readonly #partitionKey: string;
  /** By row key, the ETag; undefined: the answer that would have told it was lost. */
  #graves = new Map<string, string | undefined>();

  constructor(table: TransactionTableLike, partitionKey: string) {
    this.#table = table;
    this.#partitionKey = partitionKey;
  }

  get size(): number {
    return this.#graves.size;
  }

  add(rowKey: string, etag: string | undefined): void {
    this.#graves.set(rowKey, etag);
  }

  /** An entity is in its place. */
  delete(rowKey: string): void {
    this.#graves.delete(rowKey);
  }

  /** Removes them for good. What fails is left for `purge`: for all who use transactions there is nothing there. */
  async clear(): Promise<void> {
    const graves = [...this.#graves];
    this.#graves = new Map();
    const outcomes = await Promise.allSettled(
      graves.map(([rowKey, etag]) => bounded(limitInMs, undefined, (abortSignal) => this.#remove(rowKey, etag, abortSignal))),
    );
    const left = outcomes.filter(({ status }) => status === "rejected").length;
    if (left > 0) logger.verbose(`${left} tombstones were left in partition ${JSON.stringify(this.#partitionKey)}`);
  }

  async #remove(rowKey: string, known: string | undefined, abortSignal: AbortSignal): Promise<void> {
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
          await table.deleteEntity(entity.partitionKey, entity.rowKey, { ...traced, etag: entity.etag });
          removed++;
        } catch (error) {
          if (abortSignal?.aborted) throw abortReason(abortSignal);
          // Somebody has put an entity in its place, or was faster.
          if (!isRace(error) && !isMissing(error)) throw error;
        }
      }
    }
    return removed;
  }, { targetKind: "table", url: tableUrl(table) });
}
