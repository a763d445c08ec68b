import type { StoredEntity } from "../target/stored-entity.js";
import type { TransactionCompanion } from "./companion.js";

/** A range of row keys, both ends inclusive. */
export interface RowRange {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

export function isWithin(rowKey: string, { from, to }: RowRange): boolean {
  return (from === undefined || rowKey >= from) && (to === undefined || rowKey <= to);
}

/** A query of stored rows. */
export interface RangeQuery {
  readonly range: RowRange;
  readonly filter: string | undefined;
  /** The keys of the rows that it found; undefined: it has not ended, or failed. */
  found: readonly string[] | undefined;
}

/** What an overlay is on top of: the view of a batch. */
interface BaseView {
  isVisible(rowKey: string): boolean;
  current(rowKey: string): StoredEntity | undefined;
}

/**
 * What one run of a function has read and written, on top of the view of its batch. It is private to the run: the batch merges it
 * into the view after the function has returned and if what it read is still so. Dropping it is the roll-back.
 */
export class Overlay {
  readonly #view: BaseView;
  readonly #reads = new Map<string, StoredEntity | undefined>();
  readonly #writes = new Map<string, StoredEntity | null>();
  readonly #inserts = new Set<string>();
  readonly #queries: RangeQuery[] = [];
  readonly #readIntents = new Set<string>();
  readonly #writeIntents = new Set<string>();
  readonly #rangeIntents: RowRange[] = [];
  readonly #companions: TransactionCompanion[] = [];
  #hasPhantom = false;

  constructor(view: BaseView) {
    this.#view = view;
  }

  /** The rows that were read from the view, as they were then. The commit validates them. */
  get reads(): ReadonlyMap<string, StoredEntity | undefined> {
    return this.#reads;
  }

  /** The new state of rows; null: deleted. */
  get writes(): ReadonlyMap<string, StoredEntity | null> {
    return this.#writes;
  }

  /** The rows that are created without having been read. */
  get inserts(): ReadonlySet<string> {
    return this.#inserts;
  }

  /** The queries whose result the transaction has seen. */
  get queries(): readonly RangeQuery[] {
    return this.#queries;
  }

  /** Whether another transaction of the batch has since written to a range that was queried. */
  get hasPhantom(): boolean {
    return this.#hasPhantom;
  }

  /** Whether the row is already part of the transaction. */
  has(rowKey: string): boolean {
    return this.#writes.has(rowKey) || this.#reads.has(rowKey);
  }

  /** Whether the state of the row is known without a request. */
  isVisible(rowKey: string): boolean {
    return this.has(rowKey) || this.#view.isVisible(rowKey);
  }

  /** What the transaction sees in a visible row. A row that was read stays as it was read. */
  current(rowKey: string): StoredEntity | undefined {
    const written = this.#writes.get(rowKey);
    if (written !== undefined) return written ?? undefined;
    if (!this.#reads.has(rowKey)) this.#reads.set(rowKey, this.#view.current(rowKey));
    return this.#reads.get(rowKey);
  }

  write(rowKey: string, stored: StoredEntity | null): void {
    this.#writes.set(rowKey, stored);
  }

  /** Creates a row that has not been read: the insert fails if it exists. */
  insert(rowKey: string, stored: StoredEntity): void {
    this.#inserts.add(rowKey);
    this.#writes.set(rowKey, stored);
  }

  /** The companions whose rows are among the writes. */
  get companions(): readonly TransactionCompanion[] {
    return this.#companions;
  }

  /** Creates the row of a companion. Its key is new. */
  accompany(companion: TransactionCompanion, rowKey: string, stored: StoredEntity): void {
    this.insert(rowKey, stored);
    this.#companions.push(companion);
  }

  /** The query is about to be sent. */
  queried(query: RangeQuery): void {
    this.#queries.push(query);
  }

  /** Another transaction has written rows, which the queries of this one may not have returned. */
  noteWrites(rowKeys: Iterable<string>): void {
    if (this.#queries.length === 0) return;
    for (const rowKey of rowKeys) {
      if (!this.#reads.has(rowKey) && this.#queries.some(({ range }) => isWithin(rowKey, range))) this.#hasPhantom = true;
    }
  }

  // What later transactions of the batch wait for.

  intendRead(rowKey: string): void {
    this.#readIntents.add(rowKey);
  }

  intendWrite(rowKey: string): void {
    this.#writeIntents.add(rowKey);
  }

  intendQuery(range: RowRange): void {
    this.#rangeIntents.push(range);
  }

  get readIntents(): ReadonlySet<string> {
    return this.#readIntents;
  }

  get writeIntents(): ReadonlySet<string> {
    return this.#writeIntents;
  }

  get rangeIntents(): readonly RowRange[] {
    return this.#rangeIntents;
  }
}
