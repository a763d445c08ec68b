import { startTimer } from "../core/deadline.js";
import { request } from "../core/request.js";
import { isDefinitive } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { LeaseAdapter } from "./lease-adapters.js";

const releaseTimeoutInMs = 5_000;
/** Two minutes in total: most network outages are over by then, and the exit of a process is not delayed for longer. */
const retryAfterInMs = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000];

/** Releases a lease that may exist without a holder. False if it may still exist afterwards. Never rejects. */
export async function tryRelease(adapter: LeaseAdapter, leaseId: string): Promise<boolean> {
  const released = await request((abortSignal) => adapter.release(leaseId, { abortSignal }), { timeoutInMs: releaseTimeoutInMs });
  if (released.kind === "ok") return true;
  logger.verbose(`a lease on ${adapter.url} that may be orphaned was not released: ${errorLabel(released.error)}`);
  // Rejected: there is no such lease. (Or this client is not authorized to release it, and never will be.)
  return isDefinitive(released.error);
}

/** No request has been observed to arrive later than this. */
const lateArrivalsInMs = [1_000, 4_000];

/**
 * An abandoned acquire request may arrive after the release that was to undo it, and would then block all other clients
 * forever. So a lease that did not exist yet is released twice more, in the background.
 */
export function releaseAfterLateAcquire(adapter: LeaseAdapter, leaseId: string): void {
  for (const waitInMs of lateArrivalsInMs) startTimer(waitInMs, () => void tryRelease(adapter, leaseId));
}

/**
 * Releases in the background a lease that never expires, and would otherwise block all other clients forever because of a
 * temporary outage. Bounded in number and time; a lease that still exists then is logged. Returns a function that stops it.
 */
export function releaseInBackground(adapter: LeaseAdapter, leaseId: string): () => void {
  let stopped = false;
  let stopTimer: (() => void) | undefined;
  // A schedule of timers and not a retry: no caller waits for it, and an application that uses leases only need not load p-retry.
  const releaseAfter = ([waitInMs, ...later]: readonly number[]): void => {
    if (waitInMs === undefined) {
      logger.error(
        `the lease ${leaseId} on ${adapter.url} could not be released, and never expires: ` +
          "release it with its id, or break it",
      );
      return;
    }
    stopTimer = startTimer(waitInMs, () => {
      void tryRelease(adapter, leaseId).then((gone) => {
        if (!gone && !stopped) releaseAfter(later);
      });
    });
  };
  releaseAfter(retryAfterInMs);
  return () => {
    stopped = true;
    stopTimer?.();
  };
}
