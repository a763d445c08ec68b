import { describe, expect, onTestFinished, test } from "vitest";

import { BlobLocks, isConcurrencyError, TableLock } from "../../src/index.js";
import { dropRequest, dropResponse, hang, isWrite, respondWith, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer, freshTable } from "../support/clients.js";

const isMismatch = (error: unknown): boolean => isConcurrencyError(error, "LOCK_MODE_MISMATCH");

async function scene() {
  const [table, container] = [await freshTable(), await freshContainer()];
  const proxy = await startFaultProxy(azurite().blobUrl);
  onTestFinished(() => proxy.stop());
  const through = new BlobLocks(containerClient(container.containerName, { through: proxy }));
  /** The designated blob, which records the granularity. */
  const designated = container.getBlockBlobClient(`locks/${encodeURIComponent(JSON.stringify(["table", table.tableName])).replaceAll("%", "~")}`);
  return { table, container, proxy, through, locks: () => new BlobLocks(container), designated };
}

describe("the record of the granularity", () => {
  test("costs 2 requests for the first process, 1 for the others, and none for half a minute after that", async () => {
    const { table, container, proxy, through } = await scene();
    const other = new BlobLocks(containerClient(container.containerName, { through: proxy }));
    const costs = async (lock: TableLock<"partition">, partition: string): Promise<number> => {
      const before = proxy.requests;
      await (await lock.tryAcquire(partition))?.release();
      return proxy.requests - before;
    };
    const [first, second] = [new TableLock(table, through, { granularity: "partition" }), new TableLock(table, other, { granularity: "partition" })];
    const [p, q] = [await costs(first, "p"), await costs(first, "q")];
    const [pAgain, qAgain] = [await costs(second, "p"), await costs(second, "q")];
    // Each process uses both locks in the same way: only with the first one does it ask for the granularity.
    expect([p - q, pAgain - qAgain]).toEqual([2, 1]);
  });

  test.each([
    ["a lost response", dropResponse({ when: isWrite, times: 1 })],
    ["a lost request", dropRequest({ when: isWrite, times: 1 })],
    ["a 503", respondWith(503, { when: isWrite, times: 1 })],
    ["a 500 although it was written", respondWith(500, { when: isWrite, times: 1, at: "response" })],
  ])("is written in spite of %s", async (_, fault) => {
    const { table, proxy, through, locks } = await scene();
    proxy.setRules([fault]);
    const lock = new TableLock(table, through, { granularity: "partition" });
    expect(await lock.withLock("p", () => "locked")).toBe("locked");
    await expect(new TableLock(table, locks()).withLock(() => undefined)).rejects.toSatisfy(isMismatch);
  });

  test("that another program deletes is written again, by the first process that locks the table then", async () => {
    const { table, locks, designated } = await scene();
    await new TableLock(table, locks()).withLock(() => undefined);
    await designated.delete();
    await new TableLock(table, locks(), { granularity: "partition" }).withLock("p", () => undefined);
    await expect(new TableLock(table, locks()).withLock(() => undefined)).rejects.toSatisfy(isMismatch);
  });

  test.each(["", "not JSON", "{}", JSON.stringify({ granularity: "partition".repeat(10_000) }), `${" ".repeat(100_000)}{"granularity":"partition"}`])("that another program replaces (by %.20j) does not count as the granularity of anyone", async (content) => {
    const { table, locks, designated } = await scene();
    await new TableLock(table, locks(), { granularity: "partition" }).withLock("p", () => undefined);
    await designated.upload(content, content.length);
    const again = new TableLock(table, locks(), { granularity: "partition" }).withLock("p", () => "locked");
    if (content === "") {
      expect(await again).toBe("locked");
      await expect(new TableLock(table, locks()).withLock(() => undefined)).rejects.toSatisfy(isMismatch);
    } else await expect(again).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LOCK_MODE_MISMATCH") && error.found === "unknown");
  });

  test("that is missing while the lock of the table is held: others learn that it is", async () => {
    const { table, locks, designated } = await scene();
    const whole = new TableLock(table, locks());
    await whole.withLock(() => undefined);
    await designated.delete();
    // Within half a minute, the record is not read again: the lease creates the blob, without a record.
    await whole.withLock(async () => {
      await expect(new TableLock(table, locks(), { granularity: "partition" }).tryAcquire("p")).rejects.toSatisfy(isMismatch);
      expect(await new TableLock(table, locks()).tryAcquire()).toBeUndefined();
    });
  });
});

test("two granularities never write to one partition, even if another program deletes the record", async () => {
  const { table, locks, designated } = await scene();
  const byPartition = new TableLock(table, locks(), { granularity: "partition" });
  await byPartition.withLock("p", async (held) => {
    const partition = await held.partition();
    await designated.delete();
    await new TableLock(table, locks()).withLock(async (whole) => {
      await expect(whole.partition("p")).rejects.toSatisfy(isMismatch);
      await (await whole.partition("q")).create({ rowKey: "a", n: 1 });
    });
    await partition.create({ rowKey: "a", n: 1 });
  });
  await byPartition.withLock("q", async (held) => {
    await expect(held.partition()).rejects.toSatisfy(isMismatch);
  });
});

describe("while the record does not respond", () => {
  const record = hang({ when: ({ method, url }) => method === "GET" || (method === "PUT" && !url.includes("comp=lease")) });

  test("a caller that does not wait is rejected soon, and a caller that aborts at once", async () => {
    const { table, proxy, through } = await scene();
    proxy.reset([record]);
    const lock = new TableLock(table, through);
    const started = performance.now();
    const controller = new AbortController();
    const aborted = lock.acquire({ abortSignal: controller.signal });
    const refused = lock.acquire({ waitInMs: 0 });
    const tried = lock.tryAcquire();
    await expect.poll(() => proxy.requests).toBeGreaterThan(0);
    controller.abort(new Error("no longer wanted"));
    await expect(aborted).rejects.toThrow("no longer wanted");
    expect(performance.now() - started).toBeLessThan(1_500);
    for (const call of [refused, tried]) await expect(call).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_UNAVAILABLE") && error.committed === false);
    expect(performance.now() - started).toBeLessThan(4_000);
    expect(proxy.requests).toBe(1);
  });
});
