/** What a scenario gave for one number of processes. */
export interface Measurement {
  readonly scenario: string;
  readonly variant: string;
  readonly processes: number;
  /** How much time passed on the virtual clock. */
  readonly seconds: number;
  /** Of what the scenario is about: locks had, updates made, messages done. */
  readonly perSecond: number;
  readonly requestsPerSecond: number;
  /** Of all requests that arrived, how many were refused with 503. */
  readonly throttledShare: number;
  /** Milliseconds from the wish to its fulfilment; undefined: nothing was fulfilled. */
  readonly medianInMs: number | undefined;
  readonly p99InMs: number | undefined;
  /** Processes that got something in that time. */
  readonly servedShare: number;
  /** What the process with the least got, of its fair share. */
  readonly smallestShare: number;
  /** What the process with the most got, beside that with the least; undefined: one got nothing. */
  readonly largestBySmallest: number | undefined;
  /** Calls that ended with an error: gave up, or lost what they had. */
  readonly failuresPerSecond: number;
}

/** Counts while a scenario runs. */
export class Tally {
  #waits: number[] = [];
  #served = new Map<number, number>();
  failures = 0;

  reset(): void {
    this.#waits = [];
    this.#served = new Map();
    this.failures = 0;
  }

  done(process: number, waitedInMs: number): void {
    this.#waits.push(waitedInMs);
    this.#served.set(process, (this.#served.get(process) ?? 0) + 1);
  }

  result(processes: number, seconds: number, counts: { requests: number; throttled: number }): Omit<Measurement, "scenario" | "variant"> {
    const waits = this.#waits.sort((a, b) => a - b);
    const smallest = this.#served.size < processes ? 0 : Math.min(...this.#served.values());
    return {
      processes,
      seconds,
      perSecond: rounded(waits.length / seconds),
      requestsPerSecond: rounded(counts.requests / seconds),
      throttledShare: rounded(counts.requests === 0 ? 0 : counts.throttled / counts.requests),
      medianInMs: quantile(waits, 0.5),
      p99InMs: quantile(waits, 0.99),
      servedShare: rounded(this.#served.size / processes),
      smallestShare: rounded(waits.length === 0 ? 0 : (smallest * processes) / waits.length),
      largestBySmallest: smallest === 0 ? undefined : rounded(Math.max(...this.#served.values()) / smallest),
      failuresPerSecond: rounded(this.failures / seconds),
    };
  }
}

function quantile(sorted: readonly number[], share: number): number | undefined {
  const found = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return found === undefined ? undefined : Math.round(found);
}

/** Three digits say all that a simulation knows. */
function rounded(value: number): number {
  return Number(value.toPrecision(3));
}
