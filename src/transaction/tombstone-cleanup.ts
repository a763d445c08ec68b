import type { PurgeOptions, PurgeResult } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { throwIfAborted } from "../core/deadline.js";
import { read } from "../core/request.js";
import { logger, withSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { isTombstone, quoted } from "../target/library-rows.js";
import { tableUrl, tombstoneName } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import { requireClient } from "../target/target.js";
import { purgeRows } from "./purge-rows.js";
import { readRow } from "./row.js";
import { quotedText } from "../errors.js";

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
    if (left > 0) logger.verbose(`${left} tombstones were left in partition ${quotedText(this.#partitionKey)}`);
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
export interface PurgeTombstonesOptions extends PurgeOptions {
  /** Only tombstones of this partition. @defaultValue none: the whole table, which is a scan */
  partitionKey?: string | undefined;
  /**
   * The minimum age of what is deleted: the transaction that stored a newer tombstone may still have to read it.
   * @defaultValue 3_600_000 (an hour): no transaction takes that long
   */
  olderThanInMs?: number | undefined;
}

const optionNames: OptionNames<PurgeTombstonesOptions> = { abortSignal: 1, tracingOptions: 1, partitionKey: 1, olderThanInMs: 1 };

/**
 * Deletes the tombstones of transactions whose process crashed between the commit and the clean-up. Tombstones that another client
 * has replaced meanwhile are kept. Costs a query, and one request for each tombstone.
 *
 * @example
 * ```ts
 * const { deleted } = await purgeTombstones(table);
 * ```
 * @throws {@link TargetNotFoundError} if the table does not exist.
 * @throws `RestError` if the service rejects a request; what was deleted by then stays deleted.
 * @throws {@link OperationTimeoutError} if a request gets no response within a minute; what was deleted by then stays deleted.
 */
export async function purgeTombstones(table: TableLike, options: PurgeTombstonesOptions = {}): Promise<PurgeResult> {
  requireClient("purgeTombstones", table, "a TableClient");
  return withSpan("purgeTombstones", options, async (tracingOptions) => {
    checkOptions("purgeTombstones", options, optionNames);
    throwIfAborted(options.abortSignal);
    const { partitionKey, abortSignal } = options;
    if (partitionKey !== undefined) checkKey("partitionKey", partitionKey);
    const age = checkNumber("olderThanInMs", options.olderThanInMs ?? 3_600_000, { min: 0, max: Date.now() });
    const filter = [
      ...(partitionKey === undefined ? [] : [`PartitionKey eq ${quoted(partitionKey)}`]),
      `${tombstoneName} eq true`,
    ].join(" and ");
    // A client that does not know tombstones may have merged an entity into one.
    return purgeRows("purgeTombstones", table, { filter, ageInMs: age }, { abortSignal, tracingOptions }, (row) => Promise.resolve(isTombstone(row)));
  }, { targetKind: "table", url: tableUrl(table) });
}
