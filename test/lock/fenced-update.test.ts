import { afterEach, beforeEach, describe, expect, expectTypeOf, onTestFinished, test, vi } from "vitest";

import { BlobLocks, DELETE, isConcurrencyError, TableLock } from "../../src/index.js";
import type { LockedTable } from "../../src/index.js";
import { after, before, gate, hang, hangAfterCommit, loseAnswer, loseAnswerForGood } from "../fakes/faults.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { inFakeTime } from "../support/timers.js";
import { holderOf } from "./held-table.js";
import { fakePartition, set, valueOf } from "../transaction/fakes/partition.js";
import type { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";
import type { Numbered } from "../transaction/fakes/partition.js";

beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
});

function holder(table: FakeTransactionTable, epoch = 7): LockedTable {
  return holderOf(table, epoch);
}

const increment = (entity: Numbered): void => {
  entity.n++;
};

async function etagOf(table: FakeTransactionTable, rowKey: string): Promise<string> {
  return ((await table.getEntity("p", rowKey)) as { etag: string }).etag;
}

describe("update of a fenced entity", () => {
  test("says what it did, with the value and the ETag that are stored now", async () => {
    const { table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    const operationId = expect.any(String) as string;
    const updated = await partition.update("a", increment);
    expect(updated).toEqual({ outcome: "updated", value: { partitionKey: "p", rowKey: "a", n: 2 }, etag: await etagOf(table, "a"), attempts: 1, operationId });
    const created = await partition.update("b", (draft) => ({ ...draft, n: 5 }), { initial: { n: 0 } });
    expect(created).toEqual({ outcome: "created", value: { partitionKey: "p", rowKey: "b", n: 5 }, etag: await etagOf(table, "b"), attempts: 1, operationId });
    expect(await partition.update("b", () => undefined)).toEqual({ ...created, outcome: "unchanged", operationId });
    const deleted = await partition.update("b", () => DELETE);
    expect(deleted).toEqual({ outcome: "deleted", value: created.value, attempts: 1, operationId });
    expect(table.rowKeys()).toEqual(["a", "~asc~fence"]);
    expect(await partition.update("b", () => DELETE, { initial: { n: 3 } })).toMatchObject({ outcome: "unchanged", value: { n: 3 } });
  });

  test("of one row by many callers at the same time: each meets few conflicts with the others", async () => {
    const { table } = fakePartition({ a: 0 });
    const partition = await holder(table).partition<Numbered>("p");
    const updated = await Promise.all(Array.from({ length: 50 }, () => partition.update("a", increment)));
    expect(valueOf(table, "a")).toBe(50);
    expect(Math.max(...updated.map(({ attempts }) => attempts))).toBeLessThanOrEqual(2);
  });

  test.each<[string, (table: FakeTransactionTable) => void, number]>([
    ["changed it", (table) => set(table, "a", 10), 11],
    ["deleted it", (table) => void table.deleteEntity("p", "a"), 1],
  ])("runs again if a client without the lock %s in between", async (_, interfere, result) => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    service.next("submitTransaction", before(() => interfere(table)));
    const attempts: number[] = [];
    const updated = await partition.update("a", (entity, context) => {
      attempts.push(context.attempt);
      entity.n++;
    }, { initial: { n: 0 } });
    expect(updated).toMatchObject({ attempts: 2, value: { n: result } });
    expect(attempts).toEqual([1, 2]);
    expect(valueOf(table, "a")).toBe(result);
  });

  test("runs again if a client without the lock created the entity in between, and does not overwrite it", async () => {
    const { service, table } = fakePartition();
    const partition = await holder(table).partition<Numbered>("p");
    service.next("submitTransaction", before(() => set(table, "a", 10)));
    expect(await partition.update("a", increment, { initial: { n: 0 } })).toMatchObject({ outcome: "updated", attempts: 2, value: { n: 11 } });
  });

  test("does not delete what a client without the lock wrote in between", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    service.next("submitTransaction", before(() => set(table, "a", 10)));
    const updated = await partition.update("a", (entity) => (entity.n === 1 ? DELETE : { ...entity, n: entity.n + 1 }));
    expect(updated).toMatchObject({ outcome: "updated", attempts: 2 });
    expect(valueOf(table, "a")).toBe(11);
  });

  test("gives up after maxAttempts with a conflict that names the entity, and nothing is written", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    for (let n = 0; n < 3; n++) service.next("submitTransaction", before(() => set(table, "a", 10 + n)));
    const update = partition.update("a", increment, { maxAttempts: 3 });
    await expect(update).rejects.toSatisfy((error) => isConcurrencyError(error, "CONFLICT") && error.attempts === 3 && (error.url ?? "").includes("RowKey='a'"));
    expect(valueOf(table, "a")).toBe(12);
  });

  test.each([loseAnswer, loseAnswerForGood])("is applied once if the response is lost (%#)", async (fault) => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    service.next("submitTransaction", fault);
    const updated = await partition.update("a", increment);
    expect(updated).toMatchObject({ outcome: "updated", value: { n: 2 }, attempts: 1 });
    expect(updated.etag).toBe(await etagOf(table, "a"));
    expect(valueOf(table, "a")).toBe(2);
  });

  test("has an ETag that matches nothing if the response is lost and another client wrote on top", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    service.next("submitTransaction", after(() => set(table, "a", 10), loseAnswerForGood));
    const updated = await partition.update("a", increment);
    expect(updated.value).toMatchObject({ n: 2 });
    expect(updated.etag).not.toBe(await etagOf(table, "a"));
  });

  test("that is cancelled while its write hangs says that its outcome is unknown, or rejects with the reason before", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    const controller = new AbortController();
    const reason = new Error("no longer wanted");
    const update = partition.update("a", () => {
      controller.abort(reason);
      return new Promise(() => undefined);
    }, { abortSignal: controller.signal });
    await expect(update).rejects.toBe(reason);
    service.next("submitTransaction", hangAfterCommit);
    await expect(partition.update("a", increment, { timeoutInMs: 50, tryTimeoutInMs: 1_000 })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "COMMIT_UNKNOWN"));
    service.next("getEntity", hang);
    await expect(partition.update("a", increment, { timeoutInMs: 50, tryTimeoutInMs: 1_000 })).rejects.toSatisfy((error: unknown) => isConcurrencyError(error, "OPERATION_TIMEOUT"));
  });

  test.each(["getEntity", "submitTransaction"])("sends a swallowed %s again after tryTimeoutInMs", async (operation) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    service.next(operation, hang);
    const updating = partition.update("a", increment, { timeoutInMs: 1_000, tryTimeoutInMs: 100 });
    await vi.advanceTimersByTimeAsync(150);
    expect(await updating).toMatchObject({ outcome: "updated", value: { n: 2 } });
    expect(valueOf(table, "a")).toBe(2);
  });

  test("gets an entity although the network swallows the first request", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    service.next("getEntity", hang);
    expect(await inFakeTime(partition.get("a"))).toMatchObject({ n: 1 });
  });

  test("an error of the mutator cancels it, and a wrong option is named", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    await expect(partition.update("a", () => { throw new Error("no"); })).rejects.toThrow("no");
    expect(service.count("submitTransaction")).toBe(1);
    await expect(partition.update("a", increment, { timeoutMs: 1 } as object)).rejects.toThrow('update: unknown option "timeoutMs"');
    await expect(partition.update("a", increment, { maxAttempts: 0 })).rejects.toThrow(RangeError);
    await expect(partition.update("a", undefined as never)).rejects.toThrow("update: mutator must be a function");
  });
});

describe("submit", () => {
  test("an upsert with an ETag is refused: the service would ignore it", async () => {
    const { table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition("p");
    await expect(partition.submit([["upsert", { rowKey: "a", n: 2 }, "Merge", { etag: "x" }]])).rejects.toThrow("an upsert cannot have an ETag");
    await expect(partition.submit([["create", { partitionKey: "q", rowKey: "b" }]])).rejects.toThrow(RangeError);
    await expect(partition.submit(undefined as never)).rejects.toThrow("actions must be an array");
    expect(valueOf(table, "a")).toBe(1);
  });
});

describe("partition", () => {
  test("called twice at a time opens the partition once", async () => {
    const { service, table } = fakePartition();
    const held = holder(table);
    const [a, b] = await Promise.all([held.partition("p"), held.partition("p")]);
    expect(a).toBe(b);
    expect(service.count("submitTransaction")).toBe(1);
  });

  test("a caller that is cancelled does not cancel the other", async () => {
    const { service, table } = fakePartition();
    const held = holder(table);
    const opening = gate();
    service.next("submitTransaction", opening.fault);
    const controller = new AbortController();
    const cancelled = held.partition("p", { abortSignal: controller.signal });
    const other = held.partition("p");
    await opening.reached;
    controller.abort(new Error("no longer wanted"));
    await expect(cancelled).rejects.toThrow("no longer wanted");
    opening.open();
    expect((await other).partitionKey).toBe("p");
    expect(await held.partition("p")).toBe(await other);
  });

  test("a caller that waits for another can be cancelled by itself", async () => {
    const { service, table } = fakePartition();
    const held = holder(table);
    const opening = gate();
    service.next("submitTransaction", opening.fault);
    const first = held.partition("p");
    await opening.reached;
    await expect(held.partition("p", { abortSignal: AbortSignal.abort(new Error("at once")) })).rejects.toThrow("at once");
    opening.open();
    await first;
  });

  test("a failure is the error of its own caller, and is not kept", async () => {
    const { service, table } = fakePartition();
    const held = holder(table);
    service.next("getEntity", () => Promise.reject(new Error("broken once")));
    const [first, second] = await Promise.allSettled([held.partition("p"), held.partition("p")]);
    expect(first).toMatchObject({ status: "rejected", reason: { message: "broken once" } });
    expect(second.status).toBe("fulfilled");
    await held.partition("p");
  });
});

describe("the types", () => {
  test("the key follows from the granularity", () => {
    const { table } = fakePartition();
    const locks = new BlobLocks(new FakeLeaseServer().container());
    const [byTable, byPartition, byEntity] = [new TableLock(table, locks), new TableLock(table, locks, { granularity: "partition" }), new TableLock(table, locks, { granularity: "entity" })];
    expectTypeOf(byTable).toEqualTypeOf<TableLock>();
    expectTypeOf(byTable.granularity).toEqualTypeOf<"table">();
    const compiled = (): unknown => [
      byTable.withLock((held) => held.epoch, { waitInMs: 1 }),
      byTable.acquire(),
      byTable.tryAcquire({ autoRenew: false }),
      byPartition.withLock("p", (held) => held.epoch),
      byPartition.acquire("p", { waitInMs: 1 }),
      byEntity.withLock({ partitionKey: "p", rowKey: "r" }, (held) => held.epoch, { waitInMs: 1 }),
      byEntity.tryAcquire({ partitionKey: "p", rowKey: "r" }),
      // @ts-expect-error -- the lock of a table has no key
      byTable.withLock("p", () => 1),
      // @ts-expect-error -- a partition key
      byPartition.withLock(() => 1),
      // @ts-expect-error -- not the keys of an entity
      byPartition.acquire({ partitionKey: "p", rowKey: "r" }),
      // @ts-expect-error -- the keys of an entity
      byEntity.acquire("p"),
    ];
    expect(compiled).toBeTypeOf("function");
  });

  test("a partition has the type of its entities, and each call may name another", () => {
    type Order = { total: number };
    const compiled = async (held: LockedTable): Promise<void> => {
      const orders = await held.partition<Order>("p");
      expectTypeOf((await orders.get("a"))!.total).toEqualTypeOf<number>();
      expectTypeOf((await orders.get<Numbered>("a"))!.n).toEqualTypeOf<number>();
      for await (const order of orders.list()) expectTypeOf(order.total).toEqualTypeOf<number>();
      const { value } = await orders.update("a", (order) => { order.total++; });
      expectTypeOf(value.total).toEqualTypeOf<number>();
      await orders.create({ rowKey: "a", total: 1 });
      // @ts-expect-error -- total is missing
      await orders.create({ rowKey: "a" });
      // @ts-expect-error -- no such property
      await orders.update("a", (order) => { order.sum = 1; });
    };
    expect(compiled).toBeTypeOf("function");
  });
});

describe("what a mutator of a fenced entity may return", () => {
  test.each<[string, (entity: Numbered) => unknown]>([
    ["a number", (entity) => entity.n++],
    ["null", () => null],
    ["another row", (entity) => ({ ...entity, rowKey: "b" })],
    ["another partition", (entity) => ({ ...entity, partitionKey: "q" })],
    ["a journal", (entity) => ({ ...entity, asc_journal: "mine" })],
    ["a tombstone", (entity) => ({ ...entity, asc_tombstone: true })],
  ])("is not %s: a TypeError, and nothing is written", async (_, mutator) => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    const before = service.count("submitTransaction");
    await expect(partition.update("a", mutator as never)).rejects.toThrow(TypeError);
    expect(valueOf(table, "a")).toBe(1);
    expect(service.count("submitTransaction")).toBe(before);
  });

  test.each([5, null, { rowKey: "zzz", n: 1 }])("is not created from %o", async (initial) => {
    const { table } = fakePartition({});
    const partition = await holder(table).partition<Numbered>("p");
    await expect(partition.update("new", increment, { initial: initial as never })).rejects.toThrow(TypeError);
    expect(table.rowKeys()).toEqual(["~asc~fence"]);
  });

  test("can be DELETE, and leaves no row even if the response is lost", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const partition = await holder(table).partition<Numbered>("p");
    service.next("submitTransaction", loseAnswer);
    expect((await partition.update("a", () => DELETE)).outcome).toBe("deleted");
    expect(table.rowKeys()).toEqual(["~asc~fence"]);
  });
});
