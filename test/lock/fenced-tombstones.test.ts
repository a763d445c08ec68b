import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { isConcurrencyError, tableEntity, tryReadTarget } from "../../src/index.js";
import { before } from "../fakes/faults.js";
import type { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";
import { fakePartition, set, valueOf } from "../transaction/fakes/partition.js";
import { holderOf } from "./held-table.js";

beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
});

const marker = { asc_tombstone: { type: "Boolean", value: true } } as const;

/** What a transaction, or a fenced delete, of a process that crashed has left in place of the entity. */
function leaveTombstone(table: FakeTransactionTable, rowKey = "a"): void {
  table.put(marker, "p", rowKey);
}

function isMarked(table: FakeTransactionTable, rowKey = "a"): boolean {
  return table.property("asc_tombstone", "p", rowKey) !== undefined;
}

describe("a submit onto the tombstone of a crashed process", () => {
  test.each([
    ["an upsert", ["upsert", { rowKey: "a", n: 5 }] as const, 5],
    ["an upsert without properties", ["upsert", { rowKey: "a" }] as const, undefined],
    ["an upsert that replaces", ["upsert", { rowKey: "a", n: 5 }, "Replace"] as const, 5],
    ["a create", ["create", { rowKey: "a", n: 5 }] as const, 5],
    ["a create without properties", ["create", { rowKey: "a" }] as const, undefined],
  ])("%s creates the entity: nothing of the tombstone stays", async (_, action, n) => {
    const { table } = fakePartition();
    leaveTombstone(table);
    const partition = await holderOf(table, 7).partition<{ n?: number }>("p");
    await partition.submit([action, ["create", { rowKey: "b", n: 1 }]]);
    expect(await partition.get("a")).toEqual({ partitionKey: "p", rowKey: "a", ...(n !== undefined && { n }) });
    expect((await tryReadTarget(tableEntity<{ n?: number }>(table, "p", "a")))?.value.n).toBe(n);
    expect(isMarked(table)).toBe(false);
    expect(valueOf(table, "b")).toBe(1);
  });

  test.each(["Merge", "Replace"] as const)("an update (%s) is rejected: the entity does not exist, and nothing is written", async (mode) => {
    const { table } = fakePartition();
    leaveTombstone(table);
    const partition = await holderOf(table, 7).partition("p");
    await expect(partition.submit([["update", { rowKey: "a", n: 5 }, mode], ["create", { rowKey: "b", n: 1 }]])).rejects.toSatisfy(
      (error: unknown) => isConcurrencyError(error, "CONFLICT") && error.committed === false,
    );
    expect(table.rowKeys()).toEqual(["a", "~asc~fence"]);
    expect(isMarked(table)).toBe(true);
  });

  test("that is deleted, or replaced by an entity, in between: the submit starts again", async () => {
    for (const [interfere, n] of [
      [(table: FakeTransactionTable) => table.drop("p", "a"), undefined],
      [(table: FakeTransactionTable) => set(table, "a", 9), 9],
    ] as const) {
      const { service, table } = fakePartition();
      leaveTombstone(table);
      const partition = await holderOf(table, 7).partition("p");
      service.next("submitTransaction", before(() => interfere(table)));
      await partition.submit([["upsert", { rowKey: "a", m: 5 }]]);
      expect(await partition.get("a")).toEqual({ partitionKey: "p", rowKey: "a", m: 5, ...(n !== undefined && { n }) });
    }
  });

  test("into which another program has merged an entity: an upsert removes the marker, and keeps the properties", async () => {
    const { table } = fakePartition();
    table.put({ ...marker, n: { type: "Int32", value: 1 } }, "p", "a");
    const partition = await holderOf(table, 7).partition("p");
    await partition.submit([["upsert", { rowKey: "a", m: 5 }]]);
    expect(await partition.get("a")).toEqual({ partitionKey: "p", rowKey: "a", n: 1, m: 5 });
    expect(isMarked(table)).toBe(false);
  });

  test("a create of an entity that exists is a conflict, as before", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holderOf(table, 7).partition("p");
    const sent = service.count();
    await expect(partition.create({ rowKey: "a", n: 2 })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "CONFLICT"));
    expect(service.operations.slice(sent)).toEqual(["submitTransaction", "getEntity", "getEntity"]);
    expect(valueOf(table, "a")).toBe(1);
  });
});

describe("a submit costs", () => {
  test("1 request if the holder has read or written the rows, one more for each 14 others that are merged or updated", async () => {
    const { service, table } = fakePartition({ a: 1, b: 1, c: 1 });
    const partition = await holderOf(table, 7).partition("p");
    const costs = async (run: () => Promise<unknown>): Promise<number> => {
      const sent = service.count();
      await run();
      return service.count() - sent;
    };
    await partition.get("a");
    expect(await costs(() => partition.submit([["update", { rowKey: "a", n: 2 }], ["create", { rowKey: "d", n: 1 }], ["upsert", { rowKey: "e", n: 1 }, "Replace"]]))).toBe(1);
    expect(await costs(() => partition.submit([["upsert", { rowKey: "d", n: 2 }], ["update", { rowKey: "e", n: 2 }]]))).toBe(1);
    expect(await costs(() => partition.submit([["upsert", { rowKey: "b", n: 2 }]]))).toBe(2);
    expect(await costs(() => partition.submit([["upsert", { rowKey: "b", n: 3 }]]))).toBe(1);
    expect(await costs(() => partition.submit(Array.from({ length: 15 }, (_, i) => ["upsert", { rowKey: `n${i}`, n: 1 }] as const)))).toBe(3);
    for await (const { rowKey } of partition.list()) expect(rowKey).toBeDefined();
    expect(await costs(() => partition.submit([["upsert", { rowKey: "c", n: 2 }]]))).toBe(1);
    expect(await costs(() => partition.delete("c"))).toBe(1);
    expect(await costs(() => partition.submit([["upsert", { rowKey: "c", n: 2 }]]))).toBe(2);
  });

  test("an update 2 requests, and 3 more for each conflict with a client that does not use the lock", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holderOf(table, 7).partition<{ n: number }>("p");
    const sent = service.count();
    service.next("submitTransaction", before(() => set(table, "a", 10)));
    expect(await partition.update("a", (entity) => { entity.n++; })).toMatchObject({ outcome: "updated", attempts: 2, value: { n: 11 } });
    // Read and write; the fence row, to tell a conflict from a successor; read and write.
    expect(service.operations.slice(sent)).toEqual(["getEntity", "submitTransaction", "getEntity", "getEntity", "submitTransaction"]);
  });
});
