import { describe, expect, test, vi } from "vitest";
import { AlreadyExistsError, optimisticUpdate, purgeTombstones, runTransaction, tableEntity, TargetNotFoundError, tryReadTarget } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { before, ghost } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

useFakeTimers();

describe("a write that cannot be applied", () => {
  test.each<[string, (tx: Transaction) => unknown]>([
    ["get that is not awaited", (tx) => void tx.get("missing")],
    ["query that is not awaited", (tx) => void tx.query()],
    ["get whose error is caught", (tx) => tx.get("missing").catch(() => undefined)],
  ])("rejects the transaction, although a %s has loaded its row", async (_, read) => {
    for (const coalesce of [true, false]) {
      const { table } = fakePartition({ a: 1 });
      const updating = runTransaction(table, "p", async (tx) => {
        tx.update({ rowKey: "missing", n: 1 });
        tx.upsert({ rowKey: "other", n: 1 });
        await read(tx);
        await tx.get("a");
      }, { coalesce });
      expect(await rejection(updating)).toBeInstanceOf(TargetNotFoundError);
      expect(table.rowKeys()).toEqual(["a"]);
    }
  });

  test("is not lost if the read was started before it", async () => {
    const { table } = fakePartition({ z: 1, lock: 1 });
    const locking = runTransaction(table, "p", async (tx) => {
      const z = await tx.get<Numbered>("z");
      tx.update({ rowKey: "z", n: z!.n + 1 });
      void tx.get("lock");
      tx.create({ rowKey: "lock", n: 2 });
      return "I own it";
    });
    expect(await rejection(inFakeTime(locking))).toBeInstanceOf(AlreadyExistsError);
    expect([valueOf(table, "z"), valueOf(table, "lock")]).toEqual([1, 1]);
  });
});

test("an object that the caller reuses is copied", async () => {
  const { table } = fakePartition({ u: 0 });
  await runTransaction(table, "p", (tx) => {
    const patch = { rowKey: "", n: 0 };
    for (const [index, rowKey] of ["a", "b", "c"].entries()) tx.upsert(Object.assign(patch, { rowKey, n: index + 1 }));
    tx.update(Object.assign(patch, { rowKey: "u", n: 9 }));
    patch.n = 100;
  });
  expect(["a", "b", "c", "u"].map((rowKey) => valueOf(table, rowKey))).toEqual([1, 2, 3, 9]);
});

test("with an operationId, a transaction that was rejected because a row exists is not stored later", async () => {
  const { service, table } = fakePartition();
  const late = ghost();
  service.next("submitTransaction", late.fault, before(() => set(table, "b", 5)));
  const creating = runTransaction(table, "p", (tx) => {
    tx.create({ rowKey: "a", n: 1 });
    tx.create({ rowKey: "b", n: 1 });
  }, { operationId: "order-1" });
  const error = await rejection(inFakeTime(creating));
  await table.deleteEntity("p", "b");
  late.arrive();
  if (error["committed"] === false) expect(valueOf(table, "a")).toBeUndefined();
  expect(error).toBeInstanceOf(AlreadyExistsError);
});

describe("a client that does not know tombstones and merges an entity into one", () => {
  test("has created an entity: it is read, updated, and not purged", async () => {
    const { table } = fakePartition({ a: 1, x: 1 });
    const keys = { partitionKey: "p", rowKey: "x" };
    await table.updateEntity({ ...keys, asc_tombstone: { type: "Boolean", value: true } }, "Replace");
    expect(await tryReadTarget(tableEntity(table, "p", "x"))).toBeUndefined();
    await table.updateEntity({ ...keys, n: { type: "Int32", value: 42 } }, "Merge");
    expect((await tryReadTarget(tableEntity<Numbered>(table, "p", "x")))?.value.n).toBe(42);
    expect(await runTransaction(table, "p", async (tx) => (await tx.get<Numbered>("x"))?.n)).toBe(42);
    expect(await rejection(inFakeTime(runTransaction(table, "p", (tx) => tx.create({ rowKey: "x", n: 1 }))))).toBeInstanceOf(AlreadyExistsError);
    vi.setSystemTime(new Date("2031-01-01")); // the fake stores in 2030
    expect(await purgeTombstones(table, { olderThanInMs: 0 })).toEqual({ deleted: 0, kept: 1 });
    // The library's next write removes the marker, which would hide the entity from a filter.
    await optimisticUpdate(tableEntity<Numbered>(table, "p", "x"), (row) => {
      row.n++;
    });
    expect(valueOf(table, "x")).toBe(43);
    expect(table.property("asc_tombstone", "p", "x")).toBeUndefined();
    expect(await purgeTombstones(table, { olderThanInMs: 0 })).toEqual({ deleted: 0, kept: 0 });
  });
});

test("purgeTombstones rejects an age that no date has", async () => {
  const { table } = fakePartition();
  expect(await rejection(purgeTombstones(table, { olderThanInMs: Infinity }))).toMatchObject({ name: "RangeError", message: expect.stringContaining("olderThanInMs") as unknown });
});
