import type { AdapterRequest } from "../../clients/call.js";
import type { TableAction, TransactionActionLike, TableLike } from "../../clients/table.js";
import { resolveWrite } from "../../core/resolve-write.js";
import { fullJitter } from "../../core/retry.js";
import { actionsIn } from "../../core/table-action.js";
import { createError, CommitUnknownError, IdempotencyMismatchError } from "../../errors.js";
import { checkNotOwnRow } from "../../target/library-rows.js";
import { tableUrl } from "../../target/stored-entity.js";
import { entityOf, isSamePayload, readRecord } from "./record.js";
import type { InboxRecord } from "./record.js";
import type { StoredMessage } from "./stored-outgoing.js";
import { maxGroup } from "./write-batcher.js";

/** The record that a key is done. */
export interface KeyRecord {
  readonly partitionKey: string;
  readonly rowKey: string;
  /** `owner` identifies this call: it distinguishes its record from that of another delivery. */
  readonly record: Pick<InboxRecord, "owner" | "messageId" | "dequeueCount"> & { readonly payloadHash: string };
  readonly idempotencyKey: string;
}

/** The writes of one handler, and the record that its key is done, with the messages to send. */
export interface InboxCommit extends KeyRecord {
  readonly actions: readonly TransactionActionLike[];
  readonly outgoing: readonly StoredMessage[];
}

/** The result of a commit, and the messages that the record has: those of an earlier commit, if this one is a duplicate. */
export interface InboxCommitResult {
  readonly result: "committed" | "duplicate";
  readonly outgoing: readonly StoredMessage[];
}

const timeoutInMs = 30_000;
const maxResends = 9;

/**
 * Writes the actions and the record in one entity group transaction. The record is created, never updated, so of all transactions
 * for one key only one can ever be committed, even if a consumer crashes, is late or sends twice.
 *
 * | response                      | record afterwards | outcome                                                          |
 * |-------------------------------|-------------------|------------------------------------------------------------------|
 * | 2xx                           |                   | committed                                                        |
 * | a conflict                    | own               | committed: the response to the first send was lost               |
 * | a conflict                    | another's         | duplicate; for another payload: an `IdempotencyMismatchError`      |
 * | a conflict, sent once or more | none              | the caller's own entities are in conflict: its error             |
 * | none, 5xx                     | own, another's    | committed, duplicate                                             |
 * | none, 5xx                     | none              | sent again; only one of the two sends can be committed           |
 * | anything else                 |                   | the caller's error                                               |
 */
export async function commitOnce(
  table: TableLike,
  commit: InboxCommit,
  { abortSignal, tracingOptions }: AdapterRequest,
): Promise<InboxCommitResult> {
  const { partitionKey, rowKey, record, outgoing } = commit;
  const actions: TransactionActionLike[] = [["create", entityOf(partitionKey, rowKey, { ...record, state: "done", outgoing })], ...commit.actions];
  const outcome = await resolveWrite<unknown, InboxRecord | undefined>(
    {
      send: (signal) => table.submitTransaction(actions as never[], { abortSignal: signal, tracingOptions }),
      readBack: () => readRecord(table, partitionKey, rowKey, timeoutInMs, abortSignal),
      recognise: (found) => (found ? (found.owner === record.owner ? "committed" : "not committed") : "unchanged"),
      // Nothing to do, whenever an earlier send arrives: of all transactions for one key only one can be committed.
      invalidateEarlierSends: () => Promise.resolve(true),
      onConflict: () => 0,
    },
    { abortSignal, tryLimit: { timeoutInMs: () => timeoutInMs }, maxResends, backoff: (resend) => fullJitter(resend, 20, 2_000) },
  );
  switch (outcome.kind) {
    case "committed":
    case "recognised":
      return { result: "committed", outgoing };
    case "conflict":
      if (!outcome.found) throw outcome.error;
      return duplicateOf(table, commit, outcome.found);
    case "rejected":
      throw outcome.error;
    case "unknown":
      throw createError(
        CommitUnknownError,
        `The outcome of a commit to ${tableUrl(table)} is unknown: the request was sent, its response was lost, and the table cannot be ` +
          `read. Throw from the handler: the next delivery of the message determines the outcome.`,
        { url: tableUrl(table), attempts: maxResends + 1, operationId: record.owner, cause: outcome.error },
      );
  }
}

/**
 * The actions of an application that are committed together with a record of the library. Row keys of the library are rejected: they often
 * come from the payload, and one that is the record of another key would make the message of that key a duplicate, without its effect.
 * @throws `TypeError` or `RangeError` if they cannot be committed.
 */
export function actionsBesideRecord(partitionKey: string, actions: readonly TableAction[]): TransactionActionLike[] {
  const prepared = actionsIn(partitionKey, actions, "commit");
  // The record itself is the hundredth action.
  if (prepared.length >= maxGroup) throw new RangeError(`commit: at most ${maxGroup - 1} actions fit into a transaction with the record; got ${prepared.length}`);
  for (const [, { rowKey }] of prepared) {
    // Without TypeScript, it may be missing: the service says so.
    const given: unknown = rowKey;
    if (typeof given === "string") checkNotOwnRow(given);
  }
  return prepared;
}

/** The result of a commit whose key has the record of another one. */
export function duplicateOf(table: TableLike, { record, idempotencyKey }: KeyRecord, found: InboxRecord): InboxCommitResult {
  const url = tableUrl(table);
  if (!isSamePayload(found, record)) {
    throw createError(IdempotencyMismatchError, `The idempotency key of message ${record.messageId} was committed before, for another payload.`, { url, key: idempotencyKey });
  }
  return { result: "duplicate", outgoing: outgoingOf(table, found) };
}

/** What is to be sent cannot be read. Every attempt would find the same. */
export class DamagedRecordError extends Error {
  override readonly name = "DamagedRecordError";
}

/** @throws {@link DamagedRecordError} if another program has damaged what is to be sent. */
export function outgoingOf(table: TableLike, { outgoing }: InboxRecord): readonly StoredMessage[] {
  if (outgoing) return outgoing;
  throw new DamagedRecordError(`An inbox record in ${tableUrl(table)} has messages to send that cannot be read: another program has changed it.`);
}
