import type { BlockBlobLike } from "../clients/blob.js";
import { rejectNestedUpdate } from "../core/hold-context.js";
import { checkOneOf, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, CommitUnknownError, TargetNotFoundError } from "../errors.js";
import { newWriteId } from "../target/journal.js";
import type { AnyInput, UpdateTarget } from "../target/target.js";
import { commit } from "./commit.js";
import { checkIfMatch, checkTargetSettings, requireConditional, requireWritable, resolveTarget, versionError } from "./options.js";
import type { TargetOptions } from "./options.js";
import { runCall } from "./run-call.js";

/** Options of {@link deleteIfUnchanged}. */
export interface DeleteTargetOptions extends TargetOptions {
  /**
   * What to do if the response was lost and the target does not exist any more, so that another client may have deleted it:
   * `"throw"` a {@link CommitUnknownError}, or `"retry"`: resolve, because it is gone.
   * @defaultValue "throw": two callers are never both told that they deleted it
   */
  onUnknown?: "throw" | "retry" | undefined;
}

const optionNames: OptionNames<DeleteTargetOptions> = { abortSignal: 1, tracingOptions: 1, timeoutInMs: 1, tryTimeoutInMs: 1, conditions: 1, journal: 1, onUnknown: 1 };

/**
 * Deletes the target if it still has this ETag. Costs 1 request; after a conflict, 1 more for the current ETag.
 *
 * @example
 * ```ts
 * const { value, etag } = await readTarget<Job>(blob);
 * if (value.state === "done") await deleteIfUnchanged(blob, etag);
 * ```
 * @throws {@link ConflictError} if it was changed: nothing was deleted.
 * @throws {@link TargetNotFoundError} if it does not exist. Its `committed` is `"unknown"`: a browser or a proxy may have sent the request
 * twice, and then the first copy has deleted it.
 * @throws {@link CommitUnknownError} if the response was lost, and it cannot be known whether this call deleted it.
 */
export async function deleteIfUnchanged(
  target: UpdateTarget<AnyInput, AnyInput> | BlockBlobLike,
  etag: string,
  options: DeleteTargetOptions = {},
): Promise<void> {
  checkOptions("deleteIfUnchanged", options, optionNames);
  const settings = checkTargetSettings(options);
  const adapter = resolveTarget<unknown>(target, settings);
  requireWritable(adapter, "deleteIfUnchanged");
  requireConditional(adapter, "deleteIfUnchanged");
  rejectNestedUpdate("deleteIfUnchanged", adapter.url, adapter.partition);
  checkIfMatch("deleteIfUnchanged", etag);
  const mayRepeat = checkOneOf("onUnknown", options.onUnknown ?? "throw", ["throw", "retry"]) === "retry";
  await runCall("deleteIfUnchanged", options, settings, adapter.url, async (context, { markWrite }) => {
    const started = performance.now();
    const operationId = newWriteId();
    const plan = { base: { etag, raw: undefined, journal: undefined }, draft: undefined, journaling: false, mayRepeat };
    const outcome = await markWrite(operationId, (onConflict) => commit(adapter, plan, context, onConflict));
    switch (outcome.kind) {
      case "committed":
        return;
      case "rejected":
        throw outcome.error;
      case "unknown":
        if (outcome.wasRejected) throw goneError(adapter.url, outcome.error);
        throw createError(CommitUnknownError, `It is unknown whether this call deleted ${adapter.url}: ${reasonOf(outcome.found)}.`, {
          url: adapter.url,
          attempts: 1,
          operationId,
          cause: outcome.error,
        });
      case "conflict":
        throw versionError(adapter.url, { started, attempts: 1, consequence: "It was not deleted." }, outcome.found, outcome.error);
    }
  }, { targetKind: adapter.kind, isUpdate: true });
}

function reasonOf(found: unknown): string {
  if (found === undefined) return "what is stored could not be read";
  return found === null ? "it does not exist any more, but another client may have deleted it" : "another client may have created it again";
}

/** The service says that it does not exist. But it may say so to a copy of the request that was made below the SDK. */
function goneError(url: string, cause: unknown): Error {
  return createError(TargetNotFoundError, `${url} does not exist.`, { url, committed: "unknown", cause });
}
