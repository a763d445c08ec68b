import { describe, expect, test } from "vitest";
import { runTransaction } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { before } from "../fakes/faults.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

const count = async (tx: Transaction, from: string): Promise<number> => (await tx.query({ from, to: `${from}~` })).length;

describe("what a transaction reads that writes nothing is of one state", () => {
  test("a row that does not exist, and a query that finds nothing", async () => {
    const { service, table } = fakePartition({ b1: 1 });
    // Another client moves the item from b to c.
    service.next("listEntities", before(() => {
      table.drop("p", "b1");
      set(table, "c", 1);
    }));
    const found = await runTransaction(table, "p", async (tx) => {
      const c = await tx.get("c");
      return [await count(tx, "b"), c ? 1 : 0];
    });
    expect(found).toEqual([0, 1]);
  });

  test("a query that finds nothing, and then a row that belongs to what was added to the range", async () => {
    const { service, table } = fakePartition({ total: 0 });
    service.next("getEntity", before(() => {
      set(table, "item-1", 1);
      set(table, "total", 1);
    }));
    const [items, total] = await runTransaction(table, "p", async (tx) => [await count(tx, "item"), (await tx.get<Numbered>("total"))!.n]);
    expect(items).toBe(total);
  });

  test("two queries of which one finds nothing", async () => {
    const { service, table } = fakePartition({ b1: 1 });
    service.next("listEntities", before(() => undefined), before(() => {
      table.drop("p", "b1");
      set(table, "a1", 1);
    }));
    expect(await runTransaction(table, "p", async (tx) => [await count(tx, "a"), await count(tx, "b")])).toEqual([1, 0]);
  });

  test("a query with a filter, and a row", async () => {
    const { service, table } = fakePartition({ "item-1": 5, total: 0 });
    service.next("getEntity", before(() => {
      set(table, "item-1", 10);
      set(table, "total", 1);
    }));
    const [items, total] = await runTransaction(table, "p", async (tx) => [
      (await tx.query({ from: "item", to: "item~", filter: "n ge 10" })).length,
      (await tx.get<Numbered>("total"))!.n,
    ]);
    expect(items).toBe(total);
  });

  test("if its function fails", async () => {
    const { service, table } = fakePartition({ total: 0 });
    service.next("getEntity", before(() => {
      set(table, "item-1", 1);
      set(table, "total", 1);
    }));
    const checking = runTransaction(table, "p", async (tx) => {
      if ((await count(tx, "item")) !== (await tx.get<Numbered>("total"))!.n) throw new Error("out of balance");
      return "in balance";
    });
    expect(await checking).toBe("in balance");
  });

  test("a row that changes between the pages of a query", async () => {
    const { service, table } = fakePartition({ a: 1, b: -1, c: 0 });
    table.pageSize = 1;
    service.next("listEntities", before(() => undefined), before(() => {
      set(table, "a", 2);
      set(table, "b", -2);
    }));
    expect(await runTransaction(table, "p", async (tx) => (await tx.query<Numbered>()).reduce((sum, { n }) => sum + n, 0))).toBe(0);
  });
});

describe("the cost of that", () => {
  const rows = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`r${String(i).padStart(3, "0")}`, i]));

  test("a query is repeated, for one request, whatever the number of its rows", async () => {
    const { service, table } = fakePartition(rows);
    expect(await runTransaction(table, "p", async (tx) => (await tx.query()).length)).toBe(100);
    expect(service.operations).toEqual(["listEntities", "listEntities"]);
  });

  test("a query that found one row or none, and nothing else, is not repeated", async () => {
    const { service, table } = fakePartition(rows);
    expect(await runTransaction(table, "p", async (tx) => (await tx.query({ from: "r099" })).length)).toBe(1);
    expect(await runTransaction(table, "p", async (tx) => (await tx.query({ from: "x" })).length)).toBe(0);
    expect(service.operations).toEqual(["listEntities", "listEntities"]);
  });

  test("equal queries of several transactions are repeated once", async () => {
    const { service, table } = fakePartition(rows);
    await Promise.all(Array.from({ length: 5 }, () => runTransaction(table, "p", async (tx) => (await tx.query()).length)));
    expect(service.count("listEntities")).toBe(6);
  });

  test("rows that are added to the range of an only query do not disturb it", async () => {
    const { service, table } = fakePartition({ a: 1, b: 2 });
    let added = 0;
    service.each("listEntities", before(() => set(table, `c${++added}`, 3)));
    const [found, attempt] = await runTransaction(table, "p", async (tx) => [(await tx.query()).length, tx.attempt]);
    expect([found, attempt]).toEqual([3, 1]);
  });

  test("a transaction that writes does not repeat its queries", async () => {
    const { service, table } = fakePartition({ a: 1, b: 2 });
    await runTransaction(table, "p", async (tx) => tx.update({ rowKey: "a", n: (await tx.query()).length }));
    expect(service.operations).toEqual(["listEntities", "submitTransaction"]);
    expect(valueOf(table, "a")).toBe(2);
  });
});
