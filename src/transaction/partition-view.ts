import type { TableLike } from "../clients/table.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { isOwnRow, noRow, queryRows, quoted, readRow } from "./row.js";
import type { Row, RowOptions } from "./row.js";

/** A range of row keys, both ends inclusive. */
export interface RowRange {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The service accepts at most 15 comparisons in a filter; one is for the partition. */
const rowsPerQuery = 14;

/**
 * A partition as the transactions of one batch see it: what was read, and on top of it what they have written so far. A row
 * that was read is not read again, so that all reads belong to one state if the commit finds them unchanged.
 */
export class PartitionView {
  readonly #table: TableLike;
  readonly #partitionKey: string;
  readonly #rows: Map<string, Row>;
  #touched: Set<string> = new Set<string>();
  /** The new state of rows; null: deleted. */
  #written: Map<string, StoredEntity | null> = new Map<string, StoredEntity | null>();

  /** @param rows - The rows that are already known. Rows that are read are added to it. */
  constructor(table: TableLike, partitionKey: string, rows: Map<string, Row>) {
    this.#table = table;
    this.#partitionKey = partitionKey;
    this.#rows = rows;
  }

  /** The rows that this batch depends on. */
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

  /** What a transaction sees in a known row. */
  current(rowKey: string): StoredEntity | undefined {
    const written = this.#written.get(rowKey);
    return written === undefined ? this.row(rowKey).stored : (written ?? undefined);
  }

  touch(rowKey: string): void {
    this.#touched.add(rowKey);
  }

  write(rowKey: string, stored: StoredEntity | null): void {
    this.touch(rowKey);
    // A new map each time, so that it can be compared with an earlier one, and a savepoint can restore that one.
    this.#written = new Map(this.#written).set(rowKey, stored);
  }

  /**
   * Returns a function that rolls back a transaction that has no part in this batch. The rows that a failed transaction read
   * stay touched, because its error may depend on them.
   */
  savepoint(): (outcome: "failed" | "postponed") => void {
    const written = this.#written;
    const touched = new Set(this.#touched);
    return (outcome) => {
      this.#written = written;
      if (outcome === "postponed") this.#touched = touched;
    };
  }

  /** Reads the rows that are not known yet. Costs 1 request for a single row, 1 for each 14 of several. */
  async load(rowKeys: readonly string[], options: RowOptions): Promise<void> {
    for (const rowKey of rowKeys) this.touch(rowKey);
    // A row that is to be created is not read: the insert fails if it exists.
    const unknown = [...new Set(rowKeys)].filter((rowKey) => !this.#rows.has(rowKey) && !this.#written.has(rowKey));
    const [only] = unknown;
    if (only !== undefined && unknown.length === 1) {
      this.#addRow(only, await readRow(this.#table, this.#partitionKey, only, options));
      return;
    }
    for (let start = 0; start < unknown.length; start += rowsPerQuery) {
      const chunk = unknown.slice(start, start + rowsPerQuery);
      const found = await this.#query(chunk.map((rowKey) => `RowKey eq ${quoted(rowKey)}`).join(" or "), options);
      for (const rowKey of chunk) this.#addRow(rowKey, found.get(rowKey) ?? noRow);
    }
  }

  /** Reads all rows of a range that match a filter, and returns their keys. */
  async loadRange(range: RowRange, filter: string | undefined, options: RowOptions): Promise<string[]> {
    const conditions = [
      ...(range.from === undefined ? [] : [`RowKey ge ${quoted(range.from)}`]),
      ...(range.to === undefined ? [] : [`RowKey le ${quoted(range.to)}`]),
      ...(filter === undefined ? [] : [`(${filter})`]),
    ];
    const found = await this.#query(conditions.join(" and "), options);
    const rowKeys: string[] = [];
    for (const [rowKey, row] of found) {
      // Tombstones need no validation: `detectPhantoms` detects entities that replace them.
      if (isOwnRow(rowKey) || !row.stored) continue;
      this.#addRow(rowKey, row);
      this.touch(rowKey);
      rowKeys.push(rowKey);
    }
    return rowKeys;
  }

  /** Whether all rows that were read are unchanged. Costs as many requests as reading them together. */
  async isCurrent(options: RowOptions): Promise<boolean> {
    const now = new PartitionView(this.#table, this.#partitionKey, new Map());
    const rowKeys = [...this.#touched].filter((rowKey) => this.#rows.has(rowKey));
    await now.load(rowKeys, options);
    return rowKeys.every((rowKey) => now.row(rowKey).etag === this.row(rowKey).etag);
  }

  /**
   * The first read counts, even if two reads overlap: the function has seen it. If the row has changed since, the commit
   * detects it. A row that is written without having been read stays unknown, so that it is created and not overwritten.
   */
  #addRow(rowKey: string, row: Row): void {
    if (!this.#rows.has(rowKey) && !this.#written.has(rowKey)) this.#rows.set(rowKey, row);
  }

  async #query(condition: string, options: RowOptions): Promise<Map<string, Row>> {
    const found = new Map<string, Row>();
    const filter = `PartitionKey eq ${quoted(this.#partitionKey)}${condition && ` and (${condition})`}`;
    for await (const [rowKey, row] of queryRows(this.#table, filter, options)) found.set(rowKey, row);
    return found;
  }
}
