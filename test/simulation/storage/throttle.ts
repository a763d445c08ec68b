/** How much of a second's worth may come at once. */
const burstInSeconds = 0.1;

/**
 * The limit of one blob, partition or queue: a bucket that fills up steadily, and a request takes one out of it. Those
 * that find it empty are refused, and take nothing.
 */
export class Throttle {
  readonly #perMs: number;
  readonly #capacity: number;
  #level: number;
  #asOf = 0;

  constructor(perSecond: number) {
    this.#perMs = perSecond / 1_000;
    this.#capacity = perSecond * burstInSeconds;
    this.#level = this.#capacity;
  }

  admits(now: number): boolean {
    this.#level = Math.min(this.#capacity, this.#level + (now - this.#asOf) * this.#perMs);
    this.#asOf = now;
    if (this.#level < 1) return false;
    this.#level--;
    return true;
  }
}
