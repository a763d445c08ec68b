import type { BlockBlobLike } from "../clients.js";
import { abortReason, onAbort } from "../core/abort.js";
import { describeSpan, withAttempts } from "../core/telemetry.js";
import type { GuardedTarget, UpdateTarget } from "../target/target.js";
import { UpdateCall } from "./batch.js";
import type { Mutator, UpdateResult } from "./batch.js";
import { holdFor } from "./exclusive-access.js";
import { checkLeasedOptions } from "./leased-options.js";
import type { LeasedUpdateOptions } from "./leased-options.js";
import { LeasedRun } from "./leased-run.js";
import { checkGroupSettings, resolveTarget } from "./options.js";

/**
 * Acquires the lease of the target, reads it, applies the mutator, writes under the lease, and releases it. The mutator
 * has the contract of `optimisticUpdate`, but runs once: others wait. For what has no If-Match there is no other way;
 * for blobs it is the better one where mutators are slow or races frequent.
 *
 * The effect of the mutator lands exactly once, also when answers of the service are lost. A lease that is lost before
 * the write is a `LeaseLostError`, and nothing is written.
 *
 * Costs 4 requests (acquire, read, write, release), 3 if the mutator changes nothing; a file whose length changes, 7.
 *
 * @param target - What `jsonFile`, `containerMetadata`, `jsonBlob`, ... return. A bare block-blob client means a JSON
 * document.
 */
export function leasedUpdate<T = unknown>(
  target: GuardedTarget<T> | UpdateTarget<T> | BlockBlobLike,
  mutator: Mutator<T>,
  options: LeasedUpdateOptions<T> = {},
): Promise<UpdateResult<T>> {
  return withAttempts("leasedUpdate", options, async (trace, span) => {
    if (typeof mutator !== "function") throw new TypeError("mutator must be a function");
    const checked = checkLeasedOptions(options as LeasedUpdateOptions<never>);
    const settings = checkGroupSettings({ journal: options.journal });
    const adapter = resolveTarget(target, settings);
    describeSpan(span, { targetKind: adapter.kind, url: adapter.url });
    const takeHold = holdFor(adapter, options);
    // One signal for the caller's wish to stop and for the loss of the lease: the mutator gets it.
    const stop = new AbortController();
    const caller = options.abortSignal;
    const off = onAbort(caller, () => caller && stop.abort(abortReason(caller)));
    const call = new UpdateCall<T, unknown>(mutator, {
      ...checked,
      initial: options.initial,
      firstRead: undefined,
      options: { abortSignal: stop.signal, tracingOptions: trace.tracingOptions },
      trace,
      label: adapter.url,
    });
    call.promise.catch(() => undefined);
    try {
      // Settles the call, and returns when the lease is released: nothing is left to be done behind the caller's back.
      await new LeasedRun(adapter, call, settings, takeHold, stop).run();
    } finally {
      off();
    }
    const result = await call.promise;
    describeSpan(span, { outcome: result.outcome });
    return result;
  });
}
