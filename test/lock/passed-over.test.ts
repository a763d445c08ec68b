import { describe, expect, it } from "vitest";
import { BlobLocks } from "../../src/index.js";
import type { SimProcess } from "../simulation/storage/world.js";
import { World } from "../simulation/storage/world.js";
import { calm } from "../simulation/storage/network-conditions.js";

/** Callers of one process that acquire the lock again and again: the longest wait of each process. */
class Callers {
  readonly longestWaits: number[] = [];
  readonly #world: World;
  #stopped = false;

  constructor(world: World) {
    this.#world = world;
  }

  start(process: SimProcess, callers: number): void {
    const { time } = this.#world;
    const locks = new BlobLocks(process.container);
    const index = this.longestWaits.push(0) - 1;
    const loop = async (): Promise<void> => {
      while (!this.#stopped) {
        const since = time.now;
        await locks.withLock("l", () => {
          this.longestWaits[index] = Math.max(this.longestWaits[index]!, time.now - since);
          return time.sleep(30);
        }, { waitInMs: Infinity });
      }
    };
    for (let caller = 0; caller < callers; caller++) void loop();
  }

  stop(): void {
    this.#stopped = true;
  }
}

describe("a process that was passed over, as its network was slow when it was its turn", () => {
  it.each([2, 4])("has its turn soon, although the others always have callers that wait (seed %i)", { timeout: 60_000 }, (seed) => {
    const world = new World(seed);
    return world.time.run(async () => {
      const callers = new Callers(world);
      const slow = world.newProcess();
      callers.start(slow, 2);
      callers.start(world.newProcess(), 2);
      callers.start(world.newProcess(), 2);
      for (let pause = 0; pause < 12; pause++) {
        await world.time.sleep(5_000 + 1_500 * world.time.random());
        slow.setNetworkConditions({ ...calm, latency: { min: 1_500, max: 1_500 } });
        await world.time.sleep(1_500);
        slow.setNetworkConditions(calm);
      }
      callers.stop();
      await world.time.sleep(20_000);
      // A round of the three takes 3 s.
      expect(Math.max(...callers.longestWaits)).toBeLessThan(12_000);
    });
  });
});

describe("a purge, again and again, of a lock that processes wait for", () => {
  it.each([2, 4])("keeps none of them out for long (seed %i)", { timeout: 60_000 }, (seed) => {
    const world = new World(seed);
    return world.time.run(async () => {
      const callers = new Callers(world);
      for (let process = 0; process < 3; process++) callers.start(world.newProcess(), 2);
      const locks = new BlobLocks(world.newProcess().container);
      let deleted = 0;
      const end = world.time.now + 90_000;
      while (world.time.now < end) {
        ({ deleted } = await locks.purge({ olderThanInMs: 0 }).then((result) => ({ deleted: deleted + result.deleted })));
        await world.time.sleep(5);
      }
      callers.stop();
      await world.time.sleep(20_000);
      expect(deleted).toBeGreaterThan(0);
      expect(Math.max(...callers.longestWaits)).toBeLessThan(20_000);
    });
  });
});
