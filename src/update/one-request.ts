import { CommitUnknownError, DeadlineError } from "../errors.js";
import { throwIfAborted } from "../internal/abort.js";
import { withAttempts } from "../internal/attempts.js";
import type { Attempts } from "../internal/attempts.js";
import { TimeLimit } from "../internal/time-limit.js";
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
    const limit = new TimeLimit(
      timeoutInMs,
      options.abortSignal,
      () => tooLate(url, timeoutInMs, started, inFlight),
      (reason) => controller.abort(reason),
    );
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
      return await limit.during(run(context, { writing, attempts, span }));
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason;
      throw explain(error, url);
    } finally {
      limit.letGo();
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
