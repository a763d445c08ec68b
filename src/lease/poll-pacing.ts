import { pollDelay } from "../core/retry.js";
import { startStopwatch } from "../core/stopwatch.js";
import type { Clock } from "../core/stopwatch.js";

/** With a usual pace of two thirds of a second: about 40 s between two polls, at which 20,000 processes stay below 500 a second. */
const maxSlowdown = 64;
/** A waiter waits for at most twice as long as it would have had to, however many others there are. */
const maxShareLost = 1;

/** How a poll ended: with one send, with more than one, or without a response in the time that it may take. */
export type PollResult = "ok" | "retried" | "timedOut";

/** Slower at once, faster step by step: processes that wait together settle where about 1 poll in 35 is retried. */
const factors: Record<PollResult, number> = { ok: 0.98, retried: 2, timedOut: 4 };

/**
 * How often a waiter polls for a lease. A blob takes 500 requests a second, those of the holder among them: where more
 * processes wait than that allows for, their polls would keep the holder from renewing and from releasing. They cannot see
 * each other, but they see that the SDK had to send a request again, and treat that as a sign of contention.
 */
export class PollPacing {
  readonly #waitedInMs = startStopwatch();
  #slowdown = 1;

  polled(result: PollResult): void {
    this.#slowdown = Math.min(maxSlowdown, Math.max(1, this.#slowdown * factors[result]));
  }

  nextPollInMs(): number {
    const waitedInMs = this.#waitedInMs();
    const usual = pollDelay(waitedInMs);
    return Math.min(usual * this.#slowdown, Math.max(usual, waitedInMs * maxShareLost));
  }
}

/** This many transient failures in a row, over this much time, count as permanent. */
const maxFailures = 5;
/** Failures may be quick: while a gateway restarts, it refuses five connections in a second. */
const minTimeInMs = 10_000;

/** Decides when another attempt has become pointless. */
export class FailureStreak {
  #failures = 0;
  #since: Clock | undefined;

  /** How long it has lasted; undefined if the last poll got a response. */
  get lastsForInMs(): number | undefined {
    return this.#since?.();
  }

  /** Counts a transient failure. Returns whether it is time to give up; if so, the next failure is the first again. */
  add(): boolean {
    this.#since ??= startStopwatch();
    if (++this.#failures < maxFailures || this.#since() < minTimeInMs) return false;
    this.end();
    return true;
  }

  /** There was a response. */
  end(): void {
    this.#failures = 0;
    this.#since = undefined;
  }
}
