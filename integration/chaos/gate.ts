/** With fewer operations at a time, nothing would happen at the same time. */
const minimum = 3;
const maximum = 64;

/**
 * How many operations of a worker are in progress at a time. As many as there are tasks, as long as the storage responds at once. On a machine
 * that is busy with something else, the requests of all tasks together would only wait for each other until all of them time out.
 */
export class Gate {
  #limit = maximum;
  #inside = 0;
  readonly #waiting: (() => void)[] = [];

  get limit(): number {
    return this.#limit;
  }

  /** How long the storage took to respond to a request that meets no faults. */
  observe(responseInMs: number): void {
    this.#limit = responseInMs > 500 ? Math.max(minimum, Math.floor(this.#limit / 2)) : Math.min(maximum, this.#limit + 2);
    this.#admit();
  }

  async pass<T>(run: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      this.#admit();
    });
    try {
      return await run();
    } finally {
      this.#inside--;
      this.#admit();
    }
  }

  #admit(): void {
    while (this.#inside < this.#limit && this.#waiting.length > 0) {
      this.#inside++;
      this.#waiting.shift()?.();
    }
  }
}
