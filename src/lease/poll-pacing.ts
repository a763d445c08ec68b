import { pollDelay } from "../core/retry.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";

/** With the usual delay of two thirds of a second: about 40 s between two polls, so 20,000 processes stay below 500 a second. */
const maxSlowdown = 64;
/** However many waiters there are, none waits more than twice as long as it would have had to. */
const maxShareLost = 1;

/** How a poll ended: after one send, after more than one, or without a response before the timeout. */
export type PollResult = "ok" | "retried" | "timedOut";

/** Slows down at once, speeds up step by step: processes that wait together settle where about 1 poll in 35 is retried. */
const factors: Record<PollResult, number> = { ok: 0.98, retried: 2, timedOut: 4 };

/**
 * How often a waiter polls for a lease. A blob serves 500 requests a second, including those of the holder: if more processes
 * wait than that allows, their polls would keep the holder from renewing and from releasing. The processes cannot see each
 * other, but they see that the SDK had to resend a request, and treat that as a sign of contention.
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
