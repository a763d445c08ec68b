import type { OperationTracingOptions } from "@azure/core-tracing";
import type { ConflictRetryOptions } from "../clients/call.js";
import { linkSignals, throwIfAborted } from "../core/deadline.js";
import { fullJitter, retry } from "../core/retry.js";
import { codeOf, isInUse } from "../core/storage-errors.js";
import { logger, withAttempts } from "../core/telemetry.js";
import { checkOptions, checkRetryLimits } from "../core/validate.js";
import type { OptionNames, RetryLimits } from "../core/validate.js";
import { createError, FileInUseError } from "../errors.js";

/** The argument of the function of {@link retryWhileInUse}. */
export interface RetryContext {
  /** 1 on the first call. */
  readonly attempt: number;
  /** Aborts when the caller's signal does. */
  readonly signal: AbortSignal;
  /** Pass it to the SDK call as its options. */
  readonly requestOptions: { readonly abortSignal: AbortSignal; readonly tracingOptions: OperationTracingOptions };
}

/**
 * Options of {@link retryWhileInUse}. Other defaults than for conflicts: people and programs have files open for longer. No attempt
 * starts after `timeoutInMs`; an attempt in flight is not aborted, because its outcome would be unknown.
 */
export interface RetryWhileInUseOptions extends Omit<ConflictRetryOptions, "tryTimeoutInMs"> {
  /** How often the function is called before the call rejects with a {@link FileInUseError}. @defaultValue 100: the time limit comes first */
  maxAttempts?: number | undefined;
  /** The maximum delay after the first rejection, doubled with each further one; random (full jitter). @defaultValue 100 */
  retryDelayInMs?: number | undefined;
  /** The upper limit of the delay. @defaultValue 2_000: a user who closes a file does not wait long for it */
  maxRetryDelayInMs?: number | undefined;
}

const optionNames: OptionNames<RetryWhileInUseOptions> = {
  abortSignal: 1,
  tracingOptions: 1,
  timeoutInMs: 1,
  maxAttempts: 1,
  retryDelayInMs: 1,
  maxRetryDelayInMs: 1,
};

const defaults: Omit<RetryLimits, "tryTimeoutInMs"> = Object.freeze({ maxAttempts: 100, timeoutInMs: 30_000, retryDelayInMs: 100, maxRetryDelayInMs: 2_000 });

/**
 * Calls `fn` again while SMB clients that have the share mounted keep the file in use: open without write or delete sharing,
 * locked, marked for deletion, or with changes that have not been flushed. All other errors are passed on immediately. So is
 * 404: a file that was marked for deletion and does not exist any more will not come back.
 *
 * @example
 * ```ts
 * await retryWhileInUse(({ requestOptions }) => file.delete(requestOptions));
 * ```
 * @throws {@link FileInUseError} if the attempts or the time are exhausted.
 */
export function retryWhileInUse<R>(fn: (context: RetryContext) => Promise<R> | R, options: RetryWhileInUseOptions = {}): Promise<R> {
  return withAttempts("retryWhileInUse", options, async (trace) => {
    checkOptions("retryWhileInUse", options, optionNames);
    if (typeof fn !== "function") throw new TypeError("retryWhileInUse: fn must be a function.");
    const settings = checkRetryLimits(options, defaults, { timeoutInMs: 0 });
    const caller = options.abortSignal;
    throwIfAborted(caller);
    const { controller, unlink } = linkSignals(caller);
    const startedAt = performance.now();
    let attempts = 0;
    try {
      return await retry(
        async (attempt) => {
          attempts = attempt;
          trace.begin();
          trace.countRequest();
          const { signal } = controller;
          return fn({ attempt, signal, requestOptions: { abortSignal: signal, tracingOptions: trace.tracingOptions ?? {} } });
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
  const message = `An SMB client still has the file in use (${reason}) after ${count} attempts in ${Math.round(elapsedInMs)} ms`;
  return createError(FileInUseError, `${message}. Close it there, or raise timeoutInMs.`, { url: undefined, ...details });
}
