import { startStopwatch } from "../core/stopwatch.js";

/** Milliseconds since the clock was started. */
export type Clock = () => number;

/**
 * Starts a clock: to be called before the request is sent whose time it measures, since the service's own clock for
 * it cannot start any earlier.
 */
export function startClock(): Clock {
  return startStopwatch().elapsedInMs;
}
