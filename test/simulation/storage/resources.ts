/** What a service stores, by key. A listing of a thousand processes does not sort thousands of keys a thousand times. */
export class Resources extends Map<string, unknown> {
  readonly #sorted = new Map<string, readonly string[]>();

  override set(key: string, value: unknown): this {
    if (!this.has(key)) this.#forget(key);
    return super.set(key, value);
  }

  override delete(key: string): boolean {
    this.#forget(key);
    return super.delete(key);
  }

  override clear(): void {
    this.#sorted.clear();
    super.clear();
  }

  /** The keys that begin with `prefix`, in order. */
  sortedKeys(prefix: string): readonly string[] {
    let keys = this.#sorted.get(prefix);
    if (!keys) this.#sorted.set(prefix, (keys = [...this.keys()].filter((key) => key.startsWith(prefix)).sort()));
    return keys;
  }

  #forget(key: string): void {
    for (const prefix of this.#sorted.keys()) if (key.startsWith(prefix)) this.#sorted.delete(prefix);
  }
}
