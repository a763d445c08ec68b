import type { TransactionTableLike } from "../clients.js";
import { bounded } from "../internal/bounded.js";
import { logger } from "../internal/log.js";
import { readRow } from "./row.js";

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
