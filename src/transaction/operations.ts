import type { TableEntityLike, TransactionActionLike } from "../clients/table.js";
import { createError, LimitError, quotedText } from "../errors.js";
import type { ConcurrencyErrorMap } from "../errors.js";
import { defaultJournalName, formatJournal, maxJournalInBytes } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { isOwnRow } from "../target/library-rows.js";
import { entityDiff, entitySize, equalStored, tombstoneName } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import type { PartitionView } from "./partition-view.js";
import { operationsRowKey, queriesRowKey } from "./row.js";
import type { Row } from "./row.js";

/** One row's part in an entity group transaction. */
export interface Operation {
  readonly rowKey: string;
  readonly base: Row;
  /** Whether it changes the entity, or only validates that the row is as it was read. */
  readonly changes: boolean;
  /** Whether it stores a tombstone, to be deleted after the transaction. */
  readonly leavesTombstone: boolean;
  /** The entity after the transaction. Undefined: it does not exist. */
  readonly wanted: StoredEntity | undefined;
  readonly action: TransactionActionLike;
}

const tombstone: StoredEntity = new Map([[tombstoneName, { type: "Boolean", value: true }]]);

/** The operations of a batch by row, so that only those of rows that have changed since are made and measured again. */
export type OperationCache = Map<string, { readonly written: StoredEntity | null | undefined; readonly isKnown: boolean; readonly operation: Operation }>;

/**
 * The operations of a batch, one for each row. A row that was only read is validated by an empty conditional Merge; a row that
 * was read and did not exist, by inserting a tombstone. A delete is a conditional Replace by a tombstone, too: the SDK sends
 * deletes within a transaction without their ETag.
 *
 * A receipt that was read and did not exist is no operation, unless the function has returned and creates it: the row itself says that the
 * transaction was applied. A function that throws depends on nothing but the absence of its receipt, and its caller reads that again.
 */
export function operationsOf(view: PartitionView, partitionKey: string, detectPhantoms: boolean, cache: OperationCache): Operation[] {
  // Without rows that only a failed transaction wrote, without having read them: no result depends on them.
  const rowKeys = [...view.touched].filter((rowKey) => view.written.has(rowKey) || (view.isKnown(rowKey) && !isAbsentReceipt(view, rowKey)));
  const operations = rowKeys.map((rowKey) => {
    const [written, isKnown, cached] = [view.written.get(rowKey), view.isKnown(rowKey), cache.get(rowKey)];
    if (cached && cached.written === written && cached.isKnown === isKnown && cached.operation.base === view.row(rowKey)) return cached.operation;
    const operation = operationFor(view, partitionKey, rowKey);
    cache.set(rowKey, { written, isKnown, operation });
    return operation;
  });
  if (detectPhantoms && !view.touched.has(queriesRowKey) && operations.some(({ changes }) => changes)) {
    // Changes the ETag of the row unconditionally, so it conflicts only with transactions that queried.
    const action: TransactionActionLike = ["upsert", { partitionKey, rowKey: queriesRowKey }, "Merge"];
    const base = view.row(queriesRowKey);
    operations.push({ rowKey: queriesRowKey, base, changes: false, leavesTombstone: false, wanted: base.stored, action });
  }
  return operations;
}

/** Of the other rows of the library, an empty one says nothing. */
function isAbsentReceipt(view: PartitionView, rowKey: string): boolean {
  return isOwnRow(rowKey) && rowKey !== operationsRowKey && rowKey !== queriesRowKey && view.row(rowKey).etag === undefined;
}

function operationFor(view: PartitionView, partitionKey: string, rowKey: string): Operation {
  const base = view.row(rowKey);
  const written = view.written.get(rowKey);
  const keys: TableEntityLike = { partitionKey, rowKey };
  const wanted = written === undefined ? base.stored : (written ?? undefined);
  // A row that was never read counts as changed, even if it was created and deleted again within the batch: only the service
  // can tell whether it exists.
  const changes = !view.isKnown(rowKey) || !(wanted && base.stored ? equalStored(wanted, base.stored) : wanted === base.stored);
  const operation = { rowKey, base, changes, leavesTombstone: !wanted && !isOwnRow(rowKey), wanted };
  if (base.etag === undefined) {
    const stored = wanted ?? (operation.leavesTombstone ? tombstone : []);
    return { ...operation, action: ["create", { ...keys, ...Object.fromEntries(stored) }] };
  }
  const etag = { etag: base.etag };
  if (!changes) return { ...operation, action: ["update", keys, "Merge", etag] };
  const { mode, properties } =
    wanted && base.stored ? entityDiff(base.stored, wanted) : { mode: "Replace" as const, properties: Object.fromEntries(wanted ?? tombstone) };
  return { ...operation, action: ["update", { ...keys, ...properties, ...keptBy(mode, base) }, mode, etag] };
}

/** What a write has to keep: a Replace must not drop the journal, which other clients may need. */
export function keptBy(mode: "Merge" | "Replace", base: Row): object {
  return mode === "Replace" && base.journalValue ? { [defaultJournalName]: base.journalValue } : {};
}

/** The action of an operation, with a journal if it carries one. */
export function withJournal({ rowKey, action, wanted }: Operation, journal: Journal | undefined): TransactionActionLike {
  if (!journal) return action;
  const [kind, entity, ...rest] = action;
  const text = rowKey === operationsRowKey ? formatJournal(journal, maxOperationIdsInBytes) : formatJournal(journal, roomFor(wanted, entity));
  return [kind, { ...entity, [defaultJournalName]: text }, ...rest] as TransactionActionLike;
}

/** The characters that are left for the journal of an entity: it then reaches back less far. {@link limitOf} has made sure of some. */
function roomFor(wanted: StoredEntity | undefined, { partitionKey, rowKey }: TableEntityLike): number {
  const used = wanted ? measured(entitySizes, wanted, () => entitySize(wanted, partitionKey, rowKey)) : 0;
  return Math.max(overhead / 4, Math.min(maxJournalInBytes, Math.floor((maxEntityBytes - used - overhead / 2) / 2)));
}

/**
 * The maximum size of the journal in the row of the operations, which has no other property: the ids of 32 commits with 16 ids of 56
 * characters each. A string property can have 32 Ki characters.
 */
const maxOperationIdsInBytes = 30_000;

const maxOperations = 100;
const maxSizeInBytes = 4 * 1024 * 1024;
const maxEntityBytes = 1024 * 1024;
/** The service allows 252; one is reserved for the journal. */
const maxProperties = 251;
/** For the journal, and for the headers of each part of the request. */
const overhead = 1_000;

/** The limit of the service that the operations exceed, if any. */
export function limitOf(
  operations: readonly (Pick<Operation, "action"> & Partial<Pick<Operation, "base">>)[],
  written: Iterable<readonly [rowKey: string, stored: StoredEntity | null]>,
  partitionKey: string,
  url: string,
): ConcurrencyErrorMap["TRANSACTION_LIMIT"] | undefined {
  const exceeded = (limit: ConcurrencyErrorMap["TRANSACTION_LIMIT"]["limit"], message: string): ConcurrencyErrorMap["TRANSACTION_LIMIT"] =>
    createError<ConcurrencyErrorMap["TRANSACTION_LIMIT"]>(LimitError, `${message}. Nothing was written.`, { code: "TRANSACTION_LIMIT", limit, url });
  if (operations.length > maxOperations) {
    return exceeded("operations", `A transaction can have ${maxOperations} operations, this one has ${operations.length}: every row that it reads or writes is one`);
  }
  for (const [rowKey, stored] of written) {
    if (!stored) continue;
    if (stored.size > maxProperties) {
      return exceeded("properties", `The entity ${quotedText(rowKey)} has ${stored.size} properties, more than the maximum of ${maxProperties}`);
    }
    const bytes = overhead + measured(entitySizes, stored, () => entitySize(stored, partitionKey, rowKey));
    if (bytes > maxEntityBytes) {
      return exceeded("entity", `The entity ${quotedText(rowKey)} would have ${bytes} bytes, more than the maximum of 1 MiB`);
    }
  }
  const sizeOf = (action: TransactionActionLike, base: Row | undefined): number => {
    // A journal that contains operation ids is longer.
    const journal = action[1].rowKey === operationsRowKey ? maxOperationIdsInBytes : String(base?.journalValue?.value ?? "").length;
    return overhead + journal + measured(actionSizes, action, () => encoder.encode(JSON.stringify(action)).length);
  };
  const bytes = operations.reduce((sum, { action, base }) => sum + sizeOf(action, base), 0);
  if (bytes > maxSizeInBytes) return exceeded("bytes", `The transaction would have ${bytes} bytes, more than the maximum of 4 MiB`);
  return undefined;
}

const encoder = new TextEncoder();

/** Sizes are remembered: the limits are checked for each call of a batch, and stored forms and actions do not change. */
const actionSizes = new WeakMap<object, number>();
const entitySizes = new WeakMap<object, number>();

function measured(sizes: WeakMap<object, number>, key: object, measure: () => number): number {
  let size = sizes.get(key);
  if (size === undefined) sizes.set(key, (size = measure()));
  return size;
}
