import type { CallOptions, ConflictRetryOptions } from "../clients/call.js";
import type { EntityInput, TableAction, TableLike, TransactionActionLike } from "../clients/table.js";
import { observed } from "../core/pending-call.js";
import { read } from "../core/request.js";
import { retry } from "../core/retry.js";
import { actionsIn } from "../core/table-action.js";
import { withUpdate } from "../core/measure.js";
import { describeSpan, withSpan } from "../core/telemetry.js";
import { checkOptions, checkRetryLimits } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { isConcurrencyError, quotedText } from "../errors.js";
import { isOwnRow, ownRowPrefix, quoted, withinFilter } from "../target/library-rows.js";
import { entityValue, hasMarker, partitionUrl, storedFromValue } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import type { Entity } from "../target/table-entity.js";
import { entitiesOf, listEntitiesOptionNames } from "../transaction/list-entities.js";
import { limitOf } from "../transaction/operations.js";
import { readRows } from "../transaction/read-rows.js";
import { readRow } from "../transaction/row.js";
import type { Row } from "../transaction/row.js";
import type { Mutator, UpdateResult } from "../update/mutator.js";
import { updateDefaults } from "../update/options.js";
import { rowOptionsOf } from "./fence.js";
import type { Fence, FencedRequest } from "./fence.js";
import { FencedActions, SeenRows } from "./fenced-actions.js";
import { updateFenced } from "./fenced-update.js";
import { HeldCall, whileHeld } from "./held-call.js";
import type { HeldLock } from "./held-call.js";
import { callOptionNames } from "./lock-options.js";

/**
 * A partition under a {@link TableLock}. `T` is the type of its entities; each method can name another. Every write carries the
 * fence: as soon as the lock has a later holder, the service rejects it, and the call rejects with a `FencedError`. When the lock is
 * lost or released, calls reject before they send anything, with a `LeaseLostError` whose `committed` is false; a write in flight
 * ends with a `CommitUnknownError`.
 */
export interface FencedPartition<T extends object = Record<string, unknown>> {
  /** The key of the partition. */
  readonly partitionKey: string;
  /**
   * Reads an entity; undefined if it does not exist. Costs 1 request.
   * @throws `TypeError` if the key is not locked, or is not a key.
   * @throws {@link LeaseLostError} if the lock is lost, or was released.
   */
  get<E extends object = T>(rowKey: string, options?: CallOptions): Promise<Entity<E> | undefined>;
  /**
   * The entities of the partition that match an OData filter; by default all. Costs 1 request for each 1,000.
   * @throws `TypeError` if an option is unknown.
   * @throws {@link LeaseLostError} if the lock is lost or released, also between two entities.
   */
  list<E extends object = T>(options?: CallOptions & { filter?: string | undefined }): AsyncIterableIterator<Entity<E>>;
  /**
   * Reads an entity, applies the mutator, and writes the changes; starts again if a client that does not use the lock wrote in
   * between. Costs 2 requests, 3 for a delete, 1 if nothing changes; 3 more for each conflict.
   * @throws {@link FencedError} if the lock has a later holder: nothing was written.
   * @throws {@link LeaseLostError} if the lock was lost or released before the write was sent: nothing was written.
   * @throws {@link TargetNotFoundError} if the entity does not exist, and there is no `initial`.
   * @throws {@link ConflictError} if other clients kept changing the entity: nothing was written.
   * @throws {@link OperationTimeoutError} if the time was over before a write was sent.
   * @throws {@link CommitUnknownError} if a write was sent, and its outcome cannot be determined.
   */
  update<E extends object = T>(
    rowKey: string,
    mutator: Mutator<Entity<E>>,
    options?: ConflictRetryOptions & { initial?: NoInfer<E | (() => E)> | undefined },
  ): Promise<UpdateResult<Entity<E>>>;
  /**
   * Creates an entity. Costs 1 request.
   * @throws {@link FencedError} if the lock has a later holder: nothing was written.
   * @throws {@link LeaseLostError} if the lock was lost or released before the write was sent: nothing was written.
   * @throws {@link ConflictError} if the entity exists.
   */
  create<E extends object = T>(entity: NoInfer<EntityInput<E>>, options?: CallOptions): Promise<void>;
  /**
   * Deletes an entity. Costs 1 request.
   * @throws {@link FencedError} if the lock has a later holder: nothing was written.
   * @throws {@link LeaseLostError} if the lock was lost or released before the write was sent: nothing was written.
   * @throws {@link ConflictError} if the entity does not exist.
   */
  delete(rowKey: string, options?: CallOptions): Promise<void>;
  /**
   * Commits all actions or none. Costs 1 request; and 1 for each 14 rows that are merged into, or updated without an ETag, if this
   * holder has neither read nor written them before: a row may be what a deleted entity left behind.
   * @throws {@link FencedError} if the lock has a later holder: nothing was written.
   * @throws {@link LeaseLostError} if the lock was lost or released before the write was sent: nothing was written.
   * @throws {@link CommitUnknownError} if the write was sent, and its outcome cannot be determined.
   * @throws {@link ConflictError} if a condition of an action does not hold, or an entity to be updated does not exist: nothing was written.
   * @throws {@link LimitError} if the service does not accept a transaction of that size: nothing was written.
   */
  submit(actions: readonly TableAction[], options?: CallOptions): Promise<void>;
}

/** Stands in for the update of the fence row, which is one of the 100 operations that fit into a transaction. */
const fenceAction: { action: TransactionActionLike } = { action: ["create", { partitionKey: "", rowKey: "" }] };

/** How often a submit is attempted if other clients keep changing tombstones that it replaces. */
const maxAttempts = 10;
/** An update that met a conflict waits for so long for the updates of the row before it: the mutator of one of them may hang. */
const maxTurnInMs = 5_000;

/** An open partition. */
export interface OpenPartition {
  readonly table: TableLike;
  readonly partitionKey: string;
  readonly fence: Fence;
  readonly lock: HeldLock;
  /** The only entity that is locked; undefined: all of the partition. */
  readonly onlyRow: string | undefined;
}

export class FencedPartitionImpl implements FencedPartition {
  readonly partitionKey: string;
  readonly #table: TableLike;
  readonly #fence: Fence;
  readonly #lock: HeldLock;
  readonly #url: string;
  readonly #onlyRow: string | undefined;
  readonly #seen = new SeenRows();
  /** Settles when the last update of a row has ended. */
  readonly #updates = new Map<string, Promise<void>>();

  constructor({ table, partitionKey, fence, lock, onlyRow }: OpenPartition) {
    this.#table = table;
    this.partitionKey = partitionKey;
    this.#fence = fence;
    this.#lock = lock;
    this.#url = partitionUrl(table, partitionKey);
    this.#onlyRow = onlyRow;
  }

  get<E extends object>(rowKey: string, options?: CallOptions): Promise<Entity<E> | undefined> {
    return this.#traced("get", options, async ({ call, tracingOptions }) => {
      this.#checkRowKey("get", rowKey);
      const row = await readRow(this.#table, this.partitionKey, rowKey, rowOptionsOf({ call, tracingOptions }));
      this.#see(rowKey, row);
      return row.stored && (entityValue(row.stored, this.partitionKey, rowKey) as Entity<E>);
    });
  }

  async *list<E extends object>(options: CallOptions & { filter?: string | undefined } = {}): AsyncIterableIterator<Entity<E>> {
    checkOptions("list", options, listEntitiesOptionNames);
    const call = new HeldCall(this.#lock, this.#url, options.abortSignal);
    const filter = `PartitionKey eq ${quoted(this.partitionKey)}${options.filter ? ` and ${withinFilter("list", options.filter)}` : ""}`;
    try {
      const request = { filter, abortSignal: call.signal, tracingOptions: options.tracingOptions };
      for await (const entity of entitiesOf<E>(this.#table, request, (rowKey, row) => this.#see(rowKey, row))) {
        if ((this.#onlyRow ?? entity.rowKey) !== entity.rowKey) continue;
        call.requireHeld();
        yield entity;
      }
    } finally {
      call.end();
    }
  }

  update<E extends object>(
    rowKey: string,
    mutator: Mutator<Entity<E>>,
    options: ConflictRetryOptions & { initial?: NoInfer<E | (() => E)> | undefined } = {},
  ): Promise<UpdateResult<Entity<E>>> {
    const updating = withUpdate("FencedPartition.update", options, async (trace, span) => {
      checkOptions("update", options, updateOptionNames);
      if (typeof mutator !== "function") throw new TypeError("update: mutator must be a function");
      this.#checkRowKey("update", rowKey);
      const { initial, abortSignal, tracingOptions } = options;
      const limits = checkRetryLimits(options, updateDefaults, { timeoutInMs: 1 });
      const { partitionKey } = this;
      const checkLimits = (action: TransactionActionLike, stored: StoredEntity): void => this.#checkLimits([action], [[rowKey, stored]]);
      const row = { table: this.#table, partitionKey, rowKey, fence: this.#fence, lock: this.#lock, checkLimits, untilTurn: this.#turnAt(rowKey) };
      const running = updateFenced<Entity<E>>(row, { mutator, initial, limits, options: { abortSignal, tracingOptions }, trace });
      this.#inTurn(rowKey, running);
      const result = await running;
      if (result.outcome === "deleted") this.#seen.delete(rowKey);
      describeSpan(span, { outcome: result.outcome });
      return result;
    }, this.#spanDetails());
    return observed(updating);
  }

  /** Many updates of one row at the same time would all conflict with each of them: each would read and write it again as often. */
  #turnAt(rowKey: string): (abortSignal: AbortSignal) => Promise<void> {
    const before = this.#updates.get(rowKey);
    return async (abortSignal) => {
      if (before) await read(() => before, { timeoutInMs: maxTurnInMs, abortSignal }).catch(() => undefined);
    };
  }

  #inTurn(rowKey: string, running: Promise<unknown>): void {
    const ended = running.then(() => undefined, () => undefined).finally(() => {
      if (this.#updates.get(rowKey) === ended) this.#updates.delete(rowKey);
    });
    this.#updates.set(rowKey, ended);
  }

  create(entity: EntityInput<object>, options?: CallOptions): Promise<void> {
    return this.#submit("create", [["create", entity]], options);
  }

  delete(rowKey: string, options?: CallOptions): Promise<void> {
    return this.#submit("delete", [["delete", { rowKey }]], options);
  }

  submit(actions: readonly TableAction[], options?: CallOptions): Promise<void> {
    return this.#submit("submit", actions, options);
  }

  #submit(method: string, actions: readonly TableAction[], options: CallOptions | undefined): Promise<void> {
    return this.#traced(method, options, async (request) => {
      const given: unknown = actions;
      if (!Array.isArray(given)) throw new TypeError(`${method}: actions must be an array`);
      if (actions.length === 0) return;
      const prepared = this.#prepare(method, actions);
      const planned = new FencedActions(prepared, this.#url);
      planned.update(await this.#readRows(planned.unknownRows(this.#seen), request));
      await retry(() => this.#fence.submit(planned.toSend(), request).catch((error: unknown) => this.#replan(planned, error, request)), {
        maxAttempts,
        shouldRetry: (error) => error instanceof TombstoneChanged,
        abortSignal: request.call.signal,
      }).catch((error: unknown) => {
        throw error instanceof TombstoneChanged ? error.cause : error;
      });
      for (const [kind, { rowKey }] of prepared) {
        if (kind === "delete") this.#seen.delete(rowKey);
        else this.#seen.add(rowKey);
      }
    });
  }

  #prepare(method: string, actions: readonly TableAction[]): TransactionActionLike[] {
    const entities = new Map<string, StoredEntity>();
    const prepared = actionsIn(this.partitionKey, actions, method).map(([kind, entity, mode = "Merge", condition]): TransactionActionLike => {
      const { rowKey } = entity;
      this.#checkRowKey(method, rowKey);
      if (entities.has(rowKey)) throw new TypeError(`${method}: there are two actions for the row ${quotedText(rowKey)}. A transaction can have one for each row`);
      const stored = storedFromValue(kind === "delete" ? {} : entity, undefined, {});
      entities.set(rowKey, stored);
      const row = { partitionKey: this.partitionKey, rowKey, ...Object.fromEntries(stored) };
      if (kind === "delete" || kind === "create") return [kind, row];
      // The service would ignore it, and overwrite any version.
      if (kind === "upsert" && condition) throw new TypeError(`${method}: an upsert cannot have an ETag: use an update`);
      // An update without its own condition relies on the lock: "*" means that the entity has to exist.
      return kind === "update" ? [kind, row, mode, condition ?? { etag: "*" }] : [kind, row, mode];
    });
    this.#checkLimits(prepared, entities);
    return prepared;
  }

  /** After a conflict: a tombstone may be the reason. Throws what decides whether the submit is attempted again. */
  async #replan(planned: FencedActions, error: unknown, request: FencedRequest): Promise<never> {
    const rowKeys = isConcurrencyError(error, "CONFLICT") ? planned.conflictingRows() : [];
    if (rowKeys.length > 0 && planned.update(await this.#readRows(rowKeys, request))) throw new TombstoneChanged(error);
    throw error;
  }

  async #readRows(rowKeys: readonly string[], request: FencedRequest): Promise<ReadonlyMap<string, Row>> {
    if (rowKeys.length === 0) return new Map();
    const rows = await readRows(this.#table, this.partitionKey, rowKeys, rowOptionsOf(request));
    for (const [rowKey, row] of rows) this.#see(rowKey, row);
    return rows;
  }

  #see(rowKey: string, { stored }: Row): void {
    if (stored && !hasMarker(stored)) this.#seen.add(rowKey);
  }

  #checkLimits(actions: readonly TransactionActionLike[], entities: Iterable<readonly [string, StoredEntity]>): void {
    const limit = limitOf([fenceAction, ...actions.map((action) => ({ action }))], entities, this.partitionKey, this.#url);
    if (limit) throw limit;
  }

  #checkRowKey(method: string, rowKey: string): void {
    checkKey("rowKey", rowKey);
    if (isOwnRow(rowKey)) throw new RangeError(`${method}: row keys that begin with ${ownRowPrefix} are reserved for the library`);
    if (this.#onlyRow !== undefined && rowKey !== this.#onlyRow) {
      throw new TypeError(`${method}: the lock is for the entity ${quotedText(this.#onlyRow)}, not for ${quotedText(rowKey)}`);
    }
  }

  #spanDetails(): { targetKind: string; url: string } {
    return { targetKind: "tablePartition", url: this.#url };
  }

  #traced<R>(method: string, options: CallOptions = {}, run: (request: FencedRequest) => Promise<R>): Promise<R> {
    const running = withSpan(`FencedPartition.${method}`, options, async (tracingOptions) => {
      checkOptions(method, options, callOptionNames);
      return whileHeld(this.#lock, this.#url, options, (call) => run({ call, tracingOptions }));
    }, this.#spanDetails());
    // The lock may end before the holder awaits it.
    return observed(running);
  }
}

/** A tombstone was written, replaced or deleted since it was read: the next attempt starts from the current rows. */
class TombstoneChanged extends Error {
  constructor(cause: unknown) {
    super("a tombstone changed", { cause });
  }
}

const updateOptionNames: OptionNames<ConflictRetryOptions & { initial?: unknown }> = {
  initial: 1,
  timeoutInMs: 1,
  tryTimeoutInMs: 1,
  maxAttempts: 1,
  retryDelayInMs: 1,
  maxRetryDelayInMs: 1,
  abortSignal: 1,
  tracingOptions: 1,
};
