import type { TableLike } from "../clients/table.js";
import { isOwnRow } from "../target/library-rows.js";
import { equalStored } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { isWithin } from "./overlay.js";
import type { Overlay, RangeQuery } from "./overlay.js";
import type { PartitionView } from "./partition-view.js";
import { queryRange, readRows } from "./read-rows.js";
import { queriesRowKey } from "./row.js";
import type { RowOptions } from "./row.js";
import { RestartError } from "./run-order.js";
import type { Predecessors } from "./run-order.js";

/** The rows of a run, and what its reads depend on. */
interface RunRowsParts {
  readonly table: TableLike;
  readonly partitionKey: string;
  readonly view: PartitionView;
  readonly overlay: Overlay;
  readonly predecessors: Predecessors;
  readonly detectPhantoms: boolean;
  readonly options: () => RowOptions;
  /** Called after each wait. Throws if the transaction is over: nothing of a call that has been rejected is applied. */
  readonly checkOpen: () => void;
}

/** A range of row keys. */
type Range = Pick<RangeQuery["range"], "from" | "to">;

/** The rows that a query found; each is read from the overlay when the result is made. */
export type FoundRows = Map<string, () => StoredEntity | undefined>;

/** Reads and writes the rows of one run, in its {@link Overlay}, in the order of the transactions of a batch. */
export class RunRows {
  readonly #parts: RunRowsParts;
  /** Writes to rows that have not been read. The rows are read when the function has ended. */
  readonly #deferred: { rowKey: string; apply: () => void }[] = [];
  /** Whether the function has written anything. */
  wrote = false;
  /** Whether the run cannot end in this batch, even if its function has caught the {@link RestartError}. */
  mustRestart = false;
  /** A write that could not be applied. */
  failure: { readonly error: unknown } | undefined;
  #pendingReads = 0;

  constructor(parts: RunRowsParts) {
    this.#parts = parts;
  }

  /** Whether a read is in flight. The function may have ended without waiting for it. */
  get isReading(): boolean {
    return this.#pendingReads > 0;
  }

  /** Whether the run has read or written the row. */
  isOwn(rowKey: string): boolean {
    return this.#parts.overlay.has(rowKey) || this.#isDeferred(rowKey);
  }

  /** Reads rows that do not become part of the transaction. */
  async readStored(rowKeys: readonly string[]): ReturnType<typeof readRows> {
    const { table, partitionKey, options } = this.#parts;
    return this.#reading(readRows(table, partitionKey, rowKeys, options()));
  }

  /** Reads rows of the library: no function of a batch writes them. */
  async loadOwnRows(rowKeys: readonly string[]): Promise<void> {
    const { view, options, checkOpen } = this.#parts;
    await this.#reading(view.load(rowKeys, options()));
    checkOpen();
  }

  /** Reads rows that become part of the transaction. Waits for earlier transactions of the batch that may write them. */
  async load(rowKeys: readonly string[]): Promise<void> {
    const { overlay, view, predecessors, options, checkOpen } = this.#parts;
    const unread = rowKeys.filter((rowKey) => !overlay.has(rowKey));
    const free = unread.filter((rowKey) => !predecessors.mayWrite(rowKey));
    for (const rowKey of unread) overlay.intendRead(rowKey);
    await Promise.all([
      this.#reading(view.load(free, options())),
      free.length < unread.length ? this.#restartable(predecessors.whenDone(unread)) : undefined,
    ]);
    checkOpen();
    if (free.length < unread.length) {
      await this.#reading(view.load(unread, options()));
      checkOpen();
    }
    for (const rowKey of rowKeys) this.#applyDeferred(rowKey);
  }

  /** Reads the rows that were written without having been read, and applies these writes. */
  async loadDeferred(): Promise<void> {
    const rowKeys = [...new Set(this.#deferred.map(({ rowKey }) => rowKey))];
    if (rowKeys.length > 0) await this.load(rowKeys);
  }

  /** The rows of a range as the batch sees them. They become part of the transaction. `where`: whether the caller filters the result, too. */
  async queryView(range: Range, filter: string | undefined, where: boolean): Promise<FoundRows> {
    const { overlay, view, predecessors, detectPhantoms, options, checkOpen } = this.#parts;
    overlay.intendQuery(range);
    await this.#restartable(predecessors.whenDone([range]));
    checkOpen();
    const written = (): string[] => [...view.written.keys()].filter((rowKey) => isWithin(rowKey, range) && !isOwnRow(rowKey));
    if (filter !== undefined && !where && written().length > 0) {
      // The service cannot apply the filter to writes that are not committed.
      this.mustRestart = true;
      throw new RestartError("The query has to run before the writes of other transactions: the transaction runs again.");
    }
    const sent: RangeQuery = { range, filter, found: undefined };
    overlay.queried(sent);
    if (detectPhantoms) {
      await this.loadOwnRows([queriesRowKey]);
      overlay.current(queriesRowKey);
    }
    await this.loadDeferred();
    const found = await this.#reading(view.loadRange(range, filter, options()));
    sent.found = found;
    return new Map([...found, ...written()].map((rowKey) => [rowKey, () => overlay.current(rowKey)]));
  }

  /** The rows of a range as they are stored. They do not become part of the transaction. */
  async queryStored(range: Range, filter: string | undefined): Promise<FoundRows> {
    const { table, partitionKey, overlay, options } = this.#parts;
    await this.loadDeferred();
    const found = await this.#reading(queryRange(table, partitionKey, range, filter, options()));
    const rows = [...found].filter(([rowKey]) => !isOwnRow(rowKey));
    return new Map(rows.map(([rowKey, row]) => [rowKey, () => (overlay.has(rowKey) ? overlay.current(rowKey) : row.stored)]));
  }

  /** Inserts a row that has not been read, if the order of the batch allows it. False: write it as any other. */
  insertUnread(rowKey: string, stored: StoredEntity): boolean {
    const { overlay } = this.#parts;
    if (overlay.isVisible(rowKey) || this.#mustDefer(rowKey)) return false;
    this.wrote = true;
    overlay.intendWrite(rowKey);
    overlay.insert(rowKey, stored);
    return true;
  }

  /** Changes a row: at once if it has been read, else when it has been. */
  write(rowKey: string, change: (current: StoredEntity | undefined) => StoredEntity | null): void {
    const { overlay } = this.#parts;
    this.wrote = true;
    const apply = (): void => {
      const current = overlay.current(rowKey);
      const next = change(current);
      if (!(current && next && equalStored(current, next))) overlay.write(rowKey, next);
    };
    const defer = !overlay.isVisible(rowKey) || this.#mustDefer(rowKey);
    overlay.intendWrite(rowKey);
    if (defer) this.#deferred.push({ rowKey, apply });
    else apply();
  }

  /** Whether a write has to wait for an earlier write to the same row. */
  #mustDefer(rowKey: string): boolean {
    const { overlay, predecessors } = this.#parts;
    return this.#isDeferred(rowKey) || (!overlay.has(rowKey) && predecessors.mayWrite(rowKey));
  }

  #isDeferred(rowKey: string): boolean {
    return this.#deferred.some((write) => write.rowKey === rowKey);
  }

  #applyDeferred(rowKey: string): void {
    for (const write of this.#deferred.filter((other) => other.rowKey === rowKey)) {
      this.#deferred.splice(this.#deferred.indexOf(write), 1);
      try {
        write.apply();
      } catch (error) {
        // It rejects the read that loaded the row, which the function may not wait for: the transaction must not commit without it.
        this.failure ??= { error };
        throw error;
      }
    }
  }

  async #reading<R>(request: Promise<R>): Promise<R> {
    this.#pendingReads++;
    try {
      return await request;
    } finally {
      this.#pendingReads--;
    }
  }

  async #restartable(waiting: Promise<void>): Promise<void> {
    try {
      await waiting;
    } catch (error) {
      this.mustRestart = true;
      throw error;
    }
  }
}
