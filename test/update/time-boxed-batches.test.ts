import { expect, it, vi } from "vitest";
import { optimisticUpdate } from "../../src/index.js";
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
