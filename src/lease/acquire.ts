import { withMembers } from "../core/validate.js";
import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients/call.js";
import { recorder } from "../core/measure.js";
import { PendingCall } from "../core/pending-call.js";
import { request } from "../core/request.js";
import type { RequestOutcome } from "../core/request.js";
import { RequestTimeoutError, startStopwatch } from "../core/deadline.js";
import { isAlreadyExists, isConditionNotMet, isDefinitive, isLeaseTaken, isNotFound, isParentNotFound, isTransient, toNotFoundError, toTimeoutError } from "../core/storage-errors.js";
import type { Attempts } from "../core/telemetry.js";
import { createError, LeaseUnavailableError, TargetNotFoundError } from "../errors.js";
import { HeldLease } from "./held-lease.js";
import type { PendingWrite } from "./held-lease.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import type { FencingToken, LeaseGrant } from "./lease-handle.js";
import type { LeaseSettings } from "./lease-options.js";
import type { PollPacing, PollResult } from "./poll-pacing.js";

/** The state of a waiter, or of all waiters of a process, in the order of a lock that several processes wait for. */
export interface PlaceInLine {
  /** Drawn when other processes wait, too. Tickets are served in ascending order. */
  ticket: number | undefined;
  /** The ticket was drawn by another process, which has left or died: its epoch must not be used. */
  isBorrowed?: boolean;
  /** Which ticket was served when it was first seen that this one was passed over. */
  passedOverAt?: number | undefined;
}

/** One acquisition in progress, for {@link LockRules}. */
export interface Acquisition {
  readonly waiter: LeaseWaiter;
  /** How many attempts it has made so far. */
  readonly attempts: number;
  readonly abortSignal: AbortSignal;
  readonly request: Omit<LeaseRequest, "abortSignal">;
  readonly pacing: PollPacing;
  /** Another process holds the lock, or comes first: callers whose time is over need not wait for an attempt. */
  readonly onTaken: () => void;
  /** The service responds, but it is not known yet whether another process comes first: short waits are extended until it is. */
  readonly onUndecided: () => void;
}

/** The rules of a named lock: when this process may try to acquire it, and which fencing token each holder gets. */
export interface LockRules {
  /** Waiters with the same key can hand the lease over to each other. */
  readonly key: string;
  /** Processes take turns: a release is enough to give the others their chance. */
  readonly takesTurns: boolean;
  /** A caller waits from now on. */
  enqueued(waiter: LeaseWaiter): void;
  /** It does not wait any more: it has the lock, or has left. */
  left(waiter: LeaseWaiter): void;
  /**
   * Resolves when the next attempt is due. With an ETag: the attempt must not succeed while the blob has it. `undefined`: the usual
   * pace. Rejects if a request fails.
   */
  untilAttempt(acquisition: Acquisition): Promise<string | undefined> | undefined;
  /** Whether a caller that does not wait may try now: false if others come first. */
  mayTry(acquisition: Acquisition): Promise<boolean>;
  /** Allocates the token of the next holder. `waiting`: how many callers of this process wait. Rejects if the lease cannot be used. */
  next(lease: HeldLease, waiter: LeaseWaiter, waiting: number, request: Omit<LeaseRequest, "abortSignal">): Promise<FencingToken>;
  /** Whether `waiter` may be the next holder without a release, after this process has held the lock for `heldForInMs`. */
  mayHandOver(waiter: LeaseWaiter, heldForInMs: number): boolean;
  /** What is being written under the lease, which must not be released before. */
  pendingWrite(): PendingWrite | undefined;
  /** The lease was released, or is lost. */
  released(lease: HeldLease): void;
  /** Another holder that a waiter of this process has read of in so many milliseconds. */
  otherHolderSeen(withinInMs: number): SeenHolder | undefined;
}

/** A holder of a named lock, as its record has it. */
export interface SeenHolder {
  readonly holder: string;
  readonly acquiredOn?: Date | undefined;
}

/** How a waiter wants the lease. */
export interface LeaseTerms {
  readonly adapter: LeaseAdapter;
  readonly settings: LeaseSettings;
  /** Of a named lock. */
  readonly rules: LockRules | undefined;
  /** Two callers with the same key can use the same lease, one after the other. */
  readonly key: string;
}

/** How much of a wait is left for another part of the call. Not 0, which would mean one attempt and more time for its response. */
export function remainingWait(waitInMs: number, elapsedInMs: number): number {
  return waitInMs === 0 ? 0 : Math.max(1, waitInMs - elapsedInMs);
}

export function leaseTerms(adapter: LeaseAdapter, settings: LeaseSettings, rules?: LockRules): LeaseTerms {
  return { adapter, settings, rules, key: JSON.stringify([settings, rules?.key]) };
}

/** How long a caller waits for the outcome of one attempt: if it does not wait at all, with a `waitInMs` of 0, or if the service responds. */
const responseTimeInMs = 5_000;
/** How much longer than its `waitInMs` any other caller waits for the first response. */
const maxOverrunInMs = 200;

/** How long a caller waits, and what its errors say. `"try"` makes one attempt and does not wait. */
export interface WaitRequest extends CallOptions {
  /** What it waits for, in metrics. Undefined: the wait is not measured. */
  readonly kind?: string | undefined;
  /** For error messages: `the lease on ...`. */
  readonly what: string;
  /** For error messages: who has it. @defaultValue another client */
  readonly taken?: (() => string) | undefined;
  /** The name of the holder, if it is known. */
  readonly holder?: (() => string | undefined) | undefined;
  readonly url: string;
  /** For error messages: what to do about a holder that does not release it. */
  readonly advice?: string | undefined;
  readonly waitInMs: number | "try";
  /** Records the attempts that are made for this request. */
  readonly trace?: Attempts | undefined;
  /** Parent of the requests that renew and release the lease later. */
  readonly holderTracing?: OperationTracingOptions | undefined;
}

/** What to acquire, and how long to wait for it. */
export interface AcquireRequest extends WaitRequest {
  readonly terms: LeaseTerms;
}

/** One caller that waits for something that others hold: settles with it, without it (undefined), or with an error. */
export class Waiter<R> extends PendingCall<R | undefined> {
  readonly holderTracing: OperationTracingOptions | undefined;
  readonly #request: WaitRequest;
  readonly #waitedInMs = startStopwatch();
  #attempted = false;
  #overdue = false;
  #undecided = false;
  #lastFailure: unknown;

  constructor(request: WaitRequest) {
    const { waitInMs, abortSignal, tracingOptions, trace } = request;
    super({ timeoutInMs: waitInMs === "try" ? responseTimeInMs : waitInMs, abortSignal, tracingOptions, trace });
    this.#request = request;
    this.holderTracing = request.holderTracing ?? tracingOptions;
    recorder?.measureWait(this.promise, request.kind, request);
  }

  /** What it waits for, in metrics. */
  get kind(): string | undefined {
    return this.#request.kind;
  }

  /** It makes one attempt, and does not wait. */
  get isTry(): boolean {
    return this.#request.waitInMs === "try";
  }

  /** How much of its wait is left; 0 or less if it is over, and extended until it is known whether another client has it. */
  get leftInMs(): number {
    return this.#request.waitInMs === "try" ? 0 : this.#request.waitInMs - this.#waitedInMs();
  }

  /** An attempt for all waiters did not acquire it: another client holds it, or the request failed. */
  attempted(failure?: unknown): void {
    this.#attempted = true;
    this.#lastFailure = failure;
    if (this.#overdue) this.#giveUp();
    else if (this.#request.waitInMs === "try") {
      if (failure !== undefined) this.reject(failure);
      else this.resolve(undefined, "taken");
    }
  }

  /** See {@link Acquisition.onUndecided}. */
  undecided(): void {
    this.#undecided = true;
  }

  /** A request without a response: callers know the error of a call only. */
  override reject(error: unknown): void {
    super.reject(error instanceof RequestTimeoutError ? toTimeoutError(error, this.#request.url) : error);
  }

  /**
   * `waitInMs` bounds the wait for a lease that another client holds. Only the first response shows whether one does, so the wait is
   * extended until that response, but not for long: on a dead network there is none, and an overloaded service makes the SDK wait for
   * many seconds before it sends again.
   */
  protected override onTimeout(): void {
    const { waitInMs } = this.#request;
    if (waitInMs === "try") {
      this.reject(this.#lastFailure ?? new RequestTimeoutError(responseTimeInMs, "the service has not responded"));
      return;
    }
    const limitInMs = waitInMs === 0 || this.#undecided ? responseTimeInMs : waitInMs + maxOverrunInMs;
    if (this.#attempted || this.#overdue || this.#waitedInMs() >= limitInMs) {
      this.#lastFailure ??= this.#attempted ? undefined : new RequestTimeoutError(limitInMs, "the service has not responded");
      this.#giveUp();
    } else {
      this.#overdue = true;
      this.extendTimeout(limitInMs - this.#waitedInMs());
    }
  }

  #giveUp(): void {
    const { what, taken, holder, url, advice } = this.#request;
    const waitInMs = Math.round(Number(this.#request.waitInMs));
    const why =
      this.#lastFailure === undefined
        ? `${taken?.() ?? `Another client still holds ${what}`} after ${waitInMs} ms (waitInMs)${advice ? `: ${advice}` : ""}`
        : `${what.replace(/^./, (first) => first.toUpperCase())} could not be acquired within ${waitInMs} ms (waitInMs): the last request failed`;
    this.reject(createError(LeaseUnavailableError, why, { url, waitedInMs: this.#waitedInMs(), holder: holder?.(), cause: this.#lastFailure }));
  }
}

/** One caller that waits for a lease. */
export class LeaseWaiter extends Waiter<LeaseGrant> {
  readonly terms: LeaseTerms;
  /** For a lock that gives each caller a place of its own. */
  readonly place: PlaceInLine = { ticket: undefined };

  constructor(request: AcquireRequest) {
    super(request);
    this.terms = request.terms;
  }
}

/** The outcome of one attempt to acquire a lease. */
export type AcquireOutcome =
  | { readonly kind: "acquired"; readonly lease: HeldLease }
  /** `resent`: the SDK gave up an earlier send, which may still arrive. `isUnknown`: its condition was not met. */
  | { readonly kind: "taken"; readonly resent: boolean; readonly isUnknown: boolean; readonly poll: PollResult }
  /** `transient`: another attempt may succeed. `uncertain`: the lease may have been acquired nevertheless. */
  | { readonly kind: "failed"; readonly error: unknown; readonly transient: boolean; readonly uncertain: boolean; readonly resent: boolean; readonly poll: PollResult };

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
  const created = await request((abortSignal) => create(withMembers(options, { abortSignal })), limits(settings, options));
  if (created.kind !== "ok" && !isAlreadyExists(created.error)) return failed(created, adapter, acquired.resent);
  const again = await sendAcquire(adapter, leaseId, settings, options);
  // The blob exists now: a send from before, which arrives late, finds it.
  const { resent } = acquired;
  if (again.kind === "acquired") {
    if (resent) again.lease.sinceUnanswered ??= startStopwatch();
    return again;
  }
  // Another client created, used and deleted it in between, for example by a purge: a later attempt creates it anew.
  const isGone = created.kind !== "ok" && again.kind === "failed" && isNotFound(again.cause);
  return { ...(isGone ? { kind: "taken", isUnknown: false, poll: again.poll } : again), resent: resent || again.resent };
}

async function sendAcquire(
  adapter: LeaseAdapter,
  leaseId: string,
  settings: LeaseSettings,
  options: LeaseRequest,
): Promise<Exclude<AcquireOutcome, { kind: "failed" }> | ReturnType<typeof failed>> {
  const duration = settings.durationInMs === Infinity ? -1 : settings.durationInMs / 1_000;
  const clock = startStopwatch();
  const sent = await request((abortSignal) => adapter.acquire(leaseId, duration, withMembers(options, { abortSignal })), limits(settings, options));
  if (sent.kind === "ok") {
    const lease = new HeldLease(adapter, leaseId, clock, settings, sent.value.etag);
    // The SDK gave up the first send, but it may still arrive.
    if (adapter.wasResent?.() ?? sent.sends > 1) lease.sinceUnanswered = startStopwatch();
    return { kind: "acquired", lease };
  }
  const resent = adapter.wasResent?.() ?? sent.sends !== 1;
  const isTaken = isLeaseTaken(sent.error);
  const isUnknown = options.ifNoneMatch !== undefined && isConditionNotMet(sent.error);
  return isTaken || isUnknown ? { kind: "taken", resent, isUnknown, poll: pollResultOf(sent) } : failed(sent, adapter, resent);
}

/** The response may take a third of the lease's duration. After that, too little of the lease would be left. */
function limits({ durationInMs }: LeaseSettings, { abortSignal }: LeaseRequest): { timeoutInMs: number; abortSignal: AbortSignal } {
  return { timeoutInMs: Math.min(durationInMs, 60_000) / 3, abortSignal };
}

function failed(sent: FailedRequest, adapter: LeaseAdapter, resent: boolean): Extract<AcquireOutcome, { kind: "failed" }> & { readonly cause: unknown } {
  const { error, kind } = sent;
  return {
    kind: "failed",
    error: toAcquireError(error, adapter),
    cause: error,
    transient: isTransient(error),
    uncertain: kind === "unknown" && !isDefinitive(error),
    resent,
    poll: pollResultOf(sent),
  };
}

type FailedRequest = Exclude<RequestOutcome<unknown>, { kind: "ok" }>;

export function pollResultOf(sent: RequestOutcome<unknown>): PollResult {
  if (sent.kind !== "ok" && sent.error instanceof RequestTimeoutError) return "timedOut";
  return sent.sends === 1 ? "ok" : "retried";
}

function toAcquireError(error: unknown, { url, kind, create }: LeaseAdapter): unknown {
  const advice = `create it${create ? ", or pass createIfNotExists" : ""}`;
  // The service reports a missing container or share as the parent of its contents. Here it is the target itself.
  if (isParentNotFound(error) && (kind === "container" || kind === "share")) {
    return createError(TargetNotFoundError, `${url} does not exist: ${advice}`, { url, cause: error });
  }
  return toNotFoundError(error, url, advice) ?? error;
}
