import { describe, expect, test, vi } from "vitest";

import { runTransaction } from "../../src/index.js";
import type { RunTransactionOptions, Transaction } from "../../src/index.js";
import { delay } from "../../src/core/deadline.js";
import { gate } from "../fakes/faults.js";
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
    service.next("getEntity", single.fault);
    service.next("listEntities", several.fault);
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
