/** Values by key, each created at its first use. Bounded: the one that was used least recently is forgotten. */
export class Recent<V> {
  readonly #values = new Map<string, V>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  get(key: string, create: () => V): V {
    const value = this.#values.get(key) ?? create();
    this.#values.delete(key);
    this.#values.set(key, value);
    for (const oldest of this.#values.keys()) {
      if (this.#values.size <= this.#max) break;
      this.#values.delete(oldest);
    }
    return value;
  }
}
