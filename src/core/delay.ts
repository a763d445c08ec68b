import type { AbortSignalLike } from "../clients.js";
import { abortReason, onAbort } from "./abort.js";

/** Waits, or rejects with the signal's reason. Leaves neither a timer nor a listener behind. */
export function delay(ms: number, signal?: AbortSignalLike): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      off();
      resolve();
    }, ms);
    const off = onAbort(signal, () => {
      clearTimeout(timer);
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's own reason
      reject(abortReason(signal!)); // eslint-disable-line @typescript-eslint/no-non-null-assertion
    });
  });
}

/**
 * Full jitter over an exponential: a random time between nothing and `base * 2^retry`, capped. Of all the usual
 * schemes it spreads contenders the most, which is what counts when they all failed in the same instant.
 */
export function fullJitter(retry: number, baseInMs: number, capInMs: number): number {
  return Math.random() * Math.min(capInMs, baseInMs * 2 ** Math.min(retry, 30));
}

/** The longest time between two looks of somebody who waits. */
export const maxWaitBeforeLookInMs = 1_000;

/**
 * A tenth of the time waited so far, from 50 ms up, give or take half, but never more than a second: whoever waits
 * loses about a twentieth of its waiting time to polling, and a lease that is held for long is not asked for all the
 * time.
 */
export function waitBeforeLook(waitedInMs: number): number {
  return Math.min(maxWaitBeforeLookInMs / 1.5, Math.max(50, waitedInMs / 10)) * (0.5 + Math.random());
}
