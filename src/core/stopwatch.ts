/** Time since it was started. */
export interface Stopwatch {
  readonly elapsedInMs: () => number;
}

/**
 * The larger of monotonic and wall time passed: the monotonic clock may stand still while a machine is suspended, the
 * wall clock may be set back. For whoever must not believe a time limit to be further away than it is, too much is
 * safe and too little is not.
 */
export function startStopwatch(): Stopwatch {
  const monotonic = performance.now();
  const wall = Date.now();
  return { elapsedInMs: () => Math.max(performance.now() - monotonic, Date.now() - wall) };
}
