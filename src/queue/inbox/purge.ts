import type { PurgeOptions, PurgeResult } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";
import { throwIfAborted } from "../../core/deadline.js";
import { isConflict, isNotFound } from "../../core/storage-errors.js";
import { withSpan } from "../../core/telemetry.js";
import { checkNumber, checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { quoted } from "../../target/library-rows.js";
import { recordOf, rowKeyPrefix } from "./record.js";
import { maxGroup } from "./write-batcher.js";

/**
 * Options of {@link ClaimInbox.purge} and {@link CommitInbox.purge}. `olderThanInMs` is 8 days unless set: a message lives for 7
 * days unless its sender says otherwise.
 * @example
 * ```ts
 * await inbox.purge({ olderThanInMs: 30 * 86_400_000, partitionKey: "orders" });
 * ```
 */
export interface PurgeInboxOptions extends PurgeOptions {
  /** Only records of this queue's claims, or of this partition's commits. @defaultValue all in the table: any process may purge */
  partitionKey?: string | undefined;
}

const names: OptionNames<PurgeInboxOptions> = { olderThanInMs: 1, partitionKey: 1, abortSignal: 1, tracingOptions: 1 };
const defaultAgeInMs = 8 * 86_400_000;

interface OldRecord {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly done: boolean;
  readonly etag: string;
}

/**
 * Deletes old records page by page, a hundred in one transaction. The service applies the filter: newer records cost it a scan,
 * but they are not downloaded.
 */
export async function purgeRecords(call: string, table: TableLike, options: PurgeInboxOptions = {}): Promise<PurgeResult> {
  checkOptions(call, options, names);
  const ageInMs = checkNumber("olderThanInMs", options.olderThanInMs ?? defaultAgeInMs, { min: 0 });
  const scope = { olderThan: new Date(Date.now() - ageInMs), partitionKey: options.partitionKey };
  return withSpan(call, options, (tracingOptions) => purgeOlder(table, scope, { ...options, tracingOptions }), { targetKind: "inbox", url: table.url });
}

async function purgeOlder(table: TableLike, scope: { readonly olderThan: Date; readonly partitionKey: string | undefined }, options: PurgeOptions): Promise<PurgeResult> {
  const call = {
    ...(options.abortSignal && { abortSignal: options.abortSignal as AbortSignal }),
    ...(options.tracingOptions && { tracingOptions: options.tracingOptions }),
  };
  const conditions = [
    ...(scope.partitionKey === undefined ? [] : [`PartitionKey eq ${quoted(scope.partitionKey)}`]),
    `RowKey ge '${rowKeyPrefix}'`,
    `RowKey lt '${rowKeyPrefix.slice(0, -1)}"'`, // " is the character after !
    `Timestamp lt datetime'${scope.olderThan.toISOString()}'`,
  ];
  const queryOptions = { filter: conditions.join(" and "), select: ["PartitionKey", "RowKey", "Timestamp", "state"] };
  const result = { deleted: 0, kept: 0 };
  for await (const page of table.listEntities({ ...call, queryOptions }).byPage({ maxPageSize: 1_000 })) {
    for (const records of byPartition(page.map(oldRecordOf))) {
      throwIfAborted(options.abortSignal);
      await deleteAll(table, records, call, result);
    }
  }
  return result;
}

async function deleteAll(
  table: TableLike,
  records: readonly OldRecord[],
  call: { abortSignal?: AbortSignal },
  result: { deleted: number; kept: number },
): Promise<void> {
  // A delete in a transaction cannot be conditional. Done is final, so no other consumer can have changed such a record; a record
  // that is still claimed may be taken over at this moment, and is deleted separately, on the condition that it is unchanged.
  const done = records.filter((record) => record.done);
  for (let i = 0; i < done.length; i += maxGroup) {
    const group = done.slice(i, i + maxGroup);
    try {
      await table.submitTransaction(group.map(({ partitionKey, rowKey }) => ["delete", { partitionKey, rowKey }] as never), call);
      result.deleted += group.length;
    } catch (error) {
      // Another purge has deleted one of them; the next purge deletes the rest.
      if (!isNotFound(error)) throw error;
    }
  }
  for (const { partitionKey, rowKey, etag } of records.filter((record) => !record.done)) {
    try {
      await table.deleteEntity(partitionKey, rowKey, { ...call, etag });
      result.deleted++;
    } catch (error) {
      if (isConflict(error)) result.kept++;
      else if (!isNotFound(error)) throw error;
    }
  }
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
