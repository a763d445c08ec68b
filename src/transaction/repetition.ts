import { createError, CommitUnknownError } from "../errors.js";
import { outcomeOfOperation } from "./commit-transaction.js";
import type { IdentifiedOperation } from "./commit-transaction.js";
import type { Overlay } from "./overlay.js";
import type { PartitionView } from "./partition-view.js";
import { operationsRowKey } from "./row.js";
import type { RunRows } from "./run-rows.js";

/** A row of the library that a transaction creates together with its writes. If it exists, the transaction was applied before. */
export interface Receipt {
  readonly rowKey: string;
  /** Whether it is likely to exist: then it is read before the function runs, which saves a commit that fails. */
  readonly isExpected: boolean;
}

/**
 * Whether the receipt exists. A transaction of the batch with the same receipt waits for this one. Without a reason to read the row
 * (`mustLoad`), the insert shows whether it exists.
 */
export async function isReceived({ rowKey }: Receipt, rows: RunRows, overlay: Overlay, mustLoad: boolean): Promise<boolean> {
  overlay.intendWrite(rowKey);
  if (mustLoad) await rows.load([rowKey]);
  return overlay.isVisible(rowKey) && overlay.current(rowKey) !== undefined;
}

/** The call that repeats an operation. */
interface RepeatedCall {
  readonly url: string;
  readonly attempts: number;
  readonly onUnknown: "throw" | "retry";
  readonly operationId?: string | undefined;
}

/**
 * Whether an earlier call with the same operation id was applied. The rows that say so become part of the transaction: if the first write
 * arrives now, the commit of this one fails, or the other way round.
 */
export async function isApplied(operation: IdentifiedOperation, rows: RunRows, overlay: Overlay, view: PartitionView, call: RepeatedCall): Promise<boolean> {
  const { witness } = operation;
  await rows.loadOwnRows(witness === undefined ? [operationsRowKey] : [operationsRowKey, witness]);
  overlay.current(operationsRowKey);
  if (witness !== undefined) {
    await rows.load([witness]);
    overlay.current(witness);
  }
  const outcome = outcomeOfOperation(operation, (rowKey) => view.row(rowKey));
  if (outcome !== "unknown" || call.onUnknown === "retry") return outcome === "committed";
  const { url, attempts, operationId = "" } = call;
  throw createError(
    CommitUnknownError,
    `The outcome of the first write of operation ${operationId} to ${url} is unknown: its witness row was deleted, or too many writes have followed. Read the entities to decide, or pass onUnknown: "retry" if the transaction is idempotent.`,
    { url, attempts, operationId },
  );
}
