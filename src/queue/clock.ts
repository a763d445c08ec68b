/** Milliseconds since the clock was started. */
export type Clock = () => number;

/**
 * Starts a clock: to be called before the request is sent whose time it measures, since the service's own clock for
 * it cannot start any earlier. It tells the larger of monotonic and wall time passed: the first stands still on some
 * systems while the machine sleeps, the second may be set back.
 */
export function startClock(): Clock {
  const monotonic = performance.now();
  const wall = Date.now();
  return () => Math.max(performance.now() - monotonic, Date.now() - wall);
}
