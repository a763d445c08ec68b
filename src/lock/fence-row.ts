import type { TransactionActionLike } from "../clients/table.js";
import { sha256 } from "../core/identity.js";
import { ownRowPrefix, quoted } from "../target/library-rows.js";
import type { TransactionOutcome } from "../transaction/commit-transaction.js";
import type { Operation } from "../transaction/operations.js";
import type { Row } from "../transaction/row.js";

/** How much of a table one lock covers. See {@link TableLock}. */
export type TableLockGranularity = "table" | "partition" | "entity";

/**
 * The row of a partition that stores the epoch of the last holder of the lock that guards it. If the entities of the partition are
 * locked individually, it stores only that, and each of them has its own fence row.
 */
export const fenceRowKey: string = `${ownRowPrefix}fence`;

/** The fence row of an entity that is locked individually. A key has at most 512 characters. */
export async function entityFenceRowKey(lockedRowKey: string): Promise<string> {
  const rowKey = `${fenceRowKey}~${lockedRowKey}`;
  return rowKey.length <= 512 ? rowKey : `${fenceRowKey}~sha256~${await sha256(lockedRowKey)}`;
}

/** The filter of the fence rows of entities. The bound has the letter after the last one of `fence`. */
export const entityFences: string = `RowKey ge ${quoted(`${fenceRowKey}~`)} and RowKey lt ${quoted(`${ownRowPrefix}fencf`)}`;

/**
 * The epoch in the row: 0 if there is no row. Undefined: the row is there, and another program has damaged it. It is never taken for one that
 * fences out no holder. Earlier versions stored it as an Int64.
 */
export function epochOf(row: Row): number | undefined {
  if (!row.stored) return 0;
  const value = row.stored.get("epoch")?.value;
  const isNumber = typeof value === "number" || typeof value === "bigint" || (typeof value === "string" && /^\d+$/.test(value));
  const epoch = isNumber ? Number(value) : NaN;
  return epoch >= 0 && epoch <= Number.MAX_SAFE_INTEGER ? epoch : undefined;
}

/** Undefined: the row is missing, or of an earlier version. */
export function granularityOf(row: Row): string | undefined {
  const value = row.stored?.get("granularity")?.value;
  return value === undefined ? undefined : typeof value === "string" ? value : "unknown";
}

/** Whether the chain of epochs in the row is known to have no gap. See `Fence`. */
export function isConfirmed(row: Row): boolean {
  return row.stored?.get("confirmed")?.value === true;
}

interface FenceState {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly granularity: TableLockGranularity;
  readonly epoch: number;
  readonly confirmed: boolean;
}

/** The write of the fence row: the one operation that every write of a holder includes. */
export function fenceOperation(row: Row, { partitionKey, rowKey, granularity, epoch, confirmed }: FenceState): Operation {
  // A Double is exact for every epoch. The SDK returns an Int64 as a bigint, which breaks programs that list the table and format it as JSON.
  const state = { epoch: { type: "Double", value: epoch }, confirmed, ...(rowKey === fenceRowKey && { granularity }) };
  const fence = { partitionKey, rowKey, ...state };
  const action: TransactionActionLike = row.etag === undefined ? ["create", fence] : ["update", fence, "Merge", { etag: row.etag }];
  return { rowKey, base: row, changes: true, leavesTombstone: false, wanted: row.stored, action };
}

/** Records that the entities of the partition are locked individually. Two processes that record different things exclude each other. */
export function markOperation(partitionKey: string, row: Row, granularity: TableLockGranularity): Operation {
  const entity = { partitionKey, rowKey: fenceRowKey, granularity };
  const action: TransactionActionLike = row.etag === undefined ? ["create", entity] : ["update", entity, "Merge", { etag: row.etag }];
  return { rowKey: fenceRowKey, base: row, changes: false, leavesTombstone: false, wanted: row.stored, action };
}

/** The fence row after a committed write; undefined if the response was lost, or the write was not committed. */
export function rowAfter(row: Row, { etags, journals }: Pick<TransactionOutcome, "etags" | "journals">, outcome: TransactionOutcome["outcome"]): Row | undefined {
  const written = [...journals].find(([{ changes }]) => changes);
  if (outcome.kind !== "committed" || etags?.[0] === undefined || !written) return undefined;
  const [{ action }, journal] = written;
  const { epoch, confirmed, granularity } = action[1] as { epoch?: { value: number }; confirmed?: boolean; granularity?: string };
  const stored = new Map(row.stored)
    .set("epoch", { type: "Double", value: epoch?.value ?? 0 })
    .set("confirmed", { type: "Boolean", value: confirmed ?? false });
  if (granularity !== undefined) stored.set("granularity", { type: "String", value: granularity });
  return { stored, etag: etags[0], journal, journalValue: undefined };
}
