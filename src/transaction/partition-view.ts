import type { TransactionTableLike } from "../clients/table.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { isOwnRow, noRow, queryRows, quoted, readRow } from "./row.js";
import type { Row, RowOptions } from "./row.js";

/** A range of row keys, both ends included. */
export interface RowRange {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The service takes at most 15 comparisons in a filter; one is for the partition. */
const rowsPerQuery = 14;

/**
 * A partition as the transactions of one round see it: what was read, and on top of it what they have written so far.
 * A row that was read stays as it was read, so that all reads are of one state, if the commit finds it unchanged.
 */
export class PartitionView {
  readonly #table: TransactionTableLike;
  readonly #partitionKey: string;
  readonly #rows: Map<string, Row>;
  #touched: Set<string> = new Set<string>();
  /** What the rows are to become; null: gone. */
  #written: Map<string, StoredEntity | null> = new Map<string, StoredEntity | null>();

  /** `rows`: what is known from before; what is read is added to it. */
  constructor(table: TransactionTableLike, partitionKey: string, rows: Map<string, Row>) {
    this.#table = table;
    this.#partitionKey = partitionKey;
    this.#rows = rows;
  }

  /** The rows that this round depends on. */
  get touched(): ReadonlySet<string> {
    return this.#touched;
  }

  get written(): ReadonlyMap<string, StoredEntity | null> {
    return this.#written;
  }

  row(rowKey: string): Row {
    return this.#rows.get(rowKey) ?? noRow;
  }

  isKnown(rowKey: string): boolean {
    return this.#rows.has(rowKey);
  }

  /** What a transaction sees in a row that is known. */
  current(rowKey: string): StoredEntity | undefined {
    const written = this.#written.get(rowKey);
    return written === undefined ? this.row(rowKey).stored : (written ?? undefined);
  }

  touch(rowKey: string): void {
    this.#touched.add(rowKey);
  }

  write(rowKey: string, stored: StoredEntity | null): void {
    this.touch(rowKey);
    // A new map each time: whoever looked at the one before can see what has changed since.
    this.#written = new Map(this.#written).set(rowKey, stored);
  }

  /**
   * Where to go back to if a transaction has no part in this round. One that failed has: what it read stays touched,
   * since its error may rest on it.
   */
  savepoint(): (outcome: "failed" | "postponed") => void {
    const written = this.#written;
    const touched = new Set(this.#touched);
    return (outcome) => {
      this.#written = written;
      if (outcome === "postponed") this.#touched = touched;
    };
  }

  /** Makes rows known. Costs 1 request for one row, 1 for each 14 of several. */
  async load(rowKeys: readonly string[], options: RowOptions): Promise<void> {
    for (const rowKey of rowKeys) this.touch(rowKey);
    // A row that is to be created is not read: that there is none is for the insert to find out.
    const missing = [...new Set(rowKeys)].filter((rowKey) => !this.#rows.has(rowKey) && !this.#written.has(rowKey));
    const [only] = missing;
    if (only !== undefined && missing.length === 1) {
      this.#learn(only, await readRow(this.#table, this.#partitionKey, only, options));
      return;
    }
    for (let start = 0; start < missing.length; start += rowsPerQuery) {
      const chunk = missing.slice(start, start + rowsPerQuery);
      const found = await this.#query(chunk.map((rowKey) => `RowKey eq ${quoted(rowKey)}`).join(" or "), options);
      for (const rowKey of chunk) this.#learn(rowKey, found.get(rowKey) ?? noRow);
    }
  }

  /** Makes known all rows of a range that match a filter, and returns their keys. */
  async loadRange(range: RowRange, filter: string | undefined, options: RowOptions): Promise<string[]> {
    const conditions = [
      ...(range.from === undefined ? [] : [`RowKey ge ${quoted(range.from)}`]),
      ...(range.to === undefined ? [] : [`RowKey le ${quoted(range.to)}`]),
      ...(filter === undefined ? [] : [`(${filter})`]),
    ];
    const found = await this.#query(conditions.join(" and "), options);
    const rowKeys: string[] = [];
    for (const [rowKey, row] of found) {
      // Tombstones need no validation: that nothing is put in their place is for `guardQueries`.
      if (isOwnRow(rowKey) || !row.stored) continue;
      this.#learn(rowKey, row);
      this.touch(rowKey);
      rowKeys.push(rowKey);
    }
    return rowKeys;
  }

  /** Whether all rows that were read are still the same. Costs as many requests as reading them together. */
  async isCurrent(options: RowOptions): Promise<boolean> {
    const now = new PartitionView(this.#table, this.#partitionKey, new Map());
    const rowKeys = [...this.#touched].filter((rowKey) => this.#rows.has(rowKey));
    await now.load(rowKeys, options);
    return rowKeys.every((rowKey) => now.row(rowKey).etag === this.row(rowKey).etag);
  }

  /**
   * What was read first counts, also if two reads overlap: the function has seen it. If it has changed since, the commit
   * notices. A row that is written without having been read stays unknown, so that it is created and not overwritten.
   */
  #learn(rowKey: string, row: Row): void {
    if (!this.#rows.has(rowKey) && !this.#written.has(rowKey)) this.#rows.set(rowKey, row);
  }

  async #query(condition: string, options: RowOptions): Promise<Map<string, Row>> {
    const found = new Map<string, Row>();
    const filter = `PartitionKey eq ${quoted(this.#partitionKey)}${condition && ` and (${condition})`}`;
    for await (const [rowKey, row] of queryRows(this.#table, filter, options)) found.set(rowKey, row);
    return found;
  }
}
