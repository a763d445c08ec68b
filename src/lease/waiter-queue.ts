import { CallQueues } from "../core/call-queue.js";
import { maxPollDelayInMs, pollDelay } from "../core/retry.js";
import { delay, startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { isLeaseConflict, isTransient, toNotFoundError } from "../core/storage-errors.js";
import { recorder } from "../core/measure.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { tryAcquireOnce } from "./acquire.js";
import type { AcquireOutcome, Acquisition, LeaseTerms, LeaseWaiter } from "./acquire.js";
import type { HeldLease } from "./held-lease.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import type { FencingToken } from "./lease-handle.js";
import { releaseAfterLateAcquire, releaseInBackground, tryRelease } from "./orphaned-lease.js";
import { FailureStreak, PollPacing } from "./poll-pacing.js";

/**
 * After this many turns in a row (of a lock with rules, which knows whether others wait, without limit), or this much time, the
 * lease is released to the service, for the waiters of other processes.
 */
const maxTurns = 1_000;
const maxHoldInMs = 5_000;
/** Then this process pauses for longer than other processes do between two polls, so that one of them acquires it. */
const yieldInMs = 1.2 * maxPollDelayInMs;
/** A lease that was confirmed longer ago than this is renewed before it is handed over. */
const confirmAfterInMs = 1_000;

const queues = new CallQueues<WaiterQueue>();

/** The queue of all callers in this process that want the same lease with the same credentials, whatever their options. */
export function waiterQueueFor(adapter: LeaseAdapter): WaiterQueue {
  return queues.get(adapter.owner, adapter.key, (onIdle) => new WaiterQueue(adapter.url, onIdle));
}

/** The polls of one acquisition, for callers with the same terms. */
class Polls {
  readonly terms: LeaseTerms;
  /** One id for all attempts: if a response is lost, the next attempt finds the lease to be its own. */
  readonly leaseId: string;
  readonly pacing: PollPacing;
  attempts = 0;
  /** A request without a response may have acquired the lease. */
  uncertain = false;
  /** The last attempt: for whom, and its condition. */
  last: { readonly waiter: LeaseWaiter; readonly ifNoneMatch: string | undefined } | undefined;
  /** Since the last request without a response, which may still arrive, although a later one got a response. */
  sinceUnanswered: Clock | undefined;
  /** At least so many sends got no response. */
  unanswered = 0;

  constructor(terms: LeaseTerms) {
    this.terms = terms;
    this.leaseId = terms.settings.leaseId ?? crypto.randomUUID();
    this.pacing = new PollPacing(terms.settings.durationInMs);
  }
}

/**
 * Waiters acquire in FIFO order, with one poller for all of them; and while a caller waits, the lease is handed from one to the
 * next without a request, if both want it under the same terms.
 */
export class WaiterQueue {
  readonly #url: string;
  readonly #onIdle: () => void;
  readonly #waiters = new Set<LeaseWaiter>();
  /** Polling, or held by a caller of this process. */
  #busy = false;
  /** While polling: another client had the lease, or came first, at the last poll of this process. */
  #isTaken = false;
  /** The lease that a caller of this process holds, and its terms. */
  #held: { readonly lease: HeldLease; readonly terms: LeaseTerms } | undefined;
  /** How often, and since when, this process has held the lease without giving other processes a chance. */
  #turns = 0;
  #turnsSince = startStopwatch();
  #failures: FailureStreak | undefined;
  /** Aborts the request in flight, or the wait for the next poll, when the last waiter leaves. One for all polls until then: a controller is expensive. */
  #io: AbortController | undefined;

  constructor(url: string, onIdle: () => void) {
    this.#url = url;
    this.#onIdle = onIdle;
  }

  /** Settles the waiter when it is its turn, or when waiting has become pointless. */
  enqueue(waiter: LeaseWaiter): void {
    if (!waiter.isSettled()) {
      waiter.onSettled = () => this.#leave(waiter);
      this.#waiters.add(waiter);
      waiter.terms.rules?.enqueued(waiter);
      // Until the next poll, others may come first for a minute: a caller with a short wait need not wait for it.
      if (this.#held || this.#isTaken) waiter.attempted();
    }
    if (!this.#busy) void this.#poll();
  }

  /** As {@link enqueue}, for a caller that does not wait: the next poll decides for it, too. If a caller of this process holds the lease, it is taken. */
  tryAcquire(waiter: LeaseWaiter): void {
    if (this.#held) waiter.attempted();
    else this.enqueue(waiter);
  }

  /** Polls until the lease is acquired or no caller wants it any more. Never rejects. */
  async #poll(): Promise<void> {
    this.#busy = true;
    this.#isTaken = false;
    let polls: Polls | undefined;
    for (let first = this.#first(); first; first = this.#first()) {
      if (polls && !this.#mayContinue(polls, first)) {
        await this.#endPolls(polls);
        polls = undefined;
        continue;
      }
      polls ??= new Polls(first.terms);
      const outcome = await this.#attempt(first, polls);
      if (outcome?.kind === "acquired") {
        outcome.lease.sinceUnanswered ??= polls.sinceUnanswered;
        await this.#onAcquired(outcome.lease, polls.terms);
        return;
      }
    }
    if (polls) await this.#endPolls(polls);
    this.#becomeIdle();
  }

  /**
   * Whether an attempt for `waiter` may use the id of the attempts before it. Not if the caller of the last one has left, and that attempt
   * may have acquired a named lock: it was the turn of that caller, and not of this one.
   */
  #mayContinue({ terms, uncertain, last }: Polls, waiter: LeaseWaiter): boolean {
    return terms.key === waiter.terms.key && !(terms.rules && uncertain && last?.waiter !== waiter);
  }

  /** Waits until an attempt is due, and makes it. Undefined if none was made. */
  async #attempt(first: LeaseWaiter, polls: Polls): Promise<AcquireOutcome | undefined> {
    const { terms, pacing, leaseId } = polls;
    const signal = this.#ioSignal();
    let ifNoneMatch: string | undefined;
    const acquisition: Acquisition = {
      waiter: first,
      attempts: polls.attempts,
      abortSignal: signal,
      request: requestFor(first),
      pacing,
      onTaken: () => this.#onTaken(),
      onUndecided: () => {
        for (const waiter of this.#waiters) waiter.undecided();
      },
    };
    try {
      if (polls.uncertain) {
        // The lease may be ours already: who queued up for it again would wait until it has expired, and with it all others.
        ({ ifNoneMatch } = polls.last ?? {});
        await delay(pacing.nextPollInMs(), signal);
      } else if (first.isTry && terms.rules && !(await terms.rules.mayTry(acquisition))) {
        this.#onTaken();
        return undefined;
      } else {
        const due = terms.rules?.untilAttempt(acquisition);
        if (due) ifNoneMatch = await due;
        else if (polls.attempts > 0) await delay(pacing.nextPollInMs(), signal);
      }
    } catch (error) {
      if (signal.aborted) return undefined;
      this.#pollFailed(error, isTransient(error), terms);
      if (this.#first()) await delay(pacing.nextPollInMs(), signal).catch(() => undefined);
      return undefined;
    }
    // The first caller may have left during the wait.
    const waiter = this.#first();
    if (!waiter || waiter.terms.key !== terms.key || (terms.rules && waiter !== first)) return undefined;
    waiter.trace.begin();
    polls.attempts++;
    polls.last = { waiter, ifNoneMatch };
    const outcome = await tryAcquireOnce(terms.adapter, leaseId, terms.settings, { abortSignal: signal, ifNoneMatch, ...requestFor(waiter) });
    if (outcome.kind === "acquired") return outcome;
    pacing.polled(outcome.poll);
    const unanswered = Number(outcome.resent) + Number(outcome.kind === "failed" && outcome.uncertain);
    polls.unanswered += unanswered;
    if (unanswered) polls.sinceUnanswered = startStopwatch();
    if (outcome.kind === "taken") {
      waiter.trace.end("taken");
      logger.verbose(`${this.#url} is leased by another client`);
      this.#turns = 0;
      this.#failures?.end();
      // Also if its condition was not met: it was that of every attempt since the first one without a response.
      polls.uncertain = false;
      if (!outcome.isUnknown) this.#onTaken();
    } else {
      this.#isTaken = false;
      polls.uncertain ||= outcome.uncertain;
      waiter.trace.end("failed", outcome.error);
      // Aborted because no caller waited any more: that does not concern the waiters that were enqueued since.
      if (!signal.aborted) this.#pollFailed(outcome.error, outcome.transient, terms);
    }
    return outcome;
  }

  /** The callers behind the first one have been tried for, too: one attempt counts for all. */
  #onTaken(): void {
    this.#isTaken = this.#waiters.size > 0;
    for (const waiter of [...this.#waiters]) waiter.attempted();
  }

  async #onAcquired(lease: HeldLease, terms: LeaseTerms): Promise<void> {
    if (this.#turns === 0) this.#turnsSince = startStopwatch();
    this.#isTaken = false;
    this.#held = { lease, terms };
    for (const waiter of this.#waiters) if (waiter !== this.#first()) waiter.attempted();
    // A holder that ignores the loss must not block the waiters behind it.
    lease.onLost(() => this.#onNoLongerHeld(lease));
    await this.#grant(lease, terms);
  }

  /** A request without a response may have acquired a lease that no caller wants any more: it would block other clients. */
  async #endPolls({ terms: { adapter, settings }, leaseId, uncertain, sinceUnanswered, unanswered }: Polls): Promise<void> {
    const result = uncertain ? await tryRelease(adapter, leaseId) : "none";
    const expires = settings.durationInMs !== Infinity;
    if (result === "unknown" && !expires) {
      logger.warning(`a lease on ${adapter.url} that never expires may have been acquired by an abandoned call: releasing it in the background`);
      releaseInBackground(adapter, leaseId);
      return;
    }
    // The release may have overtaken the request, or has got no response, either. If it has released something, the only request without a response had arrived. Of a
    // lease that never expires, a copy that a proxy has made could still come.
    if (!settings.isIdChosen && (result !== "released" || unanswered > 1 || !expires)) releaseAfterLateAcquire(adapter, leaseId, result === "unknown" ? startStopwatch() : sinceUnanswered);
  }

  /** Gives the lease to the first waiter. Never rejects. */
  async #grant(lease: HeldLease, terms: LeaseTerms, isHandOver = false): Promise<void> {
    let token: FencingToken | undefined;
    const { rules } = terms;
    const first = this.#first();
    try {
      if (rules && first && terms.key === first.terms.key) token = await rules.next(lease, first, this.#waiters.size, requestFor(first));
    } catch (error) {
      // If the lease was lost before its token was allocated, the waiters have lost nothing, and continue to wait.
      if (!lease.check() && !isLeaseConflict(error)) this.#pollFailed(error, isTransient(error), terms);
      await this.#release(lease).catch(() => undefined);
      return;
    }
    const waiter = this.#first();
    if (!waiter || !lease.isHeld() || terms.key !== waiter.terms.key || (rules && !token)) {
      await this.#release(lease).catch((error: unknown) =>
        logger.warning(`a lease on ${lease.url} that no caller wanted any more could not be released: ${errorLabel(error)}`),
      );
      return;
    }
    this.#turns++;
    this.#failures?.end();
    lease.tracingOptions = waiter.holderTracing;
    if (isHandOver) recorder?.countHandOver(waiter.kind);
    waiter.resolve({ lease, token, kind: waiter.kind, release: () => this.#handOverOrRelease(lease) }, "acquired");
  }

  async #handOverOrRelease(lease: HeldLease): Promise<void> {
    // The holder that releases it need not wait until the next one has its token.
    if (this.#held?.lease === lease && this.#mayHandOver(lease, this.#held.terms)) void this.#handOver(lease, this.#held.terms);
    else await this.#release(lease);
  }

  /** Confirms the lease first: no holder starts work on one that was broken long ago. That costs at most one request a second. */
  async #handOver(lease: HeldLease, terms: LeaseTerms): Promise<void> {
    // A change in flight would invalidate the id under which the token of the next holder is allocated.
    await lease.whenIdle();
    if (lease.unconfirmedForInMs > confirmAfterInMs) await lease.renew().catch(() => undefined);
    await this.#grant(lease, terms, true);
  }

  #mayHandOver(lease: HeldLease, terms: LeaseTerms): boolean {
    const next = this.#first();
    const { autoRenew, leaseId } = terms.settings;
    if (!next || terms.key !== next.terms.key || lease.check() || !lease.reusable || !autoRenew || leaseId !== undefined) return false;
    return !this.#mustYield(terms) && (terms.rules?.mayHandOver(next, this.#turnsSince()) ?? true);
  }

  #mustYield({ rules }: LeaseTerms): boolean {
    return (this.#turns >= maxTurns && !rules) || this.#turnsSince() >= maxHoldInMs;
  }

  /** Releases the lease, and polls again for the callers that still wait. */
  async #release(lease: HeldLease): Promise<void> {
    try {
      const held = this.#held;
      await lease.release(held?.lease === lease ? held.terms.rules?.pendingWrite() : undefined);
    } finally {
      this.#onNoLongerHeld(lease);
    }
  }

  /** The lease is not held any more, for whatever reason. Called by the part that detects it first; later calls do nothing. */
  #onNoLongerHeld(lease: HeldLease): void {
    if (this.#held?.lease !== lease) return;
    const { terms } = this.#held;
    terms.rules?.released(lease);
    this.#held = undefined;
    if (terms.rules?.takesTurns) {
      this.#turns = 0;
      this.#turnsSince = startStopwatch();
    }
    if (this.#first()) void this.#resumePolling(terms);
    else this.#becomeIdle();
  }

  async #resumePolling(terms: LeaseTerms): Promise<void> {
    if (this.#mustYield(terms)) {
      this.#turns = 0;
      await delay(yieldInMs, this.#ioSignal()).catch(() => undefined);
    }
    // The lease was acquired, but no token could be allocated: it is not acquired again immediately.
    const failingForInMs = this.#failures?.lastsForInMs;
    if (failingForInMs !== undefined) {
      await delay(pollDelay(failingForInMs), this.#ioSignal()).catch(() => undefined);
    }
    await this.#poll();
  }

  #becomeIdle(): void {
    this.#busy = false;
    // A waiter may have been enqueued while the last request was in flight.
    if (this.#first()) void this.#poll();
    else this.#onIdle();
  }

  #first(): LeaseWaiter | undefined {
    return this.#waiters.values().next().value;
  }

  #pollFailed(failure: unknown, transient: boolean, terms: LeaseTerms): void {
    // Not only the request for the lease finds out that the container is missing: a fair lock draws a ticket, and looks, before it.
    const error = toNotFoundError(failure, this.#url, undefined) ?? failure;
    this.#failures ??= new FailureStreak();
    const pointless = !transient || this.#failures.add();
    if (!transient) this.#failures.end();
    for (const waiter of this.#waiters) {
      if (!pointless) waiter.attempted(error);
      else if (terms.key === waiter.terms.key) waiter.reject(error);
    }
  }

  #leave(waiter: LeaseWaiter): void {
    this.#waiters.delete(waiter);
    waiter.terms.rules?.left(waiter);
    // While the lease is held, no request is in flight that could be aborted, and an abort is expensive.
    if (this.#waiters.size === 0 && !this.#held) this.#io?.abort();
  }

  #ioSignal(): AbortSignal {
    if (!this.#io || this.#io.signal.aborted) this.#io = new AbortController();
    return this.#io.signal;
  }
}

function requestFor({ trace }: LeaseWaiter): Omit<LeaseRequest, "abortSignal"> {
  return { tracingOptions: trace.tracingOptions, onRequest: () => trace.countRequest() };
}
