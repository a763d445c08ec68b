/* Maintenance of a live table: ordinary writers work side by side, and wait while the maintenance runs. */
import { setTimeout as pause } from "node:timers/promises";
import { BlobLocks, optimisticUpdate, ReaderWriterLock, tableEntity } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";
import { Timeline } from "./support/timeline.js";

interface Order {
  writes: number;
  total: number;
}

export const tableMaintenance: Sample = {
  name: "table-maintenance",
  title: "Many writers, or one maintenance run",
  helper: "ReaderWriterLock",
  section: "docs/locks.md#reader-writer-locks",
  plan: "Two services change orders all the time. A maintenance run has to find the table at rest, and rewrites every row.",
  lesson: "Ordinary writers hold the lock as readers, as they do not mind each other. The maintenance run is the writer: it waits for those at work, and keeps new ones out.",
  async run(storage) {
    const [table, { containerName }] = [await storage.table(), await storage.container()];
    const rowKeys = ["1", "2", "3"];
    for (const rowKey of rowKeys) await table.createEntity({ partitionKey: "orders", rowKey, writes: 0, total: 0 });
    const services = ["service A", "service B"];
    const rows = [...services.flatMap((service) => rowKeys.map((rowKey) => `${service}, order ${rowKey}`)), "maintenance"];
    const timeline = new Timeline(rows, { legend: { holds: "works", waits: "waits" }, expectedInMs: 1_500 });
    const newLock = async (): Promise<ReaderWriterLock> => new ReaderWriterLock(new BlobLocks(await storage.container(containerName)), "orders");

    let isOver = false;
    let isMaintained = false;
    let written = 0;
    const work = async (lock: ReaderWriterLock, row: string, rowKey: string): Promise<void> => {
      while (!isOver) {
        timeline.set(row, "waits");
        await lock.withReadLock(async ({ signal }) => {
          timeline.set(row, "holds");
          check(!isMaintained, "no other client writes during the maintenance");
          await pause(60);
          await optimisticUpdate(tableEntity<Order>(table, "orders", rowKey), (order) => { order.writes++; }, { abortSignal: signal });
          written++;
        });
        timeline.set(row, "gone");
        await pause(20);
      }
    };
    const working = services.map(async (service) => {
      const lock = await newLock();
      await Promise.all(rowKeys.map((rowKey) => work(lock, `${service}, order ${rowKey}`, rowKey)));
    });

    const maintenance = await newLock();
    await pause(400);
    timeline.set("maintenance", "waits");
    await maintenance.withWriteLock(async () => {
      timeline.set("maintenance", "holds");
      isMaintained = true;
      for await (const { rowKey = "", writes } of table.listEntities<Order>()) {
        await pause(60);
        // A plain write: what was read is still true, as no other client writes.
        await table.updateEntity({ partitionKey: "orders", rowKey, writes, total: writes * 10 }, "Merge");
      }
      isMaintained = false;
      timeline.set("maintenance", "gone");
    }, { waitInMs: 30_000 });
    await pause(300);
    isOver = true;
    await Promise.all(working);
    timeline.finish();

    let stored = 0;
    for await (const { writes } of table.listEntities<Order>()) stored += writes;
    check(stored === written, "no write of a service was lost");
    return `${written} writes of two services, and a maintenance run between them`;
  },
};

await runIfStarted(tableMaintenance, import.meta.url);
