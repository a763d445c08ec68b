import type { AbortSignalLike } from "../clients/call.js";
import { abortReason, Deadline, SignalRace } from "./deadline.js";
import { isDefinitive } from "./storage-errors.js";
import { isMisuse } from "./validate.js";

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
}

/** An SDK call took longer than its limit. Whether it had an effect is not known. */
export class RequestTimeoutError extends Error {
  override readonly name = "RequestTimeoutError";
}

/**
 * Makes one SDK call that changes stored state, and reports how certain its outcome is. Never rejects. Returns in time even
 * if the client ignores its signal.
 */
export async function request<R>(send: (abortSignal: AbortSignal) => Promise<R>, limits: RequestLimits = {}): Promise<RequestOutcome<R>> {
  const { abortSignal, awaitSend } = limits;
  return abortSignal?.aborted ? notSent(abortSignal) : sendCounted(send, deadlineOf(limits), awaitSend);
}

/**
 * The same without a time limit, and with a signal that no other request uses meanwhile: the signal is passed to the SDK as it is,
 * which saves a controller.
 */
export async function requestExclusively<R>(send: (abortSignal: AbortSignal) => Promise<R>, signal: AbortSignal): Promise<RequestOutcome<R>> {
  return signal.aborted ? notSent(signal) : sendCounted(send, new SignalRace(signal));
}

function notSent(signal: AbortSignalLike): RequestOutcome<never> {
  return { kind: "rejected", error: abortReason(signal), sends: 0 };
}

async function sendCounted<R>(
  send: (abortSignal: AbortSignal) => Promise<R>,
  limit: Pick<Deadline, "signal" | "race" | "dispose">,
  awaitSend = false,
): Promise<RequestOutcome<R>> {
  const counter = countSends(limit.signal);
  try {
    const sending = send(limit.signal);
    const value = await (awaitSend ? sending : limit.race(sending));
    return { kind: "ok", value, sends: counter.sends() };
  } catch (error) {
    const sends = counter.sends();
    const certain = (sends === 1 && isDefinitive(error)) || (sends === 0 && isMisuse(error));
    return { kind: certain ? "rejected" : "unknown", error, sends };
  } finally {
    counter.stop();
    limit.dispose();
  }
}

function deadlineOf({ timeoutInMs = Infinity, abortSignal }: RequestLimits): Deadline {
  return new Deadline(timeoutInMs, () => new RequestTimeoutError(`no response within ${Math.round(timeoutInMs)} ms`), abortSignal);
}

/** The same for calls whose uncertain outcome does no harm, reads above all: returns the response, or throws the error. */
export async function read<R>(send: (abortSignal: AbortSignal) => Promise<R>, limits: RequestLimits = {}): Promise<R> {
  const outcome = await request(send, limits);
  if (outcome.kind === "ok") return outcome.value;
  throw outcome.error;
}

/**
 * Counts the requests that the SDK sends with a signal. The SDKs re-send writes without telling the caller. But the HTTP
 * client adds one `abort` listener for each send (and the retry policies add one for each delay), so counting the listeners
 * distinguishes one send from several. This uses public behaviour of `AbortSignal` and errs on the safe side: with a client
 * that adds other listeners, or none, the outcome counts as uncertain.
 */
export function countSends(signal: AbortSignal): { readonly sends: () => number; readonly stop: () => void } {
  let listeners = 0;
  const add = signal.addEventListener; // eslint-disable-line @typescript-eslint/unbound-method -- called on the signal below
  signal.addEventListener = (...args: Parameters<typeof add>): void => {
    if (args[0] === "abort") listeners++;
    add.apply(signal, args);
  };
  return {
    sends: () => listeners,
    stop: () => {
      signal.addEventListener = add;
    },
  };
}
