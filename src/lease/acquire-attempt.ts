import { isConcurrencyError, TargetNotFoundError } from "../errors.js";
import { bounded, RequestTimeout, wasSentOnce } from "../core/bounded.js";
import { startStopwatch } from "../core/stopwatch.js";
import {
  isAlreadyThere,
  isDefinitive,
  isLeaseTaken,
  isMissing,
  isMissingParent,
  statusOf,
} from "../core/storage-errors.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import { LeaseKeeper } from "./held-lease.js";
import type { LeaseSettings } from "./lease-options.js";
import type { Look } from "./poll-pacing.js";

export type AcquireOutcome =
  | { readonly kind: "acquired"; readonly keeper: LeaseKeeper }
  | { readonly kind: "taken"; readonly look: Look }
  /** `passing`: trying again may help. `uncertain`: the lease may be ours all the same. */
  | { readonly kind: "failed"; readonly error: unknown; readonly passing: boolean; readonly uncertain: boolean; readonly look: Look };

/** One request for the lease (two more if what is to be leased has to be made first). */
export async function acquireOnce(
  adapter: LeaseAdapter,
  leaseId: string,
  settings: LeaseSettings,
  request: LeaseRequest,
): Promise<AcquireOutcome> {
  const { abortSignal } = request;
  // A third of the lease may pass before the answer: later than that there is hardly any of it left.
  const limitInMs = Math.min(settings.durationInMs, 60_000) / 3;
  const duration = settings.durationInMs === Infinity ? -1 : settings.durationInMs / 1_000;
  for (let created = false; ; created = true) {
    const since = startStopwatch();
    try {
      await bounded(limitInMs, abortSignal, (signal) => adapter.acquire(leaseId, duration, { ...request, abortSignal: signal }));
      return { kind: "acquired", keeper: new LeaseKeeper(adapter, leaseId, since, settings) };
    } catch (error) {
      if (isLeaseTaken(error)) return { kind: "taken", look: lookOf(error) };
      if (isMissing(error) && settings.createIfMissing && adapter.create && !created) {
        const { create } = adapter;
        const failure = await bounded(limitInMs, abortSignal, (signal) => create({ ...request, abortSignal: signal })).then(
          () => undefined,
          (createError: unknown) => createError,
        );
        if (failure === undefined || isAlreadyThere(failure)) continue;
        return failed(failure, adapter);
      }
      return failed(error, adapter);
    }
  }
}

function failed(error: unknown, adapter: LeaseAdapter): AcquireOutcome {
  const uncertain = !isDefinitive(error);
  return { kind: "failed", error: explain(error, adapter), passing: isPassing(error), uncertain, look: lookOf(error) };
}

function lookOf(error: unknown): Look {
  if (error instanceof RequestTimeout) return "silent";
  return wasSentOnce(error) ? "easy" : "strained";
}

/** Trying again may help: no answer, trouble in the service, or too many requests at once. */
export function isPassing(error: unknown): boolean {
  return !isDefinitive(error) || statusOf(error) === 429;
}

/** As {@link isPassing}, of what a caller would get: one of this library's own errors is its last word. */
export function mayPass(error: unknown): boolean {
  return !isConcurrencyError(error) && isPassing(error);
}

function explain(error: unknown, { url, kind, create }: LeaseAdapter): unknown {
  if (isMissingParent(error) && (kind === "blob" || kind === "file")) {
    return new TargetNotFoundError(`what contains ${url} does not exist: create it first`, { url, cause: error });
  }
  if (isMissing(error) || isMissingParent(error)) {
    return new TargetNotFoundError(`${url} does not exist: create it${create ? ", or pass createIfMissing" : ""}`, { url, cause: error });
  }
  return error;
}
