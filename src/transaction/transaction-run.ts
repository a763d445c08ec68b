import type { EntityInput, TableLike } from "../clients/table.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, AlreadyExistsError, CommitUnknownError, TargetNotFoundError } from "../errors.js";
import type { EdmType } from "../target/edm.js";
import { checkNotOwnRow, isOwnRow } from "../target/library-rows.js";
import { entityUrl, entityValue, equalStored, partitionUrl, storedFromValue } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import type { Entity } from "../target/table-entity.js";
import { outcomeOfOperation } from "./commit-transaction.js";
import type { IdentifiedOperation } from "./commit-transaction.js";
import { isWithin, Overlay } from "./overlay.js";
import type { RangeQuery } from "./overlay.js";
import type { PartitionView } from "./partition-view.js";
import { queryRange, readRows } from "./read-rows.js";
import { operationsRowKey, queriesRowKey } from "./row.js";
import type { RowOptions } from "./row.js";
import { RestartError } from "./run-order.js";
import type { Predecessors } from "./run-order.js";
import type { Transaction, TransactionQuery, TransactionReadOptions } from "./transaction.js";

/** The settings of one run. */
interface RunSettings {
  readonly options: () => RowOptions;
  readonly types: Readonly<Record<string, EdmType>>;
  readonly detectPhantoms: boolean;
  readonly readBeforeInsert: boolean;
  readonly predecessors: Predecessors;
  readonly call: {
    readonly attempts: number;
    readonly signal: AbortSignal;
    readonly settings: {
      readonly onUnknown: "throw" | "retry";
      readonly operationId?: string | undefined;
      readonly operation: IdentifiedOperation | undefined;
    };
    isSettled(): boolean;
  };
}

const readOptionNames: OptionNames<TransactionReadOptions> = { validate: 1 };

/** One run of the function of `runTransaction`. What it reads and writes is in its {@link Overlay} alone. */
export class TransactionRun implements Transaction {
  readonly partitionKey: string;
  readonly overlay: Overlay;
  readonly attempt: number;
  readonly #view: PartitionView;
  readonly #table: TableLike;
  readonly #settings: RunSettings;
  /** Writes to rows that have not been read. The rows are read when the function has ended. */
  readonly #deferred: { rowKey: string; apply: () => void }[] = [];
  #wrote = false;
  /** Its function has returned: it takes no more reads and writes. */
  #returned = false;
  #closed = false;
  #mustRestart = false;
  /** A write that could not be applied. */
  #failure: { readonly error: unknown } | undefined;
  #pendingReads = 0;

  constructor(view: PartitionView, table: TableLike, partitionKey: string, settings: RunSettings) {
    this.partitionKey = partitionKey;
    this.overlay = new Overlay(view);
    this.attempt = settings.call.attempts;
    this.#view = view;
    this.#table = table;
    this.#settings = settings;
  }

  get signal(): AbortSignal {
    return this.#settings.call.signal;
  }

  get<T extends object = Record<string, unknown>>(rowKey: string, options: TransactionReadOptions = {}): Promise<Entity<T> | undefined> {
    return observed(this.#getMany<T>("tx.get", [rowKey], options).then(([entity]) => entity));
  }

  getMany<T extends object = Record<string, unknown>>(rowKeys: readonly string[], options: TransactionReadOptions = {}): Promise<(Entity<T> | undefined)[]> {
    return observed(this.#getMany<T>("tx.getMany", rowKeys, options));
  }

  query<T extends object = Record<string, unknown>>(query: TransactionQuery<T> = {}, options: TransactionReadOptions = {}): Promise<Entity<T>[]> {
    return observed(this.#query(query, options));
  }

  create(entity: EntityInput): void {
    const rowKey = this.#checkEntity(entity);
    const stored = storedFromValue(entity, undefined, this.#settings.types);
    // Saves the read: the insert fails if the entity exists. The next attempt then reads it and throws the right error.
    if (!this.#settings.readBeforeInsert && !this.overlay.isVisible(rowKey) && !this.#mustDefer(rowKey)) {
      this.#wrote = true;
      this.overlay.intendWrite(rowKey);
      this.overlay.insert(rowKey, stored);
      return;
    }
    this.#write(rowKey, (current) => {
      if (current) throw createError(AlreadyExistsError, `${this.#name(rowKey)} already exists.`, { url: entityUrl(this.#table, this.partitionKey, rowKey) });
      return stored;
    });
  }

  update(entity: EntityInput): void {
    const { types } = this.#settings;
    const rowKey = this.#checkEntity(entity);
    const patch = copyOf(entity);
    this.#write(rowKey, (current) => merge(patch, current ?? this.#notFound(rowKey), types));
  }

  replace(entity: EntityInput): void {
    const { types } = this.#settings;
    const rowKey = this.#checkEntity(entity);
    const value = copyOf(entity);
    this.#write(rowKey, (current) => storedFromValue(value, current ?? this.#notFound(rowKey), types));
  }

  upsert(given: EntityInput): void {
    const { types } = this.#settings;
    const rowKey = this.#checkEntity(given);
    const entity = copyOf(given);
    this.#write(rowKey, (current) => (current ? merge(entity, current, types) : storedFromValue(entity, undefined, types)));
  }

  delete(entity: string | { readonly rowKey: string }): void {
    const rowKey = typeof entity === "string" ? entity : entity.rowKey;
    this.#check(rowKey);
    this.#write(rowKey, (current) => {
      if (!current) this.#notFound(rowKey);
      return null;
    });
  }

  /** Whether an earlier call with the operation id of this one was applied. */
  isRepetition(): Promise<boolean> | false {
    const { operation } = this.#settings.call.settings;
    return operation !== undefined && this.#findOperation(operation);
  }

  /** The rows that say so become part of the transaction: if the first write arrives now, the commit of this one fails, or the other way round. */
  async #findOperation(operation: IdentifiedOperation): Promise<boolean> {
    const { witness } = operation;
    await this.#reading(this.#view.load(witness === undefined ? [operationsRowKey] : [operationsRowKey, witness], this.#settings.options()));
    this.#checkOpen();
    this.overlay.current(operationsRowKey);
    if (witness !== undefined) {
      await this.#load([witness]);
      this.overlay.current(witness);
    }
    const outcome = outcomeOfOperation(operation, (rowKey) => this.#view.row(rowKey));
    const { attempts, settings } = this.#settings.call;
    if (outcome !== "unknown" || settings.onUnknown === "retry") return outcome === "committed";
    const url = partitionUrl(this.#table, this.partitionKey);
    throw createError(
      CommitUnknownError,
      `The outcome of the first write of operation ${settings.operationId ?? ""} to ${url} is unknown: its witness row was deleted, or too many writes have followed. Read the entities to decide, or pass onUnknown: "retry" if the transaction is idempotent.`,
      { url, attempts, operationId: settings.operationId ?? "" },
    );
  }

  /** Reads the rows that were written without having been read, and closes the transaction. */
  async finish(): Promise<void> {
    this.#checkOpen();
    // What the function has left running could otherwise add writes whose rows are not read any more.
    this.#returned = true;
    if (!this.#failure) await this.#loadDeferred();
    if (this.#failure) throw this.#failure.error;
    this.#closed = true;
  }

  /** Whether it cannot end in this batch, even if its function has caught the {@link RestartError}. */
  get mustRestart(): boolean {
    return this.#mustRestart;
  }

  close(): void {
    this.#closed = true;
  }

  /** Whether a read is in flight. Its function may have ended without waiting for it. */
  get isReading(): boolean {
    return this.#pendingReads > 0;
  }

  async #reading<R>(request: Promise<R>): Promise<R> {
    this.#pendingReads++;
    try {
      return await request;
    } finally {
      this.#pendingReads--;
    }
  }

  async #getMany<T extends object>(method: string, rowKeys: readonly string[], options: TransactionReadOptions): Promise<(Entity<T> | undefined)[]> {
    for (const rowKey of rowKeys) this.#check(rowKey);
    const validate = checkValidate(method, options);
    const unvalidated = validate ? [] : rowKeys.filter((rowKey) => !this.#isOwn(rowKey));
    const [rows] = await Promise.all([
      this.#reading(readRows(this.#table, this.partitionKey, unvalidated, this.#settings.options())),
      this.#load(validate ? rowKeys : rowKeys.filter((rowKey) => this.#isOwn(rowKey))),
    ]);
    this.#checkOpen();
    return rowKeys.map((rowKey) => {
      const row = rows.get(rowKey);
      return row ? this.#entity<T>(rowKey, row.stored) : this.#value<T>(rowKey);
    });
  }

  async #query<T extends object>(query: TransactionQuery<T>, options: TransactionReadOptions): Promise<Entity<T>[]> {
    this.#checkRunning();
    const validate = checkValidate("tx.query", options);
    const { from, to, filter, where } = query;
    if (filter !== undefined && !where && this.#wrote) {
      throw new TypeError("A query with a filter after a write needs where as well: the service does not know of the write yet.");
    }
    const seen = validate ? await this.#queryView({ from, to }, query) : await this.#queryStored({ from, to }, filter);
    this.#checkOpen();
    const own = [...this.overlay.writes.keys()].filter((rowKey) => isWithin(rowKey, query));
    for (const rowKey of own) seen.set(rowKey, () => this.#value(rowKey));
    return [...seen]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, value]) => value() as Entity<T> | undefined)
      .filter((entity): entity is Entity<T> => entity !== undefined && (where?.(entity) ?? true));
  }

  /** The rows of a range as the batch sees them. They become part of the transaction. */
  async #queryView(range: { from?: string | undefined; to?: string | undefined }, { filter, where }: TransactionQuery<never>): Promise<Found> {
    const { predecessors, detectPhantoms, options } = this.#settings;
    this.overlay.intendQuery(range);
    await this.#restartable(predecessors.whenDone([range]));
    this.#checkOpen();
    const written = (): string[] => [...this.#view.written.keys()].filter((rowKey) => isWithin(rowKey, range) && !isOwnRow(rowKey));
    if (filter !== undefined && !where && written().length > 0) {
      // The service cannot apply the filter to writes that are not committed.
      this.#mustRestart = true;
      throw new RestartError("The query has to run before the writes of other transactions: the transaction runs again.");
    }
    const sent: RangeQuery = { range, filter, found: undefined };
    this.overlay.queried(sent);
    if (detectPhantoms) {
      await this.#reading(this.#view.load([queriesRowKey], options()));
      this.#checkOpen();
      this.overlay.current(queriesRowKey);
    }
    await this.#loadDeferred();
    const found = await this.#reading(this.#view.loadRange(range, filter, options()));
    sent.found = found;
    return new Map([...found, ...written()].map((rowKey) => [rowKey, () => this.#value(rowKey)]));
  }

  /** The rows of a range as they are stored. They do not become part of the transaction. */
  async #queryStored(range: { from?: string | undefined; to?: string | undefined }, filter: string | undefined): Promise<Found> {
    await this.#loadDeferred();
    const found = await this.#reading(queryRange(this.#table, this.partitionKey, range, filter, this.#settings.options()));
    const rows = [...found].filter(([rowKey]) => !isOwnRow(rowKey));
    return new Map(rows.map(([rowKey, row]) => [rowKey, () => (this.overlay.has(rowKey) ? this.#value(rowKey) : this.#entity(rowKey, row.stored))]));
  }

  /** Reads rows that become part of the transaction. Waits for earlier transactions of the batch that may write them. */
  async #load(rowKeys: readonly string[]): Promise<void> {
    const { predecessors, options } = this.#settings;
    const unread = rowKeys.filter((rowKey) => !this.overlay.has(rowKey));
    const free = unread.filter((rowKey) => !predecessors.mayWrite(rowKey));
    for (const rowKey of unread) this.overlay.intendRead(rowKey);
    await Promise.all([
      this.#reading(this.#view.load(free, options())),
      free.length < unread.length ? this.#restartable(predecessors.whenDone(unread)) : undefined,
    ]);
    this.#checkOpen();
    if (free.length < unread.length) {
      await this.#reading(this.#view.load(unread, options()));
      this.#checkOpen();
    }
    for (const rowKey of rowKeys) this.#applyDeferred(rowKey);
  }

  #write(rowKey: string, change: (current: StoredEntity | undefined, rowKey: string) => StoredEntity | null): void {
    this.#wrote = true;
    const apply = (): void => {
      const current = this.overlay.current(rowKey);
      const next = change(current, rowKey);
      if (!(current && next && equalStored(current, next))) this.overlay.write(rowKey, next);
    };
    const defer = !this.overlay.isVisible(rowKey) || this.#mustDefer(rowKey);
    this.overlay.intendWrite(rowKey);
    if (defer) this.#deferred.push({ rowKey, apply });
    else apply();
  }

  /** Whether a write has to wait for an earlier write to the same row. */
  #mustDefer(rowKey: string): boolean {
    return this.#isDeferred(rowKey) || (!this.overlay.has(rowKey) && this.#settings.predecessors.mayWrite(rowKey));
  }

  #isDeferred(rowKey: string): boolean {
    return this.#deferred.some((write) => write.rowKey === rowKey);
  }

  #isOwn(rowKey: string): boolean {
    return this.overlay.has(rowKey) || this.#isDeferred(rowKey);
  }

  async #loadDeferred(): Promise<void> {
    const rowKeys = [...new Set(this.#deferred.map(({ rowKey }) => rowKey))];
    if (rowKeys.length > 0) await this.#load(rowKeys);
  }

  #applyDeferred(rowKey: string): void {
    for (const write of this.#deferred.filter((other) => other.rowKey === rowKey)) {
      this.#deferred.splice(this.#deferred.indexOf(write), 1);
      try {
        write.apply();
      } catch (error) {
        // It rejects the read that loaded the row, which the function may not wait for: the transaction must not commit without it.
        this.#failure ??= { error };
        throw error;
      }
    }
  }

  async #restartable(waiting: Promise<void>): Promise<void> {
    try {
      await waiting;
    } catch (error) {
      this.#mustRestart = true;
      throw error;
    }
  }

  #value<T extends object>(rowKey: string): Entity<T> | undefined {
    return this.#entity(rowKey, this.overlay.current(rowKey));
  }

  #entity<T extends object>(rowKey: string, stored: StoredEntity | undefined): Entity<T> | undefined {
    return stored && (entityValue(stored, this.partitionKey, rowKey) as Entity<T>);
  }

  #checkEntity(entity: EntityInput): string {
    if (typeof entity !== "object" || (entity as unknown) === null) throw new TypeError("An entity must be an object.");
    if (entity.partitionKey !== undefined && entity.partitionKey !== this.partitionKey) {
      throw new TypeError(`All entities of the transaction are in partition ${JSON.stringify(this.partitionKey)}; got ${JSON.stringify(entity.partitionKey)}.`);
    }
    this.#check(entity.rowKey);
    return entity.rowKey;
  }

  #check(rowKey: string): void {
    this.#checkRunning();
    checkKey("rowKey", rowKey);
    checkNotOwnRow(rowKey);
  }

  #checkRunning(): void {
    if (this.#returned) throw new TypeError("The transaction is over: its function has returned.");
    this.#checkOpen();
  }

  /** Checked after each wait: nothing of a call that has been rejected is applied. */
  #checkOpen(): void {
    if (this.#closed) throw new TypeError("The transaction is over: its function has returned, or runs again.");
    if (this.#settings.call.isSettled()) throw new TypeError("The transaction is over: its caller aborted it, or its time is over.");
  }

  #name(rowKey: string): string {
    return `Entity ${JSON.stringify(rowKey)} in partition ${JSON.stringify(this.partitionKey)}`;
  }

  #notFound(rowKey: string): never {
    throw createError(TargetNotFoundError, `${this.#name(rowKey)} does not exist.`, { url: entityUrl(this.#table, this.partitionKey, rowKey) });
  }
}

/** The rows that a query found; each is decoded when the result is made. */
type Found = Map<string, () => object | undefined>;

/** A function may start a read and never wait for it: its failure must not become an unhandled rejection. */
function observed<R>(promise: Promise<R>): Promise<R> {
  promise.catch(() => undefined);
  return promise;
}

function checkValidate(method: string, options: TransactionReadOptions): boolean {
  checkOptions(method, options, readOptionNames);
  const { validate = true } = options;
  if (typeof validate !== "boolean") throw new TypeError(`${method}: validate must be true or false.`);
  return validate;
}

/** The write may be applied later, when its row has been read, and the caller may reuse its object by then. */
function copyOf(entity: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(entity).map(([name, value]) => [name, copyOfValue(value)]));
}

function copyOfValue(value: unknown): unknown {
  if (value instanceof Date) return new Date(value);
  if (value instanceof Uint8Array) return value.slice();
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype ? { ...value } : value;
}

function merge(entity: object, current: StoredEntity, types: Readonly<Record<string, EdmType>>): StoredEntity {
  const given = storedFromValue(entity, current, types);
  const removed = new Set(Object.entries(entity).flatMap(([name, value]) => (value === undefined || value === null ? [name] : [])));
  return new Map([...[...current].filter(([name]) => !removed.has(name)), ...given]);
}
