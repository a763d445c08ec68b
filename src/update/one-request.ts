import type { CallOptions } from "../clients.js";
import { abortReason, onAbort, throwIfAborted } from "../internal/abort.js";
import { withAttempts } from "../internal/attempts.js";
import type { Attempts } from "../internal/attempts.js";
import type { CallSpan, SpanFacts } from "../internal/tracing.js";
import { explain } from "./explain.js";
import type { GroupSettings } from "./group-commit.js";
import type { RequestContext } from "./target.js";

/**
 * Runs a helper that is no loop: a span, the caller's signal, and errors that name the target. One that does try
 * several times ends an attempt and begins the next itself.
 */
export function withRequestContext<R>(
  name: string,
  options: CallOptions,
  settings: GroupSettings,
  url: string,
  run: (context: RequestContext, attempts: Attempts, span: CallSpan) => Promise<R>,
  facts: SpanFacts = {},
): Promise<R> {
  return withAttempts(name, options, async (attempts, span) => {
    throwIfAborted(options.abortSignal);
    const controller = new AbortController();
    const off = onAbort(options.abortSignal, () => {
      if (options.abortSignal) controller.abort(abortReason(options.abortSignal));
    });
    try {
      const context: RequestContext = {
        abortSignal: controller.signal,
        get tracingOptions() {
          return attempts.tracingOptions;
        },
        leaseId: settings.leaseId,
        journalName: settings.journalName,
        onRequest: () => attempts.countRequest(),
      };
      attempts.begin();
      return await run(context, attempts, span);
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason;
      throw explain(error, url);
    } finally {
      off();
    }
  }, { url, ...facts });
}
