import type { CallOptions } from "../../clients/call.js";
import type { InboxTableLike } from "../../clients/table.js";
import { throwIfAborted } from "../../core/deadline.js";
import { isConflict, isNotFound } from "../../core/storage-errors.js";
import { recordOf, rowKeyPrefix } from "./record.js";
import { maxGroup } from "./write-batcher.js";

/** Which records to remove. */
export interface PurgeScope {
  readonly olderThan: Date;
  readonly partitionKey?: string | undefined;
}

interface Old {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly done: boolean;
  readonly etag: string;
}

/**
 * Removes old records page by page, a hundred in one transaction. The filter runs in the service: what is young costs
 * it a scan, but not this process a download.
 */
export async function purgeRecords(table: InboxTableLike, scope: PurgeScope, options: CallOptions): Promise<number> {
  const call = {
    ...(options.abortSignal && { abortSignal: options.abortSignal as AbortSignal }),
    ...(options.tracingOptions && { tracingOptions: options.tracingOptions }),
  };
  const conditions = [
    ...(scope.partitionKey === undefined ? [] : [`PartitionKey eq '${scope.partitionKey.replaceAll("'", "''")}'`]),
    `RowKey ge '${rowKeyPrefix}'`,
    `RowKey lt '${rowKeyPrefix.slice(0, -1)}"'`, // the character after !
    `Timestamp lt datetime'${scope.olderThan.toISOString()}'`,
  ];
  const queryOptions = { filter: conditions.join(" and "), select: ["PartitionKey", "RowKey", "Timestamp", "state"] };
  let removed = 0;
  for await (const page of table.listEntities({ ...call, queryOptions }).byPage({ maxPageSize: 1_000 })) {
    for (const olds of byPartition(page.map(oldOf))) {
      throwIfAborted(options.abortSignal);
      removed += await removeAll(table, olds, call);
    }
  }
  return removed;
}

async function removeAll(table: InboxTableLike, olds: readonly Old[], call: { abortSignal?: AbortSignal }): Promise<number> {
  let removed = 0;
  // A transaction cannot delete under a condition. Done is final, so nothing can have come in between; what was left
  // claimed may be taken over at this very moment, and is deleted by itself, if it is still as it was.
  const done = olds.filter((old) => old.done);
  for (let i = 0; i < done.length; i += maxGroup) {
    const group = done.slice(i, i + maxGroup);
    try {
      await table.submitTransaction(group.map(({ partitionKey, rowKey }) => ["delete", { partitionKey, rowKey }]), call);
      removed += group.length;
    } catch (error) {
      // Another purge was there first; the next one gets what is left.
      if (!isNotFound(error)) throw error;
    }
  }
  for (const { partitionKey, rowKey, etag } of olds.filter((old) => !old.done)) {
    try {
      await table.deleteEntity(partitionKey, rowKey, { ...call, etag });
      removed++;
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }
  return removed;
}

function byPartition(olds: readonly Old[]): Iterable<readonly Old[]> {
  const partitions = new Map<string, Old[]>();
  for (const old of olds) {
    const partition = partitions.get(old.partitionKey);
    if (partition) partition.push(old);
    else partitions.set(old.partitionKey, [old]);
  }
  return partitions.values();
}

function oldOf(entity: object): Old {
  const { partitionKey, rowKey } = entity as { partitionKey: string; rowKey: string };
  const { state, etag } = recordOf(entity);
  return { partitionKey, rowKey, done: state === "done", etag };
}
