import type { AdapterRequest, CallOptions } from "../../clients/call.js";
import type { QueueLike } from "../../clients/queue.js";
import type { TableLike } from "../../clients/table.js";
import { throwIfAborted } from "../../core/deadline.js";
import { check, readInTime } from "../../core/request.js";
import { resolveWrite } from "../../core/resolve-write.js";
import { isNotFound, isParentNotFound } from "../../core/storage-errors.js";
import { redactUrl, withSpan } from "../../core/telemetry.js";
import { checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { CommitUnknownError, ConflictError, createError, TargetNotFoundError } from "../../errors.js";
import { checkKey as checkEntityKey } from "../../target/table-entity.js";
import { checkKey } from "../envelope.js";
import { hasCertainlyExpired } from "./purge.js";
import { queueIdentityOf, readRecord, recordOf, rowKeyOf, rowKeyPrefix } from "./record.js";
import type { InboxRecord } from "./record.js";

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
const probe = { partitionKey: `${rowKeyPrefix}probe`, rowKey: `${rowKeyPrefix}probe` };

/** Without the table, every handler would run in vain: this must show when the consumer starts. */
export async function prepareTable(table: TableLike, createTable: boolean, request: AdapterRequest): Promise<void> {
  if (createTable) {
    await check(table.url, (options) => table.createTable(options), request);
    return;
  }
  try {
    await check(table.url, (options) => table.getEntity(probe.partitionKey, probe.rowKey, options), request);
  } catch (error) {
    if (isNotFound(error)) return;
    if (!isParentNotFound(error)) throw error;
    const url = redactUrl(table.url);
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

const claimNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };
const commitNames: OptionNames<CommitRecordOptions> = { partitionKey: 1, ...claimNames };

const limits = { timeoutInMs: 30_000, tryTimeoutInMs: 8_000 };
const maxResends = 3;

/** Where the record of a key is. */
interface RecordKey {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/** @param commits - Whether the record is in the partition of an effect, which the caller must name. */
async function recordKeyOf(call: string, commits: boolean, queue: QueueLike, key: string, options: CallOptions | CommitRecordOptions): Promise<RecordKey> {
  if (typeof (queue as Partial<QueueLike> | undefined)?.url !== "string") throw new TypeError(`${call} needs a QueueClient`);
  const identity = queueIdentityOf(queue.url);
  const rowKey = await rowKeyOf(identity, checkKey("idempotencyKey", key));
  if (!commits) {
    checkOptions(call, options, claimNames);
    return { partitionKey: identity, rowKey };
  }
  if ((options as CallOptions | undefined) === undefined) throw new TypeError(`${call} needs the option partitionKey`);
  checkOptions(call, options as CommitRecordOptions, commitNames);
  const { partitionKey } = options as CommitRecordOptions;
  checkEntityKey(`${call}: partitionKey`, partitionKey);
  return { partitionKey, rowKey };
}

/** Reads the record of a key: `get` of both inboxes. */
export async function getRecord(call: string, commits: boolean, table: TableLike, queue: QueueLike, key: string, options: CallOptions): Promise<InboxRecordInfo | undefined> {
  const recordKey = await recordKeyOf(call, commits, queue, key, options);
  return withSpan(call, options, async (tracingOptions) => {
    const record = await readInFull(table, recordKey, { abortSignal: options.abortSignal, tracingOptions });
    return record && { state: record.state === "done" ? "completed" : record.state, updatedOn: new Date(record.writtenAt) };
  }, { targetKind: "inbox", url: table.url });
}

/** Deletes the record of a key, unless its handler may be running: `forget` of both inboxes. */
export async function forgetRecord(call: string, commits: boolean, table: TableLike, queue: QueueLike, key: string, options: CallOptions): Promise<boolean> {
  const recordKey = await recordKeyOf(call, commits, queue, key, options);
  return withSpan(call, options, async (tracingOptions) => {
    const record = await readInFull(table, recordKey, { abortSignal: options.abortSignal, tracingOptions });
    if (!record) return false;
    if (record.state === "claimed" && !hasCertainlyExpired(record)) throw conflict(table, record, undefined);
    return deleteRecord(table, recordKey, record, key, { abortSignal: options.abortSignal, tracingOptions });
  }, { targetKind: "inbox", url: table.url });
}

async function readInFull(table: TableLike, { partitionKey, rowKey }: RecordKey, { abortSignal, tracingOptions }: CallOptions): Promise<InboxRecord | undefined> {
  try {
    const send = (signal: AbortSignal): Promise<object> => table.getEntity(partitionKey, rowKey, { abortSignal: signal, ...(tracingOptions && { tracingOptions }) });
    return recordOf(await readInTime(send, redactUrl(table.url), { ...limits, abortSignal }));
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
      const url = redactUrl(table.url);
      const message = `It is not known whether a record of the inbox ${url} was deleted: the request got no response. Call forget again.`;
      throw createError(CommitUnknownError, message, { url, attempts: maxResends + 1, operationId: key, cause: outcome.error });
    }
  }
}

function conflict(table: TableLike, record: InboxRecord | undefined, cause: unknown): ConflictError {
  const url = redactUrl(table.url);
  const message = `The key is claimed in the inbox ${url}: its handler may be running, and without the record a second one could start. Nothing was deleted.`;
  return createError(ConflictError, message, { url, attempts: 1, elapsedInMs: 0, currentETag: record?.etag, cause });
}
