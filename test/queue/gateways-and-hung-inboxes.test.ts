import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ClaimInbox, enqueue, QueueConsumer } from "../../src/index.js";
import type { QueueConsumerOptions } from "../../src/index.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import { FakeTable } from "./fakes/fake-table.js";

let queue: FakeQueue;
let started: number;
let handled: { at: number; aborted: boolean }[];
let events: [name: string, at: number][];
let consumer: QueueConsumer;

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.5); // jitter in the middle
  queue = new FakeQueue();
  [started, handled, events] = [Date.now(), [], []];
});
afterEach(async () => {
  const stopping = consumer.stop();
  await pass(120_000);
  await stopping;
  expect(vi.getTimerCount()).toBe(0);
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const timesOf = (name: string): number[] => events.flatMap(([event, at]) => (event === name ? [at] : []));

async function consume(options: QueueConsumerOptions<unknown>, beforeFirstPoll: () => void = () => undefined): Promise<void> {
  await enqueue(queue, "p", { idempotencyKey: "k" });
  consumer = new QueueConsumer(queue, (_, { signal }) => void handled.push({ at: Date.now() - started, aborted: signal.aborted }), {
    minPollIntervalInMs: 100, maxPollIntervalInMs: 200,
    ...options,
  });
  for (const event of ["completed", "duplicate", "retried", "lost", "error"] as const) {
    consumer.on(event, () => void events.push([event, Date.now() - started]));
  }
  consumer.pause();
  await consumer.start();
  beforeFirstPoll();
  consumer.resume();
}

it.each([404, 412])("a delete that a gateway answers with %i, without a code of the service, is tried again", async (statusCode) => {
  vi.spyOn(queue, "deleteMessage").mockImplementationOnce(async (_id, _receipt, options) => {
    options?.abortSignal?.addEventListener("abort", () => undefined, { once: true }); // one for each send, as the SDK
    throw Object.assign(new Error("gateway"), { name: "RestError", statusCode });
  });
  await consume({ visibilityTimeoutInSeconds: 2 });
  await pass(10_000);
  expect(handled).toHaveLength(1);
  expect(events.map(([name]) => name)).toEqual(["completed"]);
  expect(queue.messages).toEqual([]);
});

describe("an inbox whose table", () => {
  it.each([
    { visibilityTimeoutInSeconds: 4, errorAt: 2_000 },
    { visibilityTimeoutInSeconds: 60, errorAt: 20_000 },
  ])("never responds is reported after one send and one read (visibility $visibilityTimeoutInSeconds s)", async ({ visibilityTimeoutInSeconds, errorAt }) => {
    const table = FakeTable.used();
    table.faults.always("transaction", "hang");
    await consume({ inbox: new ClaimInbox(table), visibilityTimeoutInSeconds }, () => table.faults.always("get", "hang"));
    await pass(errorAt + 50);
    expect(timesOf("error")[0]).toBe(errorAt);
    // The first one is that of start.
    expect(table.faults.log.slice(0, 3)).toEqual(["get", "transaction", "get"]);
    expect(handled).toEqual([]);
  });

  it("responds again after the claim has expired does not start a handler on that claim", async () => {
    const table = FakeTable.used();
    table.faults.next("transaction", "mute");
    table.faults.always("transaction", "hang");
    await consume({ inbox: new ClaimInbox(table), visibilityTimeoutInSeconds: 2, concurrency: 1 }, () => table.faults.always("get", "hang"));
    await pass(4_300);
    table.faults.always("transaction", "ok");
    table.faults.always("get", "ok");
    await pass(20_000);
    expect(handled.map(({ aborted }) => aborted)).toEqual([false]);
    expect(timesOf("completed")).toHaveLength(1);
    expect(queue.messages).toEqual([]);
  });
});
