import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ClaimInbox, enqueue } from "../../src/index.js";
import { RecordedMetrics } from "../support/metrics.js";
import type { Attributes } from "../support/metrics.js";
import { Bench } from "./fakes/consume.js";

const bench = new Bench();
let metrics: RecordedMetrics;
beforeEach(() => {
  metrics = new RecordedMetrics();
});
afterEach(() => metrics.stop());

const often = { minPollIntervalInMs: 100, maxPollIntervalInMs: 100 };
const jobs = { "messaging.system": "azure_queue_storage", "messaging.destination.name": "jobs" };
const outcome = (name: string): Attributes => ({ ...jobs, "azsc.outcome": name });
const processed: Attributes = { ...jobs, "messaging.operation.name": "process" };

describe("a queue", () => {
  it("counts deliveries by what became of them, handlers, and the age of messages", async () => {
    for (const payload of ["good", "bad", "poison"]) await enqueue(bench.queue, payload, { idempotencyKey: payload });
    await bench.pass(5_000);
    await bench.consume(async (payload, { poison }) => {
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      if (payload === "bad") throw new RangeError("secret");
      if (payload === "poison") poison("no use");
    }, { ...often, inbox: new ClaimInbox(bench.table), maxAttempts: 2, retryDelayInMs: 1_000 });
    await bench.pass(10_000);
    await enqueue(bench.queue, "good", { idempotencyKey: "good" });
    await bench.pass(1_000);
    expect(await metrics.values("queue.messages")).toEqual([
      [outcome("retried"), 1],
      [outcome("poisoned"), 2],
      [outcome("completed"), 1],
      [outcome("duplicate"), 1],
    ]);
    expect(await metrics.values("messaging.client.consumed.messages")).toEqual([[{ ...jobs, "messaging.operation.name": "receive" }, 5]]);
    expect(await metrics.values("messaging.process.duration")).toEqual([
      [processed, 2],
      [{ ...processed, "error.type": "RangeError" }, 2],
    ]);
    const [[, handlerSeconds]] = (await metrics.sums("messaging.process.duration")) as [[Attributes, number]];
    expect(Math.round(handlerSeconds)).toBe(4);
    const [[, ageInSeconds]] = (await metrics.sums("queue.message_age")) as [[Attributes, number]];
    expect(ageInSeconds).toBeGreaterThan(15);
  });

  it("shows its length and what is in flight while a consumer runs, also if the metrics come later", async () => {
    metrics.stop();
    bench.queue.getProperties = () => Promise.resolve({ approximateMessagesCount: bench.queue.messages.length });
    for (let i = 0; i < 3; i++) await enqueue(bench.queue, i);
    const consumer = await bench.consume(() => new Promise((resolve) => setTimeout(resolve, 5_000)), { ...often, concurrency: 2 });
    metrics = new RecordedMetrics();
    await bench.pass(1_000);
    expect(await metrics.values("queue.in_flight")).toEqual([[jobs, 2]]);
    expect(await metrics.values("queue.length")).toEqual([[jobs, 3]]);
    const stopping = consumer.stop();
    await bench.pass(10_000);
    await stopping;
    await bench.pass(10_000);
    const getProperties = vi.spyOn(bench.queue, "getProperties");
    await metrics.all();
    expect(getProperties).not.toHaveBeenCalled();
  });

  it("whose length cannot be read has none, and no error", async () => {
    await bench.consume(() => undefined, often);
    await bench.pass(1_000);
    bench.queue.getProperties = () => Promise.reject(new Error("denied"));
    expect(await metrics.values("queue.in_flight")).toEqual([[jobs, 0]]);
    expect(await metrics.values("queue.length")).toEqual([]);
  });
});
