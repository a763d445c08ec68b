import type { ContainerClient } from "@azure/storage-blob";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";

import { BlobLocks } from "../../src/index.js";
import { type FaultProxy, isLease, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorker } from "../support/workers.js";
import type { CompetitorConfig } from "./workers/competitor.js";

let proxy: FaultProxy;
let container: ContainerClient;
/** Of this process, through the proxy. */
let locks: BlobLocks;

beforeAll(async () => {
  proxy = await startFaultProxy(azurite().blobUrl, [], { logLimit: 100_000 });
});
afterAll(() => proxy.stop());

beforeEach(async () => {
  container = await freshContainer({ through: proxy });
  locks = new BlobLocks(container);
  proxy.reset();
});

it("lets 100 local waiters in one after the other, in their order, for at most 0.1 requests each", async () => {
  const order: number[] = [];
  let inside = 0;
  await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      locks.withLock("busy", async () => {
        expect(++inside).toBe(1);
        await pause(1);
        order.push(n);
        inside--;
      }),
    ),
  );
  expect(order).toEqual(Array.from({ length: 100 }, (_, n) => n));
  expect(proxy.requests).toBeLessThanOrEqual(10);
});

it("polls once for all of 100 local waiters, and wakes them in their order", async () => {
  const others = new BlobLocks(containerClient(container.containerName));
  const held = await others.acquire("busy");
  const order: number[] = [];
  const since = performance.now();
  const waiting = Promise.all(Array.from({ length: 100 }, (_, n) => locks.withLock("busy", async () => void order.push(n))));
  while (proxy.count(isLease("acquire")) < 10) await pause(50);
  const acquisitions = proxy.log.filter(isLease("acquire"));
  // Each poller proposes an id of its own, and waits for 5 ms or longer between two tries (10 ms, ±50 %, and more as time passes).
  expect(new Set(acquisitions.map(({ headers }) => headers["x-ms-proposed-lease-id"])).size).toBe(1);
  expect(acquisitions.length).toBeLessThanOrEqual(1 + (performance.now() - since) / 5);
  expect(order).toEqual([]);
  await held.release();
  await waiting;
  expect(order).toEqual(Array.from({ length: 100 }, (_, n) => n));
});

it("lets another process have its turn while 100 local workers want nothing but the lock", async () => {
  const config: CompetitorConfig = { connectionString: connectionString(), container: container.containerName };
  const competitor = startWorker(new URL("./workers/competitor.ts", import.meta.url), config);
  onTestFinished(() => competitor.stop());
  await competitor.receive();

  let stopped = false;
  let sections = 0;
  let last = 0;
  const work = async (): Promise<void> => {
    while (!stopped) {
      await locks.withLock("busy", async ({ epoch }) => {
        expect(epoch).toBeGreaterThan(last);
        last = epoch;
        await pause(1);
        sections++;
      });
    }
  };
  const workers = Promise.all(Array.from({ length: 100 }, work));
  try {
    for (let turn = 0; turn < 2; turn++) {
      const [before, sectionsBefore] = [last, sections];
      const askedAt = performance.now();
      competitor.send("your turn");
      const epoch = await Promise.race([competitor.receive<number>(), workers]);
      // The lease is held on to for 5 s, and the pause after it is as long as the longest between two looks.
      expect(performance.now() - askedAt).toBeLessThan(10_000);
      expect(epoch).toBeGreaterThan(before);
      while (sections < sectionsBefore + 1_000) await Promise.race([pause(10), workers]);
    }
  } finally {
    stopped = true;
    await workers;
  }
  expect(proxy.requests / sections).toBeLessThanOrEqual(0.1);
});
