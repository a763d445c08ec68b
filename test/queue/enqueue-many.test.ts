import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ConcurrentQueue, enqueueMany } from "../../src/index.js";
import { openEnvelope } from "../../src/queue/envelope.js";
import { rejection } from "../support/outcome.js";
import { FakeQueue } from "./fakes/fake-queue.js";

let queue: FakeQueue;
beforeEach(() => {
  vi.useFakeTimers();
  queue = new FakeQueue();
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const bodies = (): unknown[] => queue.messages.map(({ text }) => openEnvelope(text, "text").body);
const withKey = (n: number): { payload: number; idempotencyKey: string } => ({ payload: n, idempotencyKey: `k${n}` });
const tick = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Sends take 100 ms. Returns the largest number of sends at a time. */
function slowSends(): () => number {
  let [running, most] = [0, 0];
  const send = queue.sendMessage.bind(queue);
  queue.sendMessage = async (...args) => {
    most = Math.max(most, ++running);
    await tick(100);
    running--;
    return send(...args);
  };
  return () => most;
}

describe("enqueueMany", () => {
  it.each([[undefined, 16], [3, 3]])("sends each message in one request, with concurrency %s %i at a time, and returns the results in order", async (concurrency, expected) => {
    const most = slowSends();
    const sending = enqueueMany(queue, numbers(50), withKey, { concurrency });
    await vi.advanceTimersByTimeAsync(5_000);
    const results = await sending;
    expect(results.map((result) => "idempotencyKey" in result && result.idempotencyKey)).toEqual(numbers(50).map((n) => `k${n}`));
    expect(most()).toBe(expected);
    expect(queue.faults.log).toHaveLength(50);
    expect(bodies()).toEqual(numbers(50));
  });

  it("sends the items themselves without toMessage, each with a key of its own, and nothing for no items", async () => {
    expect(await enqueueMany(queue, new Set(["a", { b: 1 }]))).toHaveLength(2);
    expect(bodies()).toEqual(["a", { b: 1 }]);
    expect(new Set(queue.messages.map(({ text }) => openEnvelope(text, "text").key)).size).toBe(2);
    expect(await enqueueMany(queue, [])).toEqual([]);
  });

  it("takes the options of each message, and the encoding of the call for those that have none", async () => {
    const send = vi.spyOn(queue, "sendMessage");
    await enqueueMany(queue, [1, 2], (n) => ({ payload: n, delayInMs: n * 1_000, timeToLiveInSeconds: 60, ...(n === 2 && { encoding: "text" as const }) }), { encoding: "base64" });
    expect(send.mock.calls.map(([, options]) => [options?.visibilityTimeout, options?.messageTimeToLive])).toEqual([[1, 60], [2, 60]]);
    expect(openEnvelope(queue.messages[0]!.text, "base64").body).toBe(1);
    expect(openEnvelope(queue.messages[1]!.text, "text").body).toBe(2);
  });

  it("gives each message that could not be sent its error, and sends the others", async () => {
    queue.faults.next("send", "denied", "lost");
    const results = await enqueueMany(queue, [0, 1, 2, 3, 4, 5, 6], (n) => {
      if (n === 2) throw new Error("toMessage");
      if (n === 3) return Promise.reject(new Error("unheard")) as never;
      if (n === 4) return { payload: "x".repeat(70_000) };
      if (n === 5) return { payload: 1, delay: 5 } as never;
      return withKey(n);
    });
    expect(results).toMatchObject([
      { error: { statusCode: 403 } }, { error: { code: "COMMIT_UNKNOWN", operationId: "k1" } }, { error: { message: "toMessage" } },
      { error: { name: "TypeError" } }, { error: { name: "RangeError" } }, { error: { name: "TypeError" } }, { idempotencyKey: "k6" },
    ]); // prettier-ignore
    expect(bodies()).toEqual([1, 6]);
  });

  it.each(["promise", "undefined", "null"])("does not send an item that is a %s as something else", async (kind) => {
    const item = { promise: Promise.resolve(1), undefined, null: null }[kind];
    const [result] = await enqueueMany<unknown>(queue, [item], kind === "null" ? () => null as never : undefined);
    expect(result).toMatchObject({ error: { name: "TypeError" } });
    expect(queue.faults.log).toEqual([]);
  });

  it("sends nothing more after an abort: the rest has its reason", async () => {
    slowSends();
    const controller = new AbortController();
    const toMessage = vi.fn(withKey);
    const sending = enqueueMany(queue, numbers(10), toMessage, { concurrency: 2, abortSignal: controller.signal });
    await vi.advanceTimersByTimeAsync(150);
    controller.abort(new Error("enough"));
    const results = await sending;
    expect(results.map((result) => ("error" in result ? (result.error as Error).message : "sent"))).toEqual(["sent", "sent", ...Array<string>(8).fill("enough")]);
    expect(toMessage).toHaveBeenCalledTimes(4);
    await vi.advanceTimersByTimeAsync(1_000);
  });

  it("sends nothing with a signal that was aborted before", async () => {
    const results = await enqueueMany(queue, [1, 2], withKey, { abortSignal: AbortSignal.abort(new Error("no")) });
    expect(results).toMatchObject([{ error: { message: "no" } }, { error: { message: "no" } }]);
    expect(queue.faults.log).toEqual([]);
  });

  it("rejects what it cannot use before any request", async () => {
    for (const messages of [undefined, 5, "text", {}]) expect(await rejection(enqueueMany(queue, messages as never))).toMatchObject({ name: "TypeError" });
    expect(await rejection(enqueueMany(queue, [1], { concurrency: 2 } as never))).toMatchObject({ name: "TypeError" });
    expect(await rejection(enqueueMany(queue, [1], undefined, { parallel: 2 } as never))).toMatchObject({ name: "TypeError" });
    expect(await rejection(enqueueMany(queue, [1], undefined, { encoding: "x" as never }))).toMatchObject({ name: "RangeError" });
    for (const concurrency of [0, 1.5, Infinity]) expect(await rejection(enqueueMany(queue, [1], undefined, { concurrency }))).toMatchObject({ name: "RangeError" });
    expect(await rejection(enqueueMany({} as FakeQueue, [1]))).toMatchObject({ name: "TypeError" });
    expect(queue.faults.log).toEqual([]);
  });
});

describe("enqueueMany of an iterable", () => {
  it.each(["sync", "async"])("reads it lazily (%s): no further than it sends", async (kind) => {
    slowSends();
    let taken = 0;
    function* sync(): Generator<number> {
      for (; taken < 20; ) yield taken++;
    }
    async function* async(): AsyncGenerator<number> {
      yield* sync();
    }
    const sending = enqueueMany(queue, kind === "sync" ? sync() : async(), withKey, { concurrency: 4 });
    await vi.advanceTimersByTimeAsync(50);
    expect(taken).toBe(4);
    await vi.advanceTimersByTimeAsync(100);
    expect(taken).toBe(8);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await sending).toHaveLength(20);
    expect(bodies()).toEqual(numbers(20));
  });

  it.each(["sync", "async"])("rejects if it throws (%s), when the sends in flight have ended, and says how many were sent", async (kind) => {
    slowSends();
    function* sync(): Generator<number> {
      yield* [1, 2, 3];
      throw new Error("source");
    }
    async function* async(): AsyncGenerator<number> {
      yield* sync();
    }
    const sending = rejection(enqueueMany(queue, kind === "sync" ? sync() : async(), withKey));
    await vi.advanceTimersByTimeAsync(100);
    const error = await sending;
    expect(error.message).toMatch(/3 messages were sent/);
    expect(error.cause).toMatchObject({ message: "source" });
    expect(queue.messages).toHaveLength(3);
  });

  it.each(["sync", "async"])("ends it at an abort, and has results for what it had returned (%s)", async (kind) => {
    slowSends();
    let closed = 0;
    function* sync(): Generator<number> {
      try {
        for (let n = 0; ; n++) yield n;
      } finally {
        closed++;
      }
    }
    async function* async(): AsyncGenerator<number> {
      yield* sync();
    }
    const controller = new AbortController();
    const sending = enqueueMany(queue, kind === "sync" ? sync() : async(), withKey, { concurrency: 2, abortSignal: controller.signal });
    await vi.advanceTimersByTimeAsync(150);
    controller.abort(new Error("enough"));
    const results = await sending;
    expect(results.map((result) => "error" in result)).toEqual([false, false, true, true]);
    await vi.advanceTimersByTimeAsync(100);
    expect(closed).toBe(1);
  });

  it("does not wait after an abort for an iterable that never goes on", async () => {
    const controller = new AbortController();
    const messages = { [Symbol.asyncIterator]: () => ({ next: (): Promise<never> => new Promise(() => undefined) }) };
    const sending = enqueueMany(queue, messages, undefined, { abortSignal: controller.signal });
    await vi.advanceTimersByTimeAsync(10);
    controller.abort();
    expect(await sending).toEqual([]);
  });
});

it("ConcurrentQueue.enqueueMany uses the defaults of the queue", async () => {
  const send = vi.spyOn(queue, "sendMessage");
  const jobs = new ConcurrentQueue<number>(queue, { encoding: "base64", enqueueDefaults: { timeToLiveInSeconds: 60 } });
  await jobs.enqueueMany([1, 2], (n) => ({ ...withKey(n), timeToLiveInSeconds: n === 2 ? 90 : undefined }));
  await jobs.enqueueMany([3], undefined, { concurrency: 1 });
  expect(send.mock.calls.map(([, options]) => options?.messageTimeToLive)).toEqual([60, 90, 60]);
  expect(queue.messages.map(({ text }) => openEnvelope(text, "base64").body)).toEqual([1, 2, 3]);
});
