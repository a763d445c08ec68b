import { describe, expect, it, vi } from "vitest";

import { enqueue } from "../../src/index.js";
import { Bench } from "./fakes/consume.js";
import type { CommitHandler, Handler } from "./fakes/consume.js";

const bench = new Bench();
const often = { minPollIntervalInMs: 100, maxPollIntervalInMs: 100, retryDelayInMs: 0, visibilityTimeoutInSeconds: 2 };

interface Order {
  a: number;
  self?: unknown;
}

describe("a handler that changes its payload", () => {
  it("gets the payload that was sent at each attempt, and the poison queue gets it, too", async () => {
    await enqueue(bench.queue, { a: 1 });
    const seen: unknown[] = [];
    await bench.consume((payload) => {
      seen.push(structuredClone(payload));
      (payload as Order).a++;
      throw new Error("no luck");
    }, { ...often, maxAttempts: 3 }); // prettier-ignore
    await bench.pass(10_000);
    expect(seen).toEqual([{ a: 1 }, { a: 1 }, { a: 1 }]);
    expect(bench.poisons).toMatchObject([{ body: { a: 1 } }]);
  });

  it("does not make the next attempt one for another payload", async () => {
    await enqueue(bench.queue, { a: 1 });
    const handler = vi.fn<CommitHandler>(async (payload, { attempt, commit }) => {
      (payload as Order).a++;
      await commit([["create", { rowKey: "effect" }]]);
      if (attempt === 1) throw new Error("after the commit");
    });
    await bench.consumeAndCommit(handler, often);
    await bench.pass(10_000);
    expect(bench.names).toEqual(["retried", "duplicate"]);
    expect(bench.effects).toHaveLength(1);
    expect(bench.poisons).toEqual([]);
  });

  it("is counted as failed, even if the payload cannot be written any more", async () => {
    await enqueue(bench.queue, { a: 1 });
    const handler = vi.fn<Handler>((payload) => {
      (payload as Order).self = payload;
      throw new Error("no luck");
    });
    await bench.consume(handler, { ...often, maxAttempts: 2 });
    await bench.pass(30_000);
    expect(handler).toHaveBeenCalledTimes(2);
    expect(bench.poisons).toMatchObject([{ body: { a: 1 }, poison: { reason: "failed 2 times" } }]);
  });
});

describe("a checkpoint", () => {
  it("is what it was when the handler passed it", async () => {
    await enqueue(bench.queue, "p");
    const seen: unknown[] = [];
    await bench.consume((_payload, { checkpoint, lastCheckpoint }) => {
      seen.push(structuredClone(lastCheckpoint));
      const progress: Record<string, unknown> = { done: seen.length };
      checkpoint(progress);
      progress["next"] = 10n;
      throw new Error("no luck");
    }, { ...often, maxAttempts: 3 }); // prettier-ignore
    await bench.pass(30_000);
    expect(seen).toEqual([undefined, { done: 1 }, { done: 2 }]);
    expect(bench.poisons).toMatchObject([{ checkpoint: { done: 3 } }]);
  });

  it("does not change if the handler changes the last one", async () => {
    await enqueue(bench.queue, "p");
    const seen: unknown[] = [];
    await bench.consume((_payload, { checkpoint, lastCheckpoint }) => {
      seen.push(structuredClone(lastCheckpoint));
      if (lastCheckpoint === undefined) checkpoint({ done: 1 });
      else (lastCheckpoint as { done: number }).done++;
      throw new Error("no luck");
    }, { ...often, maxAttempts: 3 }); // prettier-ignore
    await bench.pass(30_000);
    expect(seen).toEqual([undefined, { done: 1 }, { done: 1 }]);
  });
});
