import { startStopwatch } from "../internal/stopwatch.js";
import type { Stopwatch } from "../internal/stopwatch.js";

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
