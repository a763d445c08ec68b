import { afterEach, describe, expect, test, vi } from "vitest";

import { ConcurrentTable, excludeLibraryRows, isLibraryRow, listEntities, runTransaction } from "../../src/index.js";
import { hang } from "../fakes/faults.js";
import { holderOf } from "../lock/held-table.js";
import { matchesFilter } from "../transaction/fakes/odata-filter.js";
import { fakePartition } from "../transaction/fakes/partition.js";

afterEach(() => {
  vi.restoreAllMocks();
});

const marker = { asc_tombstone: { type: "Boolean", value: true } } as const;

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

describe("isLibraryRow", () => {
  test.each([
    [{ rowKey: "~asc~fence", epoch: 7 }, true],
    [{ rowKey: "~asc~fence~order-1" }, true],
    [{ rowKey: "~asc~inbox!jobs!k" }, true],
    [{ rowKey: "a", asc_tombstone: true, etag: "x", timestamp: "y", partitionKey: "p", "odata.metadata": "z" }, true],
    [{ rowKey: "a", asc_tombstone: true, asc_journal: "j" }, true],
    [{ rowKey: "a", ...marker }, true],
    [{ rowKey: "a", asc_tombstone: true, n: 1 }, false], // another program has merged an entity into it
    [{ rowKey: "a", asc_tombstone: false }, false],
    [{ rowKey: "a", asc_journal: "j", n: 1 }, false],
    [{ rowKey: "~asc" }, false],
    [{ rowKey: "" }, false],
    [{}, false],
  ])("%j: %s", (entity, expected) => {
    expect(isLibraryRow(entity)).toBe(expected);
  });
});

describe("excludeLibraryRows", () => {
  test.each<[string, Record<string, string | number | boolean>, boolean]>([
    ["", { RowKey: "a" }, true],
    ["", { RowKey: "~asc" }, true],
    ["", { RowKey: "~asc~fence" }, false],
    ["", { RowKey: "~asc~fence~ä" }, false],
    ["", { RowKey: "~asc~queries" }, false],
    ["", { RowKey: "~b" }, true],
    ["", { RowKey: "a", asc_tombstone: true }, false],
    ["", { RowKey: "a", asc_tombstone: false }, true],
    ["n eq 1 or n eq 2", { RowKey: "a", n: 2 }, true],
    ["n eq 1 or n eq 2", { RowKey: "~asc~fence", n: 1 }, false],
    ["n eq 1 or n eq 2", { RowKey: "a", n: 3 }, false],
  ])("%j on %j: %s", (filter, row, expected) => {
    expect(matchesFilter(excludeLibraryRows(filter), (name) => row[name])).toBe(expected);
  });

  test("takes text only", () => {
    expect(() => excludeLibraryRows(5 as never)).toThrow(TypeError);
  });
});

describe("what the library writes into a table", () => {
  test("has no Int64, which the SDK returns as a bigint that JSON cannot hold", async () => {
    const { table } = fakePartition({ a: 1 });
    const partition = await holderOf(table, Date.now()).partition("p");
    await partition.create({ rowKey: "b", n: 1 });
    await holderOf(table, 3, "x").partition("q").catch(() => undefined);
    await runTransaction(table, "p", (tx) => tx.update({ rowKey: "a", n: 2 }), { detectPhantoms: true, operationId: "o" });
    const types = table.rowKeys().flatMap((rowKey) => [...(table.row("p", rowKey)?.properties.values() ?? [])].map(({ type }) => type));
    expect(types.length).toBeGreaterThan(5);
    expect(types).not.toContain("Int64");
  });
});

describe("listEntities", () => {
  test("returns the entities of all partitions as the library reads them, page after page, without its own rows and properties", async () => {
    const { table } = fakePartition({ a: 1, b: 2 });
    table.put(marker, "p", "deleted");
    table.put({ ...marker, n: { type: "Int32", value: 3 } }, "p", "merged");
    table.put({ n: { type: "Int32", value: 4 }, asc_journal: { type: "String", value: "x" } }, "q", "c");
    await holderOf(table, 7).partition("p");
    table.pageSize = 2;
    const expected = [
      { partitionKey: "p", rowKey: "a", n: 1 },
      { partitionKey: "p", rowKey: "b", n: 2 },
      { partitionKey: "p", rowKey: "merged", n: 3 },
      { partitionKey: "q", rowKey: "c", n: 4 },
    ];
    expect(await all(listEntities(table))).toEqual(expected);
    expect(await all(new ConcurrentTable<{ n: number }>(table).list())).toEqual(expected);
    expect(JSON.parse(JSON.stringify(await all(listEntities(table))))).toEqual(expected);
    expect(await all(listEntities(table, { filter: "n ge 3" }))).toEqual(expected.slice(2));
  });

  test("ends at once when it is aborted, and rejects misuse before a request", async () => {
    const { service, table } = fakePartition({ a: 1 });
    service.next("listEntities", hang);
    const controller = new AbortController();
    const listing = all(listEntities(table, { abortSignal: controller.signal }));
    await expect.poll(() => service.count("listEntities")).toBe(1);
    controller.abort(new Error("no longer wanted"));
    await expect(listing).rejects.toThrow("no longer wanted");
    expect(() => listEntities(table, { filters: "" } as never)).toThrow(TypeError);
    expect(() => listEntities({} as never)).toThrow(TypeError);
    expect(service.count()).toBe(1);
  });
});
