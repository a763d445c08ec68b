import { describe, expect, test, vi } from "vitest";
import { CommitUnknownError, runTransaction } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { deferred } from "../fakes/deferred.js";
import { answer, before, failAfterCommit, ghost, hang, hangAfterCommit, loseAnswer, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

useFakeTimers();

async function increment(tx: Transaction): Promise<number> {
  const row = await tx.get<Numbered>("a");
  tx.update({ rowKey: "a", n: row!.n + 1 });
  return row!.n + 1;
}

describe("runTransaction with operationId", () => {
  test("is applied once: a repetition does not run the function", async () => {
    const { service, table } = fakePartition({ a: 1 });
    expect(await runTransaction(table, "p", increment, { operationId: "order-1" })).toBe(2);
    expect(service.operations).toEqual(["getEntity", "getEntity", "submitTransaction"]);
    const fn = vi.fn(increment);
    expect(await runTransaction(table, "p", fn, { operationId: "order-1" })).toBeUndefined();
    expect(fn).not.toHaveBeenCalled();
    expect(valueOf(table, "a")).toBe(2);
    await runTransaction(table, "p", increment, { operationId: "order-2" });
    expect(valueOf(table, "a")).toBe(3);
    expect(table.rowKeys()).toEqual(["a", "~asc~operations"]);
  });

  test("is recognised whichever rows the other transactions write, under 31 later ones", async () => {
    const { table } = fakePartition({ a: 1 });
    await runTransaction(table, "p", increment, { operationId: "first" });
    for (let i = 0; i < 31; i++) await runTransaction(table, "p", (tx) => tx.upsert({ rowKey: `r${i % 3}`, n: i }), { operationId: `later-${i}` });
    await runTransaction(table, "p", increment, { operationId: "first" });
    expect(valueOf(table, "a")).toBe(2);
  });

  test("of concurrent calls is applied once, in one batch and by two processes", async () => {
    const { table } = fakePartition({ a: 1 });
    await inFakeTime(Promise.all(Array.from({ length: 5 }, () => runTransaction(table, "p", increment, { operationId: "order-1" }))));
    expect(valueOf(table, "a")).toBe(2);
    await inFakeTime(Promise.all(Array.from({ length: 2 }, () => runTransaction(table, "p", increment, { operationId: "order-2", coalesce: false }))));
    expect(valueOf(table, "a")).toBe(3);
    await inFakeTime(Promise.all(Array.from({ length: 40 }, (_, i) => runTransaction(table, "p", increment, { operationId: `many-${i}` }))));
    await inFakeTime(Promise.all(Array.from({ length: 40 }, (_, i) => runTransaction(table, "p", increment, { operationId: `many-${i}` }))));
    expect(valueOf(table, "a")).toBe(43);
  });

  test("returns what the function returned if its own commit is found only later, and not for that of another call", async () => {
    for (const own of [true, false]) {
      const { service, table, other } = fakePartition({ a: 1 });
      const fail = answer(500, "InternalError");
      service.next("submitTransaction", own ? failAfterCommit : loseRequest);
      const again = before(() => runTransaction(other, "p", increment, { operationId: own ? "order-2" : "order-1" }));
      service.next("getEntity", pass, pass, fail, fail, fail, again);
      const call = runTransaction(table, "p", increment, { operationId: "order-1", onUnknown: "retry" });
      expect(await inFakeTime(call)).toBe(own ? 2 : undefined);
      expect(valueOf(table, "a")).toBe(own ? 3 : 2);
    }
  });

  test("is recorded, even if other transactions of the same commit undo what it did", async () => {
    const { service, table } = fakePartition({ a: 100 });
    const add = (n: number) => async (tx: Transaction): Promise<number> => {
      const now = (await tx.get<Numbered>("a"))!.n + n;
      tx.update({ rowKey: "a", n: now });
      return now;
    };
    expect(await Promise.all([runTransaction(table, "p", add(10), { operationId: "A" }), runTransaction(table, "p", add(-10), { operationId: "B" })])).toEqual([110, 100]);
    expect(service.count("submitTransaction")).toBe(1);
    expect(await runTransaction(table, "p", add(10), { operationId: "A" })).toBeUndefined();
    expect(await runTransaction(table, "p", add(-10), { operationId: "B" })).toBeUndefined();
    expect(valueOf(table, "a")).toBe(100);
  });

  test("is recorded if it undoes its own change", async () => {
    const { table } = fakePartition({ a: 1 });
    const there = async (tx: Transaction): Promise<string> => {
      await tx.get("a");
      tx.update({ rowKey: "a", n: 2 });
      tx.update({ rowKey: "a", n: 1 });
      return "ran";
    };
    expect(await runTransaction(table, "p", there, { operationId: "A" })).toBe("ran");
    expect(await runTransaction(table, "p", there, { operationId: "A" })).toBeUndefined();
  });

  test("is recognised under 31 later commits, also if each of them has 16 transactions", async () => {
    const { service, table } = fakePartition({ a: 0 });
    const id = (commit: number, call: number): string => `${String(commit).padStart(4, "0")}${String(call).padStart(4, "0")}-1111-2222-3333-444455556666`;
    for (let commit = 0; commit < 32; commit++) await inFakeTime(Promise.all(Array.from({ length: 16 }, (_, call) => runTransaction(table, "p", increment, { operationId: id(commit, call) }))));
    expect(service.count("submitTransaction")).toBe(32);
    for (let call = 0; call < 16; call++) expect(await runTransaction(table, "p", increment, { operationId: id(0, call) })).toBeUndefined();
    expect(valueOf(table, "a")).toBe(512);
    // A string property has at most 64 KiB, in UTF-16.
    expect(String(table.property("asc_journal", "p", "~asc~operations")?.value).length).toBeLessThan(32 * 1024);
  });

  test("of two calls in one batch, the first of which is aborted: the second is applied and gets its value", async () => {
    const { table } = fakePartition({ a: 1, b: 1 });
    const controller = new AbortController();
    const opened = deferred();
    let runs = 0;
    // Each run writes a row of its own, so that the second does not depend on the first.
    const log = (tx: Transaction): string => {
      const rowKey = `log-${++runs}`;
      tx.create({ rowKey, n: 1 });
      return rowKey;
    };
    const first = rejection(runTransaction(table, "p", log, { operationId: "order-1", abortSignal: controller.signal }));
    const second = runTransaction(table, "p", log, { operationId: "order-1" });
    // Keeps the batch open until the two before it have ended.
    const third = runTransaction(table, "p", async (tx) => {
      await tx.get("b");
      await opened.promise;
    });
    await vi.advanceTimersByTimeAsync(50);
    controller.abort(new Error("not any more"));
    opened.resolve();
    expect(await first).toMatchObject({ message: "not any more" });
    const rowKey = await second;
    await third;
    expect(table.rowKeys()).toEqual(["a", "b", rowKey, "~asc~operations"]);
    expect(await runTransaction(table, "p", log, { operationId: "order-1" })).toBeUndefined();
  });

  test.each([["response", loseAnswer], ["response for good", loseAnswerForGood], ["request", loseRequest]] as const)("is applied once if the %s is lost, also if all rows are new", async (_, fault) => {
    const { service, table } = fakePartition();
    service.next("submitTransaction", fault);
    await inFakeTime(runTransaction(table, "p", (tx) => tx.create({ rowKey: "x", n: 1 }), { operationId: "order-1" }));
    service.next("submitTransaction", fault);
    await inFakeTime(runTransaction(table, "p", (tx) => tx.create({ rowKey: "y", n: 1 }), { operationId: "order-2" }));
    for (const operationId of ["order-1", "order-2"]) await runTransaction(table, "p", (tx) => tx.create({ rowKey: "x", n: 5 }), { operationId });
    expect([valueOf(table, "x"), valueOf(table, "y")]).toEqual([1, 1]);
  });

  test("of unknown outcome can be repeated with the id of the error", async () => {
    for (const fault of [loseAnswerForGood, loseRequest]) {
      const { service, table } = fakePartition({ a: 1 });
      service.next("submitTransaction", fault);
      service.next("getEntity", pass, pass);
      service.each("getEntity", hang);
      const error = rejection(runTransaction(table, "p", increment, { operationId: "order-1", timeoutInMs: 100 }));
      await vi.advanceTimersByTimeAsync(100);
      expect(await error).toBeInstanceOf(CommitUnknownError);
      expect(await error).toMatchObject({ operationId: "order-1" });
      service.heal();
      await inFakeTime(runTransaction(table, "p", increment, { operationId: "order-1" }));
      expect(valueOf(table, "a")).toBe(2);
    }
  });

  test("costs nothing for transactions without an id, and is invisible to queries", async () => {
    const { service, table } = fakePartition({ a: 1 });
    await runTransaction(table, "p", increment, { operationId: "order-1" });
    service.requests.length = 0;
    await runTransaction(table, "p", increment);
    expect(service.operations).toEqual(["getEntity", "submitTransaction"]);
    expect(await runTransaction(table, "p", async (tx) => (await tx.query()).map(({ rowKey }) => rowKey))).toEqual(["a"]);
  });
});

type Scene = ReturnType<typeof fakePartition>;

/** The id of a call without one whose outcome is unknown: the commit meets the fault, and then nothing can be read. */
async function unknownCall({ service, table }: Scene, fn: (tx: Transaction) => unknown, fault: Fault): Promise<string> {
  service.next("submitTransaction", fault);
  service.next("read", pass);
  service.each("read", hang);
  const error = rejection(runTransaction(table, "p", fn, { timeoutInMs: 100 }));
  await vi.advanceTimersByTimeAsync(100);
  expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown" });
  service.heal();
  return String((await error)["operationId"]);
}

describe("a transaction without an id that ended in a CommitUnknownError", () => {
  const rowKeys = ["a", "", "ä~'+ €", "x".repeat(512)];

  test.each(rowKeys)("is not applied again by a repetition with the id of the error: row %j", async (rowKey) => {
    const scene = fakePartition({ [rowKey]: 1 });
    const fn = async (tx: Transaction): Promise<string> => {
      tx.update({ rowKey, n: (await tx.get<Numbered>(rowKey))!.n + 1 });
      return "applied";
    };
    for (const fault of [loseAnswerForGood, hangAfterCommit]) {
      const before = Number(valueOf(scene.table, rowKey));
      const operationId = await unknownCall(scene, fn, fault);
      const repeated = vi.fn(fn);
      expect(await runTransaction(scene.other, "p", repeated, { operationId })).toBeUndefined();
      expect(await runTransaction(scene.table, "p", repeated, { operationId })).toBeUndefined();
      expect(repeated).not.toHaveBeenCalled();
      expect(valueOf(scene.table, rowKey)).toBe(before + 1);
    }
  });

  test("is found under up to 31 later writes of the row, and a repetition costs one request", async () => {
    const scene = fakePartition({ a: 1 });
    const operationId = await unknownCall(scene, increment, loseAnswerForGood);
    for (let i = 0; i < 31; i++) await runTransaction(scene.other, "p", increment);
    scene.service.requests.length = 0;
    await runTransaction(scene.table, "p", increment, { operationId });
    expect(valueOf(scene.table, "a")).toBe(33);
    expect(scene.service.operations).toEqual(["listEntities"]);
  });

  test("is applied once by repetitions if its request was lost, also if that arrives late", async () => {
    const scene = fakePartition({ a: 1, b: 1 });
    const late = ghost();
    const operationId = await unknownCall(scene, increment, late.fault);
    // The repetition decides otherwise, and does not write the row that the first write counts itself in.
    const other = async (tx: Transaction): Promise<void> => tx.update({ rowKey: "b", n: (await tx.get<Numbered>("b"))!.n + 1 });
    await runTransaction(scene.other, "p", other, { operationId });
    late.arrive();
    await runTransaction(scene.table, "p", other, { operationId });
    expect([valueOf(scene.table, "a"), valueOf(scene.table, "b")]).toEqual([1, 2]);
  });

  test("is not applied again if its request arrives while the repetition runs", async () => {
    const scene = fakePartition({ a: 1, b: 1 });
    const late = ghost();
    const operationId = await unknownCall(scene, increment, late.fault);
    await inFakeTime(runTransaction(scene.other, "p", (tx) => {
      late.arrive();
      tx.upsert({ rowKey: "b", n: 100 });
    }, { operationId }));
    expect([valueOf(scene.table, "a"), valueOf(scene.table, "b")]).toEqual([2, 1]);
  });

  test("and only creates rows is applied once, also if its request arrives late", async () => {
    const scene = fakePartition();
    const late = ghost();
    const create = (tx: Transaction): void => tx.create({ rowKey: "x", n: 1 });
    const error = await rejection(inFakeTime(runTransaction((scene.service.next("submitTransaction", late.fault), scene.table), "p", create)));
    const operationId = String(error["operationId"]);
    await inFakeTime(runTransaction(scene.other, "p", (tx) => tx.create({ rowKey: "y", n: 1 }), { operationId }));
    late.arrive();
    expect([valueOf(scene.table, "x"), valueOf(scene.table, "y")]).toEqual([undefined, 1]);
    await inFakeTime(runTransaction(scene.table, "p", create, { operationId }));
    expect(valueOf(scene.table, "x")).toBeUndefined();
  });

  test("rejects again if its witness row cannot tell any more, and is applied with onUnknown: retry", async () => {
    const scene = fakePartition({ a: 1 });
    const operationId = await unknownCall(scene, increment, loseAnswerForGood);
    scene.table.drop("p", "a");
    set(scene.table, "a", 10);
    const error = await rejection(runTransaction(scene.table, "p", increment, { operationId }));
    expect(error).toMatchObject({ code: "COMMIT_UNKNOWN", operationId });
    expect(valueOf(scene.table, "a")).toBe(10);
    await runTransaction(scene.table, "p", increment, { operationId, onUnknown: "retry" });
    expect(valueOf(scene.table, "a")).toBe(11);
    expect(await runTransaction(scene.table, "p", increment, { operationId })).toBeUndefined();
  });

  test("can be looked up with a function that throws", async () => {
    const ask = async ({ table }: Scene, operationId: string): Promise<unknown> =>
      runTransaction(table, "p", () => { throw new Error("not committed"); }, { operationId }).catch((error: unknown) => (error as Error).message);
    const committed = fakePartition({ a: 1 });
    expect(await ask(committed, await unknownCall(committed, increment, loseAnswerForGood))).toBeUndefined();
    const lost = fakePartition({ a: 1 });
    expect(await ask(lost, await unknownCall(lost, increment, loseRequest))).toBe("not committed");
  });

  test("that shared its write with one that has an id is found, too", async () => {
    const scene = fakePartition({ a: 1, b: 1 });
    const { service, table } = scene;
    service.next("submitTransaction", loseAnswerForGood);
    service.next("read", pass, pass, pass);
    service.each("read", hang);
    const withId = runTransaction(table, "p", increment, { operationId: "mine", timeoutInMs: 100 });
    const without = runTransaction(table, "p", async (tx) => tx.update({ rowKey: "b", n: (await tx.get<Numbered>("b"))!.n + 1 }), { timeoutInMs: 100 });
    const errors = Promise.all([rejection(withId), rejection(without)]);
    await vi.advanceTimersByTimeAsync(100);
    service.heal();
    for (const error of await errors) expect(await runTransaction(scene.other, "p", increment, { operationId: String(error["operationId"]) })).toBeUndefined();
    expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([2, 2]);
  });
});

test.each(["", "with space", "rQ~L~0~x", "rAAAAA~L~1~x", "x".repeat(65)])("an operationId that cannot be one is a RangeError: %j", async (operationId) => {
  const { service, table } = fakePartition();
  const error = await rejection(runTransaction(table, "p", increment, { operationId }));
  expect(error).toBeInstanceOf(RangeError);
  expect(service.requests).toEqual([]);
});

describe("one read of a transaction that gets no response", () => {
  test.each([["get", "getEntity"], ["query", "listEntities"]] as const)("is repeated (%s): callers that come later do not wait for it", async (method, operation) => {
    const { service, table } = fakePartition({ a: 1 });
    service.next(operation, hang);
    const calls: Promise<boolean>[] = [];
    for (let i = 0; i < 20; i++) {
      const call = runTransaction(table, "p", async (tx) => {
        const row = method === "get" ? await tx.get<Numbered>("a") : (await tx.query<Numbered>())[0];
        tx.update({ rowKey: "a", n: row!.n + 1 });
      }, { timeoutInMs: 1_000 });
      calls.push(call.then(() => true, () => false));
      await vi.advanceTimersByTimeAsync(100);
    }
    await vi.runAllTimersAsync();
    expect((await Promise.all(calls)).filter(Boolean)).toHaveLength(20);
    expect(valueOf(table, "a")).toBe(21);
  });
});
