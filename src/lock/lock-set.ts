import { linkSignals, onAbort, startStopwatch, withinMoment } from "../core/deadline.js";
import { observed } from "../core/pending-call.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { isConcurrencyError, quotedText } from "../errors.js";
import type { LeaseLostError } from "../errors.js";
import { remainingWait } from "../lease/acquire.js";
import { releasedReason } from "../lease/lease-handle.js";
import type { LockHandle, LockHandleImpl, LockHandleLike } from "../lease/lease-handle.js";
import { checkWait } from "../lease/lease-options.js";
import type { Held } from "../lease/with-lease.js";
import type { AcquireLockOptions } from "./lock-options.js";

/** Several named locks that are held at the same time. See {@link BlobLocks.withLocks} and {@link BlobLocks.acquireAll}. */
export interface LockSet extends LockHandleLike, AsyncDisposable {
  /** The names of the locks, in the order in which they were acquired. */
  readonly names: readonly string[];
  /**
   * One of the locks, for its epoch.
   * @throws `RangeError` if the set has no lock of that name.
   */
  get(name: string): LockHandle;
}

/**
 * Acquires the locks one after the other, in the order of their names, so that two callers that want the same locks never wait for
 * each other. All of them or none.
 */
export async function acquireLockSet(
  names: readonly string[],
  options: AcquireLockOptions,
  acquire: (name: string, options: AcquireLockOptions) => Promise<LockHandleImpl>,
): Promise<LockSetImpl> {
  const waitInMs = checkWait(options.waitInMs);
  const waitedInMs = startStopwatch();
  const held: LockHandleImpl[] = [];
  // If one of the locks is lost while waiting for the others, the rest of the wait is pointless.
  const { controller, unlink } = linkSignals(options.abortSignal);
  const offs = [unlink];
  const startHolds: (() => void)[] = [];
  try {
    for (const name of [...new Set(names)].sort()) {
      const left = remainingWait(waitInMs, waitedInMs());
      const lock = await acquire(name, { ...options, abortSignal: controller.signal, waitInMs: left });
      held.push(lock);
      // maxHoldInMs is for the work under the locks.
      startHolds.push(lock.suspendHold());
      offs.push(onAbort(lock.signal, () => controller.abort(lock.signal.reason)));
    }
    for (const lock of held) lock.assertHeld();
    for (const start of startHolds) start();
    return new LockSetImpl(held);
  } catch (error) {
    await Promise.all(held.map((lock) => withinMoment(lock[Symbol.asyncDispose]())));
    throw error;
  } finally {
    for (const off of offs) off();
  }
}

export class LockSetImpl implements LockSet, Held {
  readonly names: readonly string[];
  readonly #locks: ReadonlyMap<string, LockHandleImpl>;
  readonly #controller = new AbortController();
  readonly #offs: (() => void)[];
  #released: Promise<void> | undefined;

  constructor(locks: readonly LockHandleImpl[]) {
    this.#locks = new Map(locks.map((lock) => [lock.name, lock]));
    this.names = [...this.#locks.keys()];
    this.#offs = locks.map((lock) => onAbort(lock.signal, () => this.#controller.abort(lock.signal.reason)));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get holds(): readonly LockHandleImpl[] {
    return [...this.#locks.values()];
  }

  get loss(): LeaseLostError | undefined {
    for (const { loss } of this.holds) if (loss) return loss;
    return undefined;
  }

  get(name: string): LockHandle {
    const lock = this.#locks.get(name);
    if (!lock) throw new RangeError(`The lock ${quotedText(name)} is not in this set, which has ${this.names.map((other) => quotedText(other)).join(", ")}`);
    return lock;
  }

  assertHeld(): void {
    for (const lock of this.#locks.values()) lock.assertHeld();
  }

  release(): Promise<void> {
    return observed((this.#released ??= this.#releaseAll()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => logger.warning(`some locks could not be released: ${errorLabel(error)}`));
  }

  async #releaseAll(): Promise<void> {
    // Also reports a loss that only the clock shows so far: it is the reason of the signal then.
    const { loss } = this;
    for (const off of this.#offs) off();
    this.#controller.abort(loss ?? releasedReason());
    const outcomes = await Promise.allSettled(this.holds.map((lock) => lock.release()));
    const failures = outcomes.filter((outcome) => outcome.status === "rejected").map((outcome): unknown => outcome.reason);
    // A loss matters more than a failed release: the work may have been for nothing.
    if (failures.length > 0) throw failures.find((error: unknown) => isConcurrencyError(error, "LEASE_LOST")) ?? failures[0];
  }
}
