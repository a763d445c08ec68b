import type { AdapterRequest, CallOptions } from "../../clients/call.js";
import type { QueueLike } from "../../clients/queue.js";
import type { TableLike } from "../../clients/table.js";
import { throwIfAborted } from "../../core/deadline.js";
import { check, readInTime } from "../../core/request.js";
import { resolveWrite } from "../../core/resolve-write.js";
import { isNotFound, isParentNotFound } from "../../core/storage-errors.js";
import { withSpan } from "../../core/telemetry.js";
import { checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { CommitUnknownError, ConflictError, createError, TargetNotFoundError } from "../../errors.js";
import { ServiceTime } from "../../target/library-rows.js";
import { getOwnRow } from "../../target/own-rows.js";
import { tableUrl } from "../../target/stored-entity.js";
import { checkKey as checkEntityKey } from "../../target/table-entity.js";
import { checkKey } from "../envelope.js";
import { hasCertainlyExpired } from "./purge.js";
import { queueIdentityOf, readRecord, recordOf, rowKeyOf, rowKeyPrefix } from "./record.js";
import type { InboxRecord } from "./record.js";
import { shardOf, shardsMarker, shardsOf } from "./shards.js";

/** Options of {@link ClaimInbox} and {@link CommitInbox}. */
export interface InboxOptions {
  /** Creates the table when a consumer starts, if it does not exist. @defaultValue false: most services may not create tables */
  createTable?: boolean | undefined;
}

/** @throws `TypeError` if it is not a client. */
export function checkTable(call: string, table: TableLike): TableLike {
  if (typeof (table as Partial<TableLike> | null | undefined)?.submitTransaction !== "function") throw new TypeError(`${call} needs a TableClient`);
  return table;
}

/** A row that no inbox writes: reading it shows whether the table exists, and whether the credentials allow to read it. */
const probe: RecordKey = { partitionKey: `${rowKeyPrefix}probe`, rowKey: `${rowKeyPrefix}probe` };

/**
 * Without the table, every handler would run in vain: this must show when the consumer starts. Returns the row, if it was read and
 * exists.
 */
export async function prepareTable(table: TableLike, createTable: boolean, request: AdapterRequest, row: RecordKey = probe): Promise<object | undefined> {
  if (createTable) {
    await check(tableUrl(table), (options) => table.createTable(options), request);
    if (row === probe) return undefined;
  }
  try {
    return await check(tableUrl(table), (options) => getOwnRow(table, row.partitionKey, row.rowKey, options), request);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    if (!isParentNotFound(error)) throw error;
    const url = tableUrl(table);
    throw createError(TargetNotFoundError, `The inbox table ${url} does not exist. Create it, or set the option createTable.`, { url, cause: error });
  }
}

/**
 * What an inbox knows of a key. See {@link ClaimInbox.get} and {@link CommitInbox.get}.
 * @example
 * ```ts
 * const record = await inbox.get(queue, "order-42");
 * if (record?.state === "completed") console.log("completed at", record.updatedOn);
 * ```
 */
export interface InboxRecordInfo {
  /**
   * `"claimed"`: a handler runs, or has crashed. `"released"`: a handler has failed, or was not started; the message is delivered again.
   * `"completed"`: duplicates are dropped.
   */
  readonly state: "claimed" | "released" | "completed";
  /** When the record was last written, by the clock of the service: for a claim, when it was made or renewed. */
  readonly updatedOn: Date;
}

/**
 * Options of {@link CommitInbox.get} and {@link CommitInbox.forget}.
 * @example
 * ```ts
 * await inbox.forget(queue, "order-42", { partitionKey: "contoso" });
 * ```
 */
export interface CommitRecordOptions extends CallOptions {
  /** The partition of the effect, as `partitionOf` of the consumer returned it: the record is in the same one. */
  partitionKey: string;
}

/**
 * Options of {@link ClaimInbox.get} and {@link ClaimInbox.forget}.
 * @example
 * ```ts
 * await inbox.forget(queue, "order-42", { group: "contoso" });
 * ```
 */
export interface ClaimRecordOptions extends CallOptions {
  /** The group of the message, if it has one: with `shards`, the record is in the shard of its group. @defaultValue all shards are searched */
  group?: string | undefined;
}

const claimNames: OptionNames<ClaimRecordOptions> = { group: 1, abortSignal: 1, tracingOptions: 1 };
const commitNames: OptionNames<CommitRecordOptions> = { partitionKey: 1, abortSignal: 1, tracingOptions: 1 };

const limits = { timeoutInMs: 30_000, tryTimeoutInMs: 8_000 };
const maxResends = 3;

/** The records of an inbox. */
export interface InboxPlace {
  readonly table: TableLike;
  /** Undefined: the records are in the partitions of effects, which the caller must name. */
  readonly shards: number | undefined;
  /** Rejects if the consumers have another number of shards: the records would not be found, and a write would be in the wrong place. */
  readonly checkShards?: (call: CallOptions) => Promise<void>;
}

/** The number of shards that the first consumer of the table has recorded. Undefined: no consumer has started. */
export async function recordedShards(table: TableLike, call: CallOptions): Promise<number | undefined> {
  return ((await readInFull(table, shardsMarker, call)) as { shards?: number } | undefined)?.shards;
}

/** Where a row is. */
export interface RecordKey {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/** Where the record of a key may be. */
async function recordKeysOf(call: string, { shards }: InboxPlace, queue: QueueLike, key: string, options: CallOptions): Promise<readonly RecordKey[]> {
  const identity = checkIdentity(call, queue);
  const rowKey = await rowKeyOf(identity, checkKey("idempotencyKey", key));
  if (shards !== undefined) {
    checkOptions(call, options as ClaimRecordOptions, claimNames);
    const { group } = options as ClaimRecordOptions;
    if (group === undefined) return shardsOf(identity, shards).map((partitionKey) => ({ partitionKey, rowKey }));
    return [{ partitionKey: shardOf(identity, shards, key, checkKey("group", group)), rowKey }];
  }
  if ((options as CallOptions | undefined) === undefined) throw new TypeError(`${call} needs the option partitionKey`);
  checkOptions(call, options as CommitRecordOptions, commitNames);
  const { partitionKey } = options as CommitRecordOptions;
  checkEntityKey(`${call}: partitionKey`, partitionKey);
  return [{ partitionKey, rowKey }];
}

/** @throws `TypeError` if it is not a client. */
export function checkIdentity(call: string, queue: QueueLike): string {
  if (typeof (queue as Partial<QueueLike> | undefined)?.url !== "string") throw new TypeError(`${call} needs a QueueClient`);
  return queueIdentityOf(queue.url);
}

async function findRecord({ table, checkShards }: InboxPlace, recordKeys: readonly RecordKey[], call: CallOptions, serviceTime?: ServiceTime): Promise<{ readonly recordKey: RecordKey; readonly record: InboxRecord } | undefined> {
  await checkShards?.(call);
  const found = await Promise.all(
    recordKeys.map(async (recordKey) => {
      const entity = await readInFull(table, recordKey, call, serviceTime);
      return entity && { recordKey, record: recordOf(entity) };
    }),
  );
  return found.find((one) => one !== undefined);
}

/** Reads the record of a key: `get` of both inboxes. */
export async function getRecord(call: string, place: InboxPlace, queue: QueueLike, key: string, options: CallOptions): Promise<InboxRecordInfo | undefined> {
  const { table } = place;
  const recordKeys = await recordKeysOf(call, place, queue, key, options);
  return withSpan(call, options, async (tracingOptions) => {
    const record = (await findRecord(place, recordKeys, { abortSignal: options.abortSignal, tracingOptions }))?.record;
    return record && { state: record.state === "done" ? "completed" : record.state, updatedOn: new Date(record.writtenAt) };
  }, { targetKind: "inbox", url: tableUrl(table) });
}

/** Deletes the record of a key, unless its handler may be running: `forget` of both inboxes. */
export async function forgetRecord(call: string, place: InboxPlace, queue: QueueLike, key: string, options: CallOptions): Promise<boolean> {
  const { table } = place;
  const recordKeys = await recordKeysOf(call, place, queue, key, options);
  return withSpan(call, options, async (tracingOptions) => {
    // The clock of an operator's machine may be ahead by a day, and a SAS does not show that.
    const serviceTime = new ServiceTime();
    const found = await findRecord(place, recordKeys, { abortSignal: options.abortSignal, tracingOptions }, serviceTime);
    if (!found) return false;
    const { recordKey, record } = found;
    if (record.state === "claimed" && !hasCertainlyExpired(record, serviceTime.now)) throw conflict(table, record, undefined);
    return deleteRecord(table, recordKey, record, key, { abortSignal: options.abortSignal, tracingOptions });
  }, { targetKind: "inbox", url: tableUrl(table) });
}

/** Reads a row for a call of the application, which has its own limits. Undefined: it does not exist. */
export async function readInFull(
  table: TableLike,
  { partitionKey, rowKey }: RecordKey,
  { abortSignal, tracingOptions }: CallOptions,
  serviceTime?: ServiceTime,
): Promise<object | undefined> {
  try {
    const send = (signal: AbortSignal): Promise<object> =>
      getOwnRow(table, partitionKey, rowKey, { abortSignal: signal, ...(tracingOptions && { tracingOptions }), ...(serviceTime && { onResponse: serviceTime.onResponse }) });
    return await readInTime(send, tableUrl(table), { ...limits, abortSignal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** On the condition that it is unchanged: a consumer may claim the key at this moment. */
async function deleteRecord(table: TableLike, { partitionKey, rowKey }: RecordKey, { etag }: InboxRecord, key: string, { abortSignal, tracingOptions }: CallOptions): Promise<boolean> {
  const outcome = await resolveWrite<unknown, InboxRecord | undefined>(
    {
      send: (signal) => table.deleteEntity(partitionKey, rowKey, { abortSignal: signal, etag, ...(tracingOptions && { tracingOptions }) }),
      readBack: () => readRecord(table, partitionKey, rowKey, limits.tryTimeoutInMs, abortSignal),
      recognise: (found) => (found === undefined ? "committed" : found.etag === etag ? "unchanged" : "not committed"),
    },
    { abortSignal, tryLimit: { timeoutInMs: () => limits.tryTimeoutInMs }, maxResends },
  );
  switch (outcome.kind) {
    case "committed":
    case "recognised":
      return true;
    case "conflict":
      // Another client has deleted it first.
      if (isNotFound(outcome.error)) return false;
      throw conflict(table, outcome.found, outcome.error);
    case "rejected":
      throw outcome.error;
    case "unknown": {
      throwIfAborted(abortSignal);
      const url = tableUrl(table);
      const message = `It is not known whether a record of the inbox ${url} was deleted: the request got no response. Call forget again.`;
      throw createError(CommitUnknownError, message, { url, attempts: maxResends + 1, operationId: key, cause: outcome.error });
    }
  }
}

function conflict(table: TableLike, record: InboxRecord | undefined, cause: unknown): ConflictError {
  const url = tableUrl(table);
  const message = `The key is claimed in the inbox ${url}: its handler may be running, and without the record a second one could start. Nothing was deleted.`;
  return createError(ConflictError, message, { url, attempts: 1, elapsedInMs: 0, currentETag: record?.etag, cause });
}
