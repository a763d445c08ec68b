import { delay, maxWaitBeforeLookInMs, waitBeforeLook } from "../core/delay.js";
import { startStopwatch } from "../core/stopwatch.js";
import { isLeaseConflict } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { acquireOnce, isPassing } from "./acquire-attempt.js";
import type { LeaseKeeper } from "./held-lease.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import type { LeaseSettings } from "./lease-options.js";
import type { LeaseWaiter } from "./lease-waiter.js";
import { releaseIfLate, releaseIfLeft, releaseLater } from "./orphaned-lease.js";
import { FailureStreak, LookPace } from "./poll-pacing.js";

/** The number of one holder. */
export interface LeaseTicket {
  readonly epoch: number;
  /** The smallest number that the holder before may have had: not all that were reserved were used. */
  readonly previousEpoch: number;
}

/** What a named lock does with a fresh lease before anybody gets it, and at each hand-over: it takes its number. */
export interface LeaseTicketing {
  /** Those who take numbers in the same way can hand the lease on to each other. */
  readonly key: string;
  /** `waiting`: how many wait for it in this process. Rejects if the lease cannot be used. */
  take(keeper: LeaseKeeper, waiting: number, request: Omit<LeaseRequest, "abortSignal">): Promise<LeaseTicket>;
}

/** A lease that somebody has been given: what keeps it, its number if there are any, and what gives it back. */
export interface LeaseGrant {
  readonly keeper: LeaseKeeper;
  readonly ticket: LeaseTicket | undefined;
  readonly giveBack: () => Promise<void>;
}

/** After so many turns in a row, or so much time, the lease is really released: other processes want it too. */
const maxTurns = 1_000;
const maxHoldInMs = 5_000;
/** Then this process stays away for longer than others that wait take between two looks: one of them gets it for sure. */
const stayAwayInMs = 1.2 * maxWaitBeforeLookInMs;
/** A lease that was confirmed longer ago is renewed before it is handed on. */
const confirmAfterInMs = 1_000;

const queues = new WeakMap<object, Map<string, LeaseQueue>>();

/** The queue of all in this process who want the same lease with the same rights on the same terms. */
export function leaseQueueFor(adapter: LeaseAdapter, settings: LeaseSettings, ticketing: LeaseTicketing | undefined): LeaseQueue {
  let ofOwner = queues.get(adapter.owner);
  if (!ofOwner) queues.set(adapter.owner, (ofOwner = new Map<string, LeaseQueue>()));
  const key = JSON.stringify([adapter.key, settings, ticketing?.key]);
  let queue = ofOwner.get(key);
  if (!queue) {
    const own = ofOwner;
    ofOwner.set(key, (queue = new LeaseQueue(adapter, settings, ticketing, () => own.delete(key))));
  }
  return queue;
}

/**
 * First come, first served, with one poller for all; and while somebody waits, the lease is handed from one to the
 * next without a request.
 */
export class LeaseQueue {
  readonly #adapter: LeaseAdapter;
  readonly #settings: LeaseSettings;
  readonly #ticketing: LeaseTicketing | undefined;
  readonly #onIdle: () => void;
  readonly #waiters = new Set<LeaseWaiter>();
  /** Polling, or held by somebody of this process. */
  #busy = false;
  /** What somebody of this process holds. */
  #keeper: LeaseKeeper | undefined;
  /** How often, and since when, this process had it without others having had a chance. */
  #turns = 0;
  #turnsSince = startStopwatch();
  readonly #failures = new FailureStreak();
  /** Ends a request, or the wait for the next look, when the last waiter goes. */
  #io = new AbortController();

  constructor(adapter: LeaseAdapter, settings: LeaseSettings, ticketing: LeaseTicketing | undefined, onIdle: () => void) {
    this.#adapter = adapter;
    this.#settings = settings;
    this.#ticketing = ticketing;
    this.#onIdle = onIdle;
  }

  /** Settles the waiter when it is its turn, or when there is no hope. */
  enter(waiter: LeaseWaiter): void {
    if (!waiter.settled) {
      waiter.onSettled = () => this.#leave(waiter);
      this.#waiters.add(waiter);
      if (this.#keeper) waiter.looked();
    }
    if (!this.#busy) void this.#poll();
  }

  /** As {@link enter}, for one who does not want to stand in line: if there is one, the answer is no. */
  tryOnce(waiter: LeaseWaiter): void {
    if (this.#busy) waiter.looked();
    else this.enter(waiter);
  }

  /** Looks until the lease is ours or nobody wants it any more. Never rejects. */
  async #poll(): Promise<void> {
    this.#busy = true;
    const pace = new LookPace();
    // One id for all tries of one acquisition: if an answer is lost, the next try finds the lease to be ours.
    const leaseId = this.#settings.leaseId ?? crypto.randomUUID();
    let uncertain = false;
    for (let first = this.#first(); first; first = this.#first()) {
      this.#io = new AbortController();
      first.trace.begin();
      const request = { abortSignal: this.#io.signal, ...requestFor(first) };
      const outcome = await acquireOnce(this.#adapter, leaseId, this.#settings, request);
      if (outcome.kind === "acquired") {
        const { keeper } = outcome;
        if (this.#turns === 0) this.#turnsSince = startStopwatch();
        this.#keeper = keeper;
        for (const waiter of this.#waiters) if (waiter !== this.#first()) waiter.looked();
        // A holder that takes no notice of its loss must not keep those behind it from going on.
        keeper.onLost(() => this.#goOn(keeper));
        await this.#grant(keeper);
        return;
      }
      pace.looked(outcome.look);
      if (outcome.kind === "taken") {
        first.trace.end("taken");
        logger.verbose(`${this.#adapter.url} is leased by somebody else`);
        uncertain = false;
        this.#turns = 0;
        this.#failures.end();
        for (const waiter of this.#waiters) waiter.looked();
      } else {
        uncertain ||= outcome.uncertain;
        first.trace.end("failed", outcome.error);
        // Cut off because nobody waited any more: no news for those who came since.
        if (!this.#io.signal.aborted) this.#lookFailed(outcome.error, outcome.passing);
      }
      if (this.#first()) await delay(pace.nextLookInMs(), this.#io.signal).catch(() => undefined);
    }
    if (uncertain) await this.#releaseUncertain(leaseId);
    this.#rest();
  }

  /** Nobody wants a lease any more that a request without an answer may have acquired: it would block others. */
  async #releaseUncertain(leaseId: string): Promise<void> {
    const gone = await releaseIfLeft(this.#adapter, leaseId);
    if (this.#settings.durationInMs !== Infinity) return;
    if (gone) {
      releaseIfLate(this.#adapter, leaseId);
      return;
    }
    logger.warning(`a lease on ${this.#adapter.url} that never expires may have been acquired by a call that was given up: releasing it in the background`);
    releaseLater(this.#adapter, leaseId);
  }

  /** Gives the lease to whoever is first in line. Never rejects. */
  async #grant(keeper: LeaseKeeper): Promise<void> {
    let ticket: LeaseTicket | undefined;
    try {
      const first = this.#first();
      if (this.#ticketing && first) ticket = await this.#ticketing.take(keeper, this.#waiters.size, requestFor(first));
    } catch (error) {
      // If the lease was lost before it could be numbered, whoever waits has lost nothing, and goes on waiting.
      if (!keeper.check() && !isLeaseConflict(error)) this.#lookFailed(error, isPassing(error));
      await this.#letGo(keeper).catch(() => undefined);
      return;
    }
    const waiter = this.#first();
    if (!waiter || keeper.check()) {
      await this.#letGo(keeper).catch((error: unknown) => logger.warning(`a lease on ${keeper.url} that nobody wanted any more could not be released: ${errorLabel(error)}`));
      return;
    }
    this.#turns++;
    this.#failures.end();
    keeper.tracingOptions = waiter.holderTracing;
    waiter.resolve({ keeper, ticket, giveBack: () => this.#giveBack(keeper) });
  }

  async #giveBack(keeper: LeaseKeeper): Promise<void> {
    // Whoever gives it back need not wait until the next one has its number.
    if (this.#keeper === keeper && this.#mayHandOver(keeper)) void this.#handOver(keeper);
    else await this.#letGo(keeper);
  }

  /** Nobody starts work on a lease that may have been broken long ago: that costs a request a second at most. */
  async #handOver(keeper: LeaseKeeper): Promise<void> {
    // A change of the id that is under way would pull the rug from under the one who takes its number now.
    await keeper.whenIdle();
    if (keeper.unconfirmedForInMs > confirmAfterInMs) await keeper.renew().catch(() => undefined);
    await this.#grant(keeper);
  }

  #mayHandOver(keeper: LeaseKeeper): boolean {
    const { autoRenew, leaseId } = this.#settings;
    return this.#first() !== undefined && !keeper.check() && !keeper.retired && autoRenew && leaseId === undefined && !this.#hadItsShare();
  }

  #hadItsShare(): boolean {
    return this.#turns >= maxTurns || this.#turnsSince.elapsedInMs() >= maxHoldInMs;
  }

  /** Releases, and goes on for those who still wait. */
  async #letGo(keeper: LeaseKeeper): Promise<void> {
    try {
      await keeper.release();
    } finally {
      this.#goOn(keeper);
    }
  }

  /** The lease is not held any more, for whatever reason; the first one to notice gets here first. */
  #goOn(keeper: LeaseKeeper): void {
    if (this.#keeper !== keeper) return;
    this.#keeper = undefined;
    if (this.#first()) void this.#comeBack();
    else this.#rest();
  }

  async #comeBack(): Promise<void> {
    if (this.#hadItsShare()) {
      this.#turns = 0;
      this.#io = new AbortController();
      await delay(stayAwayInMs, this.#io.signal).catch(() => undefined);
    }
    // The lease was had, but could not be numbered: not again in the same instant.
    const failing = this.#failures.lastsForInMs;
    if (failing !== undefined) {
      this.#io = new AbortController();
      await delay(waitBeforeLook(failing), this.#io.signal).catch(() => undefined);
    }
    await this.#poll();
  }

  #rest(): void {
    this.#busy = false;
    // Somebody may have come while the last request was under way.
    if (this.#first()) void this.#poll();
    else this.#onIdle();
  }

  #first(): LeaseWaiter | undefined {
    return this.#waiters.values().next().value;
  }

  #lookFailed(error: unknown, passing: boolean): void {
    const hopeless = !passing || this.#failures.add();
    if (!passing) this.#failures.end();
    for (const waiter of this.#waiters) {
      if (hopeless) waiter.reject(error);
      else waiter.looked(error);
    }
  }

  #leave(waiter: LeaseWaiter): void {
    this.#waiters.delete(waiter);
    // While it is held nothing is under way that could be ended, and an abort is not for free.
    if (this.#waiters.size === 0 && !this.#keeper) this.#io.abort();
  }
}

function requestFor({ trace }: LeaseWaiter): Omit<LeaseRequest, "abortSignal"> {
  return { tracingOptions: trace.tracingOptions, onRequest: () => trace.countRequest() };
}
