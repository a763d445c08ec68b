import type { AbortSignalLike } from "../clients/call.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import type { TryAcquireLockOptions } from "../lock/lock-options.js";
import { formatWorker, memberLockOf } from "./worker-record.js";
import type { WorkerRecord } from "./worker-record.js";

/** At first, one of so many of the lowest free slots is tried; twice as many after each slot that another worker was faster to acquire. */
const firstChoice = 4;
const maxTries = 10;

/**
 * Tells the other workers that this one is alive, and how many shards it can have, by a lock: it ends with the worker. Its number is a
 * low one that is free, so that there are about as many blobs as there were workers at the same time.
 */
export class Membership {
  readonly #locks: BlobLocks;
  readonly #name: string;
  readonly #worker: Pick<WorkerRecord, "id" | "data">;
  readonly #options: TryAcquireLockOptions;
  #held: { readonly lock: LockHandleImpl; readonly limit: number } | undefined;
  #generation = 0;
  #hasLeft = false;
  /** The last publication, whose end the next one awaits. Never rejects. */
  #publishing: Promise<unknown> = Promise.resolve();

  constructor(locks: BlobLocks, name: string, worker: Pick<WorkerRecord, "id" | "data">, options: TryAcquireLockOptions) {
    this.#locks = locks;
    this.#name = name;
    this.#worker = worker;
    // A worker is alive for as long as it runs.
    this.#options = { ...options, maxHoldInMs: Infinity };
  }

  /**
   * Makes sure that the other workers see this one with this limit: costs nothing if they do, and about 4 requests if they do not. False:
   * other workers were faster each time, and the next listing shows which slots are free.
   *
   * @param taken - The slots of other workers.
   */
  publish(limit: number, taken: ReadonlySet<number>, abortSignal: AbortSignalLike): Promise<boolean> {
    const published = this.#publishing.then(() => this.#publish(limit, taken, abortSignal));
    this.#publishing = published.catch(() => undefined);
    return published;
  }

  /** The other workers need not wait until the lease has expired. Never rejects. */
  async leave(): Promise<void> {
    this.#hasLeft = true;
    const held = this.#held;
    this.#held = undefined;
    await held?.lock[Symbol.asyncDispose]();
    await this.#publishing;
  }

  async #publish(limit: number, taken: ReadonlySet<number>, abortSignal: AbortSignalLike): Promise<boolean> {
    const before = this.#held;
    if (before?.lock.isHeld() && before.limit === limit) return true;
    const data = formatWorker({ ...this.#worker, generation: ++this.#generation, limit });
    const lock = await this.#acquireSlot(new Set(taken), { ...this.#options, data, abortSignal });
    if (!lock) return false;
    if (this.#hasLeft) {
      await lock[Symbol.asyncDispose]();
      return false;
    }
    this.#held = { lock, limit };
    // Only now: for other workers, there must be no moment at which this one is dead.
    await before?.lock[Symbol.asyncDispose]();
    return true;
  }

  async #acquireSlot(taken: Set<number>, options: TryAcquireLockOptions): Promise<LockHandleImpl | undefined> {
    for (let tries = 0; tries < maxTries; tries++) {
      const slot = freeSlot(taken, firstChoice * 2 ** tries);
      const lock = await this.#locks.tryAcquireFor("WorkBalancer", memberLockOf(this.#name, slot), options, "election");
      if (lock) return lock;
      taken.add(slot);
    }
    return undefined;
  }
}

/** One of the lowest free numbers, at random: workers that start together do not all try the same. */
function freeSlot(taken: ReadonlySet<number>, choice: number): number {
  let left = Math.floor(Math.random() * choice);
  for (let slot = 0; ; slot++) {
    if (!taken.has(slot) && left-- === 0) return slot;
  }
}
