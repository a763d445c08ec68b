import type { TransactionActionLike, TransactionTableLike } from "../clients.js";
import { sameStored } from "../table/stored-entity.js";
import type { StoredEntity } from "../table/stored-entity.js";
import { commit } from "../update/commit.js";
import type { Verdict } from "../update/commit.js";
import type { Journal } from "../update/journal.js";
import { requireETag } from "../update/target.js";
import type { RequestContext, Snapshot, TargetAdapter } from "../update/target.js";
import { withJournal } from "./operations.js";
import type { Operation } from "./operations.js";
import { readRow } from "./row.js";

/** What became of a transaction, and what is known of its rows now if its answer arrived. */
export interface GroupVerdict {
  readonly verdict: Verdict<StoredEntity | undefined>;
  /** The new ETag of each row, in the order of the operations. */
  readonly etags: readonly (string | undefined)[] | undefined;
  /** The row that carries the journal, and the journal. */
  readonly decisive: Operation;
  readonly journal: Journal | undefined;
}

/**
 * Sends all operations in one entity group transaction, which the service carries out as a whole or not at all. So one
 * row decides about all of them: it carries the journal, and to the commit of an update the transaction looks like a
 * conditional write of that row.
 */
export async function commitGroup(
  table: TransactionTableLike,
  partitionKey: string,
  operations: readonly Operation[],
  context: RequestContext,
): Promise<GroupVerdict> {
  const decisive = operations.find(({ changes, leavesTombstone }) => changes && !leavesTombstone) ?? operations.find(({ changes }) => changes);
  if (!decisive) throw new TypeError("a transaction that changes nothing needs no commit");
  let etags: readonly (string | undefined)[] | undefined;
  let written: Journal | undefined;

  async function submit(journal: Journal | undefined, { abortSignal, tracingOptions }: RequestContext): Promise<Snapshot<StoredEntity | undefined>> {
    const actions: TransactionActionLike[] = operations.map((operation) =>
      operation === decisive ? withJournal(operation, journal) : operation.action,
    );
    const answer = await table.submitTransaction(actions as never[], { abortSignal, ...(tracingOptions && { tracingOptions }) });
    etags = answer.subResponses.map(({ etag }) => etag);
    written = journal;
    const etag = requireETag(etags[operations.indexOf(decisive as Operation)], table.url);
    return { raw: undefined, etag, journal };
  }

  const { rowKey, base } = decisive;
  const adapter: Pick<TargetAdapter<unknown, StoredEntity | undefined>, "journaled" | "dependsOnMore" | "read" | "write" | "create" | "same"> = {
    journaled: true,
    dependsOnMore: true,
    same: (a, b) => (a && b ? sameStored(a, b) : a === b),
    async read({ abortSignal }) {
      const row = await readRow(table, partitionKey, rowKey, { abortSignal });
      return row.etag === undefined ? undefined : { raw: row.stored, etag: row.etag, journal: row.journal };
    },
    write: (_base, _raw, journal, request) => submit(journal, request),
    create: (_raw, journal, request) => submit(journal, request),
  };
  const from = base.etag === undefined ? undefined : { raw: base.stored, etag: base.etag, journal: base.journal };
  const verdict = await commit(
    adapter as TargetAdapter<unknown, StoredEntity | undefined>,
    { base: from, draft: sent, journaling: true },
    context,
  );
  return { verdict, etags, decisive, journal: written };
}

/** Stands for what is sent: to the commit, an undefined draft would mean a delete. */
const sent: StoredEntity = new Map();
