import { describe, expect, it, onTestFinished } from "vitest";

import { BlobLocks, optimisticUpdate, ReaderWriterLock, tableEntity } from "../../src/index.js";
import { connectionString, containerClient, freshContainer, freshTable } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorkers } from "../support/workers.js";
import type { ReaderWriterConfig, Visit } from "./workers/reader-writer.js";

const leaseInMs = 15_000;

function overlaps(visits: readonly Visit[]): string[] {
  const writes = visits.filter(({ kind }) => kind === "writes");
  return writes.flatMap((write) =>
    visits.filter((other) => other !== write && other.from < write.to && write.from < other.to).map((other) => `${JSON.stringify(other)} during ${JSON.stringify(write)}`),
  );
}

describe("across processes", () => {
  it.each(["reads", "writes"] as const)("many read or one writes, also after a process that %s was killed", async (kind) => {
    const container = await freshContainer();
    const config: ReaderWriterConfig = { connectionString: connectionString(), container: container.containerName };
    const [crashing, ...others] = startWorkers<Visit[]>(new URL("./workers/reader-writer.ts", import.meta.url), [config, config, config], { timeoutInMs: 90_000 });
    onTestFinished(async () => {
      await Promise.all([crashing!, ...others].map((worker) => worker.stop()));
    });
    // However long the processes take to start, on a machine that has other work to do.
    await Promise.all([crashing!, ...others].map((worker) => worker.receive()));
    crashing!.send(kind);
    const { visits: before, heldSince } = await crashing!.receive<{ visits: Visit[]; heldSince: number }>();
    await pause(300);
    const killedAt = Date.now();
    await crashing!.stop();
    await pause(leaseInMs + 5_000);
    for (const worker of others) worker.send("stop");
    const after = (await Promise.all(others.map((worker) => worker.result))).flat();

    const all: Visit[] = [...before, ...after, { kind, from: heldSince, to: killedAt }];
    expect(overlaps(all)).toEqual([]);
    for (const other of ["reads", "writes"] as const) {
      expect(all.filter((visit) => visit.kind === other && visit.to < heldSince).length, `${other} before`).toBeGreaterThan(2);
      expect(all.filter((visit) => visit.kind === other && visit.from > killedAt + leaseInMs - 6_000).length, `${other} afterwards`).toBeGreaterThan(0);
    }
    const epochs = all.filter(({ epoch }) => epoch !== undefined).sort((a, b) => a.from - b.from).map(({ epoch }) => epoch);
    expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => Number(a) - Number(b)));
    await new ReaderWriterLock(new BlobLocks(container), "orders").withWriteLock(() => undefined);
    await pause(200);
    const left: string[] = [];
    for await (const { name } of container.listBlobsFlat({ prefix: "locks/orders~2Fread" })) left.push(name);
    expect(left).toEqual([]);
  });
});

it("can be inspected and tried, by several clients", async () => {
  const { containerName } = await freshContainer();
  const container = containerClient(containerName);
  const lock = new ReaderWriterLock(new BlobLocks(container), "orders");
  await lock.withWriteLock(() => undefined);
  await using reader = await lock.acquireReadLock();
  await using other = await lock.acquireReadLock();
  reader.assertHeld();
  const { writer, readers } = await lock.inspect();
  expect(writer).toBeUndefined();
  expect(readers).toHaveLength(1);
  expect(await lock.tryAcquireWriteLock()).toBeUndefined();
  await other.release();
  await reader.release();
  await using held = await lock.tryAcquireWriteLock();
  expect(held!.epoch).toBeGreaterThan(0);
  expect(await new ReaderWriterLock(new BlobLocks(containerClient(containerName)), "orders").tryAcquireReadLock()).toBeUndefined();
});

describe("the recipe for the maintenance of a live table", () => {
  it("keeps ordinary writers out while it runs, and lets many of them in at once otherwise", async () => {
    const table = await freshTable();
    const { containerName } = await freshContainer();
    const newService = (): ReaderWriterLock => new ReaderWriterLock(new BlobLocks(containerClient(containerName)), "orders");
    for (let n = 0; n < 5; n++) await table.createEntity({ partitionKey: "orders", rowKey: String(n), writes: 0, checked: 0 });
    let stopped = false;
    let inside = 0;
    let most = 0;
    let isMaintained = false;
    const overlapping: string[] = [];
    const service = async (lock: ReaderWriterLock, rowKey: string): Promise<number> => {
      let done = 0;
      while (!stopped) {
        await lock.withReadLock(async ({ signal }) => {
          if (isMaintained) overlapping.push(rowKey);
          most = Math.max(most, ++inside);
          await optimisticUpdate(tableEntity<{ writes: number }>(table, "orders", rowKey), (order) => { order.writes++; }, { abortSignal: signal });
          inside--;
          done++;
        });
        await pause(5);
      }
      return done;
    };
    const services = [newService(), newService()].flatMap((lock) => ["0", "1", "2", "3", "4"].map((rowKey) => service(lock, rowKey)));
    const maintenance = newService();
    for (let run = 0; run < 3; run++) {
      await pause(300);
      await maintenance.withWriteLock(async () => {
        expect(inside).toBe(0);
        isMaintained = true;
        const rows: { rowKey?: string; writes?: number }[] = [];
        for await (const row of table.listEntities<{ writes: number }>()) rows.push(row);
        await pause(100);
        // What was read is still true: plain writes without a condition overwrite nothing.
        for (const { rowKey = "", writes = 0 } of rows) await table.updateEntity({ partitionKey: "orders", rowKey, checked: run + 1, writes }, "Merge");
        isMaintained = false;
      }, { waitInMs: 30_000 });
    }
    stopped = true;
    const done = (await Promise.all(services)).reduce((sum, n) => sum + n, 0);
    let stored = 0;
    for await (const { writes } of table.listEntities<{ writes: number }>()) stored += writes;
    expect(overlapping).toEqual([]);
    expect(stored, "no write was lost").toBe(done);
    expect(most, "services work side by side").toBeGreaterThan(3);
  });
});
