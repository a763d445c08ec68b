import { expect, it, vi } from "vitest";
import { encodedBlob, optimisticUpdate } from "../../src/index.js";
import type { Codec } from "../../src/index.js";
import { counterBlob } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

it("a batch takes 200 ms of mutators, and the calls behind them are part of the next one, in their order", async () => {
  const { service, blob } = counterBlob();
  const order: number[] = [];
  // A mutator that blocks the event loop for 90 ms.
  const slow = (n: number) => (counter: Counter): void => {
    vi.advanceTimersByTime(90);
    order.push(n);
    counter.n++;
  };
  const results = await inFakeTime(Promise.all([1, 2, 3, 4, 5, 6, 7].map((n) => optimisticUpdate<Counter>(blob, slow(n)))));
  expect(order).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(results.map(({ value, attempts }) => [value.n, attempts])).toEqual([1, 2, 3, 4, 5, 6, 7].map((n) => [n, 1]));
  // One read, and a write for each batch of three: 0, 90 and 180 ms.
  expect(service.operations).toEqual(["download", "upload", "upload", "upload"]);
});

it("a batch runs one mutator at least, however long that takes", async () => {
  const { service, blob } = counterBlob();
  const slow = (counter: Counter): void => {
    vi.advanceTimersByTime(500);
    counter.n++;
  };
  const results = await inFakeTime(Promise.all([1, 2, 3].map(() => optimisticUpdate<Counter>(blob, slow))));
  expect(results.map(({ value }) => value.n)).toEqual([1, 2, 3]);
  expect(service.operations).toEqual(["download", "upload", "upload", "upload"]);
});

it.each([["each changes it", undefined], ["all are repetitions of one operation", "order-1"]])(
  "the results of callers are part of the time of their batch: %s",
  async (_, operationId) => {
    const { blob } = counterBlob();
    // Large content: each caller gets a copy of its own, which takes 90 ms.
    const codec: Codec<Counter> = {
      encode: (value) => new TextEncoder().encode(JSON.stringify(value)),
      decode: (content) => {
        vi.advanceTimersByTime(90);
        return JSON.parse(new TextDecoder().decode(content)) as Counter;
      },
    };
    const target = encodedBlob(blob, codec);
    await optimisticUpdate(target, (counter) => { counter.n++; }, { operationId });
    const settledAt = new Set<number>();
    const calls = Array.from({ length: 9 }, () =>
      optimisticUpdate(target, (counter) => { counter.n++; }, { operationId }).then(() => settledAt.add(performance.now())),
    );
    await inFakeTime(Promise.all(calls));
    // Three copies of 90 ms in a batch, or fewer: none waits until all others have theirs.
    expect(settledAt.size).toBeGreaterThanOrEqual(3);
  },
);
