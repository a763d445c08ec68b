import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { jitter } from "../core/retry.js";

/** The process whose turn is next sends a request this often at first, or as soon as the one before has its response. */
const minTryIntervalInMs = 15;
const maxTryIntervalInMs = 667;
const minLookDelayInMs = 10;
const maxLookDelayInMs = 60_000;
/** A waiter looks again after this share of the time until it is next but one. One that looks too late delays all others; near its turn, little can go wrong. */
const lookShare = 0.7;
const farLookShare = 0.55;
const farDistance = 30;
/** How fast the estimate of a turn follows what is seen. */
const maxIncrease = 0.1;
const maxDecrease = 0.3;
/** An estimate counts as much as so many turns. */
const estimateWeight = 16;
const maxTurnInMs = 5_000;

/** How fast the turns at a lock pass, as seen by one process that waits: when it looks, and when it tries. */
export class TurnPace {
  #turnInMs = 100;
  #last: { readonly served: number; readonly etag: string | undefined; readonly clock: Clock } | undefined;
  #lastTry: Clock | undefined;

  /** For how long this process has seen the same record. */
  get unchangedForInMs(): number {
    return this.#last?.clock() ?? 0;
  }

  /**
   * The record as it was just seen. Returns how many turns have passed since the record that was seen before: less than 0 if
   * counting has begun anew; undefined if it is the same record, or the first one.
   */
  observe(served: number, etag: string | undefined): number | undefined {
    const last = this.#last;
    if (last && last.etag === etag) return undefined;
    this.#last = { served, etag, clock: startStopwatch() };
    if (!last) return undefined;
    const turns = served - last.served;
    if (turns > 0) this.#learn(last.clock() / turns, turns);
    return turns;
  }

  /** What was seen so far says nothing about the turns from now on. */
  forget(): void {
    this.#last = undefined;
  }

  /**
   * In small steps, smaller ones upwards: the turns seem long while waiters that were not there are passed over. If the others took that
   * for the length of a turn, they would look too late themselves and be passed over, and so on.
   */
  #learn(seenInMs: number, turns: number): void {
    const turnInMs = this.#turnInMs;
    const step = ((Math.min(maxTurnInMs, Math.max(10, seenInMs)) - turnInMs) * turns) / (turns + estimateWeight);
    this.#turnInMs += Math.min(maxIncrease * turnInMs, Math.max(-maxDecrease * turnInMs, step));
  }

  /** How long the next in line waits before its next request. */
  untilTry(): number {
    const interval = Math.min(maxTryIntervalInMs, Math.max(minTryIntervalInMs, this.unchangedForInMs / 10));
    return Math.max(0, jitter(interval, 0.5) - (this.#lastTry?.() ?? Infinity));
  }

  /** It sends one now. */
  tried(): void {
    this.#lastTry = startStopwatch();
  }

  /** How long a waiter waits before it looks again, if its turn is the one with this number from now. */
  untilLook(distance: number): number {
    const share = distance > farDistance ? farLookShare : lookShare;
    const usual = Math.max(minLookDelayInMs, (distance - 1.8) * this.#turnInMs * share, Math.min(maxTryIntervalInMs, this.unchangedForInMs / 10));
    return jitter(Math.min(maxLookDelayInMs, usual), 0.2);
  }
}
