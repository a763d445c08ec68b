import { startIdleTimer, startStopwatch, startTimer } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { FailureReports } from "../core/failures.js";
import { request } from "../core/request.js";
import { isDefinitive, isUnauthorized } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";

const reports = /* @__PURE__ */ new FailureReports();
const releaseTimeoutInMs = 5_000;
/** Two minutes in total: most network outages are over by then, and the exit of a process is not delayed for longer. */
const retryAfterInMs: readonly number[] = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000];

/** What a release has found: the lease, which is gone now; none, or none of this client; or there was no response that says so. */
export type ReleaseResult = "released" | "none" | "unknown";

/** Releases a lease that may exist without a holder. Never rejects. */
export async function tryRelease(adapter: LeaseAdapter, leaseId: string): Promise<ReleaseResult> {
  const send = (options: LeaseRequest): Promise<unknown> => adapter.releaseOrphaned?.(leaseId, options) ?? adapter.release(leaseId, options);
  const released = await request((abortSignal) => send({ abortSignal }), { timeoutInMs: releaseTimeoutInMs });
  if (released.kind === "ok") return "released";
  logger.verbose(`a lease on ${adapter.url} that may be orphaned was not released: ${errorLabel(released.error)}`);
  // A client that is not authorized now, as its token or SAS has expired, does not learn whether there is such a lease.
  return isDefinitive(released.error) && !isUnauthorized(released.error) ? "none" : "unknown";
}

/** No request has been observed to arrive later than the last of these. */
const lateArrivalsInMs = [1_000, 4_000] as const;

/**
 * An acquire request that was abandoned, or that the SDK has sent again, may arrive after the release that was to undo it, and would
 * then block all other clients: forever, if the lease is infinite. So it is released twice more, in the background.
 * @param since - When the request was given up, if one was.
 */
export function releaseAfterLateAcquire(adapter: LeaseAdapter, leaseId: string, since: Clock | undefined): void {
  if (!since || since() > lateArrivalsInMs[1]) return;
  for (const waitInMs of lateArrivalsInMs) startTimer(waitInMs, () => void tryRelease(adapter, leaseId));
}

/** A release that no caller waits for. */
export interface BackgroundRelease {
  stop(): void;
  /** Makes the next attempt at once. */
  now(): void;
}

/**
 * Releases in the background a lease that never expires, and would otherwise block all other clients forever because of a
 * temporary outage. Bounded in number and time; a lease that still exists then is logged and reported.
 */
export function releaseInBackground(adapter: LeaseAdapter, leaseId: string): BackgroundRelease {
  return releaseOnSchedule(adapter, leaseId, retryAfterInMs, () => {
    const message = `The lease ${leaseId} on ${adapter.url} could not be released, and never expires: release it with its id, or break it.`;
    logger.error(message);
    reports.report({ component: "lease", message, error: undefined }, leaseId);
  });
}

/**
 * Releases a lease that its holder has lost, although the service may still take it for ours: its renewals may have arrived, and
 * only their responses were lost. Not at once: work that the loss has surprised may need the safety margin to stop. It ends
 * when the lease has expired in any case.
 */
export function releaseLost(adapter: LeaseAdapter, leaseId: string, afterInMs: number, durationInMs: number): BackgroundRelease {
  if (durationInMs === Infinity) return releaseInBackground(adapter, leaseId);
  return releaseOnSchedule(adapter, leaseId, [afterInMs, ...retryAfterInMs], () => undefined, durationInMs);
}

/**
 * Releases in the background a lease whose release has failed, until it has expired. It does not keep the process from ending, and the end of
 * the process does no harm: the lease expires.
 */
export function releaseUnlessExpired(adapter: LeaseAdapter, leaseId: string, durationInMs: number): BackgroundRelease {
  return releaseOnSchedule(adapter, leaseId, retryAfterInMs, () => undefined, durationInMs, startIdleTimer);
}

function releaseOnSchedule(
  adapter: LeaseAdapter,
  leaseId: string,
  delays: readonly number[],
  onFailed: () => void,
  limitInMs: number = Infinity,
  start: typeof startTimer = startTimer,
): BackgroundRelease {
  const ageInMs = startStopwatch();
  let stopped = false;
  let stopTimer: (() => void) | undefined;
  let attempt: (() => void) | undefined;
  // A schedule of timers and not a retry: no caller waits for it, and an application that uses leases only need not load p-retry.
  const releaseAfter = ([waitInMs, ...later]: readonly number[]): void => {
    if (waitInMs === undefined || ageInMs() + waitInMs > limitInMs) {
      onFailed();
      return;
    }
    attempt = () => {
      attempt = undefined;
      stopTimer?.();
      void tryRelease(adapter, leaseId).then((result) => {
        if (result === "unknown" && !stopped) releaseAfter(later);
      });
    };
    stopTimer = start(waitInMs, attempt);
  };
  releaseAfter(delays);
  return {
    stop: () => {
      stopped = true;
      stopTimer?.();
    },
    now: () => attempt?.(),
  };
}
