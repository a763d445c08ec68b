import { expect, it, onTestFinished } from "vitest";

import { BlobLocks } from "../../src/index.js";
import { connectionString, containerClient, freshContainer } from "../support/clients.js";
import { startWorkers } from "../support/workers.js";
import { countIn, entriesOf, meetingPlace } from "./workers/critical-section.js";
import type { LockSetConfig } from "./workers/lock-set-taker.js";

it("does not deadlock when processes name the same locks in opposite orders", async () => {
  const container = await freshContainer();
  const { remove, ...place } = await meetingPlace(container);
  onTestFinished(remove);
  const orders = [
    ["a", "b", "c"],
    ["c", "b", "a"],
    ["b", "c", "a"],
  ];
  const sections = 20;
  const configs = orders.map(
    (names): LockSetConfig => ({ ...place, connectionString: connectionString(), names, sections }),
  );
  const workers = startWorkers(new URL("./workers/lock-set-taker.ts", import.meta.url), configs, { timeoutInMs: 110_000 });
  onTestFinished(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
  });
  await Promise.all(workers.map((worker) => worker.result));
  expect(await entriesOf(place.log)).toHaveLength(sections * orders.length);
  expect(await countIn(container)).toBe(sections * orders.length);
});

it("does not deadlock within a process, where waiting is in order of arrival", async () => {
  const container = await freshContainer();
  const [mine, theirs] = [new BlobLocks(container), new BlobLocks(containerClient(container.containerName))];
  let inside = 0;
  const section = async (): Promise<void> => {
    expect(++inside).toBe(1);
    await container.exists();
    inside--;
  };
  await Promise.all(
    Array.from({ length: 20 }, (_, n) => (n % 2 ? mine : theirs).withLocks(n % 3 ? ["x", "y"] : ["y", "x", "y"], section)),
  );
});

it("gives back those it has when it cannot get the others in time, and names the holder", async () => {
  const container = await freshContainer();
  const [mine, theirs] = [new BlobLocks(container), new BlobLocks(containerClient(container.containerName), { holder: "them" })];
  await using held = await theirs.acquire("b");
  await expect(mine.withLocks(["a", "b", "c"], () => expect.unreachable(), { waitInMs: 300 })).rejects.toMatchObject({
    name: "LeaseUnavailableError",
    holder: "them",
  });
  await using a = (await theirs.tryAcquire("a"))!;
  await using c = (await theirs.tryAcquire("c"))!;
  expect([a.name, held.name, c.name]).toEqual(["a", "b", "c"]);
});

it("tells of the loss of any one of them", async () => {
  const container = await freshContainer();
  const locks = new BlobLocks(container, { defaults: { renewIntervalInMs: 100 } });
  const outcome = locks.withLocks(["a", "b"], async ({ signal }) => {
    await locks.break("b");
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  });
  await expect(outcome).rejects.toMatchObject({ name: "LeaseLostError", reason: "broken" });
  expect(await locks.inspect("a")).toMatchObject({ state: "available" });
});
