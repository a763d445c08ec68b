import { describe, expect, it, vi } from "vitest";
import { delay } from "../../src/core/deadline.js";
import { iterate } from "../../src/core/iterate.js";
import { outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

/** Pages of a listing: `pages[n]` arrives `afterInMs[n]` after it was asked for, and its items then come without a wait. */
async function* listing(pages: readonly (readonly number[])[], afterInMs: readonly number[] = []): AsyncGenerator<number> {
  for (const [index, page] of pages.entries()) {
    if (afterInMs[index]) await delay(afterInMs[index]);
    yield* page;
  }
}

async function collect(items: AsyncIterable<number>, each: () => Promise<void> | void = () => undefined): Promise<number[]> {
  const all: number[] = [];
  for await (const item of items) {
    all.push(item);
    await each();
  }
  return all;
}

describe("iterate", () => {
  it("starts one timer for the thousands of items that come with one response", async () => {
    const timers = vi.spyOn(globalThis, "setTimeout");
    const items = Array.from({ length: 5_000 }, (_, n) => n);
    expect(await collect(iterate(() => listing([items]), { timeoutInMs: 1_000 }))).toEqual(items);
    expect(timers).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("rejects when one item takes too long, however quick the items before it were", async () => {
    const outcome = outcomeOf(collect(iterate(() => listing([[1], [2], [3]], [0, 900, 1_100]), { timeoutInMs: 1_000 })));
    await pass(5_000);
    expect(outcome).toMatchObject({ at: 1_900, error: { name: "RequestTimeoutError", timeoutInMs: 1_000 } });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("does not count the time in which the consumer works with an item", async () => {
    const outcome = outcomeOf(collect(iterate(() => listing([[1, 2], [3]], [0, 900]), { timeoutInMs: 1_000 }), () => delay(5_000)));
    await pass(20_000);
    expect(outcome).toMatchObject({ value: [1, 2, 3] });
  });

  it("leaves no timer while the consumer keeps an item, so that an abandoned iteration does not keep the process from ending", async () => {
    const items = iterate(() => listing([[1, 2]]), { timeoutInMs: 1_000 });
    await items.next();
    await pass(1_000);
    expect(vi.getTimerCount()).toBe(0);
    expect(await items.next()).toEqual({ done: false, value: 2 });
    await items.return(undefined);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("ends with the reason of the signal, even if the client ignores it", async () => {
    const caller = new AbortController();
    const outcome = outcomeOf(collect(iterate(() => listing([[1], [2]], [0, 60_000]), { abortSignal: caller.signal, timeoutInMs: 120_000 })));
    await pass(100);
    caller.abort(new Error("enough"));
    await pass(1);
    expect(outcome).toMatchObject({ at: 100, error: { message: "enough" } });
    await pass(60_000); // What the client goes on with.
  });
});
