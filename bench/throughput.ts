import { setTimeout as pause } from "node:timers/promises";

import { paced } from "./pace.js";
import { requestsSent } from "./requests.js";

/** Carries out one update. Returns false if it gave up because it was told to stop. */
export type Update = (stop: AbortSignal) => Promise<boolean>;

/** What a crowd of updaters got done. */
export interface Throughput {
  /** Within the time that was measured. */
  readonly updates: number;
  readonly requests: number;
  readonly elapsedInMs: number;
  /** All updates that were carried out, also before and after that: what the record must have seen. */
  readonly total: number;
}

export interface ThroughputOptions {
  readonly updaters: number;
  /**
   * Not measured: all start at once and nobody has backed off yet, which is not what contention looks like later.
   */
  readonly warmUpInMs: number;
  readonly measureInMs: number;
}

/** Lets many updaters loop at the same time, and counts what they get done while all of them are busy. */
export async function measureThroughput(update: Update, options: ThroughputOptions): Promise<Throughput> {
  const stop = new AbortController();
  let done = 0;
  const loop = async (): Promise<void> => {
    while (!stop.signal.aborted) if (await update(stop.signal)) done++;
  };
  const updaters = Promise.all(Array.from({ length: options.updaters }, loop));
  // A failed updater ends the measurement at once.
  const during = async (ms: number): Promise<unknown> => Promise.race([pause(ms), updaters]);
  try {
    await during(paced(options.warmUpInMs));
    const before = { at: performance.now(), done, requests: requestsSent() };
    await during(paced(options.measureInMs));
    const measured = {
      updates: done - before.done,
      requests: requestsSent() - before.requests,
      elapsedInMs: performance.now() - before.at,
    };
    stop.abort();
    await updaters;
    return { ...measured, total: done };
  } finally {
    stop.abort();
  }
}

/** Several phases, or several processes in parallel, taken together. */
export function sum(parts: readonly Throughput[]): Throughput {
  const add = (key: keyof Throughput): number => parts.reduce((total, part) => total + part[key], 0);
  return { updates: add("updates"), requests: add("requests"), elapsedInMs: add("elapsedInMs"), total: add("total") };
}
