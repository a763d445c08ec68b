import type { OperationTracingOptions } from "@azure/core-tracing";
import type { EntityInput, TableLike } from "../clients/table.js";
import { observed } from "../core/pending-call.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, AlreadyExistsError, TargetNotFoundError, quotedText } from "../errors.js";
import type { EdmType } from "../target/edm.js";
import { checkNotOwnRow } from "../target/library-rows.js";
import { entityUrl, entityValue, partitionUrl, storedFromValue } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import type { Entity } from "../target/table-entity.js";
import { checkQuery, matches } from "./check-query.js";
import type { TransactionCompanion } from "./companion.js";
import type { IdentifiedOperation } from "./commit-transaction.js";
import { copyOf, merge } from "./entity-changes.js";
import { isWithin, Overlay } from "./overlay.js";
import type { PartitionView } from "./partition-view.js";
import { isApplied, isReceived } from "./repetition.js";
import type { Receipt } from "./repetition.js";
import type { RowOptions } from "./row.js";
import type { Predecessors } from "./run-order.js";
import { RunRows } from "./run-rows.js";
import type { Transaction, TransactionQuery, TransactionReadOptions } from "./transaction.js";

/** The call whose function runs. */
interface RunningCall {
  readonly attempts: number;
  readonly signal: AbortSignal;
  readonly promise: Promise<unknown>;
  readonly trace: { readonly tracingOptions: OperationTracingOptions | undefined };
  readonly readReceipt: boolean;
  readonly settings: {
    readonly onUnknown: "throw" | "retry";
    readonly operationId?: string | undefined;
    readonly operation: IdentifiedOperation | undefined;
    readonly receipt: Receipt | undefined;
  };
  isSettled(): boolean;
}

/** The settings of one run. */
interface RunSettings {
  readonly options: () => RowOptions;
  readonly types: Readonly<Record<string, EdmType>>;
  readonly detectPhantoms: boolean;
  readonly readBeforeInsert: boolean;
  readonly predecessors: Predecessors;
  readonly call: RunningCall;
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
  readonly #rows: RunRows;
  /** Its function has returned: it takes no more reads and writes. */
  #returned = false;
  #closed = false;
  readonly #companions: TransactionCompanion[] = [];

  constructor(view: PartitionView, table: TableLike, partitionKey: string, settings: RunSettings) {
    this.partitionKey = partitionKey;
    this.overlay = new Overlay(view);
    this.attempt = settings.call.attempts;
    this.#view = view;
    this.#table = table;
    this.#settings = settings;
    const { options, detectPhantoms, predecessors } = settings;
    this.#rows = new RunRows({ table, partitionKey, view, overlay: this.overlay, predecessors, detectPhantoms, options, checkOpen: () => this.#checkOpen() });
  }

  get signal(): AbortSignal {
    return this.#settings.call.signal;
  }

  /** The table of the transaction. */
  get table(): TableLike {
    return this.#table;
  }

  /** The call of this run: the same for all runs of its function. When its promise is settled, no further commit is sent for it. */
  get call(): { readonly promise: Promise<unknown> } {
    return this.#settings.call;
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
    if (!this.#settings.readBeforeInsert && this.#rows.insertUnread(rowKey, stored)) return;
    this.#rows.write(rowKey, (current) => {
      if (current) throw createError(AlreadyExistsError, `${this.#name(rowKey)} already exists.`, { url: entityUrl(this.#table, this.partitionKey, rowKey) });
      return stored;
    });
  }

  update(entity: EntityInput): void {
    const { types } = this.#settings;
    const rowKey = this.#checkEntity(entity);
    const patch = copyOf(entity);
    this.#rows.write(rowKey, (current) => merge(patch, current ?? this.#notFound(rowKey), types));
  }

  replace(entity: EntityInput): void {
    const { types } = this.#settings;
    const rowKey = this.#checkEntity(entity);
    const value = copyOf(entity);
    this.#rows.write(rowKey, (current) => storedFromValue(value, current ?? this.#notFound(rowKey), types));
  }

  upsert(given: EntityInput): void {
    const { types } = this.#settings;
    const rowKey = this.#checkEntity(given);
    const entity = copyOf(given);
    this.#rows.write(rowKey, (current) => (current ? merge(entity, current, types) : storedFromValue(entity, undefined, types)));
  }

  delete(entity: string | { readonly rowKey: string }): void {
    const given = entity as typeof entity | null | undefined;
    const rowKey = typeof given === "string" ? given : given?.rowKey;
    this.#check(rowKey);
    this.#rows.write(rowKey, (current) => {
      if (!current) this.#notFound(rowKey);
      return null;
    });
  }

  /** Whether an earlier call with the operation id or the receipt of this one was applied. */
  isRepetition(): Promise<boolean> | false {
    const { call, predecessors } = this.#settings;
    const { operation, receipt } = call.settings;
    if (receipt) return isReceived(receipt, this.#rows, this.overlay, call.readReceipt || predecessors.mayWrite(receipt.rowKey));
    return operation !== undefined && isApplied(operation, this.#rows, this.overlay, this.#view, { ...call.settings, attempts: call.attempts, url: partitionUrl(this.#table, this.partitionKey) });
  }

  /** Creates the receipt of this transaction: the last thing that its function does. */
  insertReceipt(entity: EntityInput): void {
    this.checkRunning();
    const { rowKey } = entity;
    const stored = storedFromValue(entity, undefined, {});
    if (this.overlay.isVisible(rowKey)) this.overlay.write(rowKey, stored);
    else this.overlay.insert(rowKey, stored);
  }

  /** Adds a row that is made when the function has returned. */
  attach(companion: TransactionCompanion): void {
    this.checkRunning();
    this.#companions.push(companion);
  }

  async #prepareCompanions(): Promise<void> {
    const { call } = this.#settings;
    const request = { abortSignal: call.signal, tracingOptions: call.trace.tracingOptions ?? {} };
    const rows = await Promise.all(this.#companions.map((companion) => companion.prepare(request)));
    this.#checkOpen();
    for (const [index, companion] of this.#companions.entries()) {
      const row = rows[index];
      if (row) this.overlay.accompany(companion, row.rowKey, storedFromValue(row, undefined, {}));
    }
  }

  /** Reads the rows that were written without having been read, adds the rows of companions, and closes the transaction. */
  async finish(): Promise<void> {
    this.#checkOpen();
    // What the function has left running could otherwise add writes whose rows are not read any more.
    this.#returned = true;
    if (!this.#rows.failure) await this.#rows.loadDeferred();
    if (this.#rows.failure) throw this.#rows.failure.error;
    // Last: what a companion does for its row is done for nothing if the transaction fails before.
    if (this.#companions.length > 0) await this.#prepareCompanions();
    this.#closed = true;
  }

  /** Whether it cannot end in this batch, even if its function has caught the {@link RestartError}. */
  get mustRestart(): boolean {
    return this.#rows.mustRestart;
  }

  close(): void {
    this.#closed = true;
  }

  /** Whether a read is in flight. Its function may have ended without waiting for it. */
  get isReading(): boolean {
    return this.#rows.isReading;
  }

  async #getMany<T extends object>(method: string, rowKeys: readonly string[], options: TransactionReadOptions): Promise<(Entity<T> | undefined)[]> {
    const given: unknown = rowKeys;
    if (!Array.isArray(given)) throw new TypeError(`${method}: rowKeys must be an array`);
    for (const rowKey of rowKeys) this.#check(rowKey);
    const validate = checkValidate(method, options);
    const unvalidated = validate ? [] : rowKeys.filter((rowKey) => !this.#rows.isOwn(rowKey));
    const [rows] = await Promise.all([
      this.#rows.readStored(unvalidated),
      this.#rows.load(validate ? rowKeys : rowKeys.filter((rowKey) => this.#rows.isOwn(rowKey))),
    ]);
    this.#checkOpen();
    return rowKeys.map((rowKey) => {
      const row = rows.get(rowKey);
      return this.#entity<T>(rowKey, row ? row.stored : this.overlay.current(rowKey));
    });
  }

  async #query<T extends object>(query: TransactionQuery<T>, options: TransactionReadOptions): Promise<Entity<T>[]> {
    this.checkRunning();
    const validate = checkValidate("tx.query", options);
    const { from, to, filter, where } = checkQuery(query);
    if (filter !== undefined && !where && this.#rows.wrote) {
      throw new TypeError("A query with a filter after a write needs where as well: the service does not know of the write yet.");
    }
    const seen = validate ? await this.#rows.queryView({ from, to }, filter, where !== undefined) : await this.#rows.queryStored({ from, to }, filter);
    this.#checkOpen();
    const own = [...this.overlay.writes.keys()].filter((rowKey) => isWithin(rowKey, query));
    for (const rowKey of own) seen.set(rowKey, () => this.overlay.current(rowKey));
    return [...seen]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([rowKey, stored]) => this.#entity<T>(rowKey, stored()))
      .filter((entity): entity is Entity<T> => entity !== undefined && matches(query, entity));
  }

  #entity<T extends object>(rowKey: string, stored: StoredEntity | undefined): Entity<T> | undefined {
    return stored && (entityValue(stored, this.partitionKey, rowKey) as Entity<T>);
  }

  #checkEntity(entity: EntityInput): string {
    if (typeof entity !== "object" || (entity as unknown) === null) throw new TypeError("An entity must be an object.");
    if (entity.partitionKey !== undefined && entity.partitionKey !== this.partitionKey) {
      throw new TypeError(`All entities of the transaction are in partition ${quotedText(this.partitionKey)}; got ${quotedText(entity.partitionKey)}.`);
    }
    this.#check(entity.rowKey);
    return entity.rowKey;
  }

  #check(rowKey: string | undefined): asserts rowKey is string {
    this.checkRunning();
    const key = rowKey as string;
    checkKey("rowKey", key);
    checkNotOwnRow(key);
  }

  /** Throws if the function has returned: what it adds then would have no effect. */
  checkRunning(): void {
    if (this.#returned) throw new TypeError("The transaction is over: its function has returned.");
    this.#checkOpen();
  }

  /** Checked after each wait: nothing of a call that has been rejected is applied. */
  #checkOpen(): void {
    if (this.#closed) throw new TypeError("The transaction is over: its function has returned, or runs again.");
    if (this.#settings.call.isSettled()) throw new TypeError("The transaction is over: its caller aborted it, or its time is over.");
  }

  #name(rowKey: string): string {
    return `Entity ${quotedText(rowKey)} in partition ${quotedText(this.partitionKey)}`;
  }

  #notFound(rowKey: string): never {
    throw createError(TargetNotFoundError, `${this.#name(rowKey)} does not exist.`, { url: entityUrl(this.#table, this.partitionKey, rowKey) });
  }
}

function checkValidate(method: string, options: TransactionReadOptions): boolean {
  checkOptions(method, options, readOptionNames);
  const { validate = true } = options;
  if (typeof validate !== "boolean") throw new TypeError(`${method}: validate must be true or false.`);
  return validate;
}
