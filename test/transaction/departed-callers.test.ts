import { expect, test, vi } from "vitest";

import { runTransaction } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { hang } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, valueOf } from "./fakes/partition.js";
import type { Numbered } from "./fakes/partition.js";

useFakeTimers();

/** A request that hangs, and the signal that it was given. */
function hungRequest(): { fault: Fault; signal: () => AbortSignal | undefined } {
  let signal: AbortSignal | undefined;
  return {
    signal: () => signal,
    fault: (exchange) => {
      signal = exchange.signal;
      return hang(exchange);
    },
  };
}

test.each(["writes", "reads"])("a caller that aborts in the same tick does not reject the next caller, which %s", async (kind) => {
  const { table } = fakePartition({ b: 1 });
  const controller = new AbortController();
  const reason = new Error("the first caller left");
  const first = runTransaction(table, "p", (tx) => tx.upsert({ rowKey: "a", n: 1 }), { abortSignal: controller.signal });
  controller.abort(reason);
  const second = runTransaction(table, "p", async (tx) => {
    if (kind === "reads") return (await tx.get<Numbered>("b"))!.n;
    tx.upsert({ rowKey: "b", n: 2 });
    return 2;
  });
  const [one, two] = await inFakeTime(Promise.allSettled([first, second]));
  expect(one).toMatchObject({ status: "rejected", reason });
  expect(two).toMatchObject({ status: "fulfilled", value: kind === "reads" ? 1 : 2 });
  expect(valueOf(table, "a")).toBeUndefined();
});

test("the hung read of a function that its batch did not wait for is cut off when the batch ends", async () => {
  const { service, table } = fakePartition({ a: 0 });
  const hung = hungRequest();
  service.next("getEntity", hung.fault);
  const add = async (tx: Transaction): Promise<void> => {
    tx.update({ rowKey: "a", n: (await tx.get<Numbered>("a"))!.n + 1 });
  };
  const results = Promise.allSettled([1, 2, 3].map(() => runTransaction(table, "p", add, { timeoutInMs: 6_000 })));
  await vi.advanceTimersByTimeAsync(10_000);
  expect(hung.signal()!.aborted).toBe(true);
  const fulfilled = (await inFakeTime(results)).filter(({ status }) => status === "fulfilled");
  expect(valueOf(table, "a")).toBe(fulfilled.length);
});

test("the hung read of a caller that has left is cut off when the batch of the others ends", async () => {
  const { service, table } = fakePartition();
  const hung = hungRequest();
  service.next("getEntity", hung.fault);
  const controller = new AbortController();
  const left = runTransaction(
    table,
    "p",
    async (tx) => {
      await tx.get("a");
      tx.upsert({ rowKey: "a", n: 1 });
    },
    { abortSignal: controller.signal },
  );
  const stayed = runTransaction(table, "p", (tx) => tx.upsert({ rowKey: "b", n: 1 }));
  left.catch(() => undefined);
  await vi.advanceTimersByTimeAsync(100);
  controller.abort(new Error("the first caller left"));
  await inFakeTime(stayed);
  await expect(left).rejects.toThrow("the first caller left");
  expect([valueOf(table, "a"), valueOf(table, "b")]).toEqual([undefined, 1]);
  expect(hung.signal()!.aborted).toBe(true);
});
