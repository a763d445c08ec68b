import { logger } from "../internal/log.js";
import { delay, waitBeforeLook } from "../internal/delay.js";
import { startStopwatch } from "../internal/stopwatch.js";
import { isLeaseConflict } from "../internal/storage-errors.js";
import { acquireOnce, releaseUncertain } from "./acquire-once.js";
import type { LeaseAdapter } from "./lease-adapter.js";
import type { LeaseKeeper } from "./lease-keeper.js";
import type { LeaseSettings } from "./lease-options.js";
import type { LeaseWaiter } from "./lease-waiter.js";

/** What a named lock does with a fresh lease before anybody gets it, and at each hand-over: it takes its number. */
export interface LeaseTicketing {
  /** `waiting`: how many wait for it in this process. Rejects if the lease cannot be used. */
  take(keeper: LeaseKeeper, waiting: number): Promise<number>;
}

/** A lease that somebody has been given: what keeps it, its number, and what gives it back. */
export interface LeaseGrant {
  readonly keeper: LeaseKeeper;
  readonly ticket: number;
  readonly giveBack: () => Promise<void>;
}

/** After so many hand-overs, or so much time, the lease is really released: other processes want it too. */
const maxHandOvers = 1_000;
const maxHoldInMs = 5_000;
/** Then this process stays away for about as long as others that wait take between two looks. */
const stayAwayInMs = 1_000;
/** So many failures in a row, each after the SDK's own retries, are not passing. */
const maxFailures = 5;

const queues = new WeakMap<object, Map<string, LeaseQueue>>();

/** The queue of all in this process who want the same lease with the same rights on the same terms. */
export function leaseQueueFor(adapter: LeaseAdapter, settings: LeaseSettings, ticketing: LeaseTicketing | undefined): LeaseQueue {
  let ofOwner = queues.get(adapter.owner);
  if (!ofOwner) queues.set(adapter.owner, (ofOwner = new Map<string, LeaseQueue>()));
  const key = JSON.stringify([adapter.key, settings, ticketing !== undefined]);
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
  #waiters: LeaseWaiter[] = [];
  /** Polling, or held by somebody of this process. */
  #busy = false;
  #handOvers = 0;
  #held = startStopwatch();
  /** Ends the wait for the next look when the last waiter goes. */
  #io = new AbortController();

  constructor(adapter: LeaseAdapter, settings: LeaseSettings, ticketing: LeaseTicketing | undefined, onIdle: () => void) {
    this.#adapter = adapter;
    this.#settings = settings;
    this.#ticketing = ticketing;
    this.#onIdle = onIdle;
  }

  /** Settles the waiter when it is its turn, or when there is no hope. */
  enter(waiter: LeaseWaiter): void {
    waiter.onSettled = () => this.#stopIfAbandoned();
    this.#waiters.push(waiter);
    if (!this.#busy) void this.#poll();
  }

  /** One look. Undefined if it is taken: by somebody of this process, or by another. */
  async tryOnce(waiter: LeaseWaiter): Promise<void> {
    if (this.#busy) {
      waiter.giveUp();
      return;
    }
    waiter.onSettled = () => this.#stopIfAbandoned();
    this.#waiters.push(waiter);
    await this.#poll(true);
  }

  /** Looks until the lease is ours or nobody wants it any more. Never rejects. */
  async #poll(once = false): Promise<void> {
    this.#busy = true;
    const waited = startStopwatch();
    // One id for all tries of one acquisition: if an answer is lost, the next try finds the lease to be ours.
    const leaseId = this.#settings.leaseId ?? crypto.randomUUID();
    let uncertain = false;
    let failures = 0;
    while (this.#next()) {
      this.#io = new AbortController();
      const outcome = await acquireOnce(this.#adapter, leaseId, this.#settings, this.#io.signal);
      if (outcome.kind === "acquired") {
        this.#handOvers = 0;
        this.#held = startStopwatch();
        await this.#grant(outcome.keeper);
        return;
      }
      if (outcome.kind === "taken") {
        uncertain = false;
        failures = 0;
        if (once) for (const waiter of this.#waiters.splice(0, 1)) waiter.giveUp();
      } else {
        uncertain ||= outcome.uncertain;
        if (once || !outcome.passing || ++failures >= maxFailures) this.#rejectAll(outcome.error);
      }
      if (this.#next()) await delay(waitBeforeLook(waited.elapsedInMs()), this.#io.signal).catch(() => undefined);
    }
    if (uncertain) await releaseUncertain(this.#adapter, leaseId);
    this.#rest();
  }

  /** Gives the lease to whoever is first in line. Never rejects. */
  async #grant(keeper: LeaseKeeper): Promise<void> {
    let ticket = 0;
    try {
      if (this.#ticketing) ticket = await this.#ticketing.take(keeper, this.#waiters.length);
    } catch (error) {
      // The lease was lost before it could be numbered: whoever waits has lost nothing, and goes on waiting.
      if (!keeper.check() && !isLeaseConflict(error)) this.#waiters.shift()?.reject(error);
      await this.#letGo(keeper).catch(() => undefined);
      return;
    }
    const waiter = this.#next();
    if (!waiter) {
      await this.#letGo(keeper).catch((error: unknown) => logger.warning(`a lease on ${keeper.url} that nobody wanted any more could not be released: ${String(error)}`));
      return;
    }
    this.#waiters.shift();
    waiter.resolve({ keeper, ticket, giveBack: () => this.#giveBack(keeper) });
  }

  async #giveBack(keeper: LeaseKeeper): Promise<void> {
    if (this.#mayHandOver(keeper)) {
      this.#handOvers++;
      await this.#grant(keeper);
      return;
    }
    await this.#letGo(keeper);
  }

  #mayHandOver(keeper: LeaseKeeper): boolean {
    const { autoRenew, leaseId } = this.#settings;
    if (!this.#next() || keeper.check() || !autoRenew || leaseId !== undefined) return false;
    return this.#handOvers < maxHandOvers && this.#held.elapsedInMs() < maxHoldInMs;
  }

  /** Releases, and goes on for those who still wait. */
  async #letGo(keeper: LeaseKeeper): Promise<void> {
    try {
      await keeper.release();
    } finally {
      if (this.#next()) void this.#comeBack();
      else this.#rest();
    }
  }

  async #comeBack(): Promise<void> {
    this.#io = new AbortController();
    const others = this.#handOvers > 0 ? stayAwayInMs * (0.5 + Math.random() / 2) : 0;
    await delay(others, this.#io.signal).catch(() => undefined);
    await this.#poll();
  }

  #rest(): void {
    this.#busy = false;
    // Somebody may have come while the last request was under way.
    if (this.#next()) void this.#poll();
    else this.#onIdle();
  }

  #next(): LeaseWaiter | undefined {
    this.#waiters = this.#waiters.filter((waiter) => !waiter.settled);
    return this.#waiters[0];
  }

  #rejectAll(error: unknown): void {
    for (const waiter of this.#waiters) waiter.reject(error);
  }

  #stopIfAbandoned(): void {
    if (!this.#next()) this.#io.abort();
  }
}
