import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Capacity } from "../../src/queue/capacity.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

describe("the capacity of a consumer", () => {
  it("is never reported as none, although a slot is taken while the poller waits for more of them", async () => {
    const capacity = new Capacity(4);
    expect(capacity.tryTake(9)).toBe(4);
    const acquired: number[] = [];
    void capacity.acquire().then((count) => acquired.push(count));
    capacity.release();
    await pass(1);
    await capacity.take();
    await pass(100);
    expect(acquired).toEqual([]);
    capacity.release();
    await pass(100);
    expect(acquired).toEqual([1]);
  });

  it("is given to messages that wait for it, in their order, and then to the poller", async () => {
    const capacity = new Capacity(1);
    await capacity.take();
    const order: string[] = [];
    void capacity.acquire().then(() => order.push("poller"));
    void capacity.take().then(() => order.push("a"));
    void capacity.take().then(() => order.push("b"));
    for (const expected of [["a"], ["a", "b"], ["a", "b", "poller"]]) {
      capacity.release();
      await pass(50);
      expect(order).toEqual(expected);
    }
    expect(capacity.taken).toBe(0);
  });

  it("is not waited for after its end", async () => {
    const capacity = new Capacity(1);
    await capacity.take();
    const waiting = Promise.all([capacity.take(), capacity.acquire()]);
    capacity.end();
    await pass(50);
    await waiting;
    await capacity.take();
    for (let i = 0; i < 3; i++) capacity.release();
    expect(capacity.taken).toBe(0);
  });
});
