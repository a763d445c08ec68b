import type { AbortSignalLike, AdapterRequest } from "../clients/call.js";
import { createError, OperationTimeoutError } from "../errors.js";
import { abortReason, Deadline, delay, isAborted, RequestTimeoutError, startTimer } from "./deadline.js";
import { fullJitter, retry } from "./retry.js";
import { SendSignal } from "./send-signal.js";
import { isConnectionBroken, isDefinitive, isIncompleteText, isRejectedForNow, isServerBusy, toConcurrencyError, toTimeoutError } from "./storage-errors.js";
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
  /**
   * The client keeps no signal of a call that has succeeded: one with a token credential may, for a refresh of the token that goes on.
   * @defaultValue false: the call gets a signal of its own
   */
  readonly reusesSignal?: boolean | undefined;
  /** See {@link TryLimit.onTry}. */
  readonly onTry?: ((deadline: Deadline) => void) | undefined;
  /** See {@link TryLimit.onResend}. */
  readonly onResend?: (() => void) | undefined;
  /**
   * Do not end the call while the SDK waits before it sends the request again: the service is busy. The next try would begin with two sends
   * at once, where the SDK would have sent one.
   * @defaultValue false: the time is that of the call
   */
  readonly sparesWaits?: boolean | undefined;
}

/** How long one try of a request may take. Several callers may share the request. */
export interface TryLimit {
  /** The time for a try that begins now, after this many tries in a row that took too long. */
  readonly timeoutInMs: (timedOut: number) => number;
  /** See {@link RequestLimits.reusesSignal}. */
  readonly reusesSignal?: boolean | undefined;
  /** Called with each try when it begins: a caller that comes later and has less time shortens it. */
  readonly onTry?: ((deadline: Deadline) => void) | undefined;
  /**
   * Called with true when a write waits that the service has rejected for now, and with false before it is sent again: meanwhile it is
   * known that nothing was written.
   */
  readonly onWait?: ((isWaiting: boolean) => void) | undefined;
  /**
   * Called when the SDK is about to send a request again: most often, the service has rejected it as there are too many. A read that the
   * service rejects for this reason is then repeated, until its caller leaves.
   */
  readonly onResend?: (() => void) | undefined;
  /** How the backoff after a conflict is waited for: callers that come meanwhile may shorten it. @defaultValue `delay` */
  readonly backOff?: ((ms: number, abortSignal: AbortSignalLike | undefined) => Promise<void>) | undefined;
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
  const { abortSignal, awaitSend, sendOnce, reusesSignal = false } = limits;
  if (abortSignal?.aborted) return { kind: "rejected", error: abortReason(abortSignal), sends: 0 };
  const { timeoutInMs = Infinity } = limits;
  const deadline = new Deadline(timeoutInMs, () => new RequestTimeoutError(timeoutInMs), abortSignal);
  const sendSignal = SendSignal.take(reusesSignal);
  deadline.use(sendSignal.controller);
  limits.onTry?.(deadline);
  const sends = new Sends(() => {
    limits.onResend?.();
    if (sendOnce) deadline.abort(new ResendPreventedError("not sent again"));
  });
  sendSignal.onAdded = () => sends.add();
  if (limits.sparesWaits) deadline.postponeInMs = () => sends.busyForInMs(timeoutInMs);
  let succeeded = false;
  try {
    const sending = send(sendSignal.signal);
    const value = await (awaitSend ? sending : deadline.race(sending));
    succeeded = true;
    return { kind: "ok", value, sends: sends.count };
  } catch (error) {
    const { count } = sends;
    const certain = (count === 1 && isDefinitive(error)) || (count === 0 && isMisuse(error));
    return { kind: certain ? "rejected" : "unknown", error, sends: count };
  } finally {
    deadline.dispose();
    if (reusesSignal) sendSignal.free(succeeded && !deadline.isAborted);
    else sendSignal.onAdded = undefined;
  }
}

/** The same for calls whose uncertain outcome does no harm, reads above all: returns the response, or throws the error. */
export async function read<R>(send: (abortSignal: AbortSignal) => Promise<R>, limits: RequestLimits = {}): Promise<R> {
  const outcome = await request(send, limits);
  if (outcome.kind === "ok") return outcome.value;
  throw outcome.error;
}

/**
 * Makes an SDK call, and ends it if the first send gets no response in time and the SDK has not sent it again by then: a connection that
 * drops packets is told from a service that is busy, to which the SDK sends again after some seconds.
 */
export async function endIfSilent<R>(send: (abortSignal: AbortSignal) => Promise<R>, abortSignal: AbortSignal, timeoutInMs: number): Promise<R> {
  const deadline = new Deadline(Infinity, () => undefined, abortSignal);
  const counter = countSends(deadline.signal);
  const stopTimer = startTimer(timeoutInMs, () => {
    if (counter.sends() < 2) deadline.abort(new RequestTimeoutError(timeoutInMs));
  });
  try {
    return await deadline.race(send(deadline.signal));
  } finally {
    stopTimer();
    counter.stop();
    deadline.dispose();
  }
}

/** What a caller gets for an error that only the library knows: of requests that got no response in time, or none that can be used. */
export function toPublicError(error: unknown, url: string, elapsedInMs: number): unknown {
  if (error instanceof RequestTimeoutError) return toTimeoutError(error, url);
  if (!(error instanceof SecondaryReadError)) return error;
  return createError(OperationTimeoutError, `${url}: the primary did not respond in time, and what the secondary says may be outdated.`, { url, elapsedInMs, cause: error });
}

/**
 * How long to wait for a service that rejects a request for now: a container, table, queue or share is being deleted for 30 seconds or
 * more. The waits take 34 seconds on average.
 */
export const rejectedForNow = { maxWaits: 16, backoff: (wait: number): number => fullJitter(wait, 500, 5_000) } as const;

/** Repeats an attempt while the service rejects it for now. For what is not resolved by `resolveWrite`, which waits as long. */
export function whileRejectedForNow<R>(attempt: () => Promise<R>, abortSignal: AbortSignalLike | undefined): Promise<R> {
  const { maxWaits, backoff } = rejectedForNow;
  return retry(attempt, { maxAttempts: maxWaits + 1, shouldRetry: isRejectedForNow, backoff: (failed) => backoff(failed - 1), abortSignal });
}

const checkTimeoutInMs = 30_000;

/**
 * For the checks of a component that starts, and for what it creates: the SDK would wait many minutes for a response, and would not wait
 * for the end of a deletion.
 */
export async function check<R>(url: string, send: (request: AdapterRequest) => Promise<R>, { abortSignal, tracingOptions }: AdapterRequest): Promise<R> {
  const attempt = (): Promise<R> => read((signal) => send({ abortSignal: signal, tracingOptions }), { timeoutInMs: checkTimeoutInMs, abortSignal });
  try {
    return await whileRejectedForNow(attempt, abortSignal);
  } catch (error) {
    throw isRejectedForNow(error) ? toConcurrencyError(error, redactUrl(url)) : toPublicError(error, redactUrl(url), checkTimeoutInMs);
  }
}

/** Limits of a read. */
export interface ReadLimits {
  /** @defaultValue none: the signal of the caller's deadline ends a read that takes too long */
  readonly tryLimit?: TryLimit | undefined;
  readonly abortSignal: AbortSignalLike;
}

/**
 * The pause after a try that was given up while the SDK repeated it: the service is busy, and the SDK waits for 4 seconds before its third
 * send. Without the pause, tries that are shorter than that would send more than the SDK does, to a service that cannot serve them.
 */
const busyPauseInMs = 4_000;

/** How often a read is repeated whose connection broke before a response, if the SDK has not repeated it itself. */
const maxBrokenConnections = 5;

/**
 * Reads, and repeats a try that took too long, whose body was cut, or that went to the secondary, until the signal aborts: without that, one response that never
 * arrives would block all callers that share the read.
 */
export async function readWithTries<R>(send: (abortSignal: AbortSignal) => Promise<R>, { tryLimit, abortSignal }: ReadLimits): Promise<R> {
  let timedOut = 0;
  let broken = 0;
  let wasResent = false;
  const attempt = async (): Promise<R> => {
    const outcome = await request(send, { abortSignal, timeoutInMs: tryLimit?.timeoutInMs(timedOut), reusesSignal: tryLimit?.reusesSignal, onTry: tryLimit?.onTry, onResend: tryLimit?.onResend, sparesWaits: true });
    wasResent = outcome.sends > 1;
    if (outcome.kind === "ok") return outcome.value;
    throw outcome.error;
  };
  const backoff = (failures: number): number => (wasResent ? busyPauseInMs : 0) + fullJitter(failures, 10, 1_000);
  const mayRepeat = (error: unknown): boolean => {
    if (isAborted(abortSignal)) return false;
    if (error instanceof RequestTimeoutError) timedOut++;
    if (error instanceof RequestTimeoutError || error instanceof SecondaryReadError || isCutBody(error)) return true;
    if (tryLimit?.onResend && isServerBusy(error)) return true;
    // A client that does not repeat by itself: a connection that breaks must not be the end of a call that has time.
    return !wasResent && isConnectionBroken(error) && ++broken <= maxBrokenConnections;
  };
  try {
    return await attempt();
  } catch (error) {
    if (!mayRepeat(error)) throw error;
  }
  await delay(backoff(0), abortSignal);
  return retry(attempt, { maxAttempts: Infinity, shouldRetry: mayRepeat, backoff, abortSignal });
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
export function countSends(signal: AbortSignal, onResend?: () => void): SendCounter {
  const sends = new Sends(onResend);
  const add = signal.addEventListener; // eslint-disable-line @typescript-eslint/unbound-method -- called on the signal below
  signal.addEventListener = (...args: Parameters<typeof add>): void => {
    add.apply(signal, args);
    // After the listener was added, so that it is called: it ends the delay or the request that it belongs to.
    if (args[0] === "abort") sends.add();
  };
  return {
    sends: () => sends.count,
    stop: () => {
      signal.addEventListener = add;
    },
  };
}

interface SendCounter {
  readonly sends: () => number;
  readonly stop: () => void;
}

/** The listeners of an SDK call: one for each send, one for each wait before the next. */
class Sends {
  count = 0;
  readonly #onResend: (() => void) | undefined;
  readonly #startedAt = performance.now();
  #addedAt = this.#startedAt;

  constructor(onResend: (() => void) | undefined) {
    this.#onResend = onResend;
  }

  add(): void {
    this.#addedAt = performance.now();
    if (++this.count > 1) this.#onResend?.();
  }

  /** For how long the SDK should be left alone, as it has been told that the service is busy: it waits, or has just sent again. */
  busyForInMs(sendInMs: number): number {
    if (this.count < 4 || performance.now() - this.#startedAt > maxBusyInMs) return 0;
    return this.count % 2 === 0 ? busyCheckInMs : this.#addedAt + sendInMs - performance.now();
  }
}

/** The SDKs for blobs, queues and files send at 0, 0, 4 and 16 seconds, that for tables within 8. */
const maxBusyInMs = 20_000;
const busyCheckInMs = 250;
