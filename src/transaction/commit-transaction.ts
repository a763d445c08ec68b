import type { TableCallOptions, TableLike } from "../clients/table.js";
import type { Recognition } from "../core/resolve-write.js";
import { isEntityAlreadyExists } from "../core/storage-errors.js";
import { requireETag } from "../core/validate.js";
import { isOwnRow } from "../target/library-rows.js";
import { checkOperationId, hasOperation, journalAfter, outcomeOf, outcomeOfToken, parseToken, tokenOf } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { containsChange, equalStored, tableUrl } from "../target/stored-entity.js";
import type { StoredEntity } from "../target/stored-entity.js";
import type { CallContext, RequestContext, Snapshot } from "../target/target.js";
import { commit } from "../update/commit.js";
import type { CommitAdapter, CommitOutcome } from "../update/commit.js";
import { withJournal } from "./operations.js";
import type { Operation } from "./operations.js";
import { readRows } from "./read-rows.js";
import { noRow, operationsRowKey, queriesRowKey, readRow } from "./row.js";
import type { Row } from "./row.js";

/** The outcome of a transaction, and what is known of its rows. */
export interface TransactionOutcome {
  readonly outcome: CommitOutcome<StoredEntity | undefined>;
  /** The new ETag of each row, in the order of the operations, if the response arrived. */
  readonly etags: readonly (string | undefined)[] | undefined;
  /** The journal of each row whose journal was written, if the response arrived. */
  readonly journals: ReadonlyMap<Operation, Journal>;
  /** Identifies the write: its place in the journal of the witness row. */
  readonly token: string;
  /** The witness row as it was last read, if it was read. */
  readonly witness: { readonly rowKey: string; readonly row: Row } | undefined;
}

/** One write of a transaction. */
export interface TransactionWrite {
  readonly writeId: string;
  /** See `Plan`. */
  readonly isAbandoned?: (() => boolean) | undefined;
  /** Stored in the journal of the row of the operations. */
  readonly operationIds?: readonly string[] | undefined;
  /** Whether a lost create may be sent again, see `Plan`: matters if all rows that change are new ones. */
  readonly mayRepeat: boolean;
}

/**
 * The library's id of the write of these operations for one of its callers: it names the witness row, by whose journal a repetition of the
 * call is recognised.
 */
export function tokenOfWrite(operations: readonly Operation[], writeId: string, caller?: number): string {
  const { base, rowKey = "" } = witnessOf(operations) ?? {};
  const journal = journalAfter(base && snapshotOf(base), writeId);
  const bytes = String.fromCharCode(...new TextEncoder().encode(rowKey));
  return tokenOf(journal, { caller, place: btoa(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "") });
}

/** The key of the witness row that an operation id of the library names. */
function witnessRowKeyOf(operationId: string): string | undefined {
  const place = parseToken(operationId)?.place;
  if (place === undefined) return undefined;
  try {
    const bytes = Uint8Array.from(atob(place.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined; // not one of ours
  }
}

/** The operation of a caller that gave an id. */
export interface IdentifiedOperation {
  readonly id: string;
  /** The witness row of the write that the caller repeats; undefined: the id is one of the caller. */
  readonly witness: string | undefined;
}

/** Throws for an id that is neither one of a caller nor a {@link tokenOfWrite}. */
export function parseOperationId(operationId: string): IdentifiedOperation {
  checkOperationId(operationId);
  return { id: operationId, witness: witnessRowKeyOf(operationId) };
}

/**
 * What is stored of an operation. All operations with an id are in the row of the operations. One without is in the journal of its
 * witness row, until its caller repeats it with the id of its error. `"not committed"`: the first write is not stored, but may still
 * arrive, if the witness row does not change.
 */
export function outcomeOfOperation({ id, witness }: IdentifiedOperation, rowOf: (rowKey: string) => Row): "committed" | "not committed" | "unknown" {
  if (hasOperation(rowOf(operationsRowKey).journal, id)) return "committed";
  const written = parseToken(id);
  if (witness === undefined || !written) return "not committed";
  const { etag, journal } = rowOf(witness);
  // The library has deleted it since, as the row of an outbox after its messages are sent; or it may still arrive, and nothing can be stored
  // in its place to prevent that: an empty row would be read as a record, or as messages.
  if (etag === undefined && isOwnRow(witness) && witness !== operationsRowKey) return "unknown";
  return outcomeOfToken(written, etag === undefined ? undefined : { etag, journal });
}

/**
 * Sends all operations in one entity group transaction, which the service applies atomically. So one row is the witness for
 * all of them: its journal counts this write, and the transaction is presented to `commit` as a conditional write of that
 * row, which reuses its recovery of lost responses.
 *
 * @param onConflict - See {@link commit}.
 */
export async function commitTransaction(
  table: TableLike,
  partitionKey: string,
  operations: readonly Operation[],
  context: CallContext,
  { mayRepeat, writeId, isAbandoned, operationIds }: TransactionWrite,
  onConflict?: () => number,
): Promise<TransactionOutcome> {
  const witness = witnessOf(operations);
  if (!witness) throw new TypeError("a transaction that changes nothing needs no commit");
  let etags: readonly (string | undefined)[] | undefined;
  let journals: ReadonlyMap<Operation, Journal> = new Map();
  let lastRead: Row | undefined;

  async function submit(journal: Journal | undefined, request: RequestContext): Promise<Snapshot<StoredEntity | undefined>> {
    const newJournals = journalsOf(operations, witness as Operation, journal, writeId);
    const actions = operations.map((operation) => withJournal(operation, newJournals.get(operation)));
    request.onRequest?.();
    const response = await table.submitTransaction(actions as never[], tableOptions(request));
    etags = response.subResponses.map(({ etag }) => etag);
    journals = newJournals;
    const etag = requireETag(etags[operations.indexOf(witness as Operation)], tableUrl(table));
    return { raw: undefined, etag, journal };
  }

  const { rowKey, base } = witness;
  /** Whether a row beside the witness contains a part of the change. */
  let isLeftElsewhere = false;

  /** The witness was deleted, or has an old journal: the service has carried out the transaction for all rows, or for none. */
  async function recogniseOthers(request: RequestContext): Promise<Recognition> {
    const written = journalsOf(operations, witness as Operation, journalAfter(snapshotOf(base), writeId), writeId);
    const others = operations.filter((operation) => operation !== witness && operation.rowKey !== queriesRowKey && (written.has(operation) || operation.base.etag !== undefined));
    if (others.length === 0) return "unknown";
    const { tryLimit, onRequest } = request;
    const rows = await readRows(table, partitionKey, others.map((other) => other.rowKey), { ...tableOptions(request), tryLimit, onRequest });
    const found = others.map((operation) => ({ operation, row: rows.get(operation.rowKey) ?? noRow }));
    const outcomes = found.map(({ operation, row }) => {
      const journal = written.get(operation);
      return journal && row.journal && row.journal.seq >= journal.seq ? outcomeOf(journal, row.journal) : "unknown";
    });
    isLeftElsewhere = found.some(({ operation, row }) => operation.changes && containsChange(row.stored, operation.wanted, operation.base.stored));
    if (outcomes.includes("committed")) return "committed";
    if (outcomes.includes("not committed")) return "not committed";
    // It would have changed the ETag of every row, also of those that it only reads.
    return found.some(({ operation, row }) => row.etag !== undefined && row.etag === operation.base.etag) ? "unchanged" : "unknown";
  }

  const adapter: CommitAdapter<StoredEntity | undefined> = {
    journaled: true,
    equals: (a, b) => (a && b ? equalStored(a, b) : a === b),
    containsChange: (stored) => isLeftElsewhere || containsChange(stored, witness.wanted, base.stored),
    recogniseElsewhere: recogniseOthers,
    isNeverDeleted: rowKey === operationsRowKey,
    async read(request) {
      request.onRequest?.();
      lastRead = await readRow(table, partitionKey, rowKey, tableOptions(request));
      return lastRead.etag === undefined ? undefined : { raw: lastRead.stored, etag: lastRead.etag, journal: lastRead.journal };
    },
    async invalidateEarlierSends(rejection, request) {
      // A row that was changed never gets its old ETag again. But a row that made an insert fail can be deleted, and then an
      // earlier send that is still in flight could be committed. Changing the ETag of the witness row prevents that.
      if (!isEntityAlreadyExists(rejection)) return true;
      if (base.etag === undefined && rowKey !== operationsRowKey) return false;
      request.onRequest?.();
      // The row of the operations stays: creating it makes an earlier send fail, which would create it, too.
      await (base.etag === undefined
        ? table.createEntity({ partitionKey, rowKey }, tableOptions(request))
        : table.updateEntity({ partitionKey, rowKey }, "Merge", { ...tableOptions(request), etag: base.etag }));
      lastRead = undefined;
      return true;
    },
    write: (_base, _raw, journal, request) => submit(journal, request),
    create: (_raw, journal, request) => submit(journal, request),
    delete: () => Promise.reject(new TypeError("a transaction is never a bare delete")),
  };
  const from = snapshotOf(base);
  const outcome = await commit(adapter, { base: from, draft: sent, journaling: true, mayRepeat, writeId, isAbandoned, operationIds }, context, onConflict);
  return { outcome, etags, journals, token: tokenOfWrite(operations, writeId), witness: lastRead && { rowKey, row: lastRead } };
}

function snapshotOf({ etag, stored, journal }: Row): Snapshot<StoredEntity | undefined> | undefined {
  return etag === undefined ? undefined : { raw: stored, etag, journal };
}

function tableOptions({ abortSignal, tracingOptions }: RequestContext): TableCallOptions {
  return { abortSignal, ...(tracingOptions && { tracingOptions }) };
}

/**
 * The row to read if the response is lost: the one that has the ids of the operations, if they have ids; otherwise preferably one that will still exist. Other clients may have deleted and created
 * again a row that this transaction creates, and a tombstone may have been deleted.
 */
function witnessOf(operations: readonly Operation[]): Operation | undefined {
  const changing = operations.filter(({ changes }) => changes);
  const ofOperations = changing.find(({ rowKey }) => rowKey === operationsRowKey);
  if (ofOperations) return ofOperations;
  const lasting = changing.filter(({ leavesTombstone }) => !leavesTombstone);
  // The row of an outbox is deleted when its message is sent.
  return lasting.find(({ base }) => base.etag !== undefined) ?? lasting.find(({ rowKey }) => !isOwnRow(rowKey)) ?? lasting[0] ?? changing[0];
}

/**
 * The journals of all rows that change count the write. Another client whose response is lost at the same time, whichever of these rows it
 * writes, finds this write in the place of its own; and if the witness is deleted, the other rows show that this write was committed.
 */
function journalsOf(operations: readonly Operation[], witness: Operation, journal: Journal | undefined, writeId: string): ReadonlyMap<Operation, Journal> {
  if (!journal) return new Map();
  const changing = operations.filter((operation) => operation === witness || operation.changes || operation.leavesTombstone);
  return new Map(changing.map((operation) => [operation, operation === witness ? journal : journalAfter(snapshotOf(operation.base), writeId)]));
}

/** A placeholder for the draft: to `commit`, an undefined draft would mean a delete. */
const sent: StoredEntity = new Map();
