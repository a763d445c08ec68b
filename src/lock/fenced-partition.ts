import type { CallOptions } from "../clients/call.js";
import type { TableCallOptions, TransactionActionLike, TableLike } from "../clients/table.js";
import { throwIfAborted } from "../core/deadline.js";
import { read } from "../core/request.js";
import { withSpan } from "../core/telemetry.js";
import { createError, TargetNotFoundError } from "../errors.js";
import { entityDiff, entityUrl, entityValue, equalStored, partitionUrl, storedFromValue } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { checkKey } from "../target/table-entity.js";
import type { Entity } from "../target/table-entity.js";
import { keptBy, limitOf } from "../transaction/operations.js";
import { isOwnRow, ownRowPrefix, queryRows, quoted, readRow } from "../transaction/row.js";
import type { EntityInput } from "../clients/table.js";
import type { Fence } from "./fence.js";

/** One operation of {@link FencedPartition.submit}, in the form of the SDK's transactions. */
export type PartitionAction =
  | readonly ["create" | "delete", EntityInput]
  | readonly ["update", EntityInput, ("Merge" | "Replace")?, { etag: string }?]
  | readonly ["upsert", EntityInput, ("Merge" | "Replace")?];

/** Stands in for the update of the fence row, which is one of the 100 operations that fit into a transaction. */
const fenceAction: { action: TransactionActionLike } = { action: ["create", { partitionKey: "", rowKey: "" }] };

/** A partition under a table lock: the service rejects every write to it once the lock has another holder. */
export class FencedPartition {
  readonly partitionKey: string;
  readonly #table: TableLike;
  readonly #fence: Fence;
  readonly #url: string;
  readonly #onlyRow: string | undefined;

  /** @internal */
  constructor(table: TableLike, partitionKey: string, fence: Fence, onlyRow: string | undefined) {
    this.#table = table;
    this.partitionKey = partitionKey;
    this.#fence = fence;
    this.#url = partitionUrl(table, partitionKey);
    this.#onlyRow = onlyRow;
  }

  /** Reads an entity; undefined if it does not exist. Costs 1 request. */
  async get<T extends object = Record<string, unknown>>(rowKey: string, options: CallOptions = {}): Promise<Entity<T> | undefined> {
    this.#checkRowKey(rowKey);
    return this.#traced("get", options, async (request) => {
      const { stored } = await readRow(this.#table, this.partitionKey, rowKey, request);
      return stored && this.#value<T>(stored, rowKey);
    });
  }

  /** The entities of the partition that match an OData filter; by default all. Costs 1 request for each 1,000. */
  async *list<T extends object = Record<string, unknown>>(options: CallOptions & { filter?: string } = {}): AsyncIterableIterator<Entity<T>> {
    const { abortSignal, tracingOptions } = options;
    const filter = `PartitionKey eq ${quoted(this.partitionKey)}${options.filter ? ` and (${options.filter})` : ""}`;
    throwIfAborted(abortSignal);
    for await (const [rowKey, { stored }] of queryRows(this.#table, filter, tracingOptions ? { tracingOptions } : {})) {
      throwIfAborted(abortSignal);
      if (stored && !isOwnRow(rowKey) && (this.#onlyRow ?? rowKey) === rowKey) yield this.#value<T>(stored, rowKey);
    }
  }

  /** Commits all actions or none. Costs 1 request. Throws a `FencedError` if the lock has another holder by now. */
  async submit(actions: readonly PartitionAction[], options: CallOptions = {}): Promise<void> {
    if (actions.length === 0) return;
    const entities = new Map<string, StoredEntity>();
    const prepared = actions.map((action) => {
      const { rowKey } = action[1];
      this.#checkEntity(action[1]);
      if (entities.has(rowKey)) throw new TypeError(`${JSON.stringify(rowKey)} is there twice: a transaction can do one thing to each row`);
      const stored = storedFromValue(action[0] === "delete" ? {} : action[1], undefined, {});
      entities.set(rowKey, stored);
      return this.#prepare(action, stored);
    });
    const limit = limitOf([fenceAction, ...prepared.map((action) => ({ action }))], entities, this.partitionKey, this.#url);
    if (limit) throw limit;
    await this.#traced("submit", options, (request) => this.#fence.submit(prepared, request));
  }

  /** Reads an entity, lets `mutator` change it, and writes the changes. Costs 2 requests. */
  async update<T extends object = Record<string, unknown>>(
    rowKey: string,
    mutator: (draft: Entity<T>) => Entity<T> | undefined | void | Promise<Entity<T> | undefined | void>, // eslint-disable-line @typescript-eslint/no-invalid-void-type -- in place
    options: CallOptions & { initial?: T | undefined } = {},
  ): Promise<Entity<T>> {
    this.#checkRowKey(rowKey);
    return this.#traced("update", options, async (request) => {
      const row = await readRow(this.#table, this.partitionKey, rowKey, request);
      const base = row.stored ?? (options.initial && storedFromValue(options.initial, undefined, {}));
      if (!base) throw createError(TargetNotFoundError, `the entity ${JSON.stringify(rowKey)} does not exist: pass initial to create it`, { url: entityUrl(this.#table, this.partitionKey, rowKey) });
      const draft = this.#value<T>(base, rowKey);
      const wanted = storedFromValue((await mutator(draft)) ?? draft, base, {});
      if (!row.stored || !equalStored(row.stored, wanted)) {
        const { mode, properties } = row.stored
          ? entityDiff(row.stored, wanted)
          : { mode: "Replace" as const, properties: Object.fromEntries(wanted) };
        const entity = { partitionKey: this.partitionKey, rowKey, ...properties, ...keptBy(mode, row) };
        const action: TransactionActionLike = row.etag === undefined ? ["create", entity] : ["update", entity, mode, { etag: row.etag }];
        const limit = limitOf([fenceAction, { action }], [[rowKey, wanted]], this.partitionKey, this.#url);
        if (limit) throw limit;
        await this.#fence.submit([action], request);
      }
      return this.#value<T>(wanted, rowKey);
    });
  }

  /** Creates an entity. Costs 1 request. */
  create<T extends object>(entity: EntityInput<T>, options?: CallOptions): Promise<void> {
    return this.submit([["create", entity]], options);
  }

  /** Deletes an entity. Costs 1 request. */
  delete(rowKey: string, options?: CallOptions): Promise<void> {
    return this.submit([["delete", { rowKey }]], options);
  }

  #prepare([kind, { rowKey }, mode = "Merge", condition]: PartitionAction, stored: StoredEntity): TransactionActionLike {
    const entity = { partitionKey: this.partitionKey, rowKey, ...Object.fromEntries(stored) };
    if (kind === "delete" || kind === "create") return [kind, entity];
    // An update without its own condition relies on the lock: "*" means that the entity has to exist.
    return kind === "update" ? [kind, entity, mode, condition ?? { etag: "*" }] : [kind, entity, mode];
  }

  #checkEntity({ partitionKey = this.partitionKey, rowKey }: EntityInput): void {
    if (partitionKey !== this.partitionKey) {
      throw new TypeError(`the lock is for partition ${JSON.stringify(this.partitionKey)}, not ${JSON.stringify(partitionKey)}`);
    }
    this.#checkRowKey(rowKey);
  }

  #checkRowKey(rowKey: string): void {
    checkKey("rowKey", rowKey);
    if (isOwnRow(rowKey)) throw new RangeError(`row keys that begin with ${ownRowPrefix} are the library's own`);
    if (this.#onlyRow !== undefined && rowKey !== this.#onlyRow) {
      throw new TypeError(`the lock is for the entity ${JSON.stringify(this.#onlyRow)}, not for ${JSON.stringify(rowKey)}`);
    }
  }

  #value<T extends object>(stored: StoredEntity, rowKey: string): Entity<T> {
    return entityValue(stored, this.partitionKey, rowKey) as Entity<T>;
  }

  #traced<R>(method: string, options: CallOptions, run: (request: TableCallOptions) => Promise<R>): Promise<R> {
    return withSpan(`FencedPartition.${method}`, options, (tracingOptions) =>
      read((abortSignal) => run({ abortSignal, ...(tracingOptions && { tracingOptions }) }), options),
      { targetKind: "tablePartition", url: partitionUrl(this.#table, this.partitionKey) },
    );
  }
}
