/** The most messages that one receive may request. */
const maxReceive = 32;

/** How long a free slot waits for others to become free, so that one receive fills many. */
const lingerInMs = 20;

/** How many more messages may be processed at the same time. Used by one poller. */
export class Capacity {
  readonly #total: number;
  #free: number;
  #waiting: { readonly enough: number; readonly resolve: () => void } | undefined;

  constructor(total: number) {
    this.#total = total;
    this.#free = total;
  }

  get taken(): number {
    return this.#total - this.#free;
  }

  take(count: number): void {
    this.#free -= count;
  }

  release(): void {
    this.#free++;
    if (this.#waiting && this.#free >= this.#waiting.enough) this.wake();
  }

  /** Ends the wait for capacity. */
  wake(): void {
    this.#waiting?.resolve();
  }

  /**
   * Waits for free slots, and returns how many messages to request. It does not wait for the slowest handler, but it does not
   * request each slot separately as it becomes free either, which would double the number of requests.
   */
  async acquire(): Promise<number> {
    const enough = Math.min(maxReceive, Math.ceil(this.#total / 2));
    if (this.#free < 1) await this.#until(1);
    if (this.#free < enough) await this.#until(enough, lingerInMs);
    return Math.min(maxReceive, this.#free);
  }

  async #until(enough: number, atMostInMs?: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      this.#waiting = { enough, resolve };
      if (atMostInMs !== undefined) timer = setTimeout(resolve, atMostInMs);
    });
    clearTimeout(timer);
    this.#waiting = undefined;
  }
}
