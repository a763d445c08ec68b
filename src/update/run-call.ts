import type { TimedCallOptions } from "../clients/call.js";
import { Deadline, throwIfAborted } from "../core/deadline.js";
import { withUpdate } from "../core/measure.js";
import { callTimeoutError, tryLimitOf } from "../core/request.js";
import { toConcurrencyError } from "../core/storage-errors.js";
import { withAttempts } from "../core/telemetry.js";
import type { Attempts, CallSpan, SpanDetails } from "../core/telemetry.js";
import { createError, CommitUnknownError } from "../errors.js";
import type { RequestContext } from "../target/target.js";
import { checkTimeouts } from "./options.js";
import type { TargetSettings } from "./options.js";

/**
 * Runs the part of a call that sends a write: if the deadline passes meanwhile, the outcome is unknown, and the error has this
 * operation id. `onConflict` is for `commit`: without it, a conflict is reported without a read. Until that read has ended, the outcome
 * stays unknown: the service may have rejected a copy of the write that was made below the SDK, and have committed the other one.
 */
export type MarkWrite = <W>(operationId: string, send: (onConflict: () => number) => Promise<W>) => Promise<W>;

/** What a helper gets besides the context of its requests. */
export interface SingleCall {
  readonly markWrite: MarkWrite;
  readonly attempts: Attempts;
  readonly span: CallSpan;
}

/** What the span of a call says, and how the call reads. */
export interface CallDetails extends SpanDetails {
  /** The call only reads, and compares with nothing, so that an outdated state of the secondary does no harm. */
  readonly mayReadSecondary?: boolean | undefined;
  /** It counts as an update. */
  readonly isUpdate?: boolean | undefined;
}

/**
 * Runs a helper without a loop, with a span, a deadline, the caller's signal, and errors that name the target. A helper that
 * makes several attempts ends each and begins the next itself.
 */
export function runCall<R>(
  name: string,
  options: TimedCallOptions,
  settings: TargetSettings,
  url: string,
  run: (context: RequestContext, call: SingleCall) => Promise<R>,
  { mayReadSecondary, isUpdate, ...details }: CallDetails = {},
): Promise<R> {
  const { timeoutInMs, tryTimeoutInMs } = checkTimeouts(options);
  const withSpans = isUpdate ? withUpdate : withAttempts;
  return withSpans(name, options, async (attempts, span) => {
    throwIfAborted(options.abortSignal);
    const started = performance.now();
    /** The operation whose write is in flight. */
    let inFlight: string | undefined;
    let current: string | undefined;
    const deadline = new Deadline(timeoutInMs, () => timeoutError(url, timeoutInMs, started, inFlight), options.abortSignal);
    const markWrite: MarkWrite = async (operationId, send) => {
      inFlight = current = operationId;
      try {
        return await send(() => 0);
      } finally {
        inFlight = undefined;
      }
    };
    const context: RequestContext = {
      abortSignal: deadline.signal,
      tryLimit: { onWait: (isWaiting) => (inFlight = isWaiting ? undefined : current), ...tryLimitOf(tryTimeoutInMs) },
      primaryOnly: !mayReadSecondary,
      get tracingOptions() {
        return attempts.tracingOptions;
      },
      leaseId: settings.leaseId,
      journalName: settings.journalName,
      onRequest: () => attempts.countRequest(),
    };
    try {
      attempts.begin();
      return await deadline.race(run(context, { markWrite, attempts, span }));
    } catch (error) {
      if (deadline.signal.aborted) throw deadline.signal.reason;
      throw toConcurrencyError(error, url);
    } finally {
      deadline.dispose();
    }
  }, { url, ...details });
}

function timeoutError(url: string, timeoutInMs: number, started: number, operationId: string | undefined): Error {
  const cause = callTimeoutError(url, timeoutInMs, started);
  if (operationId === undefined) return cause;
  return createError(
    CommitUnknownError,
    `The outcome of a write to ${url} is unknown: the request was sent but no response arrived within ${timeoutInMs} ms (timeoutInMs).`,
    { url, attempts: 1, operationId, cause },
  );
}
