import type { EntityInput, EntityPatch } from "../clients/table.js";
import type { Entity } from "../target/table-entity.js";

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

/** Options of {@link Transaction.get}, {@link Transaction.getMany} and {@link Transaction.query} in {@link runTransaction}. */
export interface TransactionReadOptions {
  /**
   * `false`: the rows that are returned are not part of the commit, so they are neither validated nor rewritten. They may have
   * changed by then, and may be of another state than other reads: do not compute a write to a row from an unvalidated read of it.
   * They are read from the service each time, except for rows that the transaction has already written or read with validation.
   * @defaultValue true: otherwise, what is written could depend on rows that have changed since
   */
  readonly validate?: boolean | undefined;
}

/**
 * The argument of the function of {@link runTransaction}. Reads see the transaction's own writes. The commit rewrites
 * every row that is read, with an empty Merge, in order to validate it, unless it is read with `validate: false`. `T` is the default type of the entities; each method can name another.
 */
export interface Transaction<T extends object = Record<string, unknown>> {
  /** The partition of the transaction. */
  readonly partitionKey: string;
  /** 1 on the first run, and one more after each conflict with another client. */
  readonly attempt: number;
  /** Aborts when the call is cancelled, or when its time is over. */
  readonly signal: AbortSignal;
  /**
   * Reads an entity; undefined if it does not exist. Costs 1 request, none if it is already known; and an operation of the
   * commit.
   * @throws `RestError` if the service rejects a request.
   */
  get<E extends object = T>(rowKey: string, options?: TransactionReadOptions): Promise<Entity<E> | undefined>;
  /**
   * Reads several entities, in this order. Costs 1 request for each 14, or fewer if their keys are long.
   * @throws `RestError` if the service rejects a request.
   */
  getMany<E extends object = T>(rowKeys: readonly string[], options?: TransactionReadOptions): Promise<(Entity<E> | undefined)[]>;
  /**
   * Reads the entities of a range, sorted by row key. All returned entities are validated. Entities that other clients add to the
   * range, or change so that they match, are certainly detected with `detectPhantoms` only.
   * @throws `TypeError` if there is a `filter` without `where` after a write.
   */
  query<E extends object = T>(query?: TransactionQuery<E>, options?: TransactionReadOptions): Promise<Entity<E>[]>;
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
