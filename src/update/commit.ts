import { resolveWrite } from "../core/resolve-write.js";
import type { Recognition } from "../core/resolve-write.js";
import { journalAfter, newWriteId, outcomeOf, outcomeOfCreate } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import type { RequestContext, Snapshot, ServiceAdapter } from "../target/target.js";

/** One conditional write: from `base` (undefined: the target does not exist) to `draft` (undefined: delete). */
export interface Plan<Raw> {
  readonly base: Snapshot<Raw> | undefined;
  readonly draft: Raw | undefined;
  readonly journaling: boolean;
}

/** The outcome of a commit. `found` is what is stored now, if it was read (`null`: the target does not exist). */
export type CommitOutcome<Raw> =
  /** `superseded`: another write has been committed on top of it. */
  | { readonly kind: "committed"; readonly found: Snapshot<Raw> | null; readonly superseded: boolean }
  | { readonly kind: "conflict"; readonly error: unknown; readonly found?: Snapshot<Raw> | null }
  | { readonly kind: "rejected"; readonly error: unknown }
  | { readonly kind: "unknown"; readonly error: unknown; readonly found?: Snapshot<Raw> | null };

/** The members of an adapter that a commit needs. */
export type CommitAdapter<Raw> = Pick<
  ServiceAdapter<never, Raw>,
  "journaled" | "requiresLease" | "sharesSignal" | "equals" | "read" | "write" | "create" | "delete" | "invalidateEarlierSends"
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
  const journal = plan.journaling && adapter.journaled ? journalAfter(plan.base, newWriteId()) : undefined;
  const outcome = await resolveWrite<Snapshot<Raw> | null, Snapshot<Raw> | null>(
    {
      send: (abortSignal) => send(adapter, plan, journal, { ...context, abortSignal, preparationSignal: context.abortSignal }),
      readBack: async (reason) => {
        if (reason === "lost" && context.changeLeaseId) {
          // If the target was deleted, its lease was too, and there is no lease id to change.
          if (plan.draft === undefined && (await isGone(adapter, context))) return null;
          // Without a condition on the content, a first send that is still in flight could be committed at any time. A
          // change of the lease id invalidates it, so what is read afterwards is final.
          await context.changeLeaseId();
        }
        return (await adapter.read(context)) ?? null;
      },
      recognise: (found, reason) => recognise(adapter, plan, journal, found, reason),
      invalidateEarlierSends: (rejection) => adapter.invalidateEarlierSends?.(rejection, context) ?? Promise.resolve(false),
      onConflict,
    },
    // A write of several requests must not count those that prepare it.
    adapter.requiresLease
      ? { abortSignal: context.abortSignal, awaitSend: true }
      : sharesSignal(adapter, plan)
        ? { abortSignal: context.abortSignal }
        : { exclusiveSignal: context.abortSignal },
  );
  if (outcome.kind === "committed") return { kind: "committed", found: outcome.value, superseded: false };
  if (outcome.kind !== "recognised") return outcome;
  const { found } = outcome;
  return { kind: "committed", found, superseded: found !== null && !isLatest(adapter, plan, journal, found) };
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

function sharesSignal<Raw>({ sharesSignal: shares }: CommitAdapter<Raw>, { base }: Plan<Raw>): boolean {
  return typeof shares === "function" ? shares(base) : shares === true;
}

function isGone<Raw>(adapter: CommitAdapter<Raw>, context: RequestContext): Promise<boolean> {
  return adapter.read(context).then(
    (found) => !found,
    () => false,
  );
}

function recognise<Raw>(
  adapter: CommitAdapter<Raw>,
  { base, draft }: Plan<Raw>,
  journal: Journal | undefined,
  found: Snapshot<Raw> | null,
  reason: "conflict" | "lost",
): Recognition {
  if (base ? found?.etag === base.etag : !found) return "unchanged";
  if (reason === "conflict" && (!journal || draft === undefined)) return "not committed";
  if (draft === undefined) {
    // Not found: the purpose of the delete is achieved, whichever client did it. Found in the same lineage: another update
    // was first.
    if (!found) return "committed";
    return base?.journal && found.journal?.lineage === base.journal.lineage ? "not committed" : "unknown";
  }
  if (!found) return "unknown"; // another client deleted it, before or after this write
  if (!base) return journal ? outcomeOfCreate(journal, found.journal) : "unknown";
  if (journal) return outcomeOf(journal, found.journal);
  if (!adapter.journaled) return adapter.equals(found.raw, draft) ? "committed" : "unknown";
  return "unknown";
}

/** Whether what is stored is this write and not a later one on top of it. */
function isLatest<Raw>(adapter: CommitAdapter<Raw>, { draft }: Plan<Raw>, journal: Journal | undefined, found: Snapshot<Raw>): boolean {
  // A client that keeps the journal unchanged may have written on top of it: compare the content as well.
  const newest = !journal || found.journal?.ids[0] === journal.ids[0];
  return newest && draft !== undefined && adapter.equals(found.raw, draft);
}
