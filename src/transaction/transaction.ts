import type { EntityInput, EntityPatch, TableLike } from "../clients/table.js";
import { createError, AlreadyExistsError, TargetNotFoundError } from "../errors.js";
import type { EdmType } from "../target/edm.js";
import { entityUrl, entityValue, equalStored, storedFromValue } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import type { Entity } from "../target/table-entity.js";
import type { PartitionView, RowRange } from "./partition-view.js";
import { isOwnRow, ownRowPrefix, queriesRowKey } from "./row.js";
import type { RowOptions } from "./row.js";

/** What to read with {@link Transaction.query} in {@link runTransaction}: a range of row keys, an OData filter, a predicate. */
export interface TransactionQuery<T extends object = Record<string, unknown>> {
  /** The first row key of a range. @defaultValue the first of the partition */
  readonly from?: string | undefined;
  /** The last row key of a range, inclusive. @defaultValue the last of the partition */
  readonly to?: string | undefined;
  /** An OData filter, which the service applies to what is stored. @defaultValue none */
  readonly filter?: string | undefined;
  /**
   * Applied to what the transaction sees. Needed in addition to `filter` if the transaction has written before it queries:
   * the service does not know those writes yet.
   * @defaultValue none
   */
  readonly where?: ((entity: Entity<T>) => boolean) | undefined;
}

/**
 * The argument of the function of {@link runTransaction}. Reads see the transaction's own writes. Everything that is read is
 * validated by the commit. `T` is the default type of the entities; each method can name another.
 */
export interface Transaction<T extends object = Record<string, unknown>> {
  /** The partition of the transaction. */
  readonly partitionKey: string;
  /** 1 on the first run. The function runs again after a conflict. */
  readonly attempt: number;
  /** Aborts when the call is cancelled, or when its time is over. */
  readonly signal: AbortSignal;
  /**
   * Reads an entity; undefined if it does not exist. Costs 1 request, none if it is already known.
   * @throws `RestError` if the service rejects a request.
   */
  get<E extends object = T>(rowKey: string): Promise<Entity<E> | undefined>;
  /**
   * Reads several entities, in this order. Costs 1 request for each 14.
   * @throws `RestError` if the service rejects a request.
   */
  getMany<E extends object = T>(rowKeys: readonly string[]): Promise<(Entity<E> | undefined)[]>;
  /**
   * Reads the entities of a range, sorted by row key. All returned entities are validated. Entities that other clients add to the
   * range, or change so that they match, are detected with `detectPhantoms` only.
   * @throws `TypeError` if there is a `filter` without `where` after a write.
   */
  query<E extends object = T>(query?: TransactionQuery<E>): Promise<Entity<E>[]>;
  /** Creates an entity. The call rejects with an {@link AlreadyExistsError} if it exists. */
  create<E extends object = T>(entity: NoInfer<EntityInput<E>>): void;
  /**
   * Changes the given properties of an existing entity; a property that is `undefined` is removed. The call rejects with a
   * {@link TargetNotFoundError} if the entity does not exist.
   */
  update<E extends object = T>(patch: NoInfer<EntityPatch<E>>): void;
  /** Replaces all properties of an existing entity. The call rejects with a {@link TargetNotFoundError} if it does not exist. */
  replace<E extends object = T>(entity: NoInfer<EntityInput<E>>): void;
  /** Changes the given properties, or creates the entity. */
  upsert<E extends object = T>(entity: NoInfer<EntityInput<E>>): void;
  /** Deletes an entity. The call rejects with a {@link TargetNotFoundError} if it does not exist. */
  delete(entity: string | { readonly rowKey: string }): void;
}

/**
 * A query with a filter must run before other transactions of its batch have written: the service cannot apply the filter to
 * writes that are not committed.
 */
export class NeedsCleanViewError extends Error {}

/** The settings of one run. */
interface RunSettings {
  readonly options: () => RowOptions;
  readonly types: Readonly<Record<string, EdmType>>;
  readonly detectPhantoms: boolean;
  readonly readBeforeInsert: boolean;
  readonly call: { readonly attempts: number; readonly signal: AbortSignal };
}

/** One run of the function of `runTransaction`. */
export class TransactionRun implements Transaction {
  readonly partitionKey: string;
  readonly #view: PartitionView;
  readonly #table: TableLike;
  readonly #options: () => RowOptions;
  readonly #types: Readonly<Record<string, EdmType>>;
  readonly #detectPhantoms: boolean;
  readonly #call: RunSettings["call"];
  readonly attempt: number;
  /** Writes to rows that have not been read. The rows are read when the function has ended. */
  readonly #deferred: { rowKey: string; apply: () => void }[] = [];
  readonly #readBeforeInsert: boolean;
  #wrote = false;
  #closed = false;
  #needsCleanView = false;

  constructor(view: PartitionView, table: TableLike, partitionKey: string, settings: RunSettings) {
    this.partitionKey = partitionKey;
    this.#view = view;
    this.#table = table;
    this.#options = settings.options;
    this.#types = settings.types;
    this.#detectPhantoms = settings.detectPhantoms;
    this.#readBeforeInsert = settings.readBeforeInsert;
    this.#call = settings.call;
    this.attempt = settings.call.attempts;
  }

  get signal(): AbortSignal {
    return this.#call.signal;
  }

  async get<T extends object = Record<string, unknown>>(rowKey: string): Promise<Entity<T> | undefined> {
    this.#check(rowKey);
    await this.#view.load([rowKey], this.#options());
    this.#settleDeferred(rowKey);
    return this.#value<T>(rowKey);
  }

  async getMany<T extends object = Record<string, unknown>>(rowKeys: readonly string[]): Promise<(Entity<T> | undefined)[]> {
    for (const rowKey of rowKeys) this.#check(rowKey);
    await this.#view.load(rowKeys, this.#options());
    for (const rowKey of rowKeys) this.#settleDeferred(rowKey);
    return rowKeys.map((rowKey) => this.#value<T>(rowKey));
  }

  async query<T extends object = Record<string, unknown>>(query: TransactionQuery<T> = {}): Promise<Entity<T>[]> {
    this.#checkOpen();
    const { filter, where } = query;
    if (filter !== undefined && !where) {
      if (this.#wrote) throw new TypeError("A query with a filter after a write needs where as well: the service does not know of the write yet.");
      if (this.#view.written.size > 0) {
        this.#needsCleanView = true;
        throw new NeedsCleanViewError("the query has to run before the writes of other transactions");
      }
    }
    if (this.#detectPhantoms) await this.#view.load([queriesRowKey], this.#options());
    await this.#loadDeferred();
    const found = await this.#view.loadRange(query, filter, this.#options());
    const written = [...this.#view.written.keys()].filter((rowKey) => isWithin(rowKey, query) && !isOwnRow(rowKey));
    return [...new Set([...found, ...written])]
      .sort()
      .map((rowKey) => this.#value<T>(rowKey))
      .filter((entity): entity is Entity<T> => entity !== undefined && (where?.(entity) ?? true));
  }

  create(entity: EntityInput): void {
    const rowKey = this.#checkEntity(entity);
    const stored = storedFromValue(entity, undefined, this.#types);
    // Saves the read: the insert fails if the entity exists. The next attempt then reads it and throws the right error.
    if (!this.#readBeforeInsert && !this.#isVisible(rowKey) && !this.#isDeferred(rowKey)) {
      this.#wrote = true;
      this.#view.write(rowKey, stored);
      return;
    }
    this.#write(rowKey, (current) => {
      if (current) throw createError(AlreadyExistsError, `${this.#name(rowKey)} already exists.`, { url: entityUrl(this.#table, this.partitionKey, rowKey) });
      return stored;
    });
  }

  update(entity: EntityInput): void {
    this.#write(this.#checkEntity(entity), (current, rowKey) => merge(entity, current ?? this.#notFound(rowKey), this.#types));
  }

  replace(entity: EntityInput): void {
    this.#write(this.#checkEntity(entity), (current, rowKey) => storedFromValue(entity, current ?? this.#notFound(rowKey), this.#types));
  }

  upsert(entity: EntityInput): void {
    this.#write(this.#checkEntity(entity), (current) => (current ? merge(entity, current, this.#types) : storedFromValue(entity, undefined, this.#types)));
  }

  delete(entity: string | { readonly rowKey: string }): void {
    const rowKey = typeof entity === "string" ? entity : entity.rowKey;
    this.#check(rowKey);
    this.#write(rowKey, (current) => {
      if (!current) this.#notFound(rowKey);
      return null;
    });
  }

  /** Reads the rows that were written without having been read, and closes the transaction. */
  async finish(): Promise<void> {
    await this.#loadDeferred();
    this.#closed = true;
  }

  /** Whether it has to run in a batch in which no other transaction has written before it. */
  get needsCleanView(): boolean {
    return this.#needsCleanView;
  }

  close(): void {
    this.#closed = true;
  }

  #write(rowKey: string, change: (current: StoredEntity | undefined, rowKey: string) => StoredEntity | null): void {
    this.#wrote = true;
    const apply = (): void => {
      const current = this.#view.current(rowKey);
      const next = change(current, rowKey);
      if (current && next && equalStored(current, next)) this.#view.touch(rowKey);
      else this.#view.write(rowKey, next);
    };
    if (this.#isDeferred(rowKey) || !this.#isVisible(rowKey)) this.#deferred.push({ rowKey, apply });
    else apply();
  }

  #isVisible(rowKey: string): boolean {
    return this.#view.written.has(rowKey) || this.#view.isKnown(rowKey);
  }

  #isDeferred(rowKey: string): boolean {
    return this.#deferred.some((write) => write.rowKey === rowKey);
  }

  async #loadDeferred(): Promise<void> {
    const rowKeys = [...new Set(this.#deferred.map(({ rowKey }) => rowKey))];
    if (rowKeys.length === 0) return;
    await this.#view.load(rowKeys, this.#options());
    for (const rowKey of rowKeys) this.#settleDeferred(rowKey);
  }

  #settleDeferred(rowKey: string): void {
    for (const write of this.#deferred.filter((other) => other.rowKey === rowKey)) {
      this.#deferred.splice(this.#deferred.indexOf(write), 1);
      write.apply();
    }
  }

  #value<T extends object>(rowKey: string): Entity<T> | undefined {
    const stored = this.#view.current(rowKey);
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
    this.#checkOpen();
    checkKey("rowKey", rowKey);
    if (isOwnRow(rowKey)) throw new RangeError(`Row keys that begin with ${ownRowPrefix} are reserved for the library.`);
  }

  #checkOpen(): void {
    if (this.#closed) throw new TypeError("The transaction is over: its function has returned, or runs again.");
  }

  #name(rowKey: string): string {
    return `Entity ${JSON.stringify(rowKey)} in partition ${JSON.stringify(this.partitionKey)}`;
  }

  #notFound(rowKey: string): never {
    throw createError(TargetNotFoundError, `${this.#name(rowKey)} does not exist.`, { url: entityUrl(this.#table, this.partitionKey, rowKey) });
  }
}

function merge(entity: object, current: StoredEntity, types: Readonly<Record<string, EdmType>>): StoredEntity {
  const given = storedFromValue(entity, current, types);
  const removed = new Set(Object.entries(entity).flatMap(([name, value]) => (value === undefined || value === null ? [name] : [])));
  return new Map([...[...current].filter(([name]) => !removed.has(name)), ...given]);
}

function isWithin(rowKey: string, { from, to }: RowRange): boolean {
  return (from === undefined || rowKey >= from) && (to === undefined || rowKey <= to);
}
