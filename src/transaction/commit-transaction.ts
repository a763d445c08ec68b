import type { TableCallOptions, TransactionTableLike } from "../clients.js";
import { isEntityThere } from "../core/storage-errors.js";
import { journalAfter } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { sameStored, tableUrl } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import { requireETag } from "../target/target.js";
import type { RequestContext, Snapshot, TargetAdapter } from "../target/target.js";
import { commit } from "../update/commit.js";
import type { Verdict } from "../update/commit.js";
import { withJournal } from "./operations.js";
import type { Operation } from "./operations.js";
import { readRow } from "./row.js";

/** What became of a transaction, and what is known of its rows now if its answer arrived. */
export interface GroupVerdict {
  readonly verdict: Verdict<StoredEntity | undefined>;
  /** The new ETag of each row, in the order of the operations. */
  readonly etags: readonly (string | undefined)[] | undefined;
  /** The journal of each row whose journal was written, if the answer arrived. */
  readonly journals: ReadonlyMap<Operation, Journal>;
}

/**
 * Sends all operations in one entity group transaction, which the service carries out as a whole or not at all. So one
 * row decides about all of them: its journal counts this write, and to the commit of an update the transaction looks
 * like a conditional write of that row.
 */
export async function commitGroup(
  table: TransactionTableLike,
  partitionKey: string,
  operations: readonly Operation[],
  context: RequestContext,
): Promise<GroupVerdict> {
  const decisive = decisiveOf(operations);
  if (!decisive) throw new TypeError("a transaction that changes nothing needs no commit");
  let etags: readonly (string | undefined)[] | undefined;
  let journals: ReadonlyMap<Operation, Journal> = new Map();

  async function submit(journal: Journal | undefined, context: RequestContext): Promise<Snapshot<StoredEntity | undefined>> {
    const carried = journalsOf(operations, decisive as Operation, journal);
    const actions = operations.map((operation) => withJournal(operation, carried.get(operation)));
    context.onRequest?.();
    const answer = await table.submitTransaction(actions as never[], tableOptions(context));
    etags = answer.subResponses.map(({ etag }) => etag);
    journals = carried;
    const etag = requireETag(etags[operations.indexOf(decisive as Operation)], tableUrl(table));
    return { raw: undefined, etag, journal };
  }

  const { rowKey, base } = decisive;
  const adapter: Pick<TargetAdapter<unknown, StoredEntity | undefined>, "journaled" | "callOff" | "read" | "write" | "create" | "same"> = {
    journaled: true,
    same: (a, b) => (a && b ? sameStored(a, b) : a === b),
    async read(request) {
      const row = await readRow(table, partitionKey, rowKey, { ...tableOptions(request), onRequest: request.onRequest });
      return row.etag === undefined ? undefined : { raw: row.stored, etag: row.etag, journal: row.journal };
    },
    async callOff(refusal, request) {
      // A row that was changed never gets its ETag back. But one that was in the way of an insert can be deleted, and
      // then an earlier try, still on its way, could land: not if the decisive row has another ETag by then.
      if (isEntityThere(refusal) && base.etag !== undefined) {
        request.onRequest?.();
        await table.updateEntity({ partitionKey, rowKey }, "Merge", { ...tableOptions(request), etag: base.etag });
      }
      return true;
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
  return { verdict, etags, journals };
}

function tableOptions({ abortSignal, tracingOptions }: RequestContext): TableCallOptions {
  return { abortSignal, ...(tracingOptions && { tracingOptions }) };
}

/**
 * The row to look at if the answer is lost: one that will still be there. A row that was made can have been deleted and
 * made anew by others before it is looked at, and a tombstone can be removed.
 */
function decisiveOf(operations: readonly Operation[]): Operation | undefined {
  const changing = operations.filter(({ changes }) => changes);
  const lasting = changing.filter(({ leavesTombstone }) => !leavesTombstone);
  return lasting.find(({ base }) => base.etag !== undefined) ?? lasting[0] ?? changing[0];
}

/**
 * One row counts the write. The others keep the journals that they have, and rows without one begin it: else somebody
 * whose answer is lost at the same time would find no journal on a row that we changed, and could conclude nothing.
 */
function journalsOf(operations: readonly Operation[], decisive: Operation, journal: Journal | undefined): ReadonlyMap<Operation, Journal> {
  const [id] = journal?.ids ?? [];
  if (!journal || id === undefined) return new Map();
  return new Map(
    operations.flatMap((operation): [Operation, Journal][] => {
      if (operation === decisive) return [[operation, journal]];
      const { base, changes, leavesTombstone } = operation;
      if (base.journal || !(changes || leavesTombstone)) return [];
      return [[operation, journalAfter(base.etag === undefined ? undefined : { etag: base.etag, journal: undefined }, id)]];
    }),
  );
}

/** Stands for what is sent: to the commit, an undefined draft would mean a delete. */
const sent: StoredEntity = new Map();
