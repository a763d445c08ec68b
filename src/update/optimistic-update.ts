import type { BlockBlobLike } from "../clients.js";
import { describeSpan, withAttempts } from "../core/telemetry.js";
import type { UpdateTarget } from "../target/target.js";
import { UpdateCall } from "./batch.js";
import type { Mutator, UpdateResult } from "./batch.js";
import { checkGroupSettings, checkUpdateOptions, requireConditional, resolveTarget } from "./options.js";
import type { OptimisticUpdateOptions } from "./options.js";
import { snapshotOf } from "./read-target.js";
import { joinGroup } from "./update-queue.js";

/**
 * Reads the target, applies the mutator, and writes only if nobody wrote in between; else starts again. The effect
 * of the mutator lands exactly once, also when answers of the service are lost.
 *
 * Costs 2 requests alone, 1 if the mutator changes nothing; concurrent calls of one process share theirs.
 *
 * @param target - What `jsonBlob`, `tableEntity`, ... return. A bare block-blob client means a JSON document.
 */
export function optimisticUpdate<T = unknown>(
  target: UpdateTarget<T> | BlockBlobLike,
  mutator: Mutator<T>,
  options: OptimisticUpdateOptions<T> = {},
): Promise<UpdateResult<T>> {
  return withAttempts("optimisticUpdate", options, async (trace, span) => {
    if (typeof mutator !== "function") throw new TypeError("mutator must be a function");
    const settings = checkGroupSettings(options);
    const adapter = resolveTarget(target, settings);
    requireConditional(adapter, "optimisticUpdate");
    describeSpan(span, { targetKind: adapter.kind, url: adapter.url });
    const call = new UpdateCall<T, unknown>(mutator, {
      ...checkUpdateOptions(options as OptimisticUpdateOptions<never>),
      initial: options.initial,
      firstRead: options.firstRead && snapshotOf(options.firstRead, adapter, settings.journalName),
      options: { abortSignal: options.abortSignal },
      trace,
      label: adapter.url,
    });
    joinGroup(adapter, call, settings);
    const result = await call.promise;
    describeSpan(span, { outcome: result.outcome });
    return result;
  });
}
