const tickInMs = 10;

/**
 * Calls a function when the event loop has had this much time to run: a pause of the whole process, on a machine that is busy, counts as two
 * ticks at most. So what is measured is how long the code waits, and not how long it waits for a processor. Returns a function that stops it.
 */
export function startLoopTimer(ms: number, onTime: () => void): () => void {
  let left = ms;
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    left -= Math.min(now - last, 2 * tickInMs);
    last = now;
    if (left > 0) return;
    clearInterval(timer);
    onTime();
  }, tickInMs);
  return () => clearInterval(timer);
}
