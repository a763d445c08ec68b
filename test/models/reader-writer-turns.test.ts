import { expect, test } from "vitest";
import { BlobLocks, ReaderWriterLock } from "../../src/index.js";
import type { SimProcess } from "../simulation/storage/world.js";
import { World } from "../simulation/storage/world.js";

/** Runs a simulated minute: two processes of one kind, all the time, against one call of the other kind now and then. */
async function longestWait(busy: "withReadLock" | "withWriteLock", other: "withReadLock" | "withWriteLock"): Promise<number> {
  const world = new World(7);
  const lockOf = ({ container }: SimProcess): ReaderWriterLock => new ReaderWriterLock(new BlobLocks(container), "orders");
  let longest = 0;
  await world.time.run(async () => {
    let isOver = false;
    const { time } = world;
    const crowd = [world.newProcess(), world.newProcess()].flatMap((process) => {
      const lock = lockOf(process);
      return Array.from({ length: 3 }, async (_, n) => {
        await time.sleep(n * 70);
        while (!isOver) await lock[busy](() => time.sleep(busy === "withReadLock" ? 200 : 20));
      });
    });
    const rare = lockOf(world.newProcess());
    for (let n = 0; n < 8; n++) {
      await time.sleep(2_000);
      const since = time.now;
      await rare[other](() => {
        longest = Math.max(longest, time.now - since);
      });
    }
    isOver = true;
    await Promise.all(crowd);
  });
  return longest;
}

test("a writer is not kept out by readers that come all the time", { timeout: 60_000 }, async () => {
  expect(await longestWait("withReadLock", "withWriteLock")).toBeLessThan(3_000);
});

test("a reader is not kept out by writers that come all the time", { timeout: 60_000 }, async () => {
  expect(await longestWait("withWriteLock", "withReadLock")).toBeLessThan(15_000);
});
