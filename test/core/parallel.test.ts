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
});
