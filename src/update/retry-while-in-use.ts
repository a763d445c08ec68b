import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients/call.js";
import { linkSignals, throwIfAborted } from "../core/deadline.js";
import { fullJitter, retry } from "../core/retry.js";
import { codeOf, isInUse } from "../core/storage-errors.js";
import { logger, withAttempts } from "../core/telemetry.js";
import { checkRetryLimits } from "../core/validate.js";
import type { RetryLimits } from "../core/validate.js";
import { createError, FileInUseError } from "../errors.js";

/** Options of {@link retryWhileInUse}. */
export interface RetryWhileInUseOptions extends CallOptions {
  /**
   * How often `fn` is called before the call gives up with a `FileInUseError`.
   * @defaultValue 100: with the default delays the time comes first
   */
  maxAttempts?: number | undefined;
  /**
   * No attempt starts after this time. An attempt in flight is not aborted: its outcome would be unknown.
   * @defaultValue 30_000
   */
  timeoutInMs?: number | undefined;
  /**
   * The maximum delay after the first rejection, doubled with each further one; the delay is random (full jitter).
   * @defaultValue 100: people and programs hold files for longer than races last
   */
  retryDelayInMs?: number | undefined;
  /** @defaultValue 2_000 */
  maxRetryDelayInMs?: number | undefined;
}

/** What `fn` gets. It can be passed to an SDK call as its options. */
export interface RetryContext {
  /** From 1. */
  readonly attempt: number;
  /** Aborts when the caller's signal does. */
  abortSignal: AbortSignal;
  tracingOptions?: OperationTracingOptions;
}

const defaults: RetryLimits = Object.freeze({ maxAttempts: 100, timeoutInMs: 30_000, retryDelayInMs: 100, maxRetryDelayInMs: 2_000 });

/**
 * Calls `fn` again while SMB clients that have the share mounted keep the file in use: open without write or delete sharing,
 * locked, marked for deletion, or with changes that have not been flushed. All other errors are passed on immediately. So is
 * 404: a file that was marked for deletion and does not exist any more will not come back.
 *
 * @example `await retryWhileInUse((options) => file.delete(options))`
 *
 * @throws `FileInUseError` with the number of attempts when the attempts or the time are exhausted.
 */
export function retryWhileInUse<R>(fn: (attempt: RetryContext) => Promise<R>, options: RetryWhileInUseOptions = {}): Promise<R> {
  return withAttempts("retryWhileInUse", options, async (trace) => {
    if (typeof fn !== "function") throw new TypeError("fn must be a function");
    const settings = checkRetryLimits(options, defaults, { timeoutInMs: 0 });
    const caller = options.abortSignal;
    throwIfAborted(caller);
    const { controller, unlink } = linkSignals(caller);
    const startedAt = performance.now();
    let attempts = 0;
    try {
      return await retry(
        (attempt) => {
          attempts = attempt;
          trace.begin();
          trace.countRequest();
          const { tracingOptions } = trace;
          return fn(tracingOptions ? { attempt, abortSignal: controller.signal, tracingOptions } : { attempt, abortSignal: controller.signal });
        },
        {
          maxAttempts: settings.maxAttempts,
          // The last delay is shortened, so that the last attempt starts at the end of the time.
          timeoutInMs: settings.timeoutInMs,
          shouldRetry: (error, attempt) => {
            if (!isInUse(error)) return false;
            trace.end("in use");
            logger.verbose(`a file is in use by an SMB client (${codeOf(error)}), attempt ${attempt}`);
            return true;
          },
          backoff: (attempt) => fullJitter(attempt - 1, settings.retryDelayInMs, settings.maxRetryDelayInMs),
          abortSignal: controller.signal,
        },
      );
    } catch (error) {
      // The SDK throws its own AbortError; the caller gets the reason of its signal.
      throwIfAborted(caller);
      if (!isInUse(error)) throw error;
      throw gaveUp({ attempts, elapsedInMs: performance.now() - startedAt, reason: codeOf(error) ?? "", cause: error });
    } finally {
      unlink();
    }
  }, { targetKind: "file" });
}

function gaveUp(details: { attempts: number; elapsedInMs: number; reason: string; cause: unknown }): FileInUseError {
  const { attempts: count, elapsedInMs, reason } = details;
  const message = `an SMB client still has the file in use (${reason}) after ${count} attempts in ${Math.round(elapsedInMs)} ms`;
  return createError(FileInUseError, `${message}: have it closed, or raise timeoutInMs`, { url: undefined, ...details });
}
