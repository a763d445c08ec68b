import { onAbort } from "../core/deadline.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { isConcurrencyError } from "../errors.js";
import type { LockHandle } from "../lease/lease-guard.js";

/** Several named locks that are held at the same time. */
export class LockSet implements AsyncDisposable {
  readonly #locks: ReadonlyMap<string, LockHandle>;
  readonly #controller = new AbortController();
  readonly #offs: (() => void)[];
  #released: Promise<void> | undefined;

  /** @internal */
  constructor(locks: readonly LockHandle[]) {
    this.#locks = new Map(locks.map((lock) => [lock.name, lock]));
    this.#offs = locks.map((lock) => onAbort(lock.signal, () => this.#controller.abort(lock.signal.reason)));
  }

  /** Aborts when any of the locks is lost. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get names(): string[] {
    return [...this.#locks.keys()];
  }

  /** One of the locks, for its epoch. */
  get(name: string): LockHandle {
    const lock = this.#locks.get(name);
    if (!lock) throw new RangeError(`the lock ${JSON.stringify(name)} is not among those that are held`);
    return lock;
  }

  /** Throws if any of the locks is not held at this moment. */
  assertHeld(): void {
    for (const lock of this.#locks.values()) lock.assertHeld();
  }

  /** Releases all of them. Idempotent. */
  release(): Promise<void> {
    return (this.#released ??= this.#releaseAll());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => logger.warning(`some locks could not be released: ${errorLabel(error)}`));
  }

  async #releaseAll(): Promise<void> {
    const outcomes = await Promise.allSettled([...this.#locks.values()].map((lock) => lock.release()));
    for (const off of this.#offs) off();
    const failures = outcomes.filter((outcome) => outcome.status === "rejected").map((outcome): unknown => outcome.reason);
    // A loss matters more than a failed release: the work may have been for nothing.
    if (failures.length > 0) throw failures.find((error: unknown) => isConcurrencyError(error, "LEASE_LOST")) ?? failures[0];
  }
}
