import { describe, expect, onTestFinished, test } from "vitest";

import { BlobLocks, ConcurrentTable, isConcurrencyError, TableLock } from "../../src/index.js";
import { dropResponse, isBatch, startFaultProxy, type FaultRule } from "../../src/testing.js";
import { azurite, connectionString, freshContainer, freshName, freshTable, tableClient } from "../support/clients.js";
import { fastTable } from "../support/fast-clients.js";

async function scene(rules: readonly FaultRule[] = []) {
  const [direct, container] = [await freshTable(), await freshContainer()];
  const proxy = await startFaultProxy(azurite().tableUrl, rules);
  onTestFinished(() => proxy.stop());
  const table = fastTable(connectionString({ tableUrl: proxy.url }), direct.tableName);
  return { direct, table, proxy, locks: new BlobLocks(container) };
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function rows(table: ReturnType<typeof tableClient>): Promise<string[]> {
  const keys: string[] = [];
  for await (const { rowKey } of table.listEntities()) keys.push(rowKey ?? "");
  return keys;
}

describe("granularity", () => {
  test("a service that disagrees is told so, and gets no lock", async () => {
    const { table, locks } = await scene();
    await new TableLock(table, locks, { granularity: "partition" }).withLock("p", () => undefined);
    const disagreeing = new TableLock(table, locks, { granularity: "table" });
    await expect(disagreeing.withLock(() => "locked")).rejects.toSatisfy(
      (error) => isConcurrencyError(error, "LOCK_MODE_MISMATCH") && error.expected === "table" && error.found === "partition",
    );
    await expect(disagreeing.tryAcquire()).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LOCK_MODE_MISMATCH"));
  });

  test("the one who disagrees is told also while the table's lock is held", async () => {
    const { table, locks } = await scene();
    await new TableLock(table, locks).withLock(async () => {
      const disagreeing = new TableLock(table, locks, { granularity: "entity" });
      await expect(disagreeing.tryAcquire({ partitionKey: "p", rowKey: "r" })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LOCK_MODE_MISMATCH"));
    });
  });

  test("partitions and entities are locked one by one", async () => {
    const { table, locks } = await scene();
    const byEntity = new TableLock(table, locks, { granularity: "entity" });
    await using held = await byEntity.acquire({ partitionKey: "p", rowKey: "a" });
    expect(await byEntity.tryAcquire({ partitionKey: "p", rowKey: "a" })).toBeUndefined();
    await expect(byEntity.acquire({ partitionKey: "p", rowKey: "a" }, { waitInMs: 100 })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "LEASE_UNAVAILABLE"));
    await using other = await byEntity.tryAcquire({ partitionKey: "p", rowKey: "b" });
    expect(other).toBeDefined();
    const [a, b] = [await held.partition(), await other!.partition()];
    await Promise.all([a.create({ rowKey: "a", n: 1 }), b.create({ rowKey: "b", n: 1 })]);
    await expect(a.create({ rowKey: "b", n: 1 })).rejects.toThrow(TypeError);
    expect((await all(a.list())).map(({ rowKey }) => rowKey)).toEqual(["a"]);
  });

  test("the key has to fit the granularity", async () => {
    const { table, locks } = await scene();
    // @ts-expect-error -- the lock of a table has no key
    await expect(new TableLock(table, locks).acquire("p")).rejects.toThrow('the granularity of this lock is "table". Call TableLock.acquire(options)');
    // @ts-expect-error -- the lock of a partition needs one
    await expect(new TableLock(table, locks, { granularity: "partition" }).acquire()).rejects.toThrow("Call TableLock.acquire(partitionKey, options)");
    // @ts-expect-error -- a partition is not an entity
    await expect(new TableLock(table, locks, { granularity: "entity" }).withLock("p", () => 1)).rejects.toThrow("Call TableLock.withLock({ partitionKey, rowKey }, fn, options)");
  });

  test("keys may hold any character, and be as long as a key can be", async () => {
    const { table, locks } = await scene();
    const byEntity = new TableLock(table, locks, { granularity: "entity" });
    for (const rowKey of ["ä ö%20'\"&=+ 雪~", "x".repeat(500), "雪".repeat(500)]) {
      await byEntity.withLock({ partitionKey: "it's", rowKey }, async (held) => {
        const partition = await held.partition();
        await partition.create({ rowKey, n: 1 });
        expect(await partition.get(rowKey)).toEqual({ partitionKey: "it's", rowKey, n: 1 });
      });
    }
  });
});

describe("a held partition", () => {
  test("reads and writes; opening it costs 2 requests, a submit 1 and one more to read what it merges into, an update 2", async () => {
    const { table, proxy, locks } = await scene();
    await new TableLock(table, locks).withLock(async (held) => {
      const partition = await held.partition("p");
      expect(proxy.requests).toBe(2);
      expect(await held.partition("p")).toBe(partition);
      await partition.submit([["create", { rowKey: "a", n: 1 }], ["upsert", { rowKey: "b", n: 1 }]]);
      expect(proxy.requests).toBe(4);
      await partition.submit([["upsert", { rowKey: "a", n: 1 }], ["upsert", { rowKey: "b", n: 1 }]]);
      expect(proxy.requests).toBe(5);
      await partition.create({ rowKey: "c", n: 1 });
      await partition.delete("c");
      expect(proxy.requests).toBe(7);
      await partition.update<{ n: number }>("a", (entity) => { entity.n += 1; });
      expect(proxy.requests).toBe(9);
      expect((await all(partition.list<{ n: number }>())).map(({ rowKey, n }) => [rowKey, n])).toEqual([["a", 2], ["b", 1]]);
    });
  });

  test("concurrent writes of one holder do not refuse each other", async () => {
    const { direct, table, locks } = await scene();
    await new TableLock(table, locks).withLock(async (held) => {
      const partition = await held.partition("p");
      await Promise.all(Array.from({ length: 10 }, (_, n) => partition.create({ rowKey: `r${n}`, n })));
    });
    expect(await rows(direct)).toHaveLength(11);
  });

  test("a submit whose answer is lost happens once", async () => {
    const { direct, table, proxy, locks } = await scene();
    await new TableLock(table, locks).withLock(async (held) => {
      const partition = await held.partition("p");
      proxy.reset([dropResponse({ when: isBatch, times: 1 })]);
      await partition.create({ rowKey: "a", n: 1 });
      proxy.reset([dropResponse({ when: isBatch, times: 1 })]);
      await partition.delete("a");
      await partition.create({ rowKey: "a", n: 2 });
    });
    expect((await direct.getEntity<{ n: number }>("p", "a")).n).toBe(2);
  });

  test("a condition of the caller's own that does not hold is a conflict, and nothing is written", async () => {
    const { direct, table, locks } = await scene();
    await direct.createEntity({ partitionKey: "p", rowKey: "a", n: 1 });
    const { etag } = await direct.getEntity("p", "a");
    await direct.updateEntity({ partitionKey: "p", rowKey: "a", n: 2 }, "Merge");
    await new TableLock(table, locks).withLock(async (held) => {
      const partition = await held.partition("p");
      await expect(partition.submit([["create", { rowKey: "b" }], ["update", { rowKey: "a", n: 3 }, "Merge", { etag }]])).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "CONFLICT"));
      await expect(partition.create({ rowKey: "a", n: 3 })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "CONFLICT"));
      await partition.create({ rowKey: "c" }); // and goes on
    });
    expect(await rows(direct)).toEqual(["a", "c", "~asc~fence"]);
  });

  test("misuse is refused before anything is sent", async () => {
    const { table, proxy, locks } = await scene();
    await new TableLock(table, locks).withLock(async (held) => {
      const partition = await held.partition("p");
      proxy.reset();
      await expect(partition.submit(Array.from({ length: 100 }, (_, n) => ["create", { rowKey: `r${n}` }] as const))).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TRANSACTION_LIMIT"));
      await expect(partition.create({ rowKey: "big", a: "x".repeat(600_000) })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TRANSACTION_LIMIT"));
      await expect(partition.submit([["create", { rowKey: "a" }], ["delete", { rowKey: "a" }]])).rejects.toThrow(/two actions for the row/);
      await expect(partition.submit([["create", { partitionKey: "q", rowKey: "a" }]])).rejects.toThrow(/partition/);
      await expect(partition.create({ rowKey: "~asc~fence" })).rejects.toThrow(RangeError);
      await expect(partition.get("a", { abortSignal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
      expect(proxy.requests).toBe(0);
    });
  });

  test("an update keeps the journal of an entity when it removes a property", async () => {
    const { direct, table, locks } = await scene();
    await new ConcurrentTable<{ n: number; old?: number | undefined }>(table).entity("p", "a").createIfNotExists({ n: 1, old: 1 });
    await new TableLock(table, locks).withLock(async (held) => {
      await (await held.partition("p")).update("a", (entity) => { delete entity["old"]; });
    });
    const stored = await direct.getEntity("p", "a");
    expect(stored).toHaveProperty("asc_journal");
    expect(stored).not.toHaveProperty("old");
  });

  test("a table that does not exist is named", async () => {
    const table = tableClient(freshName());
    const locks = new BlobLocks(await freshContainer());
    const locking = new TableLock(table, locks).withLock((held) => held.partition("p"));
    await expect(locking).rejects.toSatisfy((error) => isConcurrencyError(error, "TARGET_NOT_FOUND") && error.message.includes(table.tableName));
  });
});

test("the facade locks its table, by the granularity that it was given", async () => {
  const { direct, table, locks } = await scene();
  const orders = new ConcurrentTable(table, { locks, granularity: "partition" });
  await orders.lock.withLock("p", async (held) => (await held.partition()).create({ rowKey: "a", n: 1 }));
  expect(await rows(direct)).toEqual(["a", "~asc~fence"]);
  expect(() => new ConcurrentTable(table).lock).toThrow(TypeError);
});
