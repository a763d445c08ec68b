import type { CallOptions } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";
import { throwIfAborted } from "../../core/deadline.js";
import { isConflict, isNotFound } from "../../core/storage-errors.js";
import { recordOf, rowKeyPrefix } from "./record.js";
import { maxGroup } from "./write-batcher.js";

/** Which records to remove. */
export interface PurgeScope {
  readonly olderThan: Date;
  readonly partitionKey?: string | undefined;
}

interface OldRecord {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly done: boolean;
  readonly etag: string;
}

/**
 * Removes old records page by page, a hundred in one transaction. The service applies the filter: newer records cost it a scan,
 * but they are not downloaded.
 */
export async function purgeRecords(table: TableLike, scope: PurgeScope, options: CallOptions): Promise<number> {
  const call = {
    ...(options.abortSignal && { abortSignal: options.abortSignal as AbortSignal }),
    ...(options.tracingOptions && { tracingOptions: options.tracingOptions }),
  };
  const conditions = [
    ...(scope.partitionKey === undefined ? [] : [`PartitionKey eq '${scope.partitionKey.replaceAll("'", "''")}'`]),
    `RowKey ge '${rowKeyPrefix}'`,
    `RowKey lt '${rowKeyPrefix.slice(0, -1)}"'`, // " is the character after !
    `Timestamp lt datetime'${scope.olderThan.toISOString()}'`,
  ];
  const queryOptions = { filter: conditions.join(" and "), select: ["PartitionKey", "RowKey", "Timestamp", "state"] };
  let removed = 0;
  for await (const page of table.listEntities({ ...call, queryOptions }).byPage({ maxPageSize: 1_000 })) {
    for (const records of byPartition(page.map(oldRecordOf))) {
      throwIfAborted(options.abortSignal);
      removed += await removeAll(table, records, call);
    }
  }
  return removed;
}

async function removeAll(table: TableLike, records: readonly OldRecord[], call: { abortSignal?: AbortSignal }): Promise<number> {
  let removed = 0;
  // A delete in a transaction cannot be conditional. Done is final, so no other consumer can have changed such a record; a record
  // that is still claimed may be taken over at this moment, and is deleted separately, on the condition that it is unchanged.
  const done = records.filter((record) => record.done);
  for (let i = 0; i < done.length; i += maxGroup) {
    const group = done.slice(i, i + maxGroup);
    try {
      await table.submitTransaction(group.map(({ partitionKey, rowKey }) => ["delete", { partitionKey, rowKey }] as never), call);
      removed += group.length;
    } catch (error) {
      // Another purge has deleted one of them; the next purge deletes the rest.
      if (!isNotFound(error)) throw error;
    }
  }
  for (const { partitionKey, rowKey, etag } of records.filter((record) => !record.done)) {
    try {
      await table.deleteEntity(partitionKey, rowKey, { ...call, etag });
      removed++;
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }
  return removed;
}

function byPartition(records: readonly OldRecord[]): Iterable<readonly OldRecord[]> {
  const partitions = new Map<string, OldRecord[]>();
  for (const record of records) {
    const partition = partitions.get(record.partitionKey);
    if (partition) partition.push(record);
    else partitions.set(record.partitionKey, [record]);
  }
  return partitions.values();
}

function oldRecordOf(entity: object): OldRecord {
  const { partitionKey, rowKey } = entity as { partitionKey: string; rowKey: string };
  const { state, etag } = recordOf(entity);
  return { partitionKey, rowKey, done: state === "done", etag };
}
