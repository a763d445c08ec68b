import pRetry from "p-retry";
import type { AbortSignalLike } from "../clients/call.js";
import { delay, isAborted } from "./deadline.js";
import { startStopwatch } from "./deadline.js";

/** How one caller's operation is repeated. */
export interface RetryPolicy {
  /** The maximum number of attempts, the first one included. `Infinity`: `timeoutInMs` or `shouldRetry` end the retries. */
  readonly maxAttempts: number;
  /** Whether another attempt may help. `attempt` is the number of the one that failed, from 1. */
  readonly shouldRetry: (error: unknown, attempt: number) => boolean;
  /** Called for each failed attempt, the last one included. */
  readonly onFailure?: ((error: unknown, attempt: number) => void) | undefined;
  /** Milliseconds to wait after the failed attempt with this number. @defaultValue none: the next attempt starts at once */
  readonly backoff?: ((attempt: number) => number) | undefined;
  /** No attempt starts later than this; the last delay is shortened accordingly. @defaultValue Infinity */
  readonly timeoutInMs?: number | undefined;
  /** Ends the delays, and prevents further attempts. An attempt in flight is not aborted: it handles cancellation itself. */
  readonly abortSignal?: AbortSignalLike | undefined;
}

/**
 * Repeats an operation of a single caller until it succeeds. Otherwise rejects with the error of the last attempt, or with
 * the signal's reason if the signal ended a delay.
 *
 * Built on p-retry, without three of its features. Its `signal` discards a success if the signal aborted meanwhile, so a
 * write would be reported as cancelled although it was carried out: cancellation is handled here, between attempts. Its
 * delays have no full jitter: the delay happens in `shouldRetry`, which may be asynchronous. It treats errors by their class
 * (a `TypeError` is never retried, a non-error becomes one): each error is wrapped, so that `shouldRetry` alone decides.
 */
export async function retry<R>(attempt: (attempt: number) => Promise<R>, policy: RetryPolicy): Promise<R> {
  const { maxAttempts, shouldRetry, onFailure, backoff, timeoutInMs = Infinity, abortSignal } = policy;
  const elapsedInMs = startStopwatch();
  try {
    return await pRetry((number) => attemptOnce(attempt, number), {
      retries: maxAttempts - 1,
      minTimeout: 0,
      onFailedAttempt: ({ error, attemptNumber }) => onFailure?.((error as AttemptFailure).reason, attemptNumber),
      shouldRetry: async ({ error, attemptNumber }) => {
        const leftInMs = timeoutInMs - elapsedInMs();
        if (leftInMs <= 0 || isAborted(abortSignal) || !shouldRetry((error as AttemptFailure).reason, attemptNumber)) return false;
        const waitInMs = Math.min(leftInMs, backoff?.(attemptNumber) ?? 0);
        if (waitInMs > 0) await delay(waitInMs, abortSignal);
        return true;
      },
    });
  } catch (error) {
    throw error instanceof AttemptFailure ? error.reason : error;
  }
}

class AttemptFailure extends Error {
  readonly reason: unknown;

  constructor(reason: unknown) {
    super("an attempt failed");
    this.reason = reason;
  }
}

async function attemptOnce<R>(attempt: (attempt: number) => Promise<R>, number: number): Promise<R> {
  try {
    return await attempt(number);
  } catch (error) {
    throw new AttemptFailure(error);
  }
}

/**
 * Exponential backoff with full jitter: a random time between 0 and `base * 2^retry`, capped. Of the common schemes it
 * spreads contenders the most, which matters when all of them failed at the same moment.
 */
export function fullJitter(retry: number, baseInMs: number, capInMs: number): number {
  return Math.random() * maxBackoff(retry, baseInMs, capInMs);
}

/** The longest of these delays. */
export function maxBackoff(retry: number, baseInMs: number, capInMs: number): number {
  return Math.min(capInMs, baseInMs * 2 ** Math.min(retry, 30));
}

/** `ms`, plus or minus a random fraction of it, so that processes that started or failed together do not stay synchronised. */
export function jitter(ms: number, fraction: number): number {
  return ms * (1 - fraction + Math.random() * 2 * fraction);
}

/** The longest time between two polls of a process that waits for a lease. */
export const maxPollDelayInMs = 1_000;

/**
 * The delay before the next poll: a tenth of the time waited so far, at least 50 ms, plus or minus half, at most one second.
 * Polling then adds about a twentieth to a waiter's waiting time, and a lease that is held for long is not polled constantly.
 */
export function pollDelay(waitedInMs: number): number {
  return jitter(Math.min(maxPollDelayInMs / 1.5, Math.max(50, waitedInMs / 10)), 0.5);
}

