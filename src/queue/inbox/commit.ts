import type { CallOptions, InboxTableAction, InboxTableLike } from "../../clients.js";
import { CommitUnknownError } from "../../errors.js";
import { delay, fullJitter } from "../../core/delay.js";
import { isMissing, isRace } from "../../core/storage-errors.js";
import { displayUrl } from "../../core/telemetry.js";
import { boundedCall } from "../bounded-call.js";
import { entityOf, readRecord } from "./record.js";
import type { InboxRecord } from "./record.js";

/** One effect, and the record that says that it happened. */
export interface InboxCommit {
  readonly partitionKey: string;
  readonly rowKey: string;
  /** `owner` names this very call: it tells our own record from one of another delivery. */
  readonly record: Pick<InboxRecord, "owner" | "messageId" | "dequeueCount">;
  readonly actions: readonly InboxTableAction[];
}

const boundInMs = 30_000;
const maxSends = 10;

/**
 * Writes the effect and its record in one entity group transaction. The record is created, never updated, so of all
 * the transactions for one key only one can ever land: whoever crashes, is late or sends twice.
 *
 * | answer                        | record then     | outcome                                                  |
 * |-------------------------------|-----------------|----------------------------------------------------------|
 * | 2xx                           |                 | committed                                                |
 * | a conflict                    | ours            | committed: it was the answer to the first send that was lost |
 * | a conflict                    | another's       | duplicate                                                |
 * | a conflict, sent once or more | none            | the caller's own entities are in conflict: its error     |
 * | none, 5xx                     | ours, another's | committed, duplicate                                     |
 * | none, 5xx                     | none            | send again; the first one and this one exclude each other |
 * | anything else                 |                 | the caller's error                                       |
 */
export async function commitOnce(
  table: InboxTableLike,
  commit: InboxCommit,
  options: CallOptions = {},
): Promise<"committed" | "duplicate"> {
  const { partitionKey, rowKey, record } = commit;
  const actions: InboxTableAction[] = [["create", entityOf(partitionKey, rowKey, { ...record, state: "done" })], ...commit.actions];
  let lastError: unknown;
  for (let send = 0; send < maxSends; send++) {
    const outcome = await boundedCall(boundInMs, (call) => table.submitTransaction(actions, call), options);
    if (outcome.kind === "ok") return "committed";
    lastError = outcome.error;
    const conflict = isRace(lastError) || isMissing(lastError);
    if (outcome.kind === "refused" && !conflict) throw lastError;
    let found: InboxRecord | undefined;
    try {
      found = await readRecord(table, partitionKey, rowKey, boundInMs, options.abortSignal);
      if (found) return found.owner === record.owner ? "committed" : "duplicate";
      if (conflict) break;
    } catch (error) {
      lastError = error;
    }
    if (options.abortSignal?.aborted) break;
    await delay(fullJitter(send, 20, 2_000), options.abortSignal).catch(() => undefined);
  }
  if (isRace(lastError) || isMissing(lastError)) throw lastError;
  throw new CommitUnknownError(
    `a commit to ${displayUrl(table.url)} got no answer, and neither did the question what became of it. ` +
      `Throw from the handler: the next delivery finds out.`,
    { attempts: maxSends, cause: lastError },
  );
}
