/** Whether this is a run for everyday use, `--quick`: fewer turns and shorter measurements. By the environment, so that workers know it as well. */
export function isQuick(): boolean {
  return process.env["BENCH_QUICK"] === "1";
}

/** A number of turns, or a time to measure: a quarter of it in a quick run. */
export function paced(amount: number): number {
  return isQuick() ? Math.ceil(amount / 4) : amount;
}
