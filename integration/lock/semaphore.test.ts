import { expect, it, onTestFinished } from "vitest";

import { BlobLocks, Semaphore } from "../../src/index.js";
import { connectionString, containerClient, freshContainer } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorkers } from "../support/workers.js";
import type { SlotUserConfig, Stay } from "./workers/slot-user.js";

const leaseInMs = 15_000;

/** How many of the stays there were at the same time at most. */
function most(stays: readonly Stay[]): number {
  // Within a millisecond: first those who go.
  const events = stays.flatMap(({ from, to }) => [{ at: from, by: 1 }, { at: to, by: -1 }]).sort((x, y) => x.at - y.at || x.by - y.by);
  let inside = 0;
  return Math.max(...events.map(({ by }) => (inside += by)));
}

it("never lets more in than it has slots, and has all of them again after a holder has crashed", async () => {
  const slots = 2;
  const container = await freshContainer();
  const config: SlotUserConfig = { connectionString: connectionString(), container: container.containerName, slots, workers: 3 };
  const [crashing, ...others] = startWorkers<Stay[]>(new URL("./workers/slot-user.ts", import.meta.url), [config, config, config], {
    timeoutInMs: 90_000,
  });
  onTestFinished(async () => {
    await Promise.all([crashing!, ...others].map((worker) => worker.stop()));
  });
  await pause(3_000);
  crashing!.send("hold");
  const { stays: before, heldSince } = await crashing!.receive<{ stays: Stay[]; heldSince: number }>();
  await pause(500);
  const killedAt = Date.now();
  await crashing!.stop();
  await pause(leaseInMs + 4_000);
  for (const worker of others) worker.send("stop");
  const after = (await Promise.all(others.map((worker) => worker.result))).flat();

  // A slot of a crashed holder is taken until its lease has run out; when that is, is for the dead one's last renewal to say.
  const all = [...before, ...after, { from: heldSince, to: killedAt }];
  expect(most(all)).toBe(slots);
  expect(most(after.filter(({ from, to }) => from > heldSince && to < killedAt + leaseInMs - 6_000))).toBe(slots - 1);
  expect(most(after.filter(({ from }) => from > killedAt + leaseInMs))).toBe(slots);
});

it("lets a waiter of the same process in as soon as a slot is free, in the order of arrival", async () => {
  const semaphore = new Semaphore(new BlobLocks(await freshContainer()), "exports", 2);
  const order: number[] = [];
  let inside = 0;
  await Promise.all(
    Array.from({ length: 10 }, (_, n) =>
      semaphore.withSlot(async () => {
        expect(++inside).toBeLessThanOrEqual(2);
        order.push(n);
        await pause(20);
        inside--;
      }),
    ),
  );
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

it("says so when all slots stay taken", async () => {
  const container = await freshContainer();
  const theirs = new Semaphore(new BlobLocks(containerClient(container.containerName)), "exports", 1);
  const ours = new Semaphore(new BlobLocks(container), "exports", 1);
  await using slot = await theirs.acquire();
  expect(await ours.tryAcquire()).toBeUndefined();
  await expect(ours.acquire({ waitInMs: 300 })).rejects.toMatchObject({ name: "LeaseUnavailableError" });
  await slot.release();
  await using next = await ours.acquire({ waitInMs: 5_000 });
  next.assertHeld();
});
