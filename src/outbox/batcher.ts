interface Waiting<T> {
  readonly item: T;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Sends items in batches, one at a time: those that come while a batch is in flight are in the next one. */
export class Batcher<T> {
  readonly #send: (items: readonly T[]) => Promise<void>;
  readonly #max: number;
  #waiting: Waiting<T>[] = [];
  #isSending = false;

  constructor(send: (items: readonly T[]) => Promise<void>, max: number) {
    this.#send = send;
    this.#max = max;
  }

  /** Resolves when the batch of the item was sent; a batch that fails rejects all of its items. */
  add(item: T): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (!this.#isSending) void this.#sendAll();
    });
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    // Items of the same tick are in the first batch.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#max);
      try {
        await this.#send(batch.map(({ item }) => item));
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#isSending = false;
  }
}
