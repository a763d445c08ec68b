import type { CallOptions, PurgeOptions, PurgeResult } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";
import { RequestTimeoutError, throwIfAborted } from "../../core/deadline.js";
import { iterate } from "../../core/iterate.js";
import { read } from "../../core/request.js";
import { isConflict, isNotFound } from "../../core/storage-errors.js";
import { redactUrl, withSpan } from "../../core/telemetry.js";
import { checkNumber, checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { createError, OperationTimeoutError } from "../../errors.js";
import { quoted } from "../../target/library-rows.js";
import { recordOf, rowKeyPrefix } from "./record.js";
import type { InboxRecord } from "./record.js";
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
  /** Only records of this queue's claims (`account:queue`), or of this partition's commits. @defaultValue all in the table: any process may purge */
  partitionKey?: string | undefined;
}

const names: OptionNames<PurgeInboxOptions> = { olderThanInMs: 1, partitionKey: 1, abortSignal: 1, tracingOptions: 1 };
const defaultAgeInMs = 8 * 86_400_000;
/** Longer than the SDK's own retries, and than the scan of a large table takes until its first page. */
const requestTimeoutInMs = 60_000;

/** The service rejects the requests of a client whose clock differs from its own by more. */
const maxClockDifferenceInMs = 15 * 60_000;

interface OldRecord extends InboxRecord {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/** Whether no handler can have this claim any more, by the clock of this process. False if the record does not tell. */
export function hasCertainlyExpired({ writtenAt, claimDurationInMs }: InboxRecord): boolean {
  return writtenAt + claimDurationInMs + maxClockDifferenceInMs <= Date.now();
}

/**
 * Deletes old records page by page, a hundred in one transaction. The service applies the filter: newer records cost it a scan,
 * but they are not downloaded. Each request is given up when the caller aborts, or after a minute.
 */
export async function purgeRecords(call: string, table: TableLike, options: PurgeInboxOptions = {}): Promise<PurgeResult> {
  checkOptions(call, options, names);
  const ageInMs = checkNumber("olderThanInMs", options.olderThanInMs ?? defaultAgeInMs, { min: 0, max: Date.now() });
  const conditions = [
    ...(options.partitionKey === undefined ? [] : [`PartitionKey eq ${quoted(options.partitionKey)}`]),
    `RowKey ge '${rowKeyPrefix}'`,
    `RowKey lt '${rowKeyPrefix.slice(0, -1)}"'`, // " is the character after !
    `Timestamp lt datetime'${new Date(Date.now() - ageInMs).toISOString()}'`,
  ];
  return withSpan(call, options, async (tracingOptions) => {
    const result = { deleted: 0, kept: 0 };
    try {
      await purgeMatching(table, conditions.join(" and "), { abortSignal: options.abortSignal, tracingOptions }, result);
      return result;
    } catch (error) {
      if (!(error instanceof RequestTimeoutError)) throw error;
      const url = redactUrl(table.url);
      const message = `${call} of ${url}: ${error.message}. ${result.deleted} records were deleted before.`;
      throw createError(OperationTimeoutError, message, { url, elapsedInMs: error.timeoutInMs, committed: "unknown", cause: error });
    }
  }, { targetKind: "inbox", url: table.url });
}

async function purgeMatching(table: TableLike, filter: string, call: CallOptions, result: { deleted: number; kept: number }): Promise<void> {
  const { abortSignal, tracingOptions } = call;
  const query = { ...(tracingOptions && { tracingOptions }), queryOptions: { filter, select: ["PartitionKey", "RowKey", "Timestamp", "state", "holdInMs"] } };
  const open = (signal: AbortSignal): AsyncIterable<readonly object[]> => table.listEntities({ ...query, abortSignal: signal }).byPage({ maxPageSize: 1_000 });
  for await (const page of iterate(open, { abortSignal, timeoutInMs: requestTimeoutInMs })) {
    for (const records of byPartition(page.map(oldRecordOf))) {
      throwIfAborted(abortSignal);
      await deleteAll(table, records, call, result);
    }
  }
}

async function deleteAll(table: TableLike, records: readonly OldRecord[], call: CallOptions, result: { deleted: number; kept: number }): Promise<void> {
  const limits = { abortSignal: call.abortSignal, timeoutInMs: requestTimeoutInMs };
  const traced = call.tracingOptions && { tracingOptions: call.tracingOptions };
  // A delete in a transaction cannot be conditional. Done is final, so no other consumer can have changed such a record; any other
  // may be claimed at this moment, and is deleted separately, on the condition that it is unchanged.
  const done = records.filter(({ state }) => state === "done");
  for (let i = 0; i < done.length; i += maxGroup) {
    const group = done.slice(i, i + maxGroup);
    const actions = group.map(({ partitionKey, rowKey }) => ["delete", { partitionKey, rowKey }] as never);
    try {
      await read((signal) => table.submitTransaction(actions, { ...traced, abortSignal: signal }), limits);
      result.deleted += group.length;
    } catch (error) {
      // Another purge has deleted one of them; the next purge deletes the rest.
      if (!isNotFound(error)) throw error;
    }
  }
  for (const record of records.filter(({ state }) => state !== "done")) {
    const { partitionKey, rowKey, etag } = record;
    // The handler may be running: without the record, another message with the same key would start a second one.
    if (record.state === "claimed" && !hasCertainlyExpired(record)) {
      result.kept++;
      continue;
    }
    try {
      await read((signal) => table.deleteEntity(partitionKey, rowKey, { ...traced, etag, abortSignal: signal }), limits);
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
  return { ...recordOf(entity), partitionKey, rowKey };
}
