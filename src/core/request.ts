import type { AbortSignalLike, AdapterRequest } from "../clients/call.js";
import { createError, OperationTimeoutError } from "../errors.js";
import { abortReason, Deadline, delay, isAborted, RequestTimeoutError } from "./deadline.js";
import { fullJitter, retry } from "./retry.js";
import { isDefinitive, isIncompleteText, toTimeoutError } from "./storage-errors.js";
import { redactUrl } from "./telemetry.js";
import { isMisuse } from "./validate.js";
import type { TimeLimits } from "./validate.js";

/** What is known after one SDK call. `sends` is the number of requests that the SDK sent for it. */
export type RequestOutcome<R> =
  /** The service carried it out. */
  | { readonly kind: "ok"; readonly value: R; readonly sends: number }
  /** It had no effect: it was not sent, or it was sent once and rejected. */
  | { readonly kind: "rejected"; readonly error: unknown; readonly sends: number }
  /** It may or may not have had an effect. `error` may be the rejection of a re-send by the SDK. */
  | { readonly kind: "unknown"; readonly error: unknown; readonly sends: number };

/** Limits of one SDK call. */
export interface RequestLimits {
  /**
   * The time for the call, including all re-sends by the SDK. The SDKs retry for many seconds, and wait forever on a network
   * that drops packets silently.
   * @defaultValue Infinity
   */
  readonly timeoutInMs?: number | undefined;
  readonly abortSignal?: AbortSignalLike | undefined;
  /**
   * After an abort, wait until `send` has settled: it cleans up, and its end must not overlap with what the caller does next.
   * @defaultValue false: the outcome is reported at once, even if the client ignores its signal
   */
  readonly awaitSend?: boolean | undefined;
  /**
   * End the call when the SDK is about to send the request again: for a request that must not take effect twice. See
   * {@link countSends}.
   * @defaultValue false: the SDK may send it again
   */
  readonly sendOnce?: boolean | undefined;
  /** See {@link TryLimit.onTry}. */
  readonly onTry?: ((deadline: Deadline) => void) | undefined;
}

/** How long one try of a request may take. Several callers may share the request. */
export interface TryLimit {
  /** The time for a try that begins now, after this many tries in a row that took too long. */
  readonly timeoutInMs: (timedOut: number) => number;
  /** Called with each try when it begins: a caller that comes later and has less time shortens it. */
  readonly onTry?: ((deadline: Deadline) => void) | undefined;
}

/** Each try gets twice the time of the one before it: the service may just be slow, or the content large. */
export function tryLimitOf(tryTimeoutInMs: number): TryLimit {
  return { timeoutInMs: (timedOut) => growing(tryTimeoutInMs, timedOut) };
}

export function growing(tryTimeoutInMs: number, timedOut: number): number {
  return tryTimeoutInMs * 2 ** Math.min(timedOut, 30);
}

/** The SDK was about to send again a request that must be sent once. Whether the first send had an effect is not known. */
export class ResendPreventedError extends Error {
  override readonly name = "ResendPreventedError";
}

/** The secondary responded to a read that only the primary can decide. */
export class SecondaryReadError extends Error {
  override readonly name = "SecondaryReadError";
}

/** The body of a response ended too early: the connection broke, or a proxy closed it. */
export class IncompleteBodyError extends Error {
  override readonly name = "IncompleteBodyError";
}

/**
 * Makes one SDK call that changes stored state, and reports how certain its outcome is. Never rejects. Returns in time even
 * if the client ignores its signal.
 */
export async function request<R>(send: (abortSignal: AbortSignal) => Promise<R>, limits: RequestLimits = {}): Promise<RequestOutcome<R>> {
  const { abortSignal, awaitSend, sendOnce } = limits;
  if (abortSignal?.aborted) return { kind: "rejected", error: abortReason(abortSignal), sends: 0 };
  const deadline = deadlineOf(limits);
  limits.onTry?.(deadline);
  const counter = countSends(deadline.signal, sendOnce ? () => deadline.abort(new ResendPreventedError("not sent again")) : undefined);
  try {
    const sending = send(deadline.signal);
    const value = await (awaitSend ? sending : deadline.race(sending));
    return { kind: "ok", value, sends: counter.sends() };
  } catch (error) {
    const sends = counter.sends();
    const certain = (sends === 1 && isDefinitive(error)) || (sends === 0 && isMisuse(error));
    return { kind: certain ? "rejected" : "unknown", error, sends };
  } finally {
    counter.stop();
    deadline.dispose();
  }
}

function deadlineOf({ timeoutInMs = Infinity, abortSignal }: RequestLimits): Deadline {
  return new Deadline(timeoutInMs, () => new RequestTimeoutError(timeoutInMs), abortSignal);
}

/** The same for calls whose uncertain outcome does no harm, reads above all: returns the response, or throws the error. */
export async function read<R>(send: (abortSignal: AbortSignal) => Promise<R>, limits: RequestLimits = {}): Promise<R> {
  const outcome = await request(send, limits);
  if (outcome.kind === "ok") return outcome.value;
  throw outcome.error;
}

const checkTimeoutInMs = 30_000;

/** For the checks of a component that starts: the SDK would wait many minutes for a response. */
export async function check<R>(url: string, send: (request: AdapterRequest) => Promise<R>, { abortSignal, tracingOptions }: AdapterRequest): Promise<R> {
  try {
    return await read((signal) => send({ abortSignal: signal, tracingOptions }), { timeoutInMs: checkTimeoutInMs, abortSignal });
  } catch (error) {
    throw error instanceof RequestTimeoutError ? toTimeoutError(error, redactUrl(url)) : error;
  }
}

/** Limits of a read. */
export interface ReadLimits {
  /** @defaultValue none: the signal of the caller's deadline ends a read that takes too long */
  readonly tryLimit?: TryLimit | undefined;
  readonly abortSignal: AbortSignalLike;
}

/**
 * Reads, and repeats a try that took too long, whose body was cut, or that went to the secondary, until the signal aborts: without that, one response that never
 * arrives would block all callers that share the read.
 */
export async function readWithTries<R>(send: (abortSignal: AbortSignal) => Promise<R>, { tryLimit, abortSignal }: ReadLimits): Promise<R> {
  let timedOut = 0;
  const attempt = (): Promise<R> => read(send, { abortSignal, timeoutInMs: tryLimit?.timeoutInMs(timedOut), onTry: tryLimit?.onTry });
  const mayRepeat = (error: unknown): boolean => {
    if (isAborted(abortSignal)) return false;
    if (error instanceof RequestTimeoutError) timedOut++;
    return error instanceof RequestTimeoutError || error instanceof SecondaryReadError || isCutBody(error);
  };
  try {
    return await attempt();
  } catch (error) {
    if (!mayRepeat(error)) throw error;
  }
  await delay(fullJitter(0, 10, 1_000), abortSignal);
  return retry(attempt, { maxAttempts: Infinity, shouldRetry: mayRepeat, backoff: (failures) => fullJitter(failures, 10, 1_000), abortSignal });
}

/** The same for a call that consists of one read. Rejects with an `OperationTimeoutError` when the time of the call is over. */
export async function readInTime<R>(
  send: (abortSignal: AbortSignal) => Promise<R>,
  url: string,
  { timeoutInMs, tryTimeoutInMs, abortSignal }: TimeLimits & { readonly abortSignal?: AbortSignalLike | undefined },
): Promise<R> {
  const started = performance.now();
  const deadline = new Deadline(timeoutInMs, () => callTimeoutError(url, timeoutInMs, started), abortSignal);
  try {
    return await readWithTries(send, { tryLimit: tryLimitOf(tryTimeoutInMs), abortSignal: deadline.signal });
  } finally {
    deadline.dispose();
  }
}

/** For a call whose time is over, and which has written nothing. */
export function callTimeoutError(url: string, timeoutInMs: number, started: number): OperationTimeoutError {
  const message = `The call on ${url} timed out after ${timeoutInMs} ms (timeoutInMs). Nothing was written.`;
  return createError(OperationTimeoutError, message, { url, elapsedInMs: performance.now() - started });
}

/** The SDK reports a connection that breaks within a body as an abort, although no signal aborted. */
export function isCutBody(error: unknown): boolean {
  const name = (error as Error | undefined)?.name;
  return name === "AbortError" || name === "IncompleteBodyError" || isIncompleteText(error);
}

/**
 * Counts the requests that the SDK sends with a signal. The SDKs re-send writes without telling the caller. But the HTTP
 * client adds one `abort` listener for each send (and the retry policies add one for each delay), so counting the listeners
 * distinguishes one send from several. This uses public behaviour of `AbortSignal` and errs on the safe side: with a client
 * that adds other listeners, or none, the outcome counts as uncertain.
 */
export function countSends(signal: AbortSignal, onResend?: () => void): { readonly sends: () => number; readonly stop: () => void } {
  let listeners = 0;
  const add = signal.addEventListener; // eslint-disable-line @typescript-eslint/unbound-method -- called on the signal below
  signal.addEventListener = (...args: Parameters<typeof add>): void => {
    add.apply(signal, args);
    // After the listener was added, so that it is called: it ends the delay or the request that it belongs to.
    if (args[0] === "abort" && ++listeners > 1) onResend?.();
  };
  return {
    sends: () => listeners,
    stop: () => {
      signal.addEventListener = add;
    },
  };
}
