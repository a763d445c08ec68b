import { describe, expect, it } from "vitest";

import { ClaimInbox, CommitInbox, enqueue, enqueueMany, QueueConsumer, redrive } from "../../src/index.js";
import type { EnqueueOptions, InboxClaimResult, InboxDelivery, MessageContext, QueueConsumerOptions } from "../../src/index.js";
import { MemoryInbox } from "../../src/queue/inbox/memory-inbox.js";
import { Bench } from "./fakes/consume.js";
import type { Handler } from "./fakes/consume.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import { deliver, request } from "./inbox/deliveries.js";

const bench = new Bench();
const often = { maxPollIntervalInMs: 100 };

/** Handlers that take some time, and what ran at the same time as another one of its group. */
class Work {
  readonly started: unknown[] = [];
  readonly completed: unknown[] = [];
  readonly violations: unknown[] = [];
  most = 0;
  readonly #running = new Map<string | undefined, number>();

  handler(takesInMs: number, act: (payload: unknown, context: MessageContext) => unknown = () => undefined): Handler {
    return async (payload, context) => {
      const { group } = context;
      this.started.push(payload);
      const running = (this.#running.get(group) ?? 0) + 1;
      if (running > 1 && group !== undefined) this.violations.push(payload);
      this.#running.set(group, running);
      this.most = Math.max(this.most, [...this.#running.values()].reduce((a, b) => a + b, 0));
      try {
        await new Promise((resolve) => setTimeout(resolve, takesInMs));
        await act(payload, context);
        this.completed.push(payload);
      } finally {
        this.#running.set(group, this.#running.get(group)! - 1);
      }
    };
  }
}

const send = (payload: unknown, options: EnqueueOptions = {}): Promise<unknown> => enqueue(bench.queue, payload, options);

describe("messages of a group", () => {
  it("are handled one at a time by two consumers, without any that is given back while one consumer has them all", async () => {
    for (let i = 0; i < 6; i++) await send(i, { group: "g" });
    await send("other", { group: "h" });
    await send("none");
    const work = new Work();
    await bench.consume(work.handler(1_000), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.consume(work.handler(1_000), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.pass(10);
    expect(work.started).toEqual([0, "other", "none"]);
    await bench.pass(6_500);
    expect(work.completed.filter((payload) => typeof payload === "number")).toEqual([0, 1, 2, 3, 4, 5]);
    expect(work.violations).toEqual([]);
    expect(bench.queue.messages).toEqual([]);
    expect(bench.queue.faults.count("update")).toBe(0);
    expect(bench.details("completed").map(({ group }) => group)).toContain("h");
  });

  it("are handed over from one to the next: one transaction for each of them, and no read", async () => {
    for (let i = 0; i < 20; i++) for (const group of ["g", "h"]) await send(`${group}${i}`, { group });
    const work = new Work();
    await bench.consume(work.handler(10), { ...often, inbox: new ClaimInbox(bench.table), concurrency: 40 });
    bench.table.faults.log.length = 0;
    await bench.pass(2_000);
    expect(work.completed).toHaveLength(40);
    expect(work.violations).toEqual([]);
    // The claim of the first ones, and a completion for each step of both groups.
    expect(bench.table.faults.log).toEqual(Array(21).fill("transaction"));
    expect(bench.queue.faults.count("update")).toBe(0);
    expect(bench.queue.messages).toEqual([]);
  });

  it("start before the message before them is deleted: it is completed in the inbox", async () => {
    for (let i = 0; i < 3; i++) await send(i, { group: "g" });
    const work = new Work();
    bench.queue.faults.next("delete", "hang");
    await bench.consume(work.handler(10), { ...often, concurrency: 2, inbox: new ClaimInbox(bench.table) });
    await bench.pass(200);
    expect(work.completed).toEqual([0, 1, 2]);
    expect(work.violations).toEqual([]);
    await bench.pass(60_000);
    expect(bench.queue.messages).toEqual([]);
  });

  it("wait at another consumer, which starts them within a second after the group is free: none is given back", async () => {
    const [first, second] = [new Work(), new Work()];
    await send(1, { group: "g" });
    const holder = await bench.consume(first.handler(20_000), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.pass(300);
    holder.pause();
    await bench.consume(second.handler(1), { ...often, inbox: new ClaimInbox(bench.table) });
    for (let i = 2; i < 6; i++) await send(i, { group: "g" });
    await bench.pass(19_000);
    expect([...first.started, ...second.started]).toEqual([1]);
    await bench.pass(2_500);
    expect([...first.completed, ...second.completed].toSorted()).toEqual([1, 2, 3, 4, 5]);
    expect(bench.queue.faults.count("update")).toBe(0);
  });

  it("are given back by a consumer that has waited for 30 seconds, or as long as its visibility timeout", async () => {
    await send(1, { group: "g" });
    const holder = await bench.consume(() => new Promise((resolve) => setTimeout(resolve, 100_000)), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.pass(300);
    holder.pause();
    await bench.consume(() => undefined, { ...often, visibilityTimeoutInSeconds: 10, inbox: new ClaimInbox(bench.table) });
    await send(2, { group: "g" });
    const text = (): Record<string, unknown> => JSON.parse(bench.queue.messages[1]!.text) as Record<string, unknown>;
    await bench.pass(29_000);
    expect(text()["uncharged"]).toBeUndefined();
    await bench.pass(3_000);
    expect(text()["uncharged"]).toBe(1);
  });

  it("are not kept from another consumer for ever by one that has more of them", async () => {
    const [busy, other] = [new Work(), new Work()];
    for (let i = 0; i < 60; i++) await send(i, { group: "g" });
    const hog = await bench.consume(busy.handler(500), { ...often, concurrency: 60, inbox: new ClaimInbox(bench.table) });
    await bench.pass(300);
    hog.pause();
    await send("other's", { group: "g" });
    await bench.consume(other.handler(1), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.pass(25_000);
    expect([...busy.completed, ...other.completed]).toContain("other's");
    expect(busy.completed.length).toBeGreaterThan(35);
    await bench.pass(15_000);
    expect([...busy.completed, ...other.completed]).toHaveLength(61);
  });

  it("wait at another consumer until the group is free, uncharged", async () => {
    const work = new Work();
    const options = { ...often, inbox: new ClaimInbox(bench.table) };
    await bench.consume(work.handler(5_000), options);
    await send(1, { group: "g" });
    await bench.pass(300);
    await bench.consume(work.handler(5_000), { ...often, inbox: new ClaimInbox(bench.table) });
    await send(2, { group: "g" });
    await bench.pass(30_000);
    expect(work.completed).toEqual([1, 2]);
    expect(work.violations).toEqual([]);
    expect(bench.details("completed").map(({ attempt }) => attempt)).toEqual([1, 1]);
  });

  it("beyond a small number are given back, and take no slots of other messages", async () => {
    for (let i = 0; i < 100; i++) await send(i, { group: "hot" });
    for (let i = 0; i < 10; i++) await send(`cold ${i}`);
    const work = new Work();
    await bench.consume(work.handler(1_000), { ...often, concurrency: 4, inbox: new ClaimInbox(bench.table) });
    await bench.pass(8_000);
    expect(work.completed.filter((payload) => typeof payload === "string")).toHaveLength(10);
    expect(work.most).toBeLessThanOrEqual(4);
    // 1 is handled, and 64 wait.
    const givenBack = bench.queue.messages.filter(({ text }) => (JSON.parse(text) as { uncharged?: number }).uncharged !== undefined);
    expect(givenBack.length).toBeGreaterThanOrEqual(110 - 10 - 8 - 65);
    // Without a longer pause than the group has work for.
    await bench.pass(100_000);
    expect(work.completed).toHaveLength(110);
    expect(work.violations).toEqual([]);
    const deliveries = bench.details("completed").map(({ dequeueCount }) => dequeueCount);
    expect(Math.max(...deliveries)).toBeLessThan(30);
  });

  it("of another producer are all handled, however often they are given back before it is their turn", async () => {
    for (let i = 0; i < 68; i++) await bench.queue.sendMessage(`other ${i}`);
    const work = new Work();
    await bench.consume(work.handler(3_000), { minPollIntervalInMs: 1_000, groupOf: () => "hot", inbox: new ClaimInbox(bench.table), visibilityTimeoutInSeconds: 600, maxDeliveries: 2 });
    await bench.pass(230_000);
    expect(Math.max(...bench.details("completed").map(({ dequeueCount }) => dequeueCount))).toBeGreaterThan(2);
    expect(bench.poisons).toEqual([]);
    expect(work.completed).toHaveLength(68);
  });

  it("of which there are too many come back one after the other, soon enough for the group", async () => {
    for (let i = 0; i < 300; i++) await send(i, { group: "hot" });
    const work = new Work();
    await bench.consume(work.handler(20), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.pass(15_000);
    expect(work.completed).toHaveLength(300);
    expect(bench.queue.faults.count("update")).toBeLessThan(1_500);
  });

  it("leave no poll for no message", async () => {
    for (let i = 0; i < 30; i++) await send(i, { group: `g${i % 3}` });
    await bench.consume(new Work().handler(5), { ...often, concurrency: 2, inbox: new ClaimInbox(bench.table) });
    await bench.pass(10_000);
    expect(bench.details("error")).toEqual([]);
    expect(bench.queue.messages).toEqual([]);
  });

  it("are claimed separately if the inbox cannot do both", async () => {
    class PlainInbox extends MemoryInbox {
      override async claim(deliveries: readonly InboxDelivery[]): Promise<readonly InboxClaimResult[]> {
        const results = await super.claim(deliveries);
        return results.map((result) => (result.kind === "claimed" ? { ...result, claim: { ...result.claim, completeAndClaim: undefined } } : result)) as InboxClaimResult[];
      }
    }
    for (let i = 0; i < 6; i++) await send(i, { group: "g" });
    const work = new Work();
    const consumer = await bench.consume(work.handler(10), { ...often, inbox: new PlainInbox() });
    await bench.pass(1_000);
    expect(work.completed).toEqual([0, 1, 2, 3, 4, 5]);
    expect(work.violations).toEqual([]);
    expect(consumer.health().inFlight).toBe(0);
  });

  it("are not started on a hand-over that is none", async () => {
    class BadInbox extends MemoryInbox {
      override async claim(deliveries: readonly InboxDelivery[]): Promise<readonly InboxClaimResult[]> {
        const results = await super.claim(deliveries);
        return results.map((result) => (result.kind === "claimed" ? { ...result, claim: { ...result.claim, completeAndClaim: () => Promise.resolve({ next: { kind: "claimed" } }) } } : result)) as InboxClaimResult[];
      }
    }
    for (let i = 0; i < 2; i++) await send(i, { group: "g" });
    const work = new Work();
    await bench.consume(work.handler(10), { ...often, visibilityTimeoutInSeconds: 5, inbox: new BadInbox() });
    await bench.pass(3_000);
    expect(work.started).toEqual([0]);
    expect(bench.details("error")[0]).toBeInstanceOf(TypeError);
  });

  it("use all slots again after they have waited", async () => {
    for (let i = 0; i < 8; i++) await send(i, { group: `g${i % 2}` });
    const work = new Work();
    const consumer = await bench.consume(work.handler(100), { ...often, concurrency: 4, inbox: new ClaimInbox(bench.table) });
    await bench.pass(10_000);
    expect(work.completed).toHaveLength(8);
    expect(consumer.health().inFlight).toBe(0);
    for (let i = 0; i < 8; i++) await send(`free ${i}`);
    await bench.pass(1_000);
    expect(work.most).toBe(4);
  });

  it("go on after one that fails: it is retried later, and the group is free meanwhile", async () => {
    await send("fails", { group: "g" });
    await send("works", { group: "g" });
    const work = new Work();
    let failures = 1;
    const handler = work.handler(100, (payload) => {
      if (payload === "fails" && failures-- > 0) throw new Error("not yet");
    });
    await bench.consume(handler, { ...often, retryDelayInMs: 60_000, inbox: new ClaimInbox(bench.table) });
    await bench.pass(5_000);
    expect(work.completed).toEqual(["works"]);
    await bench.pass(60_000);
    expect(work.completed).toEqual(["works", "fails"]);
    expect(work.violations).toEqual([]);
  });

  it("are handled although they waited for longer than a claim lasts", async () => {
    await send("long", { group: "g" });
    await send("next", { group: "g" });
    const work = new Work();
    await bench.consume((payload, context) => work.handler(payload === "long" ? 30_000 : 1)(payload, context), { ...often, visibilityTimeoutInSeconds: 5, inbox: new ClaimInbox(bench.table) });
    await bench.pass(32_000);
    expect(work.completed).toEqual(["long", "next"]);
    expect(bench.names).toEqual(["completed", "completed"]);
  });

  it("get the group of a consumer that has crashed when its claim has expired, also while they wait", async () => {
    const delivery = deliver("crashed", { queueUrl: bench.queue.url, group: "g", claimDurationInMs: 20_000 });
    expect(await new ClaimInbox(bench.table).claim([delivery], request)).toMatchObject([{ kind: "claimed" }]);
    const work = new Work();
    await bench.consume(work.handler(1), { ...often, inbox: new ClaimInbox(bench.table) });
    await send("next", { group: "g" });
    await bench.pass(19_000);
    expect(work.started).toEqual([]);
    await bench.pass(2_500);
    expect(work.completed).toEqual(["next"]);
    expect(bench.queue.faults.count("update")).toBe(0);
  });

  it("are given back at once by a consumer that stops", async () => {
    await send("long", { group: "g" });
    await send("next", { group: "g" });
    const consumer = await bench.consume(() => new Promise((resolve) => setTimeout(resolve, 5_000)), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.pass(200);
    const stopping = consumer.stop();
    await bench.pass(100);
    expect(bench.queue.visible.map(({ text }) => (JSON.parse(text) as { body: string }).body)).toEqual(["next"]);
    await bench.pass(10_000);
    await stopping;
  });

  it("of a stopped consumer do not wait until its claim expires", async () => {
    await send("cut off", { group: "g" });
    const consumer = await bench.consume((_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped")))), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.pass(200);
    const stopping = consumer.stop({ drainTimeoutInMs: 100 });
    await bench.pass(3_000);
    await stopping;
    expect([...bench.table.rows.values()].filter(({ rowKey }) => rowKey.startsWith("~asc~group!"))).toEqual([]);
  });

  it("are the ones that groupOf names, whatever the sender says", async () => {
    await send({ to: "a" }, { group: "x" });
    await send({ to: "b" }, { group: "x" });
    await send({ to: undefined }, { group: "x" });
    const groups: unknown[] = [];
    const groupOf = (payload: unknown): string | undefined => (payload as { to?: string }).to;
    await bench.consume((_, { group }) => void groups.push(group), { ...often, inbox: new MemoryInbox(), groupOf });
    await bench.pass(200);
    expect(groups).toEqual(["a", "b", undefined]);
  });

  it("with a group that is none are moved to the poison queue", async () => {
    await send({ to: 7 });
    await bench.queue.sendMessage(JSON.stringify({ asc: 1, key: "k", group: 3, body: 1 }));
    await bench.consume(() => undefined, { ...often, inbox: new MemoryInbox(), groupOf: (payload) => (payload as { to: string }).to });
    await bench.pass(200);
    expect(bench.details("poisoned")).toHaveLength(2);
  });
});

describe('order: "sequence"', () => {
  const sequence: QueueConsumerOptions<unknown> = { ...often, order: "sequence" };

  it("handles the messages of a group in their order, whatever the order of the queue and however many consumers there are", async () => {
    const order = [3, 1, 5, 2, 4, 6, 8, 7];
    for (const n of order) for (const group of ["g", "h"]) await send(`${group}${n}`, { group, sequence: n });
    const work = new Work();
    await bench.consume(work.handler(200), { ...sequence, inbox: new ClaimInbox(bench.table) });
    await bench.consume(work.handler(200), { ...sequence, inbox: new ClaimInbox(bench.table) });
    await bench.pass(60_000);
    for (const group of ["g", "h"]) {
      expect(work.started.filter((payload) => String(payload).startsWith(group))).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((n) => `${group}${n}`));
    }
    expect(work.violations).toEqual([]);
    expect(bench.queue.messages).toEqual([]);
  });

  it("starts a message that has waited for longer than a claim lasts, when the group is handed over to it", async () => {
    for (const n of [1, 2, 3]) await send(n, { group: "g", sequence: n });
    const work = new Work();
    await bench.consume((payload, context) => work.handler(payload === 1 ? 30_000 : 1)(payload, context), { ...sequence, visibilityTimeoutInSeconds: 5, inbox: new ClaimInbox(bench.table) });
    await bench.pass(32_000);
    expect(work.completed).toEqual([1, 2, 3]);
    expect(bench.names).toEqual(["completed", "completed", "completed"]);
  });

  it("lets messages wait for their turn in two consumers, without giving them back", async () => {
    for (let n = 1; n <= 40; n++) await send(n, { group: "g", sequence: n });
    const work = new Work();
    for (let i = 0; i < 2; i++) await bench.consume(work.handler(10), { ...sequence, concurrency: 8, inbox: new ClaimInbox(bench.table) });
    await bench.pass(6_000);
    expect(work.completed).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
    expect(bench.queue.faults.count("update")).toBe(0);
  });

  it("lets the group wait for a message that fails, and goes on after it", async () => {
    for (const n of [1, 2, 3]) await send(n, { group: "g", sequence: n });
    const work = new Work();
    let failures = 2;
    const handler = work.handler(10, (payload) => {
      if (payload === 2 && failures-- > 0) throw new Error("not yet");
    });
    await bench.consume(handler, { ...sequence, inbox: new ClaimInbox(bench.table) });
    await bench.pass(60_000);
    expect(work.started).toEqual([1, 2, 2, 2, 3]);
    expect(bench.details("completed").map(({ attempt }) => attempt)).toEqual([1, 3, 1]);
  });

  it("is kept beside a consumer without the order: that one leaves the group alone, and says so", async () => {
    for (let n = 1; n <= 12; n++) await send(n, { group: "g", sequence: n });
    const [ordered, other] = [new Work(), new Work()];
    const first = await bench.consume(ordered.handler(10), { ...sequence, inbox: new ClaimInbox(bench.table), concurrency: 1 });
    await bench.pass(20);
    await bench.consume(other.handler(10), { minPollIntervalInMs: 1_300, maxPollIntervalInMs: 1_700, inbox: new ClaimInbox(bench.table) });
    await bench.pass(600_000);
    expect([...ordered.completed]).toEqual(Array.from({ length: 12 }, (_, i) => i + 1));
    expect(other.started).toEqual([]);
    expect(bench.details("error")).toContainEqual(expect.objectContaining({ code: "LOCK_MODE_MISMATCH", setting: "order" }));
    await first.stop();
  });

  it("waits at a gap until a poisoned message is redriven", async () => {
    for (const n of [1, 2, 3]) await send(n, { group: "g", sequence: n });
    const work = new Work();
    let broken = true;
    const handler = work.handler(10, (payload) => {
      if (payload === 2 && broken) throw new Error("broken");
    });
    const inbox = new ClaimInbox(bench.table);
    await bench.consume(handler, { ...sequence, maxAttempts: 1, inbox });
    await bench.pass(60_000);
    expect(work.completed).toEqual([1]);
    expect(await inbox.getGroup(bench.queue, "g")).toMatchObject({ lastSequence: 1, holder: undefined });
    broken = false;
    const redriving = redrive(bench.poisonQueue, bench.queue);
    await bench.pass(1);
    await redriving;
    await bench.pass(600_000);
    expect(work.completed).toEqual([1, 2, 3]);
  });

  it("goes on after an operator has skipped a message, which is poison if it comes later", async () => {
    await send(2, { group: "g", sequence: 2 });
    const work = new Work();
    const inbox = new ClaimInbox(bench.table);
    await bench.consume(work.handler(10), { ...sequence, inbox });
    await bench.pass(30_000);
    expect(work.started).toEqual([]);
    expect(await inbox.skip(bench.queue, "g", 1)).toBe(true);
    await bench.pass(600_000);
    expect(work.completed).toEqual([2]);
    await send(1, { group: "g", sequence: 1 });
    await bench.pass(1_000);
    expect(bench.details("poisoned")).toMatchObject([{ reason: "its sequence was used before in its group: by another message, or it was skipped" }]);
  });

  it("moves a message to the poison queue that would expire while it waits", async () => {
    await send(2, { group: "g", sequence: 2, timeToLiveInSeconds: 300 });
    await bench.consume(() => undefined, { ...sequence, inbox: new ClaimInbox(bench.table) });
    await bench.pass(400_000);
    expect(bench.details("poisoned")).toMatchObject([{ reason: "its time to live ends while it waits for sequence 1 of its group" }]);
    expect(bench.poisons).toMatchObject([{ group: "g", sequence: 2 }]);
  });

  it("moves messages without a position to the poison queue", async () => {
    await send(1, { group: "g" });
    await send(2);
    await bench.consume(() => undefined, { ...sequence, inbox: new MemoryInbox() });
    await bench.pass(200);
    expect(bench.details("poisoned").map(({ reason }) => reason)).toEqual(Array(2).fill('has no group or no sequence, and the consumer has order: "sequence"'));
  });

  it("is not kept without the option: the sequence is ignored", async () => {
    await send(2, { group: "g", sequence: 2 });
    const work = new Work();
    await bench.consume(work.handler(1), { ...often, inbox: new ClaimInbox(bench.table) });
    await bench.pass(200);
    expect(work.completed).toEqual([2]);
  });
});

describe("arguments that are none", () => {
  it("are refused by enqueue and enqueueMany", async () => {
    await expect(send(1, { sequence: 1 })).rejects.toThrow(TypeError);
    for (const sequence of [0, 1.5, -1, Number.NaN, Infinity]) await expect(send(1, { group: "g", sequence })).rejects.toThrow();
    for (const group of ["", "a".repeat(1_025), "\ud800"]) await expect(send(1, { group })).rejects.toThrow(RangeError);
    expect(await enqueueMany(bench.queue, [1], (payload) => ({ payload, sequence: 2 }))).toMatchObject([{ error: expect.any(TypeError) as unknown }]);
    await enqueueMany(bench.queue, [1], (payload) => ({ payload, group: "g", sequence: 2 }));
    expect(bench.envelopes).toMatchObject([{ group: "g", sequence: 2 }]);
  });

  it("are refused by a consumer: groups need an inbox that claims keys", () => {
    const queue = new FakeQueue();
    const make = (options: object) => () => new QueueConsumer(queue, () => undefined, options);
    expect(make({ groupOf: () => "g" })).toThrow(/groupOf needs an inbox/);
    expect(make({ order: "sequence" })).toThrow(/needs an inbox/);
    expect(make({ groupOf: () => "g", inbox: new CommitInbox(bench.table), partitionOf: () => "p" })).toThrow(TypeError);
    expect(make({ groupOf: "g", inbox: new MemoryInbox() })).toThrow(TypeError);
    expect(make({ order: "fifo", inbox: new MemoryInbox() })).toThrow(RangeError);
  });
});
