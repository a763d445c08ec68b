import type { TableCallOptions, TransactionTableLike } from "../clients.js";
import type { StoredEntity } from "../table/stored-entity.js";
import { isOwnRow, noRow, queryRows, quoted, readRow } from "./row.js";
import type { Row } from "./row.js";

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
  /** The rows that this round depends on. */
  readonly touched: Set<string> = new Set<string>();
  /** What the rows are to become; null: gone. */
  #written: Map<string, StoredEntity | null> = new Map<string, StoredEntity | null>();

  /** `rows`: what is known from before; what is read is added to it. */
  constructor(table: TransactionTableLike, partitionKey: string, rows: Map<string, Row>) {
    this.#table = table;
    this.#partitionKey = partitionKey;
    this.#rows = rows;
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

  write(rowKey: string, stored: StoredEntity | null): void {
    this.touched.add(rowKey);
    // A new map each time: whoever looked at the one before can see what has changed since.
    this.#written = new Map(this.#written).set(rowKey, stored);
  }

  /** Where to go back to if a transaction fails. What it read stays touched: its error may rest on it. */
  savepoint(): () => void {
    const before = this.#written;
    return () => {
      this.#written = before;
    };
  }

  /** Makes rows known. Costs 1 request for one row, 1 for each 14 of several. */
  async load(rowKeys: readonly string[], options: TableCallOptions): Promise<void> {
    for (const rowKey of rowKeys) this.touched.add(rowKey);
    const missing = [...new Set(rowKeys)].filter((rowKey) => !this.#rows.has(rowKey));
    const [only] = missing;
    if (only !== undefined && missing.length === 1) {
      this.#rows.set(only, await readRow(this.#table, this.#partitionKey, only, options));
      return;
    }
    for (let start = 0; start < missing.length; start += rowsPerQuery) {
      const chunk = missing.slice(start, start + rowsPerQuery);
      const found = await this.#query(chunk.map((rowKey) => `RowKey eq ${quoted(rowKey)}`).join(" or "), options);
      for (const rowKey of chunk) this.#rows.set(rowKey, found.get(rowKey) ?? noRow);
    }
  }

  /** Makes known all rows of a range that match a filter, and returns their keys. */
  async loadRange(range: RowRange, filter: string | undefined, options: TableCallOptions): Promise<string[]> {
    const conditions = [
      ...(range.from === undefined ? [] : [`RowKey ge ${quoted(range.from)}`]),
      ...(range.to === undefined ? [] : [`RowKey le ${quoted(range.to)}`]),
      ...(filter === undefined ? [] : [`(${filter})`]),
    ];
    const found = await this.#query(conditions.join(" and "), options);
    const rowKeys: string[] = [];
    for (const [rowKey, row] of found) {
      if (isOwnRow(rowKey)) continue;
      // What was read first counts: if it has changed since, the commit will notice.
      if (!this.#rows.has(rowKey)) this.#rows.set(rowKey, row);
      this.touched.add(rowKey);
      rowKeys.push(rowKey);
    }
    return rowKeys;
  }

  /** Whether all rows that were read are still the same. Costs as many requests as reading them together. */
  async isCurrent(options: TableCallOptions): Promise<boolean> {
    const now = new PartitionView(this.#table, this.#partitionKey, new Map());
    const rowKeys = [...this.touched].filter((rowKey) => this.#rows.has(rowKey));
    await now.load(rowKeys, options);
    return rowKeys.every((rowKey) => now.row(rowKey).etag === this.row(rowKey).etag);
  }

  async #query(condition: string, options: TableCallOptions): Promise<Map<string, Row>> {
    const found = new Map<string, Row>();
    const filter = `PartitionKey eq ${quoted(this.#partitionKey)}${condition && ` and (${condition})`}`;
    for await (const [rowKey, row] of queryRows(this.#table, filter, options)) found.set(rowKey, row);
    return found;
  }
}
