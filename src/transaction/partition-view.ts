import type { TableLike } from "../clients/table.js";
import { isOwnRow } from "../target/library-rows.js";
import type { StoredEntity } from "../target/stored-entity.js";
import type { Overlay, RowRange } from "./overlay.js";
import { queryRange, readRows } from "./read-rows.js";
import { noRow } from "./row.js";
import type { Row, RowOptions } from "./row.js";

/**
 * A partition as the transactions of one batch see it: what was read, and on top of it what those of them wrote that are part of
 * the batch. A row that was read is not read again, so that all reads belong to one state if the commit finds them unchanged.
 */
export class PartitionView {
  readonly #table: TableLike;
  readonly #partitionKey: string;
  readonly #rows: Map<string, Row>;
  #touched: ReadonlySet<string> = new Set<string>();
  /** The new state of rows; null: deleted. */
  #written: ReadonlyMap<string, StoredEntity | null> = new Map<string, StoredEntity | null>();
  #severalReads = false;

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

  /** Whether one of the transactions read more than one row. */
  get severalReads(): boolean {
    return this.#severalReads;
  }

  row(rowKey: string): Row {
    return this.#rows.get(rowKey) ?? noRow;
  }

  isKnown(rowKey: string): boolean {
    return this.#rows.has(rowKey);
  }

  isVisible(rowKey: string): boolean {
    return this.#written.has(rowKey) || this.#rows.has(rowKey);
  }

  /** What the next transaction sees in a visible row. */
  current(rowKey: string): StoredEntity | undefined {
    const written = this.#written.get(rowKey);
    return written === undefined ? this.row(rowKey).stored : (written ?? undefined);
  }

  /**
   * Whether a transaction would do the same if it ran now. Stored entities are never changed in place, so the same object is
   * the same state; what the service has is validated by the commit.
   */
  accepts({ reads, inserts, hasPhantom }: Overlay): boolean {
    if (hasPhantom) return false;
    for (const [rowKey, seen] of reads) if (!this.isVisible(rowKey) || this.current(rowKey) !== seen) return false;
    for (const rowKey of inserts) if (this.current(rowKey)) return false;
    return true;
  }

  /**
   * Makes a transaction part of the batch. One that failed is part of it only with its reads, because its error may depend on
   * them. Returns a function that undoes it.
   */
  merge({ reads, writes }: Overlay, failed: boolean): () => void {
    const before = { touched: this.#touched, written: this.#written, severalReads: this.#severalReads };
    this.#touched = new Set([...this.#touched, ...reads.keys(), ...(failed ? [] : writes.keys())]);
    if (!failed && writes.size > 0) this.#written = new Map([...this.#written, ...writes]);
    this.#severalReads ||= reads.size > 1;
    return () => {
      this.#touched = before.touched;
      this.#written = before.written;
      this.#severalReads = before.severalReads;
    };
  }

  /** Reads the rows that are not known yet. */
  async load(rowKeys: readonly string[], options: RowOptions): Promise<void> {
    // A row that is to be created is not read: the insert fails if it exists.
    const unknown = rowKeys.filter((rowKey) => !this.isVisible(rowKey));
    for (const [rowKey, row] of await readRows(this.#table, this.#partitionKey, unknown, options)) this.#addRow(rowKey, row);
  }

  /** Reads all rows of a range that match a filter, and returns their keys. */
  async loadRange(range: RowRange, filter: string | undefined, options: RowOptions): Promise<string[]> {
    const rowKeys: string[] = [];
    for (const [rowKey, row] of await queryRange(this.#table, this.#partitionKey, range, filter, options)) {
      // Tombstones need no validation: `detectPhantoms` detects entities that replace them.
      if (isOwnRow(rowKey) || !row.stored) continue;
      this.#addRow(rowKey, row);
      rowKeys.push(rowKey);
    }
    return rowKeys;
  }

  /** Whether all rows that were read are unchanged. Costs as many requests as reading them together. */
  async isCurrent(options: RowOptions): Promise<boolean> {
    const rowKeys = [...this.#touched].filter((rowKey) => this.#rows.has(rowKey));
    const now = await readRows(this.#table, this.#partitionKey, rowKeys, options);
    return rowKeys.every((rowKey) => now.get(rowKey)?.etag === this.row(rowKey).etag);
  }

  /**
   * The first read counts, even if two reads overlap: the function has seen it. If the row has changed since, the commit
   * detects it. A row that is written without having been read stays unknown, so that it is created and not overwritten.
   */
  #addRow(rowKey: string, row: Row): void {
    if (!this.isVisible(rowKey)) this.#rows.set(rowKey, row);
  }
}
