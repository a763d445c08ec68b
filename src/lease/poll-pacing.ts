import { pollDelay } from "../core/retry.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";

/** A waiter must not sleep through the end of a lease that another client holds: this share of a duration at most. */
const maxDelayShare = 0.5;
/** However many waiters there are, none waits more than twice as long as it would have had to. */
const maxShareLost = 1;

/** How a poll ended: after one send, after more than one, or without a response before the timeout. */
export type PollResult = "ok" | "retried" | "timedOut";

/** Slows down at once, and recovers within a few good polls: one disturbance must not delay a waiter for minutes. */
const factors: Record<PollResult, number> = { ok: 0.5, retried: 2, timedOut: 4 };
/** Of the usual delay, which is at most a second. */
const maxSlowdown = 64;

/**
 * How often a waiter polls for a lease. A blob serves 500 requests a second, including those of the holder: if more processes
 * wait than that allows, their polls would keep the holder from renewing and from releasing. The processes cannot see each
 * other, but they see that the SDK had to resend a request, and treat that as a sign of contention.
 */
export class PollPacing {
  readonly #waitedInMs = startStopwatch();
  readonly #maxDelayInMs: number;
  #slowdown = 1;

  /** @param durationInMs - How long the holder has the lease if it dies. */
  constructor(durationInMs: number) {
    this.#maxDelayInMs = maxDelayShare * Math.min(durationInMs, 60_000);
  }

  polled(result: PollResult): void {
    this.#slowdown = Math.min(maxSlowdown, Math.max(1, this.#slowdown * factors[result]));
  }

  /** @param waitedInMs - How long the current holder has been waited for, as far as this process knows. */
  nextPollInMs(waitedInMs: number = this.#waitedInMs()): number {
    return this.slowed(pollDelay(waitedInMs));
  }

  /** A delay, longer if the service is overloaded. */
  slowed(usualInMs: number): number {
    return Math.min(usualInMs * this.#slowdown, Math.max(usualInMs, Math.min(this.#maxDelayInMs, this.#waitedInMs() * maxShareLost)));
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
