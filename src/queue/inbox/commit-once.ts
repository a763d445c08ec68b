import type { AdapterRequest } from "../../clients/call.js";
import type { TransactionActionLike, TableLike } from "../../clients/table.js";
import { resolveWrite } from "../../core/resolve-write.js";
import { fullJitter } from "../../core/retry.js";
import { redactUrl } from "../../core/telemetry.js";
import { createError, CommitUnknownError, IdempotencyMismatchError } from "../../errors.js";
import { entityOf, isSamePayload, readRecord } from "./record.js";
import type { InboxRecord } from "./record.js";

/** The writes of one handler, and the record that its key is done. */
export interface InboxCommit {
  readonly partitionKey: string;
  readonly rowKey: string;
  /** `owner` identifies this call: it distinguishes its record from that of another delivery. */
  readonly record: Pick<InboxRecord, "owner" | "messageId" | "dequeueCount"> & { readonly payloadHash: string };
  readonly idempotencyKey: string;
  readonly actions: readonly TransactionActionLike[];
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
): Promise<"committed" | "duplicate"> {
  const { partitionKey, rowKey, record } = commit;
  const actions: TransactionActionLike[] = [["create", entityOf(partitionKey, rowKey, { ...record, state: "done" })], ...commit.actions];
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
      return "committed";
    case "conflict":
      if (!outcome.found) throw outcome.error;
      if (isSamePayload(outcome.found, record)) return "duplicate";
      throw createError(IdempotencyMismatchError, `The idempotency key of message ${record.messageId} was committed before, for another payload.`, {
        url: redactUrl(table.url),
        key: commit.idempotencyKey,
      });
    case "rejected":
      throw outcome.error;
    case "unknown":
      throw createError(
        CommitUnknownError,
        `The outcome of a commit to ${redactUrl(table.url)} is unknown: the request was sent, its response was lost, and the table cannot be ` +
          `read. Throw from the handler: the next delivery of the message determines the outcome.`,
        { url: redactUrl(table.url), attempts: maxResends + 1, operationId: record.owner, cause: outcome.error },
      );
  }
}
