import { startTimer } from "../core/deadline.js";
import { request } from "../core/request.js";
import { retry } from "../core/retry.js";
import { isDefinitive } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { LeaseAdapter } from "./lease-adapters.js";

const releaseTimeoutInMs = 5_000;
/** Two minutes: most network outages are over by then, and a process that ends is not held up for longer. */
const retryAfterInMs = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000];

/** Releases a lease that may be left over and has no holder. False if it is not known to be gone. Never rejects. */
export async function tryRelease(adapter: LeaseAdapter, leaseId: string): Promise<boolean> {
  const released = await request((abortSignal) => adapter.release(leaseId, { abortSignal }), { timeoutInMs: releaseTimeoutInMs });
  if (released.kind === "ok") return true;
  logger.verbose(`a lease on ${adapter.url} that may be left was not released: ${errorLabel(released.error)}`);
  // Refused: there is no such lease. (Or this client may not release it, and never will.)
  return isDefinitive(released.error);
}

/** No request has been seen to arrive later than this. */
const lateArrivalsInMs = [1_000, 4_000];

/**
 * A request to acquire that was given up may arrive after the release that was to undo it, and would block all other clients
 * forever. So a lease that was not there yet is released twice more, in the background.
 */
export function releaseAfterLateAcquire(adapter: LeaseAdapter, leaseId: string): void {
  for (const waitInMs of lateArrivalsInMs) startTimer(waitInMs, () => void tryRelease(adapter, leaseId));
}

/**
 * Releases in the background a lease that never expires, and would otherwise block all other clients forever because of a
 * temporary outage. Bounded in number and time; a lease that is left then is in the log. Returns a function that ends it.
 */
export function releaseInBackground(adapter: LeaseAdapter, leaseId: string): () => void {
  const stop = new AbortController();
  void releaseUntilGone(adapter, leaseId, stop.signal);
  return () => stop.abort();
}

/** Never rejects. */
async function releaseUntilGone(adapter: LeaseAdapter, leaseId: string, abortSignal: AbortSignal): Promise<void> {
  const notReleased = new Error("the lease may still be there");
  try {
    await retry(
      async (attempt) => {
        // The first release has just failed, in the caller's hands: this one waits, too.
        if (attempt === 1 || !(await tryRelease(adapter, leaseId))) throw notReleased;
      },
      {
        maxAttempts: retryAfterInMs.length + 1,
        shouldRetry: (error) => error === notReleased,
        backoff: (attempt) => retryAfterInMs[attempt - 1] ?? 0,
        abortSignal,
      },
    );
  } catch {
    if (abortSignal.aborted) return;
    logger.error(
      `the lease ${leaseId} on ${adapter.url} could not be released, and never expires: ` +
        "release it with its id, or break it, before anybody can have it again",
    );
  }
}
