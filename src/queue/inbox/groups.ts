import type { CallOptions } from "../../clients/call.js";
import type { QueueLike } from "../../clients/queue.js";
import type { TableLike, TransactionActionLike } from "../../clients/table.js";
import { throwIfAborted } from "../../core/deadline.js";
import { resolveWrite } from "../../core/resolve-write.js";
import { withSpan } from "../../core/telemetry.js";
import { checkNumber, checkOptions } from "../../core/validate.js";
import type { OptionNames } from "../../core/validate.js";
import { CommitUnknownError, ConflictError, createError } from "../../errors.js";
import { ServiceTime } from "../../target/library-rows.js";
import { tableUrl } from "../../target/stored-entity.js";
import { checkKey } from "../envelope.js";
import { groupEntityOf, groupRowKeyOf, groupRowOf } from "./group-row.js";
import type { GroupRow } from "./group-row.js";
import { checkIdentity, readInFull } from "./inbox-table.js";
import type { InboxPlace, RecordKey } from "./inbox-table.js";
import { hasCertainlyExpired } from "./purge.js";
import { entityOf, readRow, recordOf } from "./record.js";
import { shardOf } from "./shards.js";

/**
 * What an inbox knows of a group. See {@link ClaimInbox.getGroup}.
 * @example
 * ```ts
 * const group = await inbox.getGroup(queue, "customer-7");
 * console.log("waits for", (group?.lastSequence ?? 0) + 1, "; handler:", group?.holder?.messageId ?? "none");
 * ```
 */
export interface InboxGroupInfo {
  /** The sequence of the message that was completed last, or skipped. 0: none was. */
  readonly lastSequence: number;
  /** The message whose handler has the group, or had it when its process ended. Undefined: the group is free. */
  readonly holder: { readonly messageId: string; readonly expiresOn: Date } | undefined;
  /** When this was last written, by the clock of the service. */
  readonly updatedOn: Date;
}

const names: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };
const tryTimeoutInMs = 8_000;
const maxResends = 3;

/** `getGroup` of an inbox. */
export async function getGroup(call: string, place: InboxPlace, queue: QueueLike, group: string, options: CallOptions): Promise<InboxGroupInfo | undefined> {
  const key = await groupKeyOf(call, place, queue, group, options);
  return withSpan(call, options, async (tracingOptions) => {
    const entity = await findRow(place, key, { abortSignal: options.abortSignal, tracingOptions });
    if (!entity) return undefined;
    const { lastSequence = 0, state, messageId, writtenAt, claimDurationInMs } = groupRowOf(entity);
    const holder = state === "claimed" ? { messageId, expiresOn: new Date(writtenAt + claimDurationInMs) } : undefined;
    return { lastSequence, holder, updatedOn: new Date(writtenAt) };
  }, { targetKind: "inbox", url: tableUrl(place.table) });
}

async function findRow({ table, checkShards }: InboxPlace, key: RecordKey, call: CallOptions, serviceTime?: ServiceTime): Promise<object | undefined> {
  await checkShards?.(call);
  return readInFull(table, key, call, serviceTime);
}

/** `skip` of an inbox: on the condition that the row is unchanged, as a consumer may claim the group at this moment. */
export async function skipSequence(
  call: string,
  place: InboxPlace,
  queue: QueueLike,
  group: string,
  sequence: number,
  options: CallOptions,
): Promise<boolean> {
  const { table } = place;
  const key = await groupKeyOf(call, place, queue, group, options);
  checkNumber("sequence", sequence, { min: 1, max: Number.MAX_SAFE_INTEGER, integer: true });
  return withSpan(call, options, async (tracingOptions) => {
    // As for `forget`: not by the clock of this machine.
    const serviceTime = new ServiceTime();
    const entity = await findRow(place, key, { abortSignal: options.abortSignal, tracingOptions }, serviceTime);
    const row = entity && groupRowOf(entity);
    if ((row?.lastSequence ?? 0) >= sequence) return false;
    if (row?.state === "claimed" && !hasCertainlyExpired(row, serviceTime.now)) throw conflict(table, row, undefined);
    const call = { abortSignal: options.abortSignal, tracingOptions };
    const evicted = row?.state === "claimed" ? await evictionOf(table, key, row, call) : undefined;
    await writeSequence(table, key, row, sequence, evicted, call);
    return true;
  }, { targetKind: "inbox", url: tableUrl(table) });
}

async function groupKeyOf(call: string, { shards = 1 }: InboxPlace, queue: QueueLike, group: string, options: CallOptions): Promise<RecordKey> {
  const identity = checkIdentity(call, queue);
  checkOptions(call, options, names);
  const rowKey = await groupRowKeyOf(identity, checkKey("group", group));
  return { partitionKey: shardOf(identity, shards, group, group), rowKey };
}

/** As when another message takes the group over: the claim of a crashed consumer ends, which must not change the sequence later. */
async function evictionOf(table: TableLike, { partitionKey }: RecordKey, { recordRowKey, owner }: GroupRow, call: CallOptions): Promise<TransactionActionLike | undefined> {
  const entity = await readInFull(table, { partitionKey, rowKey: recordRowKey }, call);
  const record = entity && recordOf(entity);
  if (record?.state !== "claimed" || record.owner !== owner) return undefined;
  return ["update", entityOf(partitionKey, recordRowKey, { state: "released" }), "Merge", { etag: record.etag }];
}

async function writeSequence(
  table: TableLike,
  { partitionKey, rowKey }: RecordKey,
  row: GroupRow | undefined,
  sequence: number,
  evicted: TransactionActionLike | undefined,
  call: CallOptions,
): Promise<void> {
  const { abortSignal, tracingOptions } = call;
  const entity = groupEntityOf(partitionKey, rowKey, { state: "released", lastSequence: sequence });
  const actions: TransactionActionLike[] = [row ? ["update", entity, "Merge", { etag: row.etag }] : ["create", entity], ...(evicted ? [evicted] : [])];
  const outcome = await resolveWrite<unknown, GroupRow | undefined>(
    {
      send: (signal) => table.submitTransaction(actions as never[], { abortSignal: signal, ...(tracingOptions && { tracingOptions }) }),
      readBack: async () => {
        const found = await readRow(table, partitionKey, rowKey, tryTimeoutInMs, abortSignal);
        return found && groupRowOf(found);
      },
      recognise: (found) => ((found?.lastSequence ?? 0) >= sequence ? "committed" : found?.etag === row?.etag ? "unchanged" : "not committed"),
    },
    { abortSignal, tryLimit: { timeoutInMs: () => tryTimeoutInMs }, maxResends },
  );
  switch (outcome.kind) {
    case "committed":
    case "recognised":
      return;
    case "conflict":
      throw conflict(table, outcome.found, outcome.error);
    case "rejected":
      throw outcome.error;
    case "unknown": {
      throwIfAborted(abortSignal);
      const url = tableUrl(table);
      const message = `It is not known whether the last sequence of a group was set in the inbox ${url}: the request got no response. Call skip again.`;
      throw createError(CommitUnknownError, message, { url, attempts: maxResends + 1, operationId: rowKey, cause: outcome.error });
    }
  }
}

function conflict(table: TableLike, row: GroupRow | undefined, cause: unknown): ConflictError {
  const url = tableUrl(table);
  const message = `A message of the group is claimed in the inbox ${url}: its handler may be running. Nothing was written. Call skip when it has ended.`;
  return createError(ConflictError, message, { url, attempts: 1, elapsedInMs: 0, currentETag: row?.etag, cause });
}
