import type { TableResponseLike } from "../clients/table.js";

/** How many responses count: over a longer time, two clocks drift apart. */
const maxSamples = 8;

/**
 * The time of the service, as the `Date` headers of its responses tell it. The clocks of instances may differ by minutes; with this one,
 * all of them are right to about a second, and none is early: a header is the time before the response was received, in whole seconds
 * (rounded down), so each one is a lower bound, and the largest of the last ones counts.
 */
export class ServiceClock {
  /** The time of the service minus the monotonic time of this process, at the least. */
  readonly #samples: number[] = [];

  /** For the SDK: called with each response. */
  readonly onResponse = ({ headers }: TableResponseLike): void => {
    const date = Date.parse(headers?.get("date") ?? "");
    if (Number.isNaN(date)) return;
    this.#samples.push(date - performance.now());
    if (this.#samples.length > maxSamples) this.#samples.shift();
  };

  /** Without a header, which a proxy may have removed: the time of this host. Due times are then run early or late, but still once. */
  get now(): number {
    return Math.floor(this.#samples.length > 0 ? performance.now() + Math.max(...this.#samples) : Date.now());
  }
}
