import { describe, expect, it, vi } from "vitest";
import { PendingCall } from "../../src/core/pending-call.js";
import { optimisticUpdate } from "../../src/index.js";
import { hang, hangAfterCommit } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

/** A call every `everyInMs`, `count` times. Returns how many succeed. */
async function steadyCalls(count: number, everyInMs: number, call: () => Promise<unknown>): Promise<number> {
  const calls: Promise<boolean>[] = [];
  for (let i = 0; i < count; i++) {
    calls.push(call().then(() => true, () => false));
    await vi.advanceTimersByTimeAsync(everyInMs);
  }
  await vi.runAllTimersAsync();
  return (await Promise.all(calls)).filter(Boolean).length;
}

describe("one response that never arrives", () => {
  it.each([["download", hang], ["upload", hang], ["upload", hangAfterCommit]] as const)("to a %s delays the callers, and fails none of 80", async (operation, fault) => {
    const { service, blob } = counterBlob();
    service.next(operation, fault);
    expect(await steadyCalls(80, 100, () => optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 1_000 }))).toBe(80);
    expect(blob.json).toEqual({ n: 80 });
  });

  it("to a caller with much time does not use up the time of those that come later with less", async () => {
    for (const operation of ["download", "upload"]) {
      const { service, blob } = counterBlob();
      service.next(operation, hang);
      const patient = optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 60_000 });
      await vi.advanceTimersByTimeAsync(10);
      expect(await steadyCalls(5, 10, () => optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 1_000 }))).toBe(5);
      await patient;
      expect(blob.json).toEqual({ n: 6 });
    }
  });

  it("leaves time for a slow one: each try gets twice the time of the one before", async () => {
    const { service, blob } = counterBlob();
    const slow = async <R>(exchange: { send: (onTheWay: () => Promise<void>) => Promise<R> }): Promise<R> =>
      exchange.send(() => new Promise((resolve) => setTimeout(resolve, 3_000)));
    service.each("upload", slow);
    await inFakeTime(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 60_000, tryTimeoutInMs: 1_000 }));
    expect(blob.json).toEqual({ n: 1 });
    expect(service.count("upload")).toBe(3);
  });
});

describe("300 callers with slow mutators", () => {
  it("all succeed although another client writes every half second", async () => {
    const { blob } = counterBlob();
    const foreign = setInterval(() => blob.putKeeping({ n: (blob.json as Counter).n }), 500);
    const slow = async (doc: Counter): Promise<void> => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      doc.n++;
    };
    const calls = Promise.allSettled(Array.from({ length: 300 }, () => optimisticUpdate<Counter>(blob, slow)));
    await vi.advanceTimersByTimeAsync(30_000);
    clearInterval(foreign);
    await vi.runAllTimersAsync();
    expect((await calls).filter(({ status }) => status === "fulfilled")).toHaveLength(300);
    expect(blob.json).toEqual({ n: 300 });
  });
});

describe("mutators that compute for long", () => {
  it("let timers have their turn", async () => {
    vi.useRealTimers();
    const { blob } = counterBlob();
    let inARow = 0;
    let longest = 0;
    const turn = setInterval(() => (inARow = 0), 1);
    const busy = (doc: Counter): void => {
      const until = performance.now() + 5;
      while (performance.now() < until) doc["x"] = Math.random();
      doc.n++;
      longest = Math.max(longest, ++inARow);
    };
    await Promise.all(Array.from({ length: 60 }, () => optimisticUpdate<Counter>(blob, busy)));
    clearInterval(turn);
    expect(blob.json).toMatchObject({ n: 60 });
    // 20 ms are 4 mutators; without a pause it would be a batch of 40.
    expect(longest).toBeLessThanOrEqual(8);
    vi.useFakeTimers();
  });
});

describe("thousands of callers that leave at the same time", () => {
  it.each(["first to last", "last to first"])("are examined once each, not once for each other, %s", async (order) => {
    const { service, blob } = counterBlob();
    service.each("download", hang);
    const count = 2_000;
    const controllers = Array.from({ length: count }, () => new AbortController());
    const calls = controllers.map(({ signal }) => rejection(optimisticUpdate<Counter>(blob, increment, { abortSignal: signal })));
    await vi.advanceTimersByTimeAsync(1);
    const examined = vi.spyOn(PendingCall.prototype, "isSettled");
    for (const controller of order === "first to last" ? controllers : controllers.reverse()) controller.abort(new Error("enough"));
    await Promise.all(calls);
    expect(examined.mock.calls.length).toBeLessThan(20 * count);
    examined.mockRestore();
  });

  it("on one signal end the write that some of them wait for once, not once for each", async () => {
    const { service, blob } = counterBlob();
    service.each("upload", hang);
    const stop = new AbortController();
    const calls = Array.from({ length: 3_000 }, () => rejection(optimisticUpdate<Counter>(blob, increment, { abortSignal: stop.signal })));
    await vi.advanceTimersByTimeAsync(1);
    const aborts = vi.spyOn(AbortController.prototype, "abort");
    stop.abort(new Error("enough"));
    await Promise.all(calls);
    expect(aborts.mock.calls.length).toBeLessThan(10);
    aborts.mockRestore();
  });
});
