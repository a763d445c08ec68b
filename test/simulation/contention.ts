import { BlobLocks } from "../../src/index.js";
import type { BlobLocksOptions } from "../../src/index.js";
import { World } from "./storage/world.js";
import type { SimProcess } from "./storage/world.js";

/** The blob of the lock that all compete for. */
export const lockBlob = "locks/l";

/** How waiters fared: the turns of each process, and how long each wait took, in order. */
export interface Contention {
  readonly turns: readonly number[];
  readonly waits: readonly number[];
  readonly locksPerSecond: number;
  readonly requestsPerLock: number;
}

export interface ContentionOptions {
  readonly processes: number;
  readonly seconds: number;
  readonly holdInMs?: number;
  /** Callers of each process. */
  readonly callers?: number;
  /** `"plain"`: a loop on the SDK that tries every 0.5 to 1.5 s. */
  readonly kind: "plain" | "default" | "fair";
  readonly seed?: number;
  /** Called when the measurement begins. */
  readonly disturb?: (process: SimProcess) => Promise<unknown>;
}

const warmUpInMs = 10_000;

/** Processes that do nothing but acquire the same lock, again and again, on the simulated storage. */
export async function contend({ processes, seconds, holdInMs = 20, callers = 1, kind, seed = 1, disturb }: ContentionOptions): Promise<Contention> {
  // As the service limits a blob.
  const world = new World(seed, { blob: 500, table: 2_000, queue: 2_000 });
  return world.time.run(async () => {
    world.newProcess().blob(lockBlob).put("");
    const turns = new Array<number>(processes).fill(0);
    const waits: number[] = [];
    for (let i = 0; i < processes; i++) {
      const acquire = acquirerOf(world, world.newProcess(), kind, String(i));
      const work = async (): Promise<void> => {
        for (;;) {
          const since = world.time.now;
          await acquire(async () => {
            turns[i]!++;
            waits.push(world.time.now - since);
            await world.time.sleep(holdInMs);
          });
        }
      };
      for (let caller = 0; caller < callers; caller++) world.time.after(world.time.random() * 5_000, () => void work());
    }
    await world.time.sleep(warmUpInMs);
    await disturb?.(world.newProcess());
    turns.fill(0);
    waits.length = 0;
    world.blobs.counts.requests = 0;
    await world.time.sleep(seconds * 1_000);
    waits.sort((a, b) => a - b);
    return { turns: [...turns], waits, locksPerSecond: waits.length / seconds, requestsPerLock: world.blobs.counts.requests / waits.length };
  });
}

function acquirerOf(world: World, process: SimProcess, kind: ContentionOptions["kind"], holder: string): (fn: () => Promise<void>) => Promise<void> {
  if (kind !== "plain") {
    const options: BlobLocksOptions = { holder, fair: kind === "fair" };
    const locks = new BlobLocks(process.container, options);
    return (fn) => locks.withLock("l", fn);
  }
  return async (fn) => {
    const lease = process.blob(lockBlob).getBlobLeaseClient(crypto.randomUUID());
    for (let acquired = false; !acquired; ) {
      acquired = await lease.acquireLease(30).then(() => true, () => false);
      if (!acquired) await world.time.sleep(500 + world.time.random() * 1_000);
    }
    await fn();
    await lease.releaseLease();
  };
}

export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}
