import { useInstrumenter } from "@azure/core-tracing";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";

import { isConcurrencyError, runTransaction } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { deferred } from "../fakes/deferred.js";
import { FakeInstrumenter } from "../fakes/fake-instrumenter.js";
import { before, gate, hang } from "../fakes/faults.js";
import { fakePartition, set, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

function add(rowKey: string, n: number) {
  return async (tx: Transaction): Promise<number> => {
    const value = ((await tx.get<Numbered>(rowKey))?.n ?? 0) + n;
    tx.upsert({ rowKey, n: value });
    return value;
  };
}

const many = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

describe("transactions of one process on one partition", () => {
  test("share reads and one commit, and each gets its own result", async () => {
    const { service, table } = fakePartition({ a: 0 });
    const results = await Promise.all(many("", 20).map(() => runTransaction(table, "p", add("a", 1))));
    expect(results).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
    expect(valueOf(table, "a")).toBe(20);
    expect(service.operations).toEqual(["getEntity", "submitTransaction"]);
  });

  test("one that throws is rolled back alone", async () => {
    const { table } = fakePartition({ a: 0 });
    const results = await Promise.allSettled([
      runTransaction(table, "p", add("a", 1)),
      runTransaction(table, "p", async (tx) => {
        await add("a", 100)(tx);
        tx.create({ rowKey: "left-over", n: 1 });
        throw new Error("changed my mind");
      }),
      runTransaction(table, "p", add("a", 2)),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(valueOf(table, "a")).toBe(3);
    expect(table.rowKeys()).toEqual(["a"]);
  });

  test("the span of one that changes nothing says so, whatever the others do", async () => {
    const { table } = fakePartition({ a: 0 });
    const tracer = new FakeInstrumenter();
    useInstrumenter(tracer);
    onTestFinished(() => useInstrumenter(undefined as never));
    await Promise.all([runTransaction(table, "p", add("a", 1)), runTransaction(table, "p", (tx) => tx.get("a"))]);
    const calls = tracer.spans.filter(({ name }) => name.endsWith("runTransaction"));
    expect(calls.map(({ attributes }) => attributes["azsc.outcome"])).toEqual(["committed", "unchanged"]);
  });

  test("what does not fit into one request together is sent in several, and nobody is refused for the others' rows", async () => {
    const { service, table } = fakePartition(Object.fromEntries([...many("a", 60), ...many("b", 60)].map((rowKey) => [rowKey, 0])));
    const addToAll = (rowKeys: string[]) => async (tx: Transaction) => {
      for (const row of await tx.getMany<Numbered>(rowKeys)) tx.update({ rowKey: row!.rowKey, n: row!.n + 1 });
      return tx.attempt;
    };
    const results = await Promise.all([runTransaction(table, "p", addToAll(many("a", 60))), runTransaction(table, "p", addToAll(many("b", 60)))]);
    expect(results).toEqual([1, 1]);
    expect(service.count("submitTransaction")).toBe(2);
    expect([...many("a", 60), ...many("b", 60)].every((rowKey) => valueOf(table, rowKey) === 1)).toBe(true);
  });

  test("one that is too large is refused alone", async () => {
    const { table } = fakePartition({ a: 0 });
    const results = await Promise.allSettled([
      runTransaction(table, "p", (tx) => { for (const rowKey of many("x", 101)) tx.create({ rowKey, n: 1 }); }),
      runTransaction(table, "p", add("a", 1)),
    ]);
    expect(results[0]).toMatchObject({ status: "rejected", reason: { limit: "operations" } });
    expect(results[1].status).toBe("fulfilled");
    expect(table.rowKeys()).toEqual(["a"]);
  });

  test("a query with a filter waits for a round of its own, even if its function catches everything", async () => {
    const { table } = fakePartition({ a: 1, b: 5 });
    const [, query] = await Promise.all([
      runTransaction(table, "p", add("a", 9)),
      runTransaction(table, "p", async (tx) => {
        try {
          return (await tx.query({ filter: "n ge 5" })).map(({ rowKey }) => rowKey);
        } catch {
          return "swallowed";
        }
      }),
    ]);
    expect(query).toEqual(["a", "b"]);
  });

  test("rows that are known from the round before are validated: what others wrote meanwhile is not lost", async () => {
    const { service, table } = fakePartition({ a: 0 });
    const first = gate();
    service.next("submitTransaction", first.fault, before(() => set(table, "a", 100)));
    const one = runTransaction(table, "p", add("a", 1));
    await first.reached;
    const two = runTransaction(table, "p", add("a", 1));
    first.open();
    await Promise.all([one, two]);
    expect(valueOf(table, "a")).toBe(101);
  });

  test("reads from memory are checked before they are handed out", async () => {
    const { service, table } = fakePartition({ a: 0 });
    const first = gate("after");
    service.next("submitTransaction", first.fault);
    const one = runTransaction(table, "p", add("a", 1));
    await first.reached;
    set(table, "a", 100);
    const two = runTransaction(table, "p", (tx) => tx.get<Numbered>("a"));
    first.open();
    await one;
    expect((await two)?.n).toBe(100);
  });

  test("clients with other credentials do not share a commit", async () => {
    const { table, other } = fakePartition({ a: 0 });
    await Promise.all([runTransaction(table, "p", add("a", 1)), runTransaction(other, "p", add("a", 1))]);
    expect(table.submitted.length).toBeGreaterThan(0);
    expect(other.submitted.length).toBeGreaterThan(0);
    expect(valueOf(table, "a")).toBe(2);
  });

  test("without coalescing each commits on its own", async () => {
    const { service, table } = fakePartition({ a: 0, b: 0 });
    await Promise.all(["a", "b"].map((rowKey) => runTransaction(table, "p", add(rowKey, 1), { coalesce: false })));
    expect(service.count("submitTransaction")).toBe(2);
  });
});

describe("slow functions", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("one that hangs holds up the others for a second, and is carried out once when it ends", async () => {
    const { table } = fakePartition({ a: 0 });
    const slow = deferred();
    let runs = 0;
    const hanging = runTransaction(table, "p", async (tx) => {
      runs++;
      tx.create({ rowKey: `left-over-${runs}`, n: 1 });
      await slow.promise;
      return add("a", 10)(tx);
    });
    const quick = runTransaction(table, "p", add("a", 1));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await quick).toBe(1);
    slow.resolve();
    expect(await hanging).toBe(11);
    expect(table.rowKeys()).toEqual(["a", "left-over-2"]);
  });

  test("one that was detached has met no conflict: it runs again, although maxAttempts is 1", async () => {
    const { table } = fakePartition({ a: 0 });
    const slow = deferred();
    let runs = 0;
    const hanging = runTransaction(table, "p", async (tx) => {
      runs++;
      await slow.promise;
      await add("a", 10)(tx);
    }, { maxAttempts: 1 });
    const quick = runTransaction(table, "p", add("a", 1));
    await vi.advanceTimersByTimeAsync(1_000);
    slow.resolve();
    await hanging;
    expect([await quick, runs, valueOf(table, "a")]).toEqual([1, 2, 11]);
  });

  test("several that hang hold up the others for a second, not each for a second of its own", async () => {
    const { table } = fakePartition({ a: 0 });
    const never = Array.from({ length: 5 }, () => runTransaction(table, "p", () => new Promise(() => undefined), { timeoutInMs: 3_000 }));
    const failed = Promise.allSettled(never);
    const quick = runTransaction(table, "p", add("a", 1));
    await vi.advanceTimersByTimeAsync(1_500);
    expect(await quick).toBe(1);
    await vi.advanceTimersByTimeAsync(2_000);
    expect((await failed).map(({ status }) => status)).toEqual(Array(5).fill("rejected"));
  });

  test("one that never ends fails at its deadline, and leaves nothing", async () => {
    const { table } = fakePartition({ a: 0 });
    const hanging = runTransaction(table, "p", async (tx) => {
      await add("a", 10)(tx);
      await new Promise(() => undefined);
    }, { timeoutInMs: 5_000 });
    const failed = expect(hanging).rejects.toMatchObject({ name: "OperationTimeoutError" });
    await vi.advanceTimersByTimeAsync(5_000);
    await failed;
    expect(valueOf(table, "a")).toBe(0);
    await runTransaction(table, "p", add("a", 1));
    expect(valueOf(table, "a")).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("cancelling", () => {
  test.each(["getEntity", "submitTransaction"])("during %s ends the request if nobody else waits, and the next one starts afresh", async (operation) => {
    const { service, table } = fakePartition({ a: 0 });
    service.next(operation, hang);
    const controller = new AbortController();
    const running = runTransaction(table, "p", add("a", 1), { abortSignal: controller.signal });
    await expect.poll(() => service.count(operation)).toBe(1);
    controller.abort(new Error("no longer wanted"));
    await expect(running).rejects.toThrow("no longer wanted");
    expect(await runTransaction(table, "p", add("a", 1))).toBe(1);
  });

  test("while the function runs: nothing of it is written, and its tx does nothing any more", async () => {
    const { table } = fakePartition({ a: 0 });
    const controller = new AbortController();
    const after = deferred();
    const late = deferred<unknown>();
    const running = runTransaction(table, "p", async (tx) => {
      await add("a", 1)(tx);
      controller.abort();
      await after.promise;
      late.resolve(await add("a", 1)(tx).catch((error: unknown) => error));
    }, { abortSignal: controller.signal });
    await expect(running).rejects.toMatchObject({ name: "AbortError" });
    after.resolve();
    await expect(late.promise).resolves.toBeInstanceOf(TypeError);
    expect(valueOf(table, "a")).toBe(0);
  });

  test("before it starts: no request at all", async () => {
    const { service, table } = fakePartition({ a: 0 });
    await expect(runTransaction(table, "p", add("a", 1), { abortSignal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
    expect(service.requests).toEqual([]);
  });
});

describe("limits, named before anything is sent", () => {
  test.each([
    ["operations", (tx: Transaction) => { for (const rowKey of many("x", 101)) tx.create({ rowKey, n: 1 }); }],
    ["entity", (tx: Transaction) => tx.create({ rowKey: "x", text: "x".repeat(600_000) })],
    ["bytes", (tx: Transaction) => { for (const rowKey of many("x", 20)) tx.create({ rowKey, text: "x".repeat(240_000) }); }],
    ["properties", (tx: Transaction) => tx.create({ rowKey: "x", ...Object.fromEntries(many("p", 252).map((name) => [name, 1])) })],
  ] as const)("%s", async (limit, fn) => {
    const { service, table } = fakePartition();
    await expect(runTransaction(table, "p", fn)).rejects.toSatisfy((error) => isConcurrencyError(error, "TRANSACTION_LIMIT") && error.limit === limit);
    expect(service.requests).toEqual([]);
  });

  test("another partition, keys that no table takes, and the library's own rows are misuse", async () => {
    const { service, table } = fakePartition();
    await expect(runTransaction(table, "p", (tx) => tx.create({ partitionKey: "q", rowKey: "a" }))).rejects.toThrow(TypeError);
    await expect(runTransaction(table, "p", (tx) => tx.create({ rowKey: "a/b" }))).rejects.toThrow(RangeError);
    await expect(runTransaction(table, "p", (tx) => tx.get("~asc~fence"))).rejects.toThrow(RangeError);
    await expect(runTransaction(table, "p/q", (tx) => tx.get("a"))).rejects.toThrow(RangeError);
    expect(service.requests).toEqual([]);
  });
});
