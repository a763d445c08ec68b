import { resolveWrite } from "../core/resolve-write.js";
import type { TryLimit } from "../core/request.js";
import type { Recognition } from "../core/resolve-write.js";
import { isNotFound, isServerBusy } from "../core/storage-errors.js";
import { isConcurrencyError } from "../errors.js";
import { beginWrite, endWrite, isOfOtherProcess, journalAfter, newWriteId, outcomeOf, tokenOf, tokenWithoutJournal } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import { readSnapshot, withSignal } from "../target/target.js";
import type { CallContext, RequestContext, Snapshot, ServiceAdapter } from "../target/target.js";

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
  /** Another client was first with an earlier attempt. */
  readonly isContended?: boolean | undefined;
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
export interface CommitAdapter<Raw>
  extends Pick<
    ServiceAdapter<never, Raw>,
    "journaled" | "mayLackJournal" | "journalScope" | "requiresLease" | "writeSteps" | "equals" | "containsChange" | "read" | "write" | "create" | "delete" | "invalidateEarlierSends"
  > {
  /** For a write that is stored in several places at once: what the others say of it. Asked only if the one that is read does not prove that it was committed. */
  recogniseElsewhere?(context: CallContext): Promise<Recognition>;
  /** Clients do not delete what it creates: if that is missing, it was not created. */
  readonly isNeverDeleted?: boolean;
}

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
  context: CallContext,
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
  context: CallContext,
  onConflict?: () => number,
): Promise<CommitOutcome<Raw>> {
  /** What a send should have created is missing: it was not committed, or another client has deleted it. */
  const missing = { isUnproven: false };
  const outcome = await resolveWrite<Snapshot<Raw> | null, Snapshot<Raw> | null>(
    {
      send: (abortSignal) => send(adapter, plan, journal, withSignal(context, abortSignal, true)),
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
      recognise: (found, reason, error) => recognise(adapter, plan, journal, found, reason, error, context, () => (missing.isUnproven = true)),
      invalidateEarlierSends: (rejection) => adapter.invalidateEarlierSends?.(rejection, withSignal(context)) ?? Promise.resolve(false),
      onConflict,
    },
    {
      abortSignal: context.abortSignal,
      // Under a lease, the end of a send must not overlap with what the holder of the lease does next.
      awaitSend: adapter.requiresLease,
      tryLimit: limitOf(adapter, plan, context.tryLimit),
      sendOnce: mustSendOnce(adapter, plan, journal),
    },
  );
  if (outcome.kind === "committed") return { kind: "committed", found: outcome.value, superseded: false };
  // A send was rejected because of what another one has changed, perhaps an earlier one of this write.
  if (outcome.kind === "conflict" && missing.isUnproven) return { kind: "unknown", error: outcome.error };
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
  // A delete whose target was gone. Another client may have created it again since.
  if (found && !isNotFound(error)) return outcome;
  return mayRepeat ? { kind: "committed", found, superseded: found !== null } : { kind: "unknown", error, found, wasRejected: !found };
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

/**
 * Another client may delete what the first send creates: a second send would create it again. And while the SDK waits for a second or more
 * before it sends again, the writes of other processes may push this one out of the journal, so that its outcome cannot be determined any
 * more: what is stored is read at once instead.
 */
function mustSendOnce<Raw>({ requiresLease }: CommitAdapter<Raw>, { base, mayRepeat, isContended }: Plan<Raw>, journal: Journal | undefined): boolean {
  if (requiresLease) return false;
  if (!base) return !mayRepeat;
  return journal !== undefined && (isContended === true || (base.journal !== undefined && isOfOtherProcess(base.journal)));
}

/** A write of several requests gets the time of as many tries. */
function limitOf<Raw>({ writeSteps }: CommitAdapter<Raw>, { draft }: Plan<Raw>, limit: TryLimit): TryLimit {
  if (!writeSteps || draft === undefined) return limit;
  const steps = writeSteps(draft);
  return { timeoutInMs: (timedOut) => limit.timeoutInMs(timedOut) * steps, onWait: limit.onWait };
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

function isGone<Raw>(adapter: CommitAdapter<Raw>, context: CallContext): Promise<boolean> {
  return readSnapshot(adapter, context).then(
    (found) => !found,
    () => false,
  );
}

async function recognise<Raw>(
  adapter: CommitAdapter<Raw>,
  plan: Plan<Raw>,
  journal: Journal | undefined,
  found: Snapshot<Raw> | null,
  reason: "conflict" | "lost",
  error: unknown,
  context: CallContext,
  onUnproven: () => void,
): Promise<Recognition> {
  const recognition = recogniseStored(adapter, plan, journal, found, reason, error);
  const { base, draft } = plan;
  if (recognition === "committed" || (recognition === "unchanged" && base)) return recognition;
  const isSuspect = isBehind(found, journal) || (base !== undefined && !found);
  if (reason === "conflict" && !isSuspect) return recognition;
  const elsewhere = (await adapter.recogniseElsewhere?.(context)) ?? "unknown";
  if (elsewhere === "committed") return "committed";
  if (reason === "conflict" || (recognition === "not committed" && !isSuspect)) return recognition;
  if (elsewhere === "not committed") return "not committed";
  // Not committed so far. It never will be if it is conditional on a version here that is gone. It may be if it creates what does not exist:
  // two sends then exclude each other by their condition elsewhere.
  if (elsewhere === "unchanged" && base) return "not committed";
  if (elsewhere === "unchanged" && !found) return "unchanged";
  if (recognition === "unchanged" && !adapter.isNeverDeleted) onUnproven();
  if (recognition !== "not committed" || !found || !base || draft === undefined) return recognition;
  // Another version, with the journal that this write was based on. Clients that do not know the journal leave it as it is. But one of them
  // may have written an old journal back over this write: then a part of the write may still be stored.
  const isLeft = adapter.containsChange ? adapter.containsChange(found.raw, draft, base.raw) : adapter.equals(found.raw, draft);
  return isLeft ? "unknown" : "not committed";
}

/** Whether the journal that is stored is the one that the write was based on. */
function isBehind<Raw>(found: Snapshot<Raw> | null, journal: Journal | undefined): boolean {
  return found?.journal?.seq === (journal?.seq ?? Number.NaN) - 1;
}

/** What the stored state says, as far as this library alone writes the journal. */
function recogniseStored<Raw>(
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
