import type { TableCallOptions, TransactionActionLike, TransactionTableLike } from "../clients.js";
import { TargetNotFoundError, TransactionLimitError } from "../errors.js";
import { entityDiff, entityValue, sameStored, storedFromValue } from "../table/stored-entity.js";
import type { StoredEntity } from "../table/stored-entity.js";
import type { EntityInput } from "../transaction/transaction.js";
import { isOwnRow, ownRowPrefix, queryRows, quoted, readRow } from "../transaction/row.js";
import { checkKey } from "../update/targets/table-entity.js";
import type { EntityValue } from "../update/targets/table-entity.js";
import type { Fence } from "./fence.js";

/** One operation of {@link FencedPartition.submit}, in the form of the SDK's transactions. */
export type PartitionAction =
  | readonly ["create" | "delete", EntityInput]
  | readonly ["update", EntityInput, ("Merge" | "Replace")?, { etag: string }?]
  | readonly ["upsert", EntityInput, ("Merge" | "Replace")?];

/** The fence is one of the 100 operations that fit into a transaction. */
const maxActions = 99;

/** A partition under a table lock: every write of it is refused by the service once the lock has another holder. */
export class FencedPartition {
  readonly partitionKey: string;
  readonly #table: TransactionTableLike;
  readonly #fence: Fence;
  readonly #onlyRow: string | undefined;
  readonly #options: TableCallOptions;

  /** @internal */
  constructor(table: TransactionTableLike, partitionKey: string, fence: Fence, settings: { onlyRow: string | undefined; options: TableCallOptions }) {
    this.#table = table;
    this.partitionKey = partitionKey;
    this.#fence = fence;
    this.#onlyRow = settings.onlyRow;
    this.#options = settings.options;
  }

  /** An entity, or undefined. Costs 1 request. */
  async get<T extends object = Record<string, unknown>>(rowKey: string): Promise<EntityValue<T> | undefined> {
    this.#check(rowKey);
    const { stored } = await readRow(this.#table, this.partitionKey, rowKey, this.#options);
    return stored && this.#value<T>(stored, rowKey);
  }

  /** The entities of the partition that match an OData filter, all by default. */
  async *list<T extends object = Record<string, unknown>>(options: { filter?: string } = {}): AsyncIterableIterator<EntityValue<T>> {
    const filter = `PartitionKey eq ${quoted(this.partitionKey)}${options.filter ? ` and (${options.filter})` : ""}`;
    for await (const [rowKey, { stored }] of queryRows(this.#table, filter, this.#options)) {
      if (stored && !isOwnRow(rowKey) && (this.#onlyRow === undefined || this.#onlyRow === rowKey)) yield this.#value<T>(stored, rowKey);
    }
  }

  /** Writes all or nothing. Costs 1 request. A `FencedError` if the lock has another holder by now. */
  async submit(actions: readonly PartitionAction[]): Promise<void> {
    if (actions.length === 0) return;
    if (actions.length > maxActions) {
      throw new TransactionLimitError(`${actions.length} operations are too many: ${maxActions} at most beside the fence`, { limit: "operations" });
    }
    const seen = new Set<string>();
    const prepared = actions.map((action) => this.#prepare(action));
    for (const [, { rowKey }] of prepared) {
      if (seen.has(rowKey)) throw new TypeError(`${JSON.stringify(rowKey)} is there twice: a transaction can do one thing to each row`);
      seen.add(rowKey);
    }
    await this.#fence.submit(prepared, this.#options);
  }

  /** Reads an entity, lets the function change it, and writes what changed. Costs 2 requests. */
  async update<T extends object = Record<string, unknown>>(
    rowKey: string,
    mutator: (draft: EntityValue<T>) => EntityValue<T> | undefined | void | Promise<EntityValue<T> | undefined | void>, // eslint-disable-line @typescript-eslint/no-invalid-void-type -- in place
    options: { initial?: T | undefined } = {},
  ): Promise<EntityValue<T>> {
    this.#check(rowKey);
    const { stored, etag } = await readRow(this.#table, this.partitionKey, rowKey, this.#options);
    const base = stored ?? (options.initial && storedFromValue(options.initial, undefined, {}));
    if (!base) throw new TargetNotFoundError(`the entity ${JSON.stringify(rowKey)} does not exist: pass initial to create it`, { url: rowKey });
    const draft = this.#value<T>(base, rowKey);
    const wanted = storedFromValue((await mutator(draft)) ?? draft, base, {});
    const keys = { partitionKey: this.partitionKey, rowKey };
    if (!stored) await this.#fence.submit([etag === undefined ? ["create", { ...keys, ...Object.fromEntries(wanted) }] : ["update", { ...keys, ...Object.fromEntries(wanted) }, "Replace", { etag }]], this.#options);
    else if (!sameStored(stored, wanted)) {
      const { mode, properties } = entityDiff(stored, wanted);
      await this.#fence.submit([["update", { ...keys, ...properties }, mode, { etag: etag ?? "*" }]], this.#options);
    }
    return this.#value<T>(wanted, rowKey);
  }

  /** Adds an entity. Costs 1 request. */
  create<T extends object>(entity: EntityInput<T>): Promise<void> {
    return this.submit([["create", entity]]);
  }

  /** Deletes an entity. Costs 1 request. */
  delete(rowKey: string): Promise<void> {
    return this.submit([["delete", { rowKey }]]);
  }

  #prepare([kind, entity, mode = "Merge", condition]: PartitionAction): TransactionActionLike {
    const { rowKey, partitionKey = this.partitionKey } = entity;
    if (partitionKey !== this.partitionKey) throw new TypeError(`the lock is for partition ${JSON.stringify(this.partitionKey)}, not ${JSON.stringify(partitionKey)}`);
    this.#check(rowKey);
    const keys = { partitionKey, rowKey };
    if (kind === "delete") return [kind, keys];
    const full = { ...keys, ...Object.fromEntries(storedFromValue(entity, undefined, {})) };
    if (kind === "create") return [kind, full];
    // Without a condition of its own an update goes by the lock: "*" means that the entity has to exist.
    return kind === "update" ? [kind, full, mode, condition ?? { etag: "*" }] : [kind, full, mode];
  }

  #check(rowKey: string): void {
    checkKey("rowKey", rowKey);
    if (isOwnRow(rowKey)) throw new RangeError(`row keys that begin with ${ownRowPrefix} are the library's own`);
    if (this.#onlyRow !== undefined && rowKey !== this.#onlyRow) {
      throw new TypeError(`the lock is for the entity ${JSON.stringify(this.#onlyRow)}, not for ${JSON.stringify(rowKey)}`);
    }
  }

  #value<T extends object>(stored: StoredEntity, rowKey: string): EntityValue<T> {
    return entityValue(stored, this.partitionKey, rowKey) as EntityValue<T>;
  }
}
