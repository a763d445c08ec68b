import type { AbortSignalLike } from "../clients.js";
import { throwIfAborted } from "./abort.js";
import { countSends } from "./sends.js";
import { TimeLimit } from "./time-limit.js";

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
  const tooLate = (): Error => new RequestTimeout(`no answer within ${Math.round(limitInMs)} ms`);
  const limit = new TimeLimit(limitInMs, abortSignal, tooLate, counted.abort);
  try {
    const answer = await limit.during(call(counted.signal));
    return { answer, sends: counted.sends() };
  } catch (error) {
    noteSends(error, counted.sends());
    throw error;
  } finally {
    limit.letGo();
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
