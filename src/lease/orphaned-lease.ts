import { bounded } from "../core/bounded.js";
import { isDefinitive } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { LeaseAdapter } from "./lease-adapters.js";

const limitInMs = 5_000;
/** Two minutes: an outage of the network is mostly over by then, and a process that ends is not held up for longer. */
const retryAfterInMs = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000];

/** Releases what may be left of a lease that is nobody's any more. False if it is not known to be gone. Never rejects. */
export async function releaseIfLeft(adapter: LeaseAdapter, leaseId: string): Promise<boolean> {
  try {
    await bounded(limitInMs, undefined, (abortSignal) => adapter.release(leaseId, { abortSignal }));
    return true;
  } catch (error) {
    logger.verbose(`a lease on ${adapter.url} that may be left was not released: ${errorLabel(error)}`);
    // Refused: there is no such lease. (Or this client may not release it, and never will.)
    return isDefinitive(error);
  }
}

/** One request takes no longer on its way than this, as far as anybody has seen. */
const lateInMs = [1_000, 4_000];

/**
 * A request to acquire that was given up may arrive after the release that was to undo it, and would block everybody
 * for ever. So what was not there yet is looked for twice more, in the background.
 */
export function releaseIfLate(adapter: LeaseAdapter, leaseId: string): void {
  for (const wait of lateInMs) setTimeout(() => void releaseIfLeft(adapter, leaseId), wait);
}

/**
 * Releases in the background a lease that never expires, and would otherwise block everybody for ever because of a
 * passing outage. Bounded in number and time; what is left then is in the log. Returns what ends it.
 */
export function releaseLater(adapter: LeaseAdapter, leaseId: string): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  const tryIn = (nth: number): void => {
    const wait = retryAfterInMs[nth];
    if (wait === undefined) {
      logger.error(
        `the lease ${leaseId} on ${adapter.url} could not be released, and never expires: ` +
          "release it with its id, or break it, before anybody can have it again",
      );
      return;
    }
    timer = setTimeout(() => {
      void releaseIfLeft(adapter, leaseId).then((gone) => {
        if (!gone && !stopped) tryIn(nth + 1);
      });
    }, wait);
  };
  tryIn(0);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
