/** Measures how long the event loop stands still: how much later a timer runs than it should. */
export function startBlockMeter(): { stop(): number } {
  const everyInMs = 5;
  let longest = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last - everyInMs);
    last = now;
  }, everyInMs);
  return {
    stop() {
      clearInterval(timer);
      return longest;
    },
  };
}
