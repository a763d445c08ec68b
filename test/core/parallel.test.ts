import { describe, expect, it } from "vitest";

import { inParallel } from "../../src/core/parallel.js";
import { rejection } from "../support/outcome.js";

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

describe("inParallel", () => {
  it.each([
    ["an array", () => [0, 1, 2, 3, 4, 5, 6]],
    ["a generator", () => [0, 1, 2, 3, 4, 5, 6].values()],
    ["an async generator", async function* () {
      for (const n of [0, 1, 2, 3, 4, 5, 6]) {
        await turn();
        yield n;
      }
    }],
  ] as const)("runs the items of %s in order, three at a time, with their positions", async (_, items) => {
    const started: number[][] = [];
    let running = 0;
    let most = 0;
    await inParallel<number>(items(), 3, async (item, index) => {
      started.push([item, index]);
      most = Math.max(most, ++running);
      await turn();
      await turn();
      running--;
    });
    expect(started).toEqual([0, 1, 2, 3, 4, 5, 6].map((n) => [n, n]));
    expect(most).toBeLessThanOrEqual(3);
    expect(most).toBeGreaterThan(1);
  });

  it("takes no item before there is room for it", async () => {
    let taken = 0;
    let ended = 0;
    await inParallel((function* () {
      for (; taken < 10; ) {
        expect(taken - ended).toBeLessThan(2);
        yield taken++;
      }
    })(), 2, async () => {
      await turn();
      ended++;
    });
    expect([taken, ended]).toEqual([10, 10]);
  });

  it("rejects with the first error, takes no further item, and waits for what is in flight", async () => {
    const log: string[] = [];
    const error = await rejection(inParallel([0, 1, 2, 3], 2, async (n) => {
      log.push(`start ${n}`);
      if (n === 0) throw new Error("first");
      await turn();
      log.push(`end ${n}`);
      throw new Error("second");
    }));
    expect(error.message).toBe("first");
    expect(log).toEqual(["start 0", "start 1", "end 1"]);
  });

  it("takes no further item after a failure, also in a run that succeeds", async () => {
    const started: number[] = [];
    const error = await rejection(inParallel([0, 1, 2, 3], 2, async (n) => {
      started.push(n);
      if (n === 0) throw new Error("first");
      await turn();
    }));
    expect([error.message, started]).toEqual(["first", [0, 1]]);
  });

  it("rejects with the error of the iterable, after what is in flight", async () => {
    const ended: number[] = [];
    const items = async function* (): AsyncGenerator<number> {
      yield 1;
      yield 2;
      throw new Error("source");
    };
    const error = await rejection(inParallel(items(), 5, async (n) => {
      await turn();
      ended.push(n);
    }));
    expect(error.message).toBe("source");
    expect(ended).toEqual([1, 2]);
  });

  it("closes a generator that it does not read to its end", async () => {
    let closed = false;
    const items = (function* () {
      try {
        for (let n = 0; ; n++) yield n;
      } finally {
        closed = true;
      }
    })();
    await rejection(inParallel(items, 2, () => Promise.reject(new Error("no"))));
    await turn();
    expect(closed).toBe(true);
  });

  it("ends at once without items", async () => {
    await inParallel([], 16, () => Promise.reject(new Error("none")));
  });

  it("asks an iterator that has ended for nothing more", async () => {
    let asked = 0;
    let returned = 0;
    const items = { [Symbol.asyncIterator]: () => ({ next: async () => (++asked > 2 ? { done: true, value: undefined } : { done: false, value: asked }), return: async () => (returned++, { done: true, value: undefined }) }) } as AsyncIterable<number>;
    const error = await rejection(inParallel(items, 1, async (n) => {
      if (n === 2) throw new Error("last");
    }));
    expect([error.message, asked]).toEqual(["last", 2]);
    await turn();
    expect(returned).toBe(1);
    const read: number[] = [];
    await inParallel([1, 2, 3].values(), 1, async (n) => void read.push(n));
    expect(read).toEqual([1, 2, 3]);
  });

  it("does not close an iterator that was read to its end, and needs no return", async () => {
    let returned = 0;
    const closing = (values: number[], close?: () => Promise<IteratorResult<number>>): AsyncIterable<number> => ({ [Symbol.asyncIterator]: () => {
      const inner = values.values();
      return { next: async () => inner.next(), ...(close && { return: close }) };
    } });
    const failing = async (): Promise<void> => {
      await turn();
      await turn();
      throw new Error("no");
    };
    await rejection(inParallel(closing([1], async () => (returned++, { done: true, value: undefined })), 2, failing));
    await turn();
    expect(returned).toBe(0);
    const error = await rejection(inParallel(closing([1, 2, 3]), 1, failing));
    expect(error.message).toBe("no");
    await turn();
  });

  it("takes an item of an iterator that leaves out `done`", async () => {
    let n = 0;
    const items = { [Symbol.iterator]: () => ({ next: () => (++n > 3 ? { done: true, value: undefined } : { value: n }) }) } as Iterable<number>;
    const seen: number[] = [];
    await inParallel(items, 2, async (item) => void seen.push(item));
    expect(seen).toEqual([1, 2, 3]);
  });
});
