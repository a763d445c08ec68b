import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients.js";
import { abortReason, onAbort, throwIfAborted } from "../core/abort.js";
import { delay, fullJitter } from "../core/delay.js";
import { codeOf, isInUse } from "../core/storage-errors.js";
import { logger, withAttempts } from "../core/telemetry.js";
import type { Attempts } from "../core/telemetry.js";
import { checkRetryLimits } from "../core/validate.js";
import type { RetryLimits } from "../core/validate.js";
import { FileInUseError } from "../errors.js";

/** Options of {@link retryWhileInUse}. */
export interface RetryWhileInUseOptions extends CallOptions {
  /**
   * How often `fn` is called before the call gives up with a `FileInUseError`.
   * @defaultValue 100: with the default delays the time comes first
   */
  maxAttempts?: number | undefined;
  /**
   * No attempt is started after this time. One that has been started is not cut short: its outcome would be unknown.
   * @defaultValue 30_000
   */
  timeoutInMs?: number | undefined;
  /**
   * After a refusal: a random wait of up to this, doubled with each further one (full jitter).
   * @defaultValue 100: people and programs hold files for longer than races last
   */
  retryDelayInMs?: number | undefined;
  /** @defaultValue 2_000 */
  maxRetryDelayInMs?: number | undefined;
}

/** What `fn` gets; the options of an SDK call, too. */
export interface InUseAttempt {
  /** From 1. */
  readonly attempt: number;
  /** Aborts when the caller's signal does. */
  abortSignal: AbortSignal;
  tracingOptions?: OperationTracingOptions;
}

const defaults: RetryLimits = Object.freeze({ maxAttempts: 100, timeoutInMs: 30_000, retryDelayInMs: 100, maxRetryDelayInMs: 2_000 });

/**
 * Calls `fn` again while SMB clients that have the share mounted keep the file in use: open in a way that lets nobody
 * write or delete, locked, marked for deletion, or with changes that have not been written back. All other errors
 * are passed on at once. So is 404: a file that was marked for deletion and is gone now will not come back.
 *
 * @example `await retryWhileInUse((options) => file.delete(options))`
 *
 * @throws `FileInUseError` when the attempts or the time ran out, with the number of attempts.
 */
export function retryWhileInUse<R>(fn: (attempt: InUseAttempt) => Promise<R>, options: RetryWhileInUseOptions = {}): Promise<R> {
  return withAttempts("retryWhileInUse", options, async (trace) => {
    if (typeof fn !== "function") throw new TypeError("fn must be a function");
    const settings = checkRetryLimits(options, defaults, { timeoutInMs: 0 });
    const caller = options.abortSignal;
    throwIfAborted(caller);
    const controller = new AbortController();
    const off = onAbort(caller, () => controller.abort(caller && abortReason(caller)));
    try {
      return await attempts(settings, (attempt) => {
        trace.begin();
        trace.countRequest();
        const { signal: abortSignal } = controller;
        const { tracingOptions } = trace;
        return fn(tracingOptions ? { attempt, abortSignal, tracingOptions } : { attempt, abortSignal });
      }, trace, controller.signal);
    } catch (error) {
      // The SDK raises an AbortError of its own; the caller gets the reason that was given.
      throwIfAborted(caller);
      throw error;
    } finally {
      off();
    }
  }, { targetKind: "file" });
}

async function attempts<R>(settings: RetryLimits, fn: (attempt: number) => Promise<R>, trace: Attempts, signal: AbortSignal): Promise<R> {
  const startedAt = performance.now();
  for (let attempt = 1; ; attempt++) {
    try {
      return await fn(attempt);
    } catch (error) {
      const reason = codeOf(error);
      if (!isInUse(error) || reason === undefined) throw error;
      const elapsedInMs = performance.now() - startedAt;
      const left = settings.timeoutInMs - elapsedInMs;
      if (attempt >= settings.maxAttempts || left <= 0) throw gaveUp({ attempts: attempt, elapsedInMs, reason, cause: error });
      trace.end("in use");
      logger.verbose(`a file is in use by an SMB client (${reason}), attempt ${attempt}`);
      // The last wait is cut, so that there is one more attempt at the very end of the time.
      await delay(Math.min(left, fullJitter(attempt - 1, settings.retryDelayInMs, settings.maxRetryDelayInMs)), signal);
    }
  }
}

function gaveUp(facts: { attempts: number; elapsedInMs: number; reason: string; cause: unknown }): FileInUseError {
  const { attempts: count, elapsedInMs, reason } = facts;
  const message = `an SMB client still has the file in use (${reason}) after ${count} attempts in ${Math.round(elapsedInMs)} ms`;
  return new FileInUseError(`${message}: have it closed, or raise timeoutInMs`, facts);
}
