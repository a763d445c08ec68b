import { fullJitter, delay } from "../core/delay.js";
import { countSends, mayBeForACopy } from "../core/sends.js";
import { isSchemaError } from "../errors.js";
import { isDefinitive, isLeaseConflict, isMissing, isRace } from "../core/storage-errors.js";
import { onAbort } from "../core/abort.js";
import { isMisuse } from "../core/validate.js";
import { NotSentError } from "../core/not-sent.js";
import { fateOf, fateOfCreate, journalAfter, newWriteId } from "../target/journal.js";
import type { Journal } from "../target/journal.js";
import type { RequestContext, Snapshot, TargetAdapter } from "../target/target.js";

/** One conditional write: from `base` (undefined: nothing there) to `draft` (undefined: delete). */
export interface Plan<Raw> {
  readonly base: Snapshot<Raw> | undefined;
  readonly draft: Raw | undefined;
  readonly journaling: boolean;
}

/** What became of it. `found` is what is stored now, where that was read (`null`: nothing). */
export type Verdict<Raw> =
  | { readonly kind: "landed"; readonly found: Snapshot<Raw> | null; readonly overtaken: boolean }
  | { readonly kind: "race"; readonly error: unknown; readonly found?: Snapshot<Raw> | null }
  | { readonly kind: "refused"; readonly error: unknown }
  | { readonly kind: "unknown"; readonly error: unknown; readonly found?: Snapshot<Raw> | null };

/** How often a write is sent again after its answer was lost and nothing had changed. */
const maxResends = 10;

/** How often reading back is tried. */
const maxReadBacks = 3;

/**
 * Carries out one write and finds out what became of it, even if the answer is lost. The same write, with the same
 * id and on the same base, is sent again as long as the target has not moved: a first try that is still on its way
 * and the second one exclude each other, since both are conditional on the same ETag.
 */
export async function commit<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  plan: Plan<Raw>,
  context: RequestContext,
): Promise<Verdict<Raw>> {
  const journal = plan.journaling && adapter.journaled ? journalAfter(plan.base, newWriteId()) : undefined;
  for (let resend = 0; ; resend++) {
    const counted = countSends();
    const off = onAbort(context.abortSignal, () => counted.abort(context.abortSignal.reason));
    let lost: unknown;
    let answered: boolean;
    try {
      const found = await send(adapter, plan, journal, { ...context, abortSignal: counted.signal, preparing: context.abortSignal });
      return { kind: "landed", found, overtaken: false };
    } catch (error) {
      // Sent once and answered: the answer speaks of this write. Otherwise an earlier try may have landed, and the
      // SDK's re-send is what was refused.
      if (resend === 0 && counted.sends() === 1 && isDefinitive(error)) {
        if (!isRace(error) && !isMissing(error)) return { kind: "refused", error };
        return mayBeForACopy() ? await lookForOwn(adapter, plan, journal, error, context) : { kind: "race", error };
      }
      if (counted.sends() === 0 && isMisuse(error)) return { kind: "refused", error };
      if (resend === 0 && error instanceof NotSentError) return { kind: error.race ? "race" : "refused", error: error.cause };
      lost = error;
      answered = counted.sends() === 1 && (isRace(error) || isMissing(error));
    } finally {
      off();
    }
    const verdict = await readBack(adapter, plan, journal, lost, context);
    if (verdict !== "unmoved") return verdict;
    // Another row of the transaction stands in the way. It runs again once no try of it can land any more, also not one
    // that is still on its way.
    if (answered && (await adapter.callOff?.(lost, context).catch(() => false))) return { kind: "race", error: lost };
    // Unmoved, and leased: nothing of ours can land, and asking again does not help.
    if (isLeaseConflict(lost)) return { kind: "refused", error: lost };
    if (resend >= maxResends) return { kind: "unknown", error: lost };
    try {
      await delay(fullJitter(resend, 10, 1_000), context.abortSignal);
    } catch {
      return { kind: "unknown", error: lost };
    }
  }
}

function send<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  { base, draft }: Plan<Raw>,
  journal: Journal | undefined,
  context: RequestContext,
): Promise<Snapshot<Raw> | null> {
  if (draft === undefined) {
    if (!base) throw new TypeError("nothing to delete");
    return adapter.remove(base.etag, context).then(() => null);
  }
  return base ? adapter.write(base, draft, journal, context) : adapter.create(draft, journal, context);
}

/**
 * A race is lost, unless what is stored says that it was won. If it says nothing, because there is no journal, another
 * program has dropped it or all is deleted, the race counts as lost: races are common, and copies are rare.
 */
async function lookForOwn<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  plan: Plan<Raw>,
  journal: Journal | undefined,
  error: unknown,
  context: RequestContext,
): Promise<Verdict<Raw>> {
  const verdict = journal && plan.draft !== undefined ? await readBack(adapter, plan, journal, error, context) : "unmoved";
  return verdict !== "unmoved" && verdict.kind === "landed" ? verdict : { kind: "race", error };
}

/**
 * Reads what is stored, at once: every write of somebody else that comes in between moves ours further down the
 * journal, and after 32 out of it.
 */
async function readBack<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  plan: Plan<Raw>,
  journal: Journal | undefined,
  error: unknown,
  context: RequestContext,
): Promise<Verdict<Raw> | "unmoved"> {
  if (context.abortSignal.aborted) return { kind: "unknown", error };
  // With what was to be deleted its lease is gone, too, and there is no id left that could be changed.
  if (plan.draft === undefined && context.fence && (await isGone(adapter, context))) return { kind: "landed", found: null, overtaken: false };
  try {
    // Without a condition on the content, a first try that is still on its way could land at any time: not under a lease
    // whose id has changed. What is read after that stays.
    await context.fence?.();
  } catch (fenceError) {
    return { kind: "unknown", error: new AggregateError([error, fenceError], "the write got no answer, and the lease could not be changed") };
  }
  let found: Snapshot<Raw> | null | undefined;
  for (let tries = 1; found === undefined; tries++) {
    try {
      found = (await adapter.read(context)) ?? null;
    } catch (readError) {
      if (tries < maxReadBacks && mayReadAgain(readError, context)) continue;
      return { kind: "unknown", error: new AggregateError([error, readError], "the write got no answer, and reading back failed") };
    }
  }
  if (plan.base ? found?.etag === plan.base.etag : !found) return "unmoved";
  switch (judge(adapter, plan, journal, found)) {
    case "landed":
      return { kind: "landed", found, overtaken: found !== null && !isOnTop(adapter, plan, journal, found) };
    case "not landed":
      return { kind: "race", error, found };
    case "unknown":
      return { kind: "unknown", error, found };
  }
}

function isGone<T, Raw>(adapter: TargetAdapter<T, Raw>, context: RequestContext): Promise<boolean> {
  return adapter.read(context).then(
    (found) => !found,
    () => false,
  );
}

/** A broken network on the way back says nothing yet: for a client that does not retry by itself, one more look does. */
function mayReadAgain(error: unknown, { abortSignal }: RequestContext): boolean {
  return !isDefinitive(error) && !isMisuse(error) && !isSchemaError(error) && !abortSignal.aborted;
}

function judge<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  { base, draft }: Plan<Raw>,
  journal: Journal | undefined,
  found: Snapshot<Raw> | null,
): "landed" | "not landed" | "unknown" {
  if (draft === undefined) {
    // Gone is what a delete wants, whoever did it. Still there in the same lineage: somebody's update was first.
    if (!found) return "landed";
    return base?.journal && found.journal?.lineage === base.journal.lineage ? "not landed" : "unknown";
  }
  if (!found) return "unknown"; // deleted since: before or after our write, nobody knows
  if (!base) return journal ? fateOfCreate(journal, found.journal) : "unknown";
  if (journal) return fateOf(journal, found.journal);
  if (!adapter.journaled) return adapter.same(found.raw, draft) ? "landed" : "unknown";
  return "unknown";
}

/** Whether what is stored is our write itself and not something that was built on it. */
function isOnTop<T, Raw>(
  adapter: TargetAdapter<T, Raw>,
  { draft }: Plan<Raw>,
  journal: Journal | undefined,
  found: Snapshot<Raw>,
): boolean {
  // A writer that leaves the journal alone may have written on top of ours: compare the content as well.
  const newest = !journal || found.journal?.ids[0] === journal.ids[0];
  return newest && draft !== undefined && adapter.same(found.raw, draft);
}
