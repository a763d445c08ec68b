import { waitBeforeLook } from "../core/delay.js";
import { startStopwatch } from "../core/stopwatch.js";
import type { Stopwatch } from "../core/stopwatch.js";

/** With a usual pace of two thirds of a second: about 40 s between two looks, at which 20,000 processes stay below 500 a second. */
const maxSlowdown = 64;
/** No answer at all within the time that a look may take. */
const afterSilence = 4;
/** An answer, but not to the first send. */
const afterStrain = 2;
/** Slower at once, faster step by step: those who wait together settle where about 1 look in 35 is strained. */
const afterEase = 0.98;
/** Nobody waits for more than twice as long as it would have had to, however many others there are. */
const maxShareLost = 1;

/** How a look went: over with one send, with more than one, or without an end in the time that it may take. */
export type Look = "easy" | "strained" | "silent";

const factors: Record<Look, number> = { easy: afterEase, strained: afterStrain, silent: afterSilence };

/**
 * How often somebody looks who waits for a lease. A blob takes 500 requests a second, those of the holder among them:
 * where more processes wait than that allows for, their looks would keep the holder from renewing and from releasing. They
 * cannot see each other, but they see that the SDK had to send a request again, and take that for a crowd.
 */
export class LookPace {
  readonly #waited = startStopwatch();
  #slowdown = 1;

  looked(look: Look): void {
    this.#slowdown = Math.min(maxSlowdown, Math.max(1, this.#slowdown * factors[look]));
  }

  nextLookInMs(): number {
    const waitedInMs = this.#waited.elapsedInMs();
    const usual = waitBeforeLook(waitedInMs);
    return Math.min(usual * this.#slowdown, Math.max(usual, waitedInMs * maxShareLost));
  }
}

/** So many failures in a row that may pass, over so much time, are taken for lasting. */
const maxFailures = 5;
/** Failures may be quick: a restart of what stands in front of the service refuses five connections in a second. */
const minTimeInMs = 10_000;

/** Decides when trying again has become hopeless. */
export class FailureStreak {
  #failures = 0;
  #since: Stopwatch | undefined;

  /** How long it has lasted; undefined if the last thing heard was an answer. */
  get lastsForInMs(): number | undefined {
    return this.#since?.elapsedInMs();
  }

  /** Another failure that may pass. Whether it is time to give up; if so, the next one is the first again. */
  add(): boolean {
    this.#since ??= startStopwatch();
    if (++this.#failures < maxFailures || this.#since.elapsedInMs() < minTimeInMs) return false;
    this.end();
    return true;
  }

  /** There was an answer. */
  end(): void {
    this.#failures = 0;
    this.#since = undefined;
  }
}
