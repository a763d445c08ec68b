import type { BlockBlobLike } from "../clients/blob.js";
import { checkOptions } from "../core/validate.js";
import { checkOperationId, hasOperation, outcomeOf, parseToken } from "../target/journal.js";
import { readSnapshot } from "../target/target.js";
import type { AnyInput, Target } from "../target/target.js";
import { checkTargetSettings, resolveTarget, targetOptionNames } from "./options.js";
import type { TargetOptions } from "./options.js";
import { runCall } from "./run-call.js";

/**
 * Finds out what became of an update that ended in a {@link CommitUnknownError}, by any process. Costs 1 request.
 *
 * - `"committed"`: the operation is in the journal of the target.
 * - `"notCommitted"`: another write is in its place, so it is not stored and never will be. Only for ids of the library: an id of the
 *   caller does not say on which version the operation was based.
 * - `"unknown"`: it is not in the journal, but may have been: 32 writes have followed, the target was deleted, or the journal was
 *   dropped. Or the target is unchanged, so that the request may still arrive. Repeat the call with the same `operationId`: in that
 *   case it is applied once. Otherwise an id of the library is a {@link CommitUnknownError} again.
 *
 * @example
 * ```ts
 * try {
 *   await optimisticUpdate(order, addItem);
 * } catch (error) {
 *   if (!isConcurrencyError(error, "COMMIT_UNKNOWN")) throw error;
 *   console.log(await resolveOutcome(order, error.operationId));
 * }
 * ```
 * @throws `RangeError` if `operationId` cannot be one.
 * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
 */
export async function resolveOutcome(
  target: Target<AnyInput, AnyInput> | BlockBlobLike,
  operationId: string,
  options: TargetOptions = {},
): Promise<"committed" | "notCommitted" | "unknown"> {
  checkOptions("resolveOutcome", options, targetOptionNames);
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget<unknown>(target, settings);
  const id = checkOperationId(operationId);
  if (id === undefined) throw new TypeError("resolveOutcome: operationId must be a string.");
  return runCall("resolveOutcome", options, settings, adapter.url, async (context) => {
    const found = await readSnapshot(adapter, context);
    if (hasOperation(found?.journal, id, adapter.journalScope)) return "committed";
    const written = parseToken(id);
    // One behind: the version that the write is conditional on is still stored, so the request may still arrive.
    if (!written || !found?.journal || found.journal.seq < written.seq) return "unknown";
    return outcomeOf(written, found.journal) === "not committed" ? "notCommitted" : "unknown";
  }, { targetKind: adapter.kind });
}
