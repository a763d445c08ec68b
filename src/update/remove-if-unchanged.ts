import type { BlockBlobLike } from "../clients.js";
import { CommitUnknownError, ConflictError, TargetNotFoundError } from "../errors.js";
import { isMissing } from "../internal/storage-errors.js";
import { commit } from "./commit.js";
import { withRequestContext } from "./one-request.js";
import { checkGroupSettings } from "./options.js";
import type { OverwriteOptions } from "./overwrite.js";
import { requireConditional, resolveTarget } from "./resolve-target.js";
import { requireETag } from "./target.js";
import type { UpdateTarget } from "./target.js";

/**
 * Deletes the target if it still has this ETag. Changed since: `ConflictError`. Not there: `TargetNotFoundError`
 * (but not if the answer was lost and it is gone now: that is what was asked for). Costs 1 request.
 */
export async function removeIfUnchanged<T>(
  target: UpdateTarget<T> | BlockBlobLike,
  etag: string,
  options: OverwriteOptions = {},
): Promise<void> {
  const settings = checkGroupSettings(options);
  const adapter = resolveTarget(target, settings);
  requireConditional(adapter, "removeIfUnchanged");
  requireETag(etag, adapter.url);
  if (etag === "*") throw new TypeError('an ETag of "*" would delete whatever is there');
  await withRequestContext("removeIfUnchanged", options, settings, adapter.url, async (context, { writing }) => {
    const started = performance.now();
    const base = { etag, raw: undefined, journal: undefined };
    const verdict = await writing(() => commit(adapter, { base, draft: undefined, journaling: false }, context));
    switch (verdict.kind) {
      case "landed":
        return;
      case "refused":
        throw verdict.error;
      case "unknown":
        throw new CommitUnknownError(`whether ${adapter.url} was deleted cannot be known: it exists, but may have been made anew`, {
          attempts: 1,
          cause: verdict.error,
        });
      case "race":
        if (isMissing(verdict.error)) {
          throw new TargetNotFoundError(`${adapter.url} does not exist`, { url: adapter.url, cause: verdict.error });
        }
        throw new ConflictError(`${adapter.url} was changed since it was read. It was not deleted.`, {
          attempts: 1,
          elapsedInMs: performance.now() - started,
          lastETag: etag,
          cause: verdict.error,
        });
    }
  }, { targetKind: adapter.kind });
}
