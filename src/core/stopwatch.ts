/** Milliseconds since the clock was started. */
export type Clock = () => number;

/**
 * Starts a clock that returns the larger of monotonic and wall-clock time: the monotonic clock may stop while the machine is
 * suspended, and the wall clock may be set back. A holder must never overestimate its remaining time, so too much elapsed
 * time is safe and too little is not.
 *
 * Start it before sending the request whose time it measures: the service cannot have started counting any earlier.
 */
export function startStopwatch(): Clock {
  const monotonic = performance.now();
  const wall = Date.now();
  return () => Math.max(performance.now() - monotonic, Date.now() - wall);
}
