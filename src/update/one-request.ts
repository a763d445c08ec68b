import type { CallOptions } from "../clients.js";
import { abortReason, onAbort, throwIfAborted } from "../internal/abort.js";
import { withSpan } from "../internal/tracing.js";
import { explain } from "./explain.js";
import type { GroupSettings } from "./group-commit.js";
import type { RequestContext } from "./target.js";

/** Runs a helper that is no loop: a span, the caller's signal, and errors that name the target. */
export function withRequestContext<R>(
  name: string,
  options: CallOptions,
  settings: GroupSettings,
  url: string,
  run: (context: RequestContext) => Promise<R>,
): Promise<R> {
  return withSpan(name, options, async (tracingOptions) => {
    throwIfAborted(options.abortSignal);
    const controller = new AbortController();
    const off = onAbort(options.abortSignal, () => {
      if (options.abortSignal) controller.abort(abortReason(options.abortSignal));
    });
    try {
      return await run({
        abortSignal: controller.signal,
        tracingOptions,
        leaseId: settings.leaseId,
        journalName: settings.journalName,
      });
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason;
      throw explain(error, url);
    } finally {
      off();
    }
  });
}
