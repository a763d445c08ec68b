import { describe, expect, test, vi } from "vitest";
import { CommitUnknownError, runTransaction } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { hang, loseAnswer, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, valueOf } from "./fakes/partition.js";
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
      service.next("getEntity", pass, pass, hang, hang, hang);
      const error = rejection(runTransaction(table, "p", increment, { operationId: "order-1", timeoutInMs: 100 }));
      await vi.advanceTimersByTimeAsync(100);
      expect(await error).toBeInstanceOf(CommitUnknownError);
      expect(await error).toMatchObject({ operationId: "order-1" });
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
