import { resolveWrite } from "../core/resolve-write.js";
import type { TryLimit } from "../core/request.js";
import type { Recognition } from "../core/resolve-write.js";
import { isNotFound, isServerBusy } from "../core/storage-errors.js";
import { isConcurrencyError } from "../errors.js";
import { beginWrite, endWrite, journalAfter, newWriteId, outcomeOf, tokenOf, tokenWithoutJournal } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { readSnapshot, withSignal } from "../target/target.js";
import type { RequestContext, Snapshot, ServiceAdapter } from "../target/target.js";

/** One conditional write: from `base` (undefined: the target does not exist) to `draft` (undefined: delete). */
export interface Plan<Raw> {
  readonly base: Snapshot<Raw> | undefined;
  readonly draft: Raw | undefined;
  readonly journaling: boolean;
  /** The callers accept that a create or delete takes effect twice if another client undoes it in between. */
  readonly mayRepeat?: boolean | undefined;
  /** Identifies the write in the journal. @defaultValue a new id */
  readonly writeId?: string | undefined;
  /** Whether a caller has left meanwhile: it was told the id of the write, and may ask for its outcome later. */
  readonly isAbandoned?: (() => boolean) | undefined;
  /** Also stored in the journal: the ids that callers gave to their operations. */
  readonly operationIds?: readonly string[] | undefined;
}

/** The library's ids for the callers of a write, by which they can repeat their calls. A write outside of the journal has no place in it. */
export function tokensOf<Raw>(adapter: Pick<CommitAdapter<Raw>, "journaled">, plan: Plan<Raw> & { readonly writeId: string }): (caller: number | undefined) => string {
  const { base, journaling, writeId } = plan;
  if (!journaling || !adapter.journaled) return (caller) => tokenWithoutJournal(writeId, caller);
  const journal = journalAfter(base, writeId);
  return (caller) => tokenOf(journal, { caller });
}

/** The outcome of a commit. `found` is what is stored now, if it was read (`null`: the target does not exist). */
export type CommitOutcome<Raw> =
  /** `superseded`: another write has been committed on top of it. */
  | { readonly kind: "committed"; readonly found: Snapshot<Raw> | null; readonly superseded: boolean }
  /** `mayBeOwn`: what is stored has the intended value, and there is no journal that says whose it is. */
  | { readonly kind: "conflict"; readonly error: unknown; readonly found?: Snapshot<Raw> | null; readonly mayBeOwn?: boolean }
  | { readonly kind: "rejected"; readonly error: unknown }
  /** `wasRejected`: the service rejected it, but may have carried out a copy of it. */
  | { readonly kind: "unknown"; readonly error: unknown; readonly found?: Snapshot<Raw> | null; readonly wasRejected?: boolean };

/** The members of an adapter that a commit needs. */
export type CommitAdapter<Raw> = Pick<
  ServiceAdapter<never, Raw>,
  "journaled" | "mayLackJournal" | "journalScope" | "requiresLease" | "writeSteps" | "equals" | "read" | "write" | "create" | "delete" | "invalidateEarlierSends"
>;

/**
 * Performs one write and determines its outcome, even if its response is lost. The same write, with the same id and on the
 * same base, is sent again as long as the target has not changed: a first send that is still in flight and the second one
 * exclude each other, because both are conditional on the same ETag.
 *
 * @param onConflict - Returns the caller's backoff after a conflict. After it, the stored state is read and returned as
 * `found`. Without it, a conflict is reported without a read.
 */
export async function commit<Raw>(
  adapter: CommitAdapter<Raw>,
  plan: Plan<Raw>,
  context: RequestContext,
  onConflict?: () => number,
): Promise<CommitOutcome<Raw>> {
  const { writeId = newWriteId() } = plan;
  const journal = plan.journaling && adapter.journaled ? journalAfter(plan.base, writeId, plan.operationIds, adapter.journalScope) : undefined;
  beginWrite(writeId);
  const outcome = await commitWith(adapter, plan, journal, context, onConflict);
  const isKnown = outcome.kind !== "unknown" && !context.abortSignal.aborted && !plan.isAbandoned?.();
  if (isKnown) endWrite(writeId);
  return outcome;
}

async function commitWith<Raw>(
  adapter: CommitAdapter<Raw>,
  plan: Plan<Raw>,
  journal: Journal | undefined,
  context: RequestContext,
  onConflict?: () => number,
): Promise<CommitOutcome<Raw>> {
  const outcome = await resolveWrite<Snapshot<Raw> | null, Snapshot<Raw> | null>(
    {
      send: (abortSignal) => send(adapter, plan, journal, { ...withSignal(context, abortSignal), preparationSignal: context.abortSignal }),
      readBack: async (reason) => {
        if (reason === "lost" && context.changeLeaseId) {
          // If the target was deleted, its lease was too, and there is no lease id to change.
          if (plan.draft === undefined && (await isGone(adapter, context))) return null;
          // Without a condition on the content, a first send that is still in flight could be committed at any time. A
          // change of the lease id invalidates it, so what is read afterwards is final.
          await context.changeLeaseId();
        }
        return (await readSnapshot(adapter, context)) ?? null;
      },
      recognise: (found, reason, error) => recognise(adapter, plan, journal, found, reason, error),
      invalidateEarlierSends: (rejection) => adapter.invalidateEarlierSends?.(rejection, context) ?? Promise.resolve(false),
      onConflict,
    },
    {
      abortSignal: context.abortSignal,
      // Under a lease, the end of a send must not overlap with what the holder of the lease does next.
      awaitSend: adapter.requiresLease,
      tryLimit: limitOf(adapter, plan, context.tryLimit),
      // Another client may delete what the first send creates: a second send would create it again.
      sendOnce: !plan.base && !adapter.requiresLease && !plan.mayRepeat,
    },
  );
  if (outcome.kind === "committed") return { kind: "committed", found: outcome.value, superseded: false };
  if (outcome.kind === "conflict" && outcome.found !== undefined) return afterConflict(adapter, plan, journal, { ...outcome, found: outcome.found });
  if (outcome.kind === "conflict" && onConflict) return afterUnreadConflict(plan, outcome.error);
  if (outcome.kind !== "recognised") return outcome;
  const { found } = outcome;
  return { kind: "committed", found, superseded: found !== null && !isLatest(adapter, plan, journal, found) };
}

/**
 * The SDK sent the write once, and the service rejected it. Where no journal shows whose the stored state is, it may be that of a copy which
 * a browser or a proxy made below the SDK.
 */
function afterConflict<Raw>(
  adapter: CommitAdapter<Raw>,
  { base, draft, mayRepeat }: Plan<Raw>,
  journal: Journal | undefined,
  outcome: { readonly kind: "conflict"; readonly error: unknown; readonly found: Snapshot<Raw> | null },
): CommitOutcome<Raw> {
  const { error, found } = outcome;
  if (draft !== undefined) {
    // A write without a journal leaves that of others as it is.
    const isOfOther = found?.journal?.lineage !== base?.journal?.lineage || found?.journal?.seq !== base?.journal?.seq;
    const wasJournaled = journal && !(adapter.mayLackJournal && found && !found.journal);
    return { ...outcome, mayBeOwn: !wasJournaled && !isOfOther && found !== null && adapter.equals(found.raw, draft) };
  }
  // A delete whose target is gone.
  if (found) return outcome;
  return mayRepeat ? { kind: "committed", found, superseded: false } : { kind: "unknown", error, found, wasRejected: true };
}

/**
 * The same if reading what is stored has failed. The service says of a delete that its target is gone, or the store of a caller does not say
 * why it rejected it: a copy may have deleted the target.
 */
function afterUnreadConflict<Raw>({ draft, mayRepeat }: Plan<Raw>, error: unknown): CommitOutcome<Raw> {
  const isGone = isNotFound(error);
  if (draft !== undefined || !(isGone || isConcurrencyError(error, "PRECONDITION"))) return { kind: "conflict", error };
  if (mayRepeat) return isGone ? { kind: "committed", found: null, superseded: false } : { kind: "conflict", error };
  return { kind: "unknown", error, wasRejected: isGone };
}

/** A write of several requests gets the time of as many tries. */
function limitOf<Raw>({ writeSteps }: CommitAdapter<Raw>, { draft }: Plan<Raw>, limit: TryLimit): TryLimit {
  if (!writeSteps || draft === undefined) return limit;
  const steps = writeSteps(draft);
  return { timeoutInMs: (timedOut) => limit.timeoutInMs(timedOut) * steps };
}

function send<Raw>(
  adapter: CommitAdapter<Raw>,
  { base, draft }: Plan<Raw>,
  journal: Journal | undefined,
  context: RequestContext,
): Promise<Snapshot<Raw> | null> {
  if (draft !== undefined) return base ? adapter.write(base, draft, journal, context) : adapter.create(draft, journal, context);
  if (!base) throw new TypeError("nothing to delete");
  return adapter.delete(base.etag, context).then(() => null);
}

function isGone<Raw>(adapter: CommitAdapter<Raw>, context: RequestContext): Promise<boolean> {
  return readSnapshot(adapter, context).then(
    (found) => !found,
    () => false,
  );
}

function recognise<Raw>(
  adapter: CommitAdapter<Raw>,
  { base, draft, mayRepeat }: Plan<Raw>,
  journal: Journal | undefined,
  found: Snapshot<Raw> | null,
  reason: "conflict" | "lost",
  error: unknown,
): Recognition {
  if (base && found?.etag === base.etag) return "unchanged";
  if (reason === "conflict" && (!journal || draft === undefined)) return "not committed";
  if (draft === undefined) {
    // Not found: it is gone, but another client may have deleted it. Found in the same lineage: another update was first.
    if (!found) return mayRepeat || adapter.requiresLease ? "committed" : "unknown";
    return base?.journal && found.journal?.lineage === base.journal.lineage ? "not committed" : "unknown";
  }
  if (!base) {
    if (found && journal && found.journal?.lineage === journal.lineage) return "committed"; // under any number of later writes
    if (reason === "conflict") return "not committed";
    // Not found: another client may have deleted what this write created. A file that a lost request creates is its staging file.
    return !found && (mayRepeat || adapter.requiresLease || isServerBusy(error)) ? "unchanged" : "unknown";
  }
  if (!found) return "unknown"; // another client deleted it, before or after this write
  if (journal) return outcomeOf(journal, found.journal);
  if (!adapter.journaled) return adapter.equals(found.raw, draft) ? "committed" : "unknown";
  return "unknown";
}

/** Whether what is stored is this write and not a later one on top of it. */
function isLatest<Raw>(adapter: CommitAdapter<Raw>, { draft }: Plan<Raw>, journal: Journal | undefined, found: Snapshot<Raw>): boolean {
  // A client that keeps the journal unchanged may have written on top of it: compare the content as well.
  const newest = !journal || found.journal?.entries[0] === journal.entries[0];
  return newest && draft !== undefined && adapter.equals(found.raw, draft);
}
