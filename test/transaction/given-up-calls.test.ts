import { describe, expect, onTestFinished, test, vi } from "vitest";

import { runTransaction } from "../../src/index.js";
import type { RunTransactionOptions, Transaction } from "../../src/index.js";
import { delay } from "../../src/core/deadline.js";
import { gate, hang } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, valueOf } from "./fakes/partition.js";
import type { FakeTransactionTable } from "./fakes/fake-transaction-table.js";
import type { Numbered } from "./fakes/partition.js";

useFakeTimers();

const withdraw = async (tx: Transaction): Promise<void> => {
  tx.update({ rowKey: "balance", n: (await tx.get<Numbered>("balance"))!.n - 10 });
};

/** A transaction of the same batch whose function takes 800 ms: the batch is committed after that. */
function slow(table: FakeTransactionTable): Promise<void> {
  return runTransaction(table, "p", async (tx) => {
    await delay(800);
    tx.upsert({ rowKey: "slow", n: ((await tx.get<Numbered>("slow"))?.n ?? 0) + 1 });
  });
}

/** Ways of giving up a call 500 ms after it was made. */
const waysToGiveUp: [string, () => RunTransactionOptions, string][] = [
  ["its deadline passes", () => ({ timeoutInMs: 500 }), "OperationTimeoutError"],
  ["its caller aborts", () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 500);
    return { abortSignal: controller.signal };
  }, "AbortError"],
];

describe.each(waysToGiveUp)("a call that is rejected because %s", (_, options, name) => {
  test("is not part of the write of its batch, although its function has returned", async () => {
    const { table } = fakePartition({ balance: 100 });
    for (const round of [1, 2]) {
      const rejected = expect(runTransaction(table, "p", withdraw, options())).rejects.toMatchObject({ name });
      await inFakeTime(slow(table));
      await rejected;
      expect([valueOf(table, "balance"), valueOf(table, "slow")]).toEqual([100, round]);
    }
  });

  test("takes nothing along that the other calls of its batch have done, and these run once", async () => {
    const { table } = fakePartition({ balance: 100, other: 5 });
    const rejected = expect(runTransaction(table, "p", withdraw, options())).rejects.toMatchObject({ name });
    let runs = 0;
    const other = runTransaction(table, "p", async (tx) => {
      runs++;
      tx.update({ rowKey: "other", n: (await tx.get<Numbered>("other"))!.n + 1 });
    });
    const saw = runTransaction(table, "p", async (tx) => (await tx.get<Numbered>("balance"))!.n);
    await inFakeTime(Promise.all([slow(table), other, saw]));
    await rejected;
    expect([valueOf(table, "balance"), valueOf(table, "other"), valueOf(table, "slow"), await saw, runs]).toEqual([100, 6, 1, 100, 1]);
  });

  test.each([
    ["get", (tx: Transaction) => tx.get("a")],
    ["getMany", (tx: Transaction) => tx.getMany(["a", "b"])],
    ["query", (tx: Transaction) => tx.query()],
  ])("writes nothing if that happens while it waits for %s", async (_method, read) => {
    const { service, table } = fakePartition({ a: 1, b: 1 });
    const [single, several] = [gate(), gate()];
    service.each("getEntity", single.fault);
    service.each("listEntities", several.fault);
    const late: unknown[] = [];
    const rejected = expect(
      runTransaction(table, "p", async (tx) => {
        tx.delete("a");
        tx.upsert({ rowKey: "c", n: 1 });
        await read(tx).catch((error: unknown) => late.push(error));
        late.push(await tx.get("b").catch((error: unknown) => error));
      }, options()),
    ).rejects.toMatchObject({ name });
    const other = slow(table);
    await vi.advanceTimersByTimeAsync(600);
    single.open();
    several.open();
    await inFakeTime(other);
    await rejected;
    expect([valueOf(table, "a"), valueOf(table, "c"), valueOf(table, "slow")]).toEqual([1, undefined, 1]);
    expect(table.rowKeys()).toEqual(["a", "b", "slow"]);
    expect(late).toEqual([expect.any(TypeError), expect.any(TypeError)]);
  });

  test("writes nothing if that happens while the rows of its writes are read", async () => {
    const { service, table } = fakePartition({ a: 1 });
    const rows = gate();
    service.next("listEntities", rows.fault);
    const rejected = expect(
      runTransaction(table, "p", (tx) => {
        tx.delete("a");
        tx.upsert({ rowKey: "c", n: 1 });
      }, options()),
    ).rejects.toMatchObject({ name });
    const other = slow(table);
    await vi.advanceTimersByTimeAsync(600);
    rows.open();
    await inFakeTime(other);
    await rejected;
    expect([valueOf(table, "a"), valueOf(table, "c"), valueOf(table, "slow")]).toEqual([1, undefined, 1]);
  });
});

test("what a function has left running cannot add writes after it has returned", async () => {
  const { service, table } = fakePartition({ a: 1, b: 1 });
  const rows = gate();
  service.next("getEntity", rows.fault);
  const late: unknown[] = [];
  const call = runTransaction(table, "p", (tx) => {
    tx.update({ rowKey: "a", n: 2 });
    setTimeout(() => {
      for (const write of [() => tx.update({ rowKey: "b", n: 2 }), () => tx.create({ rowKey: "c", n: 2 })]) {
        try {
          write();
        } catch (error) {
          late.push(error);
        }
      }
      rows.open();
    }, 10);
  });
  await inFakeTime(call);
  expect(late).toEqual([expect.any(TypeError), expect.any(TypeError)]);
  expect([valueOf(table, "a"), valueOf(table, "b"), valueOf(table, "c")]).toEqual([2, 1, undefined]);
});

describe("a read that the function starts and does not wait for", () => {
  const kinds: [string, (tx: Transaction) => unknown][] = [
    ["get", (tx) => tx.get("a")],
    ["getMany", (tx) => tx.getMany(["a", "b"])],
    ["query", (tx) => tx.query()],
    ["unvalidated get", (tx) => tx.get("a", { validate: false })],
    ["unvalidated query", (tx) => tx.query({}, { validate: false })],
    ["get of a row that an earlier call writes", (tx) => tx.get("slow")],
    ["get after the end", (tx) => void setTimeout(() => void tx.get("a"), 3_000)],
  ];
  const ends: [string, () => unknown, RunTransactionOptions][] = [
    ["throws", () => { throw new Error("changed my mind"); }, {}],
    ["returns", () => undefined, {}],
    ["is given up", () => new Promise(() => undefined), { timeoutInMs: 500 }],
  ];

  test.each(kinds.flatMap(([kind, read]) => ends.map(([end, finish, options]) => [kind, end, read, finish, options] as const)))(
    "is no unhandled rejection, and does not go on: %s, when the function %s",
    async (kind, end, read, finish, options) => {
      const unhandled: unknown[] = [];
      const listener = (reason: unknown): void => void unhandled.push(reason);
      process.on("unhandledRejection", listener);
      onTestFinished(() => void process.off("unhandledRejection", listener));
      const { service, table } = fakePartition({ a: 1, b: 1 });
      const signals: (AbortSignal | undefined)[] = [];
      const hung: Fault = (exchange) => {
        signals.push(exchange.signal);
        return hang(exchange);
      };
      service.next(kind.endsWith("query") || kind === "getMany" ? "listEntities" : "getEntity", hung);
      const earlier = kind.includes("earlier") ? [slow(table)] : [];
      const call = runTransaction(table, "p", (tx) => {
        read(tx);
        return finish();
      }, options);
      const [settled] = await inFakeTime(Promise.allSettled([call, slow(table), ...earlier]));
      expect(settled.status).toBe(end === "returns" ? "fulfilled" : "rejected");
      expect(signals.filter((signal) => !signal?.aborted)).toEqual([]);
      vi.useRealTimers();
      await new Promise((resolve) => setTimeout(resolve, 5));
      vi.useFakeTimers();
      expect(unhandled).toEqual([]);
    },
  );
});
