import { CommitUnknownError, DeadlineError } from "../errors.js";
import { abortReason, onAbort, throwIfAborted } from "../internal/abort.js";
import { withAttempts } from "../internal/attempts.js";
import type { Attempts } from "../internal/attempts.js";
import type { CallSpan, SpanFacts } from "../internal/tracing.js";
import { explain } from "./explain.js";
import type { GroupSettings } from "./group-commit.js";
import { checkTimeout } from "./options.js";
import type { RequestOptions } from "./options.js";
import type { RequestContext } from "./target.js";

/** Runs what sends a write: if the time is over meanwhile, nobody knows whether it landed. */
export type Writing = <W>(send: () => Promise<W>) => Promise<W>;

/** What a helper works with, besides the context of its requests. */
export interface RequestCall {
  readonly writing: Writing;
  readonly attempts: Attempts;
  readonly span: CallSpan;
}

/**
 * Runs a helper that is no loop: a span, a time limit, the caller's signal, and errors that name the target. One that
 * does try several times ends an attempt and begins the next itself.
 */
export function withRequestContext<R>(
  name: string,
  options: RequestOptions,
  settings: GroupSettings,
  url: string,
  run: (context: RequestContext, call: RequestCall) => Promise<R>,
  facts: SpanFacts = {},
): Promise<R> {
  const timeoutInMs = checkTimeout(options.timeoutInMs);
  return withAttempts(name, options, async (attempts, span) => {
    throwIfAborted(options.abortSignal);
    const controller = new AbortController();
    const started = performance.now();
    let inFlight = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let off: (() => void) | undefined;
    // Raced, not only signalled: a client may take no notice of its signal.
    const stopped = new Promise<never>((_, reject) => {
      const stop = (reason: unknown): void => {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's own reason
        reject(reason);
        controller.abort(reason);
      };
      // Longer than a timer can be set for counts as without end.
      if (timeoutInMs < 2 ** 31) timer = setTimeout(() => stop(tooLate(url, timeoutInMs, started, inFlight)), timeoutInMs);
      off = onAbort(options.abortSignal, () => options.abortSignal && stop(abortReason(options.abortSignal)));
    });
    stopped.catch(() => undefined);
    const writing: Writing = async (send) => {
      inFlight = true;
      try {
        return await send();
      } finally {
        inFlight = false;
      }
    };
    const context: RequestContext = {
      abortSignal: controller.signal,
      get tracingOptions() {
        return attempts.tracingOptions;
      },
      leaseId: settings.leaseId,
      journalName: settings.journalName,
      onRequest: () => attempts.countRequest(),
    };
    try {
      attempts.begin();
      return await Promise.race([run(context, { writing, attempts, span }), stopped]);
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason;
      throw explain(error, url);
    } finally {
      clearTimeout(timer);
      off?.();
    }
  }, { url, ...facts });
}

function tooLate(url: string, timeoutInMs: number, started: number, inFlight: boolean): Error {
  const cause = new DeadlineError(`${url}: no result within ${timeoutInMs} ms (timeoutInMs). Nothing was written.`, {
    elapsedInMs: performance.now() - started,
  });
  if (!inFlight) return cause;
  return new CommitUnknownError(
    `a write to ${url} was sent, but not answered within ${timeoutInMs} ms (timeoutInMs): whether it landed is not known`,
    { attempts: 1, cause },
  );
}
