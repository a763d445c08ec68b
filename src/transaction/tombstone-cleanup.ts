import type { CallOptions } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { throwIfAborted } from "../core/deadline.js";
import { read } from "../core/request.js";
import { isConflict, isNotFound } from "../core/storage-errors.js";
import { logger, withSpan } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { tableUrl, tombstoneName } from "../target/stored-entity.js";
import { quoted, readRow } from "./row.js";

/** No caller waits for the clean-up, but the next batch waits for its end. */
const timeoutInMs = 5_000;

/** The tombstones of completed transactions, to be deleted when the queue is idle. */
export class TombstoneCleanup {
  readonly #table: TableLike;
  readonly #partitionKey: string;
  /** The ETags by row key; undefined: the response that contained it was lost. */
  #tombstones = new Map<string, string | undefined>();

  constructor(table: TableLike, partitionKey: string) {
    this.#table = table;
    this.#partitionKey = partitionKey;
  }

  get size(): number {
    return this.#tombstones.size;
  }

  add(rowKey: string, etag: string | undefined): void {
    this.#tombstones.set(rowKey, etag);
  }

  /** An entity has replaced the tombstone. */
  delete(rowKey: string): void {
    this.#tombstones.delete(rowKey);
  }

  /** Deletes the tombstones. A failure is harmless: to transactions the entity does not exist. `purgeTombstones` deletes the rest. */
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
  /** Only tombstones of this partition. @defaultValue the whole table, which is a scan */
  partitionKey?: string | undefined;
  /**
   * Newer tombstones are kept: the transaction that stored one may still have to read it.
   * @defaultValue an hour
   */
  olderThanInMs?: number | undefined;
}

/**
 * Deletes the tombstones of transactions whose process crashed between the commit and the clean-up. Returns how many. Costs a
 * query, and one request for each tombstone.
 */
export function purgeTombstones(table: TableLike, options: PurgeTombstonesOptions = {}): Promise<number> {
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
    let deleted = 0;
    for await (const page of table.listEntities({ ...traced, queryOptions: { filter } }).byPage()) {
      for (const entity of page as readonly { partitionKey: string; rowKey: string; etag: string }[]) {
        throwIfAborted(abortSignal);
        try {
          const { partitionKey: partition, rowKey, etag } = entity;
          await read((signal) => table.deleteEntity(partition, rowKey, { ...traced, etag, abortSignal: signal }), { abortSignal });
          deleted++;
        } catch (error) {
          // Another client has replaced it by an entity, or deleted it first.
          if (!isConflict(error) && !isNotFound(error)) throw error;
        }
      }
    }
    return deleted;
  }, { targetKind: "table", url: tableUrl(table) });
}
