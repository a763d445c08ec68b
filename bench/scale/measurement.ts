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
  /** Calls that ended with an error: gave up, or lost what they had. */
  readonly failuresPerSecond: number;
}

/** Counts while a scenario runs. */
export class Tally {
  #waits: number[] = [];
  #served = new Set<number>();
  failures = 0;

  reset(): void {
    this.#waits = [];
    this.#served = new Set();
    this.failures = 0;
  }

  done(process: number, waitedInMs: number): void {
    this.#waits.push(waitedInMs);
    this.#served.add(process);
  }

  result(processes: number, seconds: number, counts: { requests: number; throttled: number }): Omit<Measurement, "scenario" | "variant"> {
    const waits = this.#waits.sort((a, b) => a - b);
    return {
      processes,
      seconds,
      perSecond: rounded(waits.length / seconds),
      requestsPerSecond: rounded(counts.requests / seconds),
      throttledShare: rounded(counts.requests === 0 ? 0 : counts.throttled / counts.requests),
      medianInMs: quantile(waits, 0.5),
      p99InMs: quantile(waits, 0.99),
      servedShare: rounded(this.#served.size / processes),
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
