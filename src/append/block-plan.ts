import { countTogether } from "../core/call-queue.js";
import type { AppendCall } from "./append-call.js";
import { maxOperationsInBytes, sizeOfOperation } from "./claims.js";
import type { ClaimedOperation } from "./claims.js";

/** The calls of the next block, as far as they are determined before the claim: a claim names the operations of its block. */
export interface BlockPlan {
  readonly calls: readonly AppendCall[];
  readonly operations: readonly ClaimedOperation[];
}

/** How many of the next records fit into one block at `end`, and into the maximum size of the blob that their callers set. */
export function batchSize(waiting: readonly AppendCall[], end: number): number {
  let length = 0;
  const count = waiting.findIndex((call, index) => {
    length += call.record.length;
    const { maxBatchSizeInBytes, maxSizeInBytes } = call.settings;
    return index > 0 && (length > maxBatchSizeInBytes || end + length > maxSizeInBytes);
  });
  return count < 0 ? waiting.length : count;
}

/** The next calls whose operations fit into the claim, each operation once: the repeat of a call waits until that is stored. */
export function planBlock(waiting: readonly AppendCall[], end: number): BlockPlan {
  const operations: ClaimedOperation[] = [];
  const max = countTogether(waiting, batchSize(waiting, end));
  let offset = 0;
  let size = 0;
  const calls: AppendCall[] = [];
  for (const call of waiting.slice(0, max)) {
    const { operationId } = call.settings;
    if (operationId !== undefined) {
      const operation = { id: operationId, offset };
      size += sizeOfOperation(operation);
      if (operations.some(({ id }) => id === operationId) || (operations.length > 0 && size > maxOperationsInBytes)) break;
      operations.push(operation);
    }
    calls.push(call);
    offset += call.record.length;
  }
  return { calls, operations };
}

/**
 * How many of the waiting calls the claim is for. With operations, exactly the planned calls: if one was cancelled, the claim would
 * name a record that is not stored, or at another offset. Without, also calls that were added meanwhile and have no operation.
 */
export function claimedCalls({ calls, operations }: BlockPlan, waiting: readonly AppendCall[], end: number): number {
  if (operations.length > 0) return calls.every((call, index) => waiting[index] === call) ? calls.length : 0;
  const max = batchSize(waiting, end);
  const withOperation = waiting.findIndex((call) => call.settings.operationId !== undefined);
  return withOperation < 0 ? max : Math.min(max, withOperation);
}

/** The records of a block, one behind the other. */
export function recordsOf(calls: readonly AppendCall[]): Uint8Array {
  const [only] = calls;
  if (only && calls.length === 1) return only.record;
  const bytes = new Uint8Array(calls.reduce((sum, call) => sum + call.record.length, 0));
  let offset = 0;
  for (const call of calls) {
    bytes.set(call.record, offset);
    offset += call.record.length;
  }
  return bytes;
}
