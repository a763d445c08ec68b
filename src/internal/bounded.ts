import type { AbortSignalLike } from "../clients.js";
import { abortReason, onAbort, throwIfAborted } from "./abort.js";
import { countSends } from "./sends.js";

/** A request that took longer than it was given. Whether it had an effect is not known. */
export class RequestTimeout extends Error {
  override readonly name = "RequestTimeout";
}

/**
 * Runs one SDK call with a time limit of its own: the SDKs retry for many seconds, and on a network that swallows
 * packets wait for ever. Rejects when the time is over even if the call takes no notice of its signal.
 */
export async function bounded<R>(
  limitInMs: number,
  abortSignal: AbortSignalLike | undefined,
  call: (abortSignal: AbortSignal) => Promise<R>,
): Promise<{ answer: R; sends: number }> {
  throwIfAborted(abortSignal);
  const counted = countSends();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let off: (() => void) | undefined;
  const stopped = new Promise<never>((_, reject) => {
    const stop = (reason: unknown): void => {
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's own reason
      reject(reason);
      counted.abort(reason);
    };
    if (limitInMs < 2 ** 31) {
      timer = setTimeout(() => stop(new RequestTimeout(`no answer within ${Math.round(limitInMs)} ms`)), limitInMs);
    }
    off = onAbort(abortSignal, () => abortSignal && stop(abortReason(abortSignal)));
  });
  stopped.catch(() => undefined);
  try {
    const answer = await Promise.race([call(counted.signal), stopped]);
    return { answer, sends: counted.sends() };
  } catch (error) {
    noteSends(error, counted.sends());
    throw error;
  } finally {
    clearTimeout(timer);
    off?.();
  }
}

const sendsOf = new WeakMap<object, number>();

function noteSends(error: unknown, sends: number): void {
  if (typeof error === "object" && error !== null) sendsOf.set(error, sends);
}

/** Whether an error that {@link bounded} raised is the answer to the only request that was sent. */
export function wasSentOnce(error: unknown): boolean {
  return typeof error === "object" && error !== null && sendsOf.get(error) === 1;
}
