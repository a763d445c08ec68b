import { describe, expect, onTestFinished, test } from "vitest";

import { isConcurrencyError, optimisticUpdate, purgeTombstones, runTransaction, tableEntity } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { respondWith, dropResponse, isBatch, isRead, startFaultProxy, type FaultProxy, type FaultRule } from "../../src/testing.js";
import { azurite, connectionString, freshName, freshTable, tableClient } from "../support/clients.js";
import { fastTable } from "../support/fast-clients.js";

interface Numbered {
  n: number;
}

/** A table with rows, a client through a fault proxy, and one past it. */
async function scene(rows: Record<string, number> = {}, rules: readonly FaultRule[] = []) {
  const direct = await freshTable();
  for (const [rowKey, n] of Object.entries(rows)) await direct.createEntity({ partitionKey: "p", rowKey, n });
  const proxy = await startFaultProxy(azurite().tableUrl, rules);
  onTestFinished(() => proxy.stop());
  const table = fastTable(connectionString({ tableUrl: proxy.url }), direct.tableName);
  return { direct, table, proxy };
}

async function rowKeys(table: ReturnType<typeof tableClient>): Promise<string[]> {
  const keys: string[] = [];
  for await (const { rowKey } of table.listEntities()) keys.push(rowKey ?? "");
  return keys;
}

const all = (proxy: FaultProxy): number => proxy.count(() => true);

describe("cost in requests", () => {
  test.each([1, 3])("%i rows read one by one are one more", async (n) => {
    const rows = Object.fromEntries(Array.from({ length: n }, (_, i) => [`r${i}`, 0]));
    const { table, proxy } = await scene(rows);
    await runTransaction(table, "p", async (tx) => {
      for (const rowKey of Object.keys(rows)) tx.update({ rowKey, n: (await tx.get<Numbered>(rowKey))!.n + 1 });
    });
    expect(all(proxy)).toBe(n + 1);
  });

  test("getMany of 14 rows is one query", async () => {
    const rows = Object.fromEntries(Array.from({ length: 14 }, (_, i) => [`r${i}`, 0]));
    const { table, proxy } = await scene(rows);
    await runTransaction(table, "p", async (tx) => {
      const found = await tx.getMany<Numbered>(Object.keys(rows));
      for (const row of found) tx.update({ rowKey: row!.rowKey, n: row!.n + 1 });
    });
    expect([proxy.count(isRead), proxy.count(isBatch), all(proxy)]).toEqual([1, 1, 2]);
  });

  test("a create is one, a delete of a row that was not read is three: read, commit, clean up", async () => {
    const { table, proxy } = await scene();
    await runTransaction(table, "p", (tx) => tx.create({ rowKey: "a", n: 1 }));
    expect(all(proxy)).toBe(1);
    proxy.reset();
    await runTransaction(table, "p", (tx) => tx.delete("a"));
    await proxy.waitFor(({ method }) => method === "DELETE");
    expect(all(proxy)).toBe(3);
  });
});

describe("a delete within a transaction", () => {
  test("is unconditional in the bare SDK, whatever ETag it is given: that is a fact", async () => {
    const { direct } = await scene({ a: 1 });
    const { etag } = await direct.getEntity("p", "a");
    await direct.updateEntity({ partitionKey: "p", rowKey: "a", n: 2 }, "Merge");
    await direct.submitTransaction([["delete", { partitionKey: "p", rowKey: "a", etag }]]);
    expect(await rowKeys(direct)).toEqual([]);
  });

  test("is refused if the row has changed since it was read", async () => {
    const { direct, table } = await scene({ a: 1 });
    const seen: number[] = [];
    await runTransaction(table, "p", async (tx) => {
      const a = await tx.get<Numbered>("a");
      seen.push(a!.n);
      if (seen.length === 1) await direct.updateEntity({ partitionKey: "p", rowKey: "a", n: 2 }, "Merge");
      if (a!.n === 1) tx.delete("a");
    });
    expect(seen).toEqual([1, 2]);
    expect((await direct.getEntity<Numbered>("p", "a")).n).toBe(2);
  });

  test("happens once and leaves nothing, even if its answer is lost", async () => {
    const { direct, table } = await scene({ a: 1, b: 1 }, [dropResponse({ when: isBatch, times: 1 })]);
    const attempts = await runTransaction(table, "p", (tx) => {
      tx.delete("a");
      tx.update({ rowKey: "b", n: 2 });
      return tx.attempt;
    });
    expect(attempts).toBe(1);
    await expect.poll(() => rowKeys(direct)).toEqual(["b"]);
  });
});

describe("write skew", () => {
  test("does not happen between two transactions that read both rows and write one each", async () => {
    const { direct, table } = await scene({ a: 1, b: 1 });
    const other = tableClient(direct.tableName);
    const takeOff = (client: typeof other, rowKey: string) =>
      runTransaction(client, "p", async (tx) => {
        const rows = await tx.getMany<Numbered>(["a", "b"]);
        // At least one has to stay on duty.
        if (rows.reduce((sum, row) => sum + row!.n, 0) > 1) tx.update({ rowKey, n: 0 });
      });
    for (let round = 0; round < 10; round++) {
      for (const rowKey of ["a", "b"]) await direct.updateEntity({ partitionKey: "p", rowKey, n: 1 }, "Merge");
      await Promise.all([takeOff(table, "a"), takeOff(other, "b")]);
      const [a, b] = await Promise.all(["a", "b"].map((rowKey) => direct.getEntity<Numbered>("p", rowKey)));
      expect(a!.n + b!.n).toBe(1);
    }
  });
});

describe("what cannot be done is said clearly, and nothing is written", () => {
  const many = (count: number): string[] => Array.from({ length: count }, (_, i) => `x${i}`);
  test.each([
    ["101 operations", (tx: Transaction) => { for (const rowKey of many(101)) tx.create({ rowKey, n: 1 }); }],
    ["an entity over 1 MiB", (tx: Transaction) => { tx.create({ rowKey: "ok" }); tx.create({ rowKey: "x", a: "x".repeat(300_000), b: "x".repeat(300_000) }); }],
  ] as const)("%s", async (_, fn) => {
    const { direct, table, proxy } = await scene();
    await expect(runTransaction(table, "p", fn)).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TRANSACTION_LIMIT"));
    expect(all(proxy)).toBe(0);
    expect(await rowKeys(direct)).toEqual([]);
  });

  test("a second partition", async () => {
    const { direct, table } = await scene();
    const running = runTransaction(table, "p", (tx) => {
      tx.create({ rowKey: "a" });
      tx.create({ partitionKey: "q", rowKey: "a" });
    });
    await expect(running).rejects.toThrow(/All entities of the transaction are in partition "p"/);
    expect(await rowKeys(direct)).toEqual([]);
  });

  test("the same row twice is one operation, and creating it twice an error", async () => {
    const { direct, table } = await scene();
    await runTransaction(table, "p", (tx) => {
      tx.create({ rowKey: "a", n: 1 });
      tx.update({ rowKey: "a", n: 2 });
    });
    expect((await direct.getEntity<Numbered>("p", "a")).n).toBe(2);
    const twice = runTransaction(table, "p", (tx) => {
      tx.create({ rowKey: "b", n: 1 });
      tx.create({ rowKey: "b", n: 2 });
    });
    await expect(twice).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "ALREADY_EXISTS"));
    expect(await rowKeys(direct)).toEqual(["a"]);
  });

  test("a table that does not exist", async () => {
    const table = tableClient(freshName());
    await expect(runTransaction(table, "p", (tx) => tx.create({ rowKey: "a" }))).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TARGET_NOT_FOUND"));
    await expect(runTransaction(table, "p", (tx) => tx.get("a"))).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TARGET_NOT_FOUND"));
  });

  test("a function that throws, or is aborted, midway", async () => {
    const { direct, table } = await scene({ a: 1 });
    const controller = new AbortController();
    const start = async (tx: Transaction): Promise<void> => {
      await tx.get("a");
      tx.update({ rowKey: "a", n: 2 });
      tx.create({ rowKey: "b", n: 2 });
    };
    const throwing = runTransaction(table, "p", async (tx) => {
      await start(tx);
      throw new Error("no");
    });
    const aborted = runTransaction(table, "p", async (tx) => {
      await start(tx);
      controller.abort();
      await new Promise(() => undefined);
    }, { abortSignal: controller.signal });
    await Promise.all([
      expect(throwing).rejects.toThrow("no"),
      expect(aborted).rejects.toMatchObject({ name: "AbortError" }),
    ]);
    expect(await rowKeys(direct)).toEqual(["a"]);
    expect((await direct.getEntity<Numbered>("p", "a")).n).toBe(1);
  });
});

describe("rows that the library adds", () => {
  test("tombstones of a process that died are invisible to transactions and updates, and purged", async () => {
    const { direct, table } = await scene({ a: 1, b: 2 });
    await direct.updateEntity({ partitionKey: "p", rowKey: "a", asc_tombstone: true }, "Replace");
    const value = await runTransaction(table, "p", async (tx) => [await tx.get("a"), (await tx.query()).map(({ rowKey }) => rowKey)]);
    expect(value).toEqual([undefined, ["b"]]);
    await expect(optimisticUpdate(tableEntity(table, "p", "a"), () => undefined)).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "TARGET_NOT_FOUND"));
    expect(await purgeTombstones(table, { partitionKey: "p" })).toEqual({ deleted: 0, kept: 0 }); // too young
    expect(await purgeTombstones(table, { partitionKey: "p", olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
    expect(await rowKeys(direct)).toEqual(["b"]);
  });

  test("a delete whose cleaning up fails is a delete all the same", async () => {
    const { direct, table, proxy } = await scene({ a: 1, b: 1 }, [respondWith(403, { when: ({ method }) => method === "DELETE" })]);
    await runTransaction(table, "p", (tx) => {
      tx.delete("a");
      tx.update({ rowKey: "b", n: 2 });
    });
    await proxy.waitFor(({ method }) => method === "DELETE");
    expect(await direct.getEntity("p", "a")).toMatchObject({ asc_tombstone: true });
    const other = tableClient(direct.tableName);
    const value = await runTransaction(other, "p", async (tx) => (await tx.query()).map(({ rowKey }) => rowKey));
    expect(value).toEqual(["b"]);
    expect(await purgeTombstones(other, { olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
    expect(await rowKeys(direct)).toEqual(["b"]);
  });

  test("a tombstone is in nobody's way: create and upsert put an entity in its place", async () => {
    const { direct, table } = await scene({ a: 1, b: 2 });
    for (const rowKey of ["a", "b"]) await direct.updateEntity({ partitionKey: "p", rowKey, asc_tombstone: true }, "Replace");
    await runTransaction(table, "p", (tx) => {
      tx.create({ rowKey: "a", n: 5 });
      tx.upsert({ rowKey: "b", n: 6 });
    });
    const value = await runTransaction(table, "p", (tx) => tx.getMany<Numbered>(["a", "b"]));
    expect(value.map((row) => row?.n)).toEqual([5, 6]);
    expect(await purgeTombstones(table, { olderThanInMs: 0 })).toEqual({ deleted: 0, kept: 0 });
  });

  test("the tombstone that validates a missing row is removed, also if two processes validated it", async () => {
    const { direct, table } = await scene({ a: 1 });
    const other = tableClient(direct.tableName);
    const unlessFlagged = (client: typeof other) =>
      runTransaction(client, "p", async (tx) => {
        if (!(await tx.get("flag"))) tx.update({ rowKey: "a", n: (await tx.get<Numbered>("a"))!.n + 1 });
      });
    await Promise.all([unlessFlagged(table), unlessFlagged(other), unlessFlagged(table)]);
    await expect.poll(() => rowKeys(direct)).toEqual(["a"]);
    expect((await direct.getEntity<Numbered>("p", "a")).n).toBe(4);
  });

  test("an entity that a transaction wrote has a journal, which transactions and updates hide", async () => {
    const { direct, table } = await scene();
    await runTransaction(table, "p", (tx) => {
      tx.create({ rowKey: "a", n: 1 });
      tx.create({ rowKey: "b", n: 1 });
    });
    for (const rowKey of ["a", "b"]) expect(await direct.getEntity("p", rowKey)).toHaveProperty("asc_journal");
    const value = await runTransaction(table, "p", (tx) => tx.get("a"));
    expect(value).toEqual({ partitionKey: "p", rowKey: "a", n: 1 });
  });
});

describe("lost answers", () => {
  test.each(["create", "update", "read only beside a change"] as const)("a transaction is applied once if the answer to its %s is lost", async (kind) => {
    const { direct, table } = await scene({ a: 0, b: 0 }, [dropResponse({ when: isBatch, times: 1 })]);
    const attempts = await runTransaction(table, "p", async (tx) => {
      const a = await tx.get<Numbered>("a");
      if (kind === "create") tx.create({ rowKey: "c", n: a!.n + 1 });
      else tx.update({ rowKey: kind === "update" ? "a" : "b", n: a!.n + 1 });
      return tx.attempt;
    });
    expect(attempts).toBe(1);
    const changed = { create: "c", update: "a", "read only beside a change": "b" }[kind];
    expect((await direct.getEntity<Numbered>("p", changed)).n).toBe(1);
  });
});
