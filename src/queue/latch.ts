import type { AbortSignalLike } from "../clients.js";

/**
 * An abort signal for as many listeners as there are messages. Node warns of a leak when an `AbortSignal` has more
 * than ten, and the remedy is a `node:` module.
 */
export class Latch implements AbortSignalLike {
  aborted = false;
  reason: unknown;
  readonly #listeners = new Set<() => void>();

  abort(reason?: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason ?? new DOMException("The operation was aborted.", "AbortError");
    for (const listener of [...this.#listeners]) listener();
    this.#listeners.clear();
  }

  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }
}
