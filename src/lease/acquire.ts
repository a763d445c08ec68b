import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients/call.js";
import { PendingCall } from "../core/pending-call.js";
import { request } from "../core/request.js";
import type { RequestOutcome } from "../core/request.js";
import { RequestTimeoutError, startStopwatch } from "../core/deadline.js";
import { isAlreadyExists, isDefinitive, isLeaseTaken, isNotFound, isParentNotFound, isTransient, toNotFoundError } from "../core/storage-errors.js";
import type { Attempts } from "../core/telemetry.js";
import { createError, LeaseUnavailableError, TargetNotFoundError } from "../errors.js";
import { HeldLease } from "./held-lease.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import type { LeaseGrant } from "./lease-handle.js";
import type { LeaseSettings } from "./lease-options.js";
import type { PollResult } from "./poll-pacing.js";

/** What to acquire, and how long to wait for it: `"try"` makes one attempt and does not wait. */
export interface AcquireRequest extends CallOptions {
  /** For error messages: `the lease on ...`. */
  readonly what: string;
  readonly url: string;
  /** For error messages: what to do about a holder that does not release it. */
  readonly advice?: string | undefined;
  readonly waitInMs: number | "try";
  /** Records the attempts that are made for this request. */
  readonly trace?: Attempts | undefined;
  /** Parent of the requests that renew and release the lease later. */
  readonly holderTracing?: OperationTracingOptions | undefined;
}

/** One caller that waits for a lease: settles with the lease, without it (undefined), or with an error. */
export class LeaseWaiter extends PendingCall<LeaseGrant | undefined> {
  readonly holderTracing: OperationTracingOptions | undefined;
  readonly #request: AcquireRequest;
  readonly #waitedInMs = startStopwatch();
  #attempted = false;
  #overdue = false;
  #lastFailure: unknown;

  constructor(request: AcquireRequest) {
    const { waitInMs, abortSignal, tracingOptions, trace } = request;
    super({ timeoutInMs: waitInMs === "try" ? Infinity : waitInMs, abortSignal, tracingOptions, trace });
    this.#request = request;
    this.holderTracing = request.holderTracing ?? tracingOptions;
  }

  /** An attempt for all waiters did not acquire the lease: another client holds it, or the request failed. */
  attempted(failure?: unknown): void {
    this.#attempted = true;
    this.#lastFailure = failure;
    if (this.#overdue) this.#giveUp();
    else if (this.#request.waitInMs === "try") {
      if (failure !== undefined) this.reject(failure);
      else this.resolve(undefined, "taken");
    }
  }

  /** `waitInMs` bounds the wait for a lease that another client holds. Only the first response shows whether one does. */
  protected override onTimeout(): void {
    if (this.#attempted) this.#giveUp();
    else this.#overdue = true;
  }

  #giveUp(): void {
    const { what, url, advice } = this.#request;
    const waitInMs = Math.round(Number(this.#request.waitInMs));
    const why =
      this.#lastFailure === undefined
        ? `Another client still holds ${what} after ${waitInMs} ms (waitInMs)${advice ? `: ${advice}` : ""}`
        : `${what.replace(/^t/, "T")} could not be acquired within ${waitInMs} ms (waitInMs): the last request failed`;
    this.reject(createError(LeaseUnavailableError, why, { url, waitedInMs: this.#waitedInMs(), holder: undefined, cause: this.#lastFailure }));
  }
}

/** The outcome of one attempt to acquire a lease. */
export type AcquireOutcome =
  | { readonly kind: "acquired"; readonly lease: HeldLease }
  | { readonly kind: "taken"; readonly poll: PollResult }
  /** `transient`: another attempt may succeed. `uncertain`: the lease may have been acquired nevertheless. */
  | { readonly kind: "failed"; readonly error: unknown; readonly transient: boolean; readonly uncertain: boolean; readonly poll: PollResult };

/** Sends one request for the lease (two more if the blob has to be created first). */
export async function tryAcquireOnce(
  adapter: LeaseAdapter,
  leaseId: string,
  settings: LeaseSettings,
  options: LeaseRequest,
): Promise<AcquireOutcome> {
  const { create } = adapter;
  const acquired = await sendAcquire(adapter, leaseId, settings, options);
  if (acquired.kind !== "failed" || !create || !settings.createIfNotExists || !isNotFound(acquired.cause)) return acquired;
  const created = await request((abortSignal) => create({ ...options, abortSignal }), limits(settings, options));
  if (created.kind !== "ok" && !isAlreadyExists(created.error)) return failed(created, adapter);
  return sendAcquire(adapter, leaseId, settings, options);
}

async function sendAcquire(
  adapter: LeaseAdapter,
  leaseId: string,
  settings: LeaseSettings,
  options: LeaseRequest,
): Promise<Exclude<AcquireOutcome, { kind: "failed" }> | ReturnType<typeof failed>> {
  const duration = settings.durationInMs === Infinity ? -1 : settings.durationInMs / 1_000;
  const clock = startStopwatch();
  const sent = await request((abortSignal) => adapter.acquire(leaseId, duration, { ...options, abortSignal }), limits(settings, options));
  if (sent.kind === "ok") return { kind: "acquired", lease: new HeldLease(adapter, leaseId, clock, settings) };
  return isLeaseTaken(sent.error) ? { kind: "taken", poll: pollResultOf(sent) } : failed(sent, adapter);
}

/** The response may take a third of the lease's duration. After that, too little of the lease would be left. */
function limits({ durationInMs }: LeaseSettings, { abortSignal }: LeaseRequest): { timeoutInMs: number; abortSignal: AbortSignal } {
  return { timeoutInMs: Math.min(durationInMs, 60_000) / 3, abortSignal };
}

function failed(sent: FailedRequest, adapter: LeaseAdapter): Extract<AcquireOutcome, { kind: "failed" }> & { readonly cause: unknown } {
  const { error, kind } = sent;
  return {
    kind: "failed",
    error: toAcquireError(error, adapter),
    cause: error,
    transient: isTransient(error),
    uncertain: kind === "unknown" && !isDefinitive(error),
    poll: pollResultOf(sent),
  };
}

type FailedRequest = Exclude<RequestOutcome<unknown>, { kind: "ok" }>;

function pollResultOf({ error, sends }: FailedRequest): PollResult {
  if (error instanceof RequestTimeoutError) return "timedOut";
  return sends === 1 ? "ok" : "retried";
}

function toAcquireError(error: unknown, { url, kind, create }: LeaseAdapter): unknown {
  const advice = `create it${create ? ", or pass createIfNotExists" : ""}`;
  // The service reports a missing container or share as the parent of its contents. Here it is the target itself.
  if (isParentNotFound(error) && (kind === "container" || kind === "share")) {
    return createError(TargetNotFoundError, `${url} does not exist: ${advice}`, { url, cause: error });
  }
  return toNotFoundError(error, url, advice) ?? error;
}
