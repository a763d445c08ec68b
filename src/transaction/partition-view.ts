import type { TableLike } from "../clients/table.js";
import { isOwnRow } from "../target/library-rows.js";
import type { StoredEntity } from "../target/stored-entity.js";
import type { Overlay, RangeQuery, RowRange } from "./overlay.js";
import { inParallel, queryRange, readRows } from "./read-rows.js";
import { noRow } from "./row.js";
import type { Row, RowOptions } from "./row.js";

/** A query of a transaction of the batch. */
interface SeenQuery extends RangeQuery {
  /** Whether the transaction has read nothing else. */
  readonly isOnlyRead: boolean;
}

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
  #queries: readonly SeenQuery[] = [];
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

  /** Whether one of the transactions read more than one row, or queried and read something else: at different moments. */
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
  merge({ reads, writes, queries }: Overlay, failed: boolean): () => void {
    const before = { touched: this.#touched, written: this.#written, queries: this.#queries, severalReads: this.#severalReads };
    this.#touched = new Set([...this.#touched, ...reads.keys(), ...(failed ? [] : writes.keys())]);
    if (!failed && writes.size > 0) this.#written = new Map([...this.#written, ...writes]);
    const found = new Set(queries.flatMap((query) => query.found ?? []));
    const others = [...reads.keys()].filter((rowKey) => !found.has(rowKey));
    const isOnlyRead = others.length + queries.length === 1;
    if (queries.length > 0) this.#queries = [...this.#queries, ...queries.map((query) => ({ ...query, isOnlyRead }))];
    this.#severalReads ||= reads.size > 1 || !(isOnlyRead || queries.length === 0);
    return () => {
      this.#touched = before.touched;
      this.#written = before.written;
      this.#queries = before.queries;
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
    const found = await this.#entitiesIn(range, filter, options);
    for (const [rowKey, row] of found) this.#addRow(rowKey, row);
    return [...found.keys()];
  }

  async #entitiesIn(range: RowRange, filter: string | undefined, options: RowOptions): Promise<Map<string, Row>> {
    const rows = await queryRange(this.#table, this.#partitionKey, range, filter, options);
    // Tombstones need no validation: `detectPhantoms` detects entities that replace them.
    return new Map([...rows].filter(([rowKey, row]) => !isOwnRow(rowKey) && row.stored));
  }

  /**
   * Whether all rows that were read are unchanged, and all queries find the same rows again. A query that is the only read of its
   * transaction may find others as well: what it returned is a state of its own. Costs the queries, and as many requests as reading
   * the other rows together. The queries come first: each row is then known to have been unchanged while they ran.
   */
  async isCurrent(options: RowOptions): Promise<boolean> {
    const found = new Set<string>();
    const queries = new Map<string, SeenQuery[]>();
    for (const query of this.#queries) {
      const key = JSON.stringify([query.range.from, query.range.to, query.filter]);
      if (query.found) queries.set(key, [...(queries.get(key) ?? []), query]);
      for (const rowKey of query.found ?? []) found.add(rowKey);
    }
    const outdated: SeenQuery[] = [];
    await inParallel([...queries.values()], options, async (same, requestOptions) => {
      const [{ range, filter } = { range: {}, filter: undefined }] = same;
      const now = await this.#entitiesIn(range, filter, requestOptions);
      const isSame = ({ found: rowKeys = [], isOnlyRead }: SeenQuery): boolean =>
        (isOnlyRead || rowKeys.length === now.size) && rowKeys.every((rowKey) => now.get(rowKey)?.etag === this.row(rowKey).etag);
      outdated.push(...same.filter((query) => !isSame(query)));
    });
    if (outdated.length > 0) return false;
    const rowKeys = [...this.#touched].filter((rowKey) => this.#rows.has(rowKey) && !found.has(rowKey));
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
