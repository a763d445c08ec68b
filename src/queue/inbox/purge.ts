import type { CallOptions, PurgeOptions, PurgeResult } from "../../clients/call.js";
import type { TableLike } from "../../clients/table.js";
import { RequestTimeoutError, throwIfAborted } from "../../core/deadline.js";
import { formatVersionName, isLaterRow } from "../../core/format-version.js";
import { iterate } from "../../core/iterate.js";
import { read } from "../../core/request.js";
import { isConflict, isNotFound, toNotFoundError } from "../../core/storage-errors.js";
import { withSpan } from "../../core/telemetry.js";
import { checkNumber, checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { createError, OperationTimeoutError } from "../../errors.js";
import { notModifiedFor, quoted, ServiceTime } from "../../target/library-rows.js";
import { ownRowPages } from "../../target/own-rows.js";
import { tableUrl } from "../../target/stored-entity.js";
import { checkKey } from "../../target/table-entity.js";
import { groupRowPrefix } from "./group-row.js";
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
  /**
   * Also deletes what is kept of groups with a sequence that no handler has, if nothing has happened in them for this long. Such a group
   * begins anew: its next message must have sequence 1, and any other one waits until an operator calls `skip`. For groups that end, like
   * those of an order; not for groups that may continue at any time.
   * @defaultValue undefined: none, as a group that continues would wait for ever
   */
  groupsOlderThanInMs?: number | undefined;
}

const names: OptionNames<PurgeInboxOptions> = { olderThanInMs: 1, partitionKey: 1, groupsOlderThanInMs: 1, abortSignal: 1, tracingOptions: 1 };
const defaultAgeInMs = 8 * 86_400_000;
/** Longer than the SDK's own retries, and than the scan of a large table takes until its first page. */
const requestTimeoutInMs = 60_000;

/** The service rejects the requests of a client whose clock differs from its own by more. */
const maxClockDifferenceInMs = 15 * 60_000;

/** Rows that match a filter, and that the service wrote so long ago. */
interface OldRows {
  readonly filter: string;
  readonly ageInMs: number;
}

interface OldRecord extends InboxRecord {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/** Whether no handler can have this claim any more, by the clock of the service, or of this process if that is not known. False if the record does not tell. */
export function hasCertainlyExpired({ writtenAt, claimDurationInMs }: Pick<InboxRecord, "writtenAt" | "claimDurationInMs">, serviceTime: number = Date.now()): boolean {
  return writtenAt + claimDurationInMs + maxClockDifferenceInMs <= serviceTime;
}

/**
 * Deletes old records page by page, a hundred in one transaction. The service applies the filter: newer records cost it a scan,
 * but they are not downloaded. Each request is given up when the caller aborts, or after a minute.
 */
export async function purgeRecords(call: string, table: TableLike, options: PurgeInboxOptions = {}): Promise<PurgeResult> {
  checkOptions(call, options, names);
  const ageInMs = checkNumber("olderThanInMs", options.olderThanInMs ?? defaultAgeInMs, { min: 0, max: Date.now() });
  const { groupsOlderThanInMs, partitionKey } = options;
  if (partitionKey !== undefined) checkKey(`${call}: partitionKey`, partitionKey);
  if (groupsOlderThanInMs !== undefined) checkNumber("groupsOlderThanInMs", groupsOlderThanInMs, { min: 0, max: Date.now() });
  const matching = (prefix: string, olderThanInMs: number): OldRows => ({
    ageInMs: olderThanInMs,
    filter: [
      ...(partitionKey === undefined ? [] : [`PartitionKey eq ${quoted(partitionKey)}`]),
      `RowKey ge '${prefix}'`,
      `RowKey lt '${prefix.slice(0, -1)}"'`, // " is the character after !
      notModifiedFor(olderThanInMs),
    ].join(" and "),
  });
  return withSpan(call, options, async (tracingOptions) => {
    const result = { deleted: 0, kept: 0 };
    const callOptions = { abortSignal: options.abortSignal, tracingOptions };
    try {
      await purgeMatching(table, matching(rowKeyPrefix, ageInMs), callOptions, result, hasCertainlyExpired);
      // Never while it is claimed: another message would get the group without the record of its holder being changed, and the holder
      // could then free the group of its successor.
      if (groupsOlderThanInMs !== undefined) await purgeMatching(table, matching(groupRowPrefix, groupsOlderThanInMs), callOptions, result, () => false);
      return result;
    } catch (error) {
      const url = tableUrl(table);
      if (!(error instanceof RequestTimeoutError)) throw toNotFoundError(error, url, undefined) ?? error;
      const message = `${call} of ${url}: ${error.message}. ${result.deleted} records were deleted before.`;
      throw createError(OperationTimeoutError, message, { url, elapsedInMs: error.timeoutInMs, committed: "unknown", cause: error });
    }
  }, { targetKind: "inbox", url: tableUrl(table) });
}

async function purgeMatching(
  table: TableLike,
  { filter, ageInMs }: OldRows,
  call: CallOptions,
  result: { deleted: number; kept: number },
  mayDeleteClaim: (claimed: OldRecord, serviceTime: number) => boolean,
): Promise<void> {
  const { abortSignal, tracingOptions } = call;
  const serviceTime = new ServiceTime();
  const query = { ...(tracingOptions && { tracingOptions }), onResponse: serviceTime.onResponse, queryOptions: { filter, select: ["PartitionKey", "RowKey", "Timestamp", "state", "holdInMs", formatVersionName] } };
  const open = (signal: AbortSignal): AsyncIterable<readonly object[]> => ownRowPages(table, { ...query, abortSignal: signal }, 1_000);
  for await (const page of iterate(open, { abortSignal, timeoutInMs: requestTimeoutInMs })) {
    const old = page.filter((row) => serviceTime.isOlder(row, ageInMs));
    const known = old.filter((row) => !isLaterRow(row));
    result.kept += old.length - known.length;
    for (const records of byPartition(known.map(oldRecordOf))) {
      throwIfAborted(abortSignal);
      await deleteAll(table, records, call, result, (claimed) => mayDeleteClaim(claimed, serviceTime.now));
    }
  }
}

async function deleteAll(
  table: TableLike,
  records: readonly OldRecord[],
  call: CallOptions,
  result: { deleted: number; kept: number },
  mayDeleteClaim: (claimed: OldRecord) => boolean,
): Promise<void> {
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
    if (record.state === "claimed" && !mayDeleteClaim(record)) {
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
