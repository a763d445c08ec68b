import type { BlockBlobLike } from "../clients.js";
import { withRequestContext } from "./one-request.js";
import { checkGroupSettings } from "./options.js";
import type { RequestOptions, TargetConditions } from "./options.js";
import { resolveTarget } from "./resolve-target.js";
import type { GuardedTarget, UpdateTarget } from "./target.js";

/** Options of {@link overwrite}. */
export interface OverwriteOptions extends RequestOptions {
  /** The id of a lease that the caller holds on the blob. */
  conditions?: TargetConditions | undefined;
}

/**
 * Last writer wins: stores the value whatever is there, creating the target if need be. Costs 1 request (3 for a
 * file), reads nothing, and so preserves nothing: other headers, metadata, tags or properties are gone afterwards. An update that
 * is under way elsewhere notices it and starts again from this value.
 */
export async function overwrite<T>(
  target: UpdateTarget<T> | GuardedTarget<T> | BlockBlobLike,
  value: T,
  options: OverwriteOptions = {},
): Promise<{ etag: string }> {
  const settings = checkGroupSettings(options);
  const adapter = resolveTarget(target, settings);
  return withRequestContext("overwrite", options, settings, adapter.url, async (context, { writing }) => {
    const raw = adapter.encode(value, undefined);
    await adapter.check?.(value, "write");
    return { etag: await writing(() => adapter.overwrite(raw, context)) };
  }, { targetKind: adapter.kind });
}
