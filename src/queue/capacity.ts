/** The most messages that one receive may request. */
const maxReceive = 32;

/** How long a free slot waits for others to become free, so that one receive fills many. */
const lingerInMs = 20;

/** How many more messages may be processed at the same time. Used by one poller. */
export class Capacity {
  readonly #total: number;
  #free: number;
  #ended = false;
  readonly #takers: (() => void)[] = [];
  #waiting: { readonly enough: number; readonly resolve: () => void } | undefined;

  constructor(total: number) {
    this.#total = total;
    this.#free = total;
  }

  get taken(): number {
    return this.#total - this.#free;
  }

  /** Takes so many slots, or those that are free. Returns how many. */
  tryTake(count: number): number {
    const taken = Math.max(0, Math.min(count, this.#free));
    this.#free -= taken;
    return taken;
  }

  /** Takes a slot as soon as one is free, before the poller does. */
  async take(): Promise<void> {
    if (this.tryTake(1) === 1) return;
    if (!this.#ended) await new Promise<void>((resolve) => this.#takers.push(resolve));
    else this.#free--;
  }

  release(): void {
    const taker = this.#takers.shift();
    if (taker) {
      taker();
      return;
    }
    this.#free++;
    if (this.#waiting && this.#free >= this.#waiting.enough) this.#waiting.resolve();
  }

  /** Ends all waits for capacity, for good: what has waited for a slot is not going to start a handler. */
  end(): void {
    this.#ended = true;
    for (const taker of this.#takers.splice(0)) {
      this.#free--;
      taker();
    }
    this.#waiting?.resolve();
  }

  /**
   * Waits for free slots, and returns how many messages to request: at least one, unless it has ended. It does not wait for the slowest handler, but it does not
   * request each slot separately as it becomes free either, which would double the number of requests.
   */
  async acquire(): Promise<number> {
    const enough = Math.min(maxReceive, Math.ceil(this.#total / 2));
    do {
      if (this.#free < 1) await this.#until(1);
      if (this.#free < enough) await this.#until(enough, lingerInMs);
      // Messages that had waited for their group may have taken the slots meanwhile.
    } while (this.#free < 1 && !this.#ended);
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
