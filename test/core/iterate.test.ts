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

  describe("gives the client a signal that", () => {
    /** A client that sends each page as often as `sends` says: with a listener for each send, as the SDK does it. */
    function client(sends: readonly number[]) {
      const seen: { signal?: AbortSignal; returned: number } = { returned: 0 };
      const open = (signal: AbortSignal): AsyncIterable<number> => {
        seen.signal = signal;
        const pages = listingOf(signal, sends);
        return { [Symbol.asyncIterator]: () => ({ next: () => pages.next(), return: (value: undefined) => (seen.returned++, pages.return(value)) }) };
      };
      return { open, seen };
    }

    async function* listingOf(signal: AbortSignal, sends: readonly number[]): AsyncGenerator<number, undefined, undefined> {
      for (const [page, times] of sends.entries()) {
        for (let n = 0; n < times; n++) {
          signal.addEventListener("abort", () => undefined);
          await Promise.resolve();
        }
        yield* [10 * page, 10 * page + 1];
      }
      return undefined;
    }

    it("does not abort when the listing is read to its end, which is not asked to return", async () => {
      const { open, seen } = client([1, 1]);
      expect(await collect(iterate(open, {}))).toEqual([0, 1, 10, 11]);
      expect([seen.signal!.aborted, seen.returned]).toEqual([false, 0]);
    });

    it("aborts when the consumer leaves, so that no request goes on", async () => {
      const { open, seen } = client([1]);
      for await (const item of iterate(open, {})) if (item === 0) break;
      expect(seen.signal!.reason).toMatchObject({ name: "AbortError", message: "The iteration has ended." });
      expect(seen.returned).toBe(1);
    });

    it("a client without return, or one whose return fails, does not disturb", async () => {
      const open = (): AsyncIterable<number> => ({ [Symbol.asyncIterator]: () => ({ next: async () => ({ done: false, value: 1 }) }) });
      for await (const item of iterate(open, {})) if (item === 1) break;
      const failing = (): AsyncIterable<number> => ({ [Symbol.asyncIterator]: () => ({ next: async () => ({ done: false, value: 1 }), return: () => Promise.reject(new Error("no")) }) });
      for await (const item of iterate(failing, {})) if (item === 1) break;
    });

    it("aborts also if the iterator leaves out `done`, which means that it has not ended", async () => {
      let returned = 0;
      const items = { next: async () => ({ value: 1 }), return: async () => (returned++, { done: true, value: undefined }) } as AsyncIterator<number>;
      for await (const item of iterate(() => ({ [Symbol.asyncIterator]: () => items }), {})) if (item === 1) break;
      expect(returned).toBe(1);
    });

    it("aborts when the first page fails, as a part of its request may go on", async () => {
      let signal: AbortSignal | undefined;
      const items: AsyncIterator<number> = { next: () => Promise.reject(new Error("no page")) };
      const open = (given: AbortSignal): AsyncIterable<number> => ((signal = given), { [Symbol.asyncIterator]: () => items });
      await expect(collect(iterate(open, {}))).rejects.toThrow("no page");
      expect(signal!.aborted).toBe(true);
    });

    it("aborts with primaryOnly when a page is sent again, as the secondary may have served it, and not otherwise", async () => {
      const again = client([1, 2]);
      await expect(collect(iterate(again.open, { primaryOnly: true }))).rejects.toMatchObject({ name: "SecondaryReadError", message: expect.stringContaining("secondary") as string });
      expect(await collect(iterate(client([1, 2]).open, {}))).toEqual([0, 1, 10, 11]);
      expect(await collect(iterate(client([1, 1, 1]).open, { primaryOnly: true }))).toEqual([0, 1, 10, 11, 20, 21]);
      await expect(collect(iterate(client([2]).open, { primaryOnly: true }))).rejects.toMatchObject({ name: "SecondaryReadError" });
    });
  });
});
