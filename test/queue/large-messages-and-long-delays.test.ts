import { describe, expect, it, vi } from "vitest";

import { ClaimInbox, enqueue, QueueConsumer, redrive } from "../../src/index.js";
import { startStopwatch } from "../../src/core/deadline.js";
import { MemoryInbox } from "../../src/queue/inbox/memory-inbox.js";
import { consumerSettings } from "../../src/queue/options.js";
import { ReceivedMessage } from "../../src/queue/received-message.js";
import { Bench } from "./fakes/consume.js";
import type { Handler } from "./fakes/consume.js";

const bench = new Bench();
const often = { minPollIntervalInMs: 100, maxPollIntervalInMs: 100 };
const fail: Handler = () => Promise.reject(new Error("no luck"));
/** Leaves no room for counts in its message. */
const large = "x".repeat(65_536 - JSON.stringify({ asc: 1, key: "k", body: "" }).length);
const day = 86_400_000;

describe.each([
  ["a ClaimInbox", () => new ClaimInbox(bench.table)],
  ["an inbox in memory", () => new MemoryInbox()],
])("with %s, a message without room for counts", (_, inbox) => {
  it("has all of its attempts again after a redrive", async () => {
    await enqueue(bench.queue, large, { idempotencyKey: "k" });
    const attempts: number[] = [];
    await bench.consume((_payload, { attempt }) => {
      attempts.push(attempt);
      throw new Error("no luck");
    }, { ...often, inbox: inbox(), maxAttempts: 3 }); // prettier-ignore
    await bench.pass(60_000);
    expect(attempts).toEqual([1, 2, 3]);
    await redrive(bench.poisonQueue, bench.queue);
    await bench.pass(60_000);
    expect(attempts).toEqual([1, 2, 3, 1, 2, 3]);
    expect([bench.queue.messages.length, bench.poisonQueue.messages.length]).toEqual([0, 1]);
  });

  it("has its own attempts, and no more, beside another message with its key", async () => {
    for (let i = 0; i < 2; i++) await enqueue(bench.queue, large, { idempotencyKey: "k" });
    const handler = vi.fn<Handler>(fail);
    await bench.consume(handler, { ...often, inbox: inbox(), maxAttempts: 3, visibilityTimeoutInSeconds: 2 });
    await bench.pass(300_000);
    expect(bench.poisonQueue.messages).toHaveLength(2);
    // They share the count of the key: each is handled at least once, and no message more often than maxAttempts says.
    expect(handler.mock.calls.length).toBeGreaterThanOrEqual(4);
    expect(handler.mock.calls.length).toBeLessThanOrEqual(6);
  });
});

it("the size of a message is measured once, however often it is asked for its attempt", async () => {
  await enqueue(bench.queue, "p");
  const { receivedMessageItems } = await bench.queue.receiveMessages();
  const settings = consumerSettings<unknown>({});
  const message = new ReceivedMessage(bench.queue, receivedMessageItems[0]!, settings, startStopwatch(), new Date());
  await message.open();
  const encode = vi.spyOn(TextEncoder.prototype, "encode");
  for (let i = 0; i < 10; i++) expect(message.info.attempt).toBe(1);
  expect(encode.mock.calls.length).toBeLessThanOrEqual(1);
  message.lease.abandon();
});

describe("a delay that the service cannot keep", () => {
  it.each([
    [Infinity, /^RangeError: retry: delayInMs must be 604800000 \(7 days\) at most, for which a queue can hide a message; got Infinity\. Use poison\(\)/],
    [7 * day + 1, /^RangeError: retry: delayInMs must be 604800000 \(7 days\) at most/],
    [-1, /^RangeError: retry: delayInMs must be a number, 0 or more; got -1/],
  ])("is rejected by retry (%s ms), and the message fails with that error", async (delayInMs, message) => {
    await enqueue(bench.queue, "p", { timeToLiveInSeconds: -1 });
    await bench.consume((_, { retry }) => retry({ delayInMs }), { ...often, maxAttempts: 1 });
    await bench.pass(10);
    expect(bench.poisons).toMatchObject([{ poison: { reason: "failed 1 times", error: expect.stringMatching(message) as unknown } }]);
  });

  it("is used by retry up to 7 days", async () => {
    await enqueue(bench.queue, "p", { timeToLiveInSeconds: -1 });
    await bench.consume((_, { retry }) => retry({ delayInMs: 7 * day }));
    await bench.pass(10);
    expect(bench.details("retried")).toMatchObject([{ delayInMs: 7 * day }]);
    expect(bench.queue.messages[0]!.visibleAt).toBeGreaterThan(Date.now() + 7 * day - 2_000);
  });

  it("is a RangeError as retryDelayInMs, and reported if a function returns it", async () => {
    expect(() => new QueueConsumer(bench.queue, fail, { retryDelayInMs: Infinity })).toThrow(RangeError);
    await enqueue(bench.queue, "p");
    await bench.consume(fail, { ...often, retryDelayInMs: () => Infinity, maxAttempts: 2 });
    await bench.pass(10_000);
    expect(bench.names).toEqual(["error", "retried", "poisoned"]);
    expect(bench.poisons).toMatchObject([{ poison: { reason: "failed 2 times" } }]);
  });
});
