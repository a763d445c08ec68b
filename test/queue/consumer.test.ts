import { beforeEach, describe, expect, it, vi } from "vitest";

import { ClaimInbox, enqueue, MessageLostError, QueueConsumer } from "../../src/index.js";
import type { QueueConsumerEvents, QueueConsumerOptions } from "../../src/index.js";
import { MemoryInbox } from "../../src/queue/inbox/memory-inbox.js";
import { Bench, untilAborted } from "./fakes/consume.js";
import type { Handler } from "./fakes/consume.js";
import type { FakeQueue } from "./fakes/fake-queue.js";
import { FakeTable } from "./fakes/fake-table.js";

const bench = new Bench();
let queue: FakeQueue;
let poisonQueue: FakeQueue;

beforeEach(() => {
  ({ queue, poisonQueue } = bench);
});

const consume = (handler: Handler, options?: QueueConsumerOptions<unknown>): Promise<QueueConsumer> => bench.consume(handler, options);
const pass = (ms: number): Promise<unknown> => bench.pass(ms);
const names = (): string[] => bench.names;
const last = (name: keyof QueueConsumerEvents): Record<string, unknown> => bench.details(name).at(-1) as Record<string, unknown>;
const until = (signal: AbortSignal): Promise<never> => untilAborted({ signal });
const poisons = (): Record<string, unknown>[] => bench.poisons;

describe("a handler that", () => {
  it("returns takes its message off the queue", async () => {
    const { messageId } = await enqueue(queue, { order: 1 }, { idempotencyKey: "k" });
    const handler = vi.fn<Handler>();
    await consume(handler);
    await pass(10);
    expect(handler).toHaveBeenCalledExactlyOnceWith({ order: 1 }, expect.objectContaining({ idempotencyKey: "k", messageId, attempt: 1 }));
    expect(queue.messages).toEqual([]);
    expect(names()).toEqual(["completed"]);
    expect(queue.faults.log.toSorted()).toEqual(["delete", "properties", "receive", "receive", "send"]);
  });

  it("throws gets its message again after a growing delay, and never more than maxAttempts times", async () => {
    await enqueue(queue, "p", { idempotencyKey: "k" });
    const attempts: [number, number][] = [];
    const started = Date.now();
    await consume(
      (_, { attempt }) => {
        attempts.push([attempt, Math.round((Date.now() - started) / 1_000)]);
        throw new RangeError("no luck");
      },
      { maxAttempts: 4, minPollIntervalInMs: 100, maxPollIntervalInMs: 100 },
    );
    await pass(60_000);
    expect(attempts).toEqual([[1, 0], [2, 1], [3, 3], [4, 7]]); // prettier-ignore
    expect(queue.messages).toEqual([]);
    expect(poisons()).toEqual([
      {
        asc: 1,
        key: "k",
        body: "p",
        poison: expect.objectContaining({ reason: "failed 4 times", error: "RangeError: no luck", attempts: 4, queue: "jobs", messageId: "jobs-1" }) as unknown,
      },
    ]);
    expect(poisonQueue.messages[0]!.expiresOn.getUTCFullYear()).toBe(9999);
    expect(names()).toEqual(["retried", "retried", "retried", "poisoned"]);
  });

  it("asks for a retry gets it, when it said", async () => {
    await enqueue(queue, "p");
    const handler = vi.fn<Handler>((_, context) => (context.attempt === 1 ? context.retry({ delayInMs: 30_000 }) : undefined));
    await consume(handler, { maxPollIntervalInMs: 100 });
    await pass(29_000);
    expect(handler).toHaveBeenCalledTimes(1);
    await pass(2_000);
    expect(handler).toHaveBeenCalledTimes(2);
    expect(names()).toEqual(["retried", "completed"]);
  });

  it("asks for poison has the message put aside at once", async () => {
    await enqueue(queue, "p");
    await consume((_, context) => context.poison("no such customer"));
    await pass(10);
    expect(queue.messages).toEqual([]);
    expect(poisons()[0]).toMatchObject({ body: "p", poison: { reason: "no such customer", attempts: 1 } });
  });

  it("takes three times the visibility timeout keeps its message", async () => {
    await enqueue(queue, "p");
    const handler = vi.fn<Handler>(() => new Promise((resolve) => setTimeout(resolve, 185_000)));
    await consume(handler);
    await pass(184_000);
    expect(queue.visible).toEqual([]);
    await pass(2_000);
    expect(handler).toHaveBeenCalledTimes(1);
    expect(names()).toEqual(["completed"]);
  });

  it("has lost its message is told before anybody else can get it, and its return does not count", async () => {
    await enqueue(queue, "p");
    let visibleWhenTold: number | undefined;
    await consume(async (_, { signal }) => {
      await until(signal).catch(() => undefined);
      visibleWhenTold = queue.visible.length;
    });
    await pass(1);
    queue.faults.always("update", "hang");
    await pass(59_500);
    expect(visibleWhenTold).toBe(0);
    expect(names()).toEqual(["lost"]);
    expect(last("lost").error).toBeInstanceOf(MessageLostError);
    expect(queue.messages).toHaveLength(1);
  });

  it("takes longer than it may is told to stop, and its message is tried again", async () => {
    await enqueue(queue, "p");
    const handler = vi.fn<Handler>((_, { signal, attempt }) => (attempt === 1 ? until(signal) : undefined));
    await consume(handler, { maxProcessingTimeInMs: 5_000, maxPollIntervalInMs: 100 });
    await pass(5_000);
    expect(last("retried").error).toMatchObject({ code: "OPERATION_TIMEOUT" });
    await pass(2_000);
    expect(names()).toEqual(["retried", "completed"]);
  });

  it("takes longer than it may and does not stop is abandoned after five seconds, which counts as a failure", async () => {
    await enqueue(queue, "p");
    const ends: (() => void)[] = [];
    const attempts: number[] = [];
    const handler: Handler = (_, { attempt }) => {
      attempts.push(attempt);
      return new Promise<void>((resolve) => void ends.push(resolve));
    };
    const consumer = await consume(handler, { maxProcessingTimeInMs: 5_000, maxAttempts: 2, concurrency: 1, maxPollIntervalInMs: 100 });
    await pass(9_900);
    expect([names(), consumer.health()]).toMatchObject([[], { inFlight: 1, abandoned: 0 }]);
    await pass(200);
    expect([names(), consumer.health()]).toMatchObject([["abandoned", "retried"], { inFlight: 0, abandoned: 1 }]);
    expect(JSON.parse(queue.messages[0]!.text)).toMatchObject({ failures: 1 });
    await pass(12_000);
    expect(names()).toEqual(["abandoned", "retried", "abandoned", "poisoned"]);
    expect(attempts).toEqual([1, 2]);
    // A restart does not end them.
    await consumer.stop();
    await consumer.start();
    expect(consumer.health()).toMatchObject({ inFlight: 0, abandoned: 2 });
    // Their results are ignored, whenever they come.
    for (const end of ends) end();
    await pass(1);
    expect(consumer.health()).toMatchObject({ inFlight: 0, abandoned: 0 });
    expect(names()).toHaveLength(5);
  });
});

describe("messages that never reached a handler", () => {
  it("are not charged with an attempt", async () => {
    await enqueue(queue, "p");
    queue.faults.next("receive", "mute"); // hidden, and nobody knows
    const inbox = new MemoryInbox();
    const attempts: number[] = [];
    await consume((_, { attempt }) => void attempts.push(attempt), { inbox, maxPollIntervalInMs: 100 });
    await pass(100_000);
    expect(attempts).toEqual([1]);
  });

  it("are given back at once when the consumer stops, with a note", async () => {
    await enqueue(queue, "p", { idempotencyKey: "k" });
    const table = FakeTable.used();
    const handler = vi.fn<Handler>();
    table.faults.next("transaction", "hang");
    const consumer = await consume(handler, { inbox: new ClaimInbox(table) });
    await pass(10);
    const stopping = consumer.stop();
    await pass(10);
    await stopping;
    expect(handler).not.toHaveBeenCalled();
    expect(queue.visible).toHaveLength(1);
    expect(JSON.parse(queue.messages[0]!.text)).toMatchObject({ key: "k", body: "p", uncharged: 1 });
    bench.clear();
    const attempts: number[] = [];
    await consume((_, { attempt }) => void attempts.push(attempt), { inbox: new ClaimInbox(table) });
    await pass(1_000);
    expect(attempts).toEqual([1]);
  });
});

describe("messages of others", () => {
  it.each<[string, string, unknown, QueueConsumerOptions<unknown>]>([
    ["plain text", "hello", "hello", {}],
    ["JSON", '{"a":[1]}', { a: [1] }, {}],
    ["base64", btoa('{"a":1}'), { a: 1 }, { encoding: "base64" }],
    ["JSON that only looks like an envelope", '{"asc":1,"key":5}', { asc: 1, key: 5 }, {}],
    ["an empty text", "", "", {}],
  ])("%s is handed over with the message id as the key", async (_, text, payload, options) => {
    await queue.sendMessage(text);
    const handler = vi.fn<Handler>();
    await consume(handler, options);
    await pass(10);
    expect(handler).toHaveBeenCalledWith(payload, expect.objectContaining({ idempotencyKey: "jobs-1", messageId: "jobs-1" }));
  });

  it("get their key from the payload, if told how", async () => {
    await queue.sendMessage('{"id":7}');
    const handler = vi.fn<Handler>();
    await consume(handler, { idempotencyKeyOf: (payload) => `order-${(payload as { id: number }).id}` });
    await pass(10);
    expect(handler).toHaveBeenCalledWith({ id: 7 }, expect.objectContaining({ idempotencyKey: "order-7" }));
  });
});

describe("a message that cannot be decoded", () => {
  const circular: Record<string, unknown> = {};
  circular["self"] = circular;
  it.each<[string, unknown, string]>([
    ["a BigInt", 5n, "5"],
    ["a circular object", circular, "[object Object]"],
    ["an object whose toJSON throws", { toJSON: () => { throw new Error("no"); } }, "[object Object]"], // prettier-ignore
    ["an object that cannot be a text", Object.assign(Object.create(null) as object, { toJSON: () => { throw new Error("no"); } }), "unknown error"], // prettier-ignore
    ["a symbol", Symbol("s"), "Symbol(s)"],
  ])("is moved to the poison queue whatever the decoder throws: %s", async (_, thrown, error) => {
    await queue.sendMessage("text");
    await consume(vi.fn(), { decode: () => { throw thrown; } }); // prettier-ignore
    await pass(10);
    expect(poisons()).toEqual([expect.objectContaining({ poison: expect.objectContaining({ error }) as unknown })]);
    expect(queue.messages).toEqual([]);
  });

  it("and cannot be moved or released is not renewed any more", async () => {
    await queue.sendMessage("text");
    poisonQueue.sendMessage = () => Promise.reject(new TypeError("down"));
    const consumer = await consume(vi.fn(), { decode: () => { throw new Error("no"); }, retryDelayInMs: () => { throw new Error("my delay"); } }); // prettier-ignore
    await pass(10);
    expect(consumer.health().inFlight).toBe(0);
    await consumer.stop();
    expect(vi.getTimerCount()).toBe(0);
  });

  const schema = {
    "~standard": { version: 1, vendor: "test", validate: (value: unknown) => (typeof value === "number" ? { value } : { issues: [{ message: "not a number" }] }) },
  } as const;

  it.each<[string, string, QueueConsumerOptions<unknown>, Record<string, unknown>]>([
    ["is no base64", "{not base64}", { encoding: "base64" }, { text: "{not base64}", poison: { reason: "cannot be decoded", raw: true } }],
    ["does not fit the schema", '"seven"', { schema }, { text: '"seven"', poison: { reason: "does not match the schema", error: expect.stringMatching(/^SchemaError: The payload of a message .* 1 issue.*: payload: not a number$/) as string } }],
    ["the decoder refuses", "text", { decode: (text) => JSON.parse(text) as unknown }, { text: "text", poison: { reason: "cannot be decoded" } }],
  ])("because it %s goes to the poison queue with its text, and the loop goes on", async (_, text, options, expected) => {
    await queue.sendMessage(text);
    const handler = vi.fn<Handler>();
    await consume(handler, options);
    await pass(10);
    expect(poisons()[0]).toMatchObject({ key: "jobs-1", ...expected });
    expect(handler).not.toHaveBeenCalled();
    await queue.sendMessage(options.encoding ? btoa("7") : "7");
    await pass(1_000);
    expect(handler).toHaveBeenCalledTimes(1);
  });

  it("stays in the queue if there is no poison queue, and does not spin", async () => {
    await queue.sendMessage("text");
    await consume(vi.fn(), { poisonQueue: undefined, decode: () => { throw new Error("no") } }); // prettier-ignore
    await pass(10_000);
    expect(queue.messages).toHaveLength(1);
    expect(names()).toEqual(["error"]);
  });

  it("stays until the poison queue takes it", async () => {
    await queue.sendMessage("x");
    poisonQueue.faults.next("send", "busy");
    await consume(vi.fn(), { decode: () => { throw new Error("no") }, maxPollIntervalInMs: 100 }); // prettier-ignore
    await pass(5_000);
    expect(poisons()).toHaveLength(1);
    expect(queue.messages).toEqual([]);
    expect(names()).toEqual(["error", "poisoned"]);
  });
});

describe("a poisoned message at the limit of 64 KiB", () => {
  it("keeps its text, its key and what fits of the reason", async () => {
    const text = JSON.stringify({ asc: 1, key: "k", body: "x".repeat(65_536 - 600) });
    await queue.sendMessage(text);
    await consume((_, context) => context.poison("r".repeat(5_000)));
    await pass(10);
    const [poison] = poisons();
    expect(poison).toMatchObject({ key: "k", body: "x".repeat(65_536 - 600), poison: { messageId: "jobs-1" } });
    expect(queue.messages).toEqual([]);
  });

  it("is passed on as it is when there is no room for anything", async () => {
    const text = "x".repeat(65_536);
    await queue.sendMessage(text);
    await consume((_, context) => context.poison("full"));
    await pass(10);
    expect(poisonQueue.messages.map((m) => m.text)).toEqual([text]);
    expect(last("poisoned").reason).toBe("full");
  });
});

describe("polling", () => {
  it("backs off while the queue is empty, and is woken by notify", async () => {
    const consumer = await consume(vi.fn());
    await pass(26_000);
    const waits = bench.details("empty").map(({ nextPollInMs }) => nextPollInMs);
    expect(waits.map(Math.round)).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
    bench.clear();
    consumer.notify();
    await pass(0);
    expect(last("empty").nextPollInMs).toBeCloseTo(100);
    await enqueue(queue, "p");
    consumer.notify();
    await pass(10);
    expect(names()).toEqual(["completed"]);
  });

  it("begins anew with short waits after a message", async () => {
    await consume(vi.fn());
    await pass(3_000);
    await enqueue(queue, "p");
    await pass(2_000);
    expect(names()).toEqual(["completed"]);
    const waits = bench.details("empty").map(({ nextPollInMs }) => Math.round(nextPollInMs));
    expect(waits.slice(0, 8)).toEqual([100, 200, 400, 800, 1_600, 100, 200, 400]);
  });

  it("asks for as many as there is room for, and goes on at once after a full batch", async () => {
    for (let i = 0; i < 100; i++) await enqueue(queue, i);
    const release: (() => void)[] = [];
    await consume(() => new Promise<void>((resolve) => release.push(resolve)), { concurrency: 40 });
    await pass(100);
    expect(queue.receivedCounts).toEqual([32, 8]);
    for (const let_go of release.splice(0, 10)) let_go();
    await pass(100);
    expect(queue.receivedCounts).toEqual([32, 8, 10]);
    while (queue.messages.length > 0) {
      for (const let_go of release.splice(0)) let_go();
      await pass(100);
    }
  });

  it("asks once for room that comes free little by little, but does not wait for the slowest", async () => {
    for (let i = 0; i < 40; i++) await enqueue(queue, i);
    const release: (() => void)[] = [];
    await consume(() => new Promise<void>((resolve) => release.push(resolve)));
    await pass(100);
    for (let i = 0; i < 3; i++) {
      release.shift()!();
      await pass(5);
    }
    expect(queue.receivedCounts).toEqual([16]);
    await pass(10);
    expect(queue.receivedCounts).toEqual([16, 3]);
    while (queue.messages.length > 0) {
      for (const let_go of release.splice(0)) let_go();
      await pass(100);
    }
  });

  it("does not end for any error, tells it, and slows down", async () => {
    queue.faults.next("receive", "busy", "denied", "lost", "hang");
    await enqueue(queue, "p");
    const consumer = await consume(vi.fn(), { maxPollIntervalInMs: 100 });
    await pass(10);
    expect(consumer.health()).toMatchObject({ isRunning: true, consecutiveErrors: 1 });
    await pass(120_000);
    expect(names().filter((name) => name === "error")).toHaveLength(4);
    expect(queue.messages).toEqual([]);
    expect(consumer.health()).toMatchObject({ consecutiveErrors: 0, inFlight: 0, lastSuccessOn: expect.any(Date) as unknown });
  });

  it("survives listeners that throw", async () => {
    await enqueue(queue, "p");
    const consumer = await consume(vi.fn());
    consumer.on("completed", () => {
      throw new Error("listener");
    });
    await pass(1_000);
    await enqueue(queue, "q");
    await pass(2_000);
    expect(names().filter((name) => name === "completed")).toHaveLength(2);
  });
});

describe("stop", () => {
  it("lets handlers finish, renewing their messages, and polls no more", async () => {
    await enqueue(queue, "p");
    const consumer = await consume(() => new Promise((resolve) => setTimeout(resolve, 100_000)), { drainTimeoutInMs: 200_000 });
    await pass(10);
    const receives = queue.faults.count("receive");
    const stopping = consumer.stop();
    await pass(99_000);
    expect(queue.visible).toEqual([]);
    expect(names()).toEqual([]);
    await pass(2_000);
    await stopping;
    expect(names()).toEqual(["completed", "stopped"]);
    expect(queue.faults.count("receive")).toBe(receives);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("waits, then aborts, then gives back at once", async () => {
    await enqueue(queue, "p");
    const order: string[] = [];
    const consumer = await consume(async (_, { signal }) => {
      await until(signal).catch(() => order.push(`aborted at ${Date.now() - started}`));
      order.push(`${queue.visible.length} visible`);
      throw signal.reason;
    });
    await pass(10);
    const started = Date.now();
    const stopping = consumer.stop();
    await pass(40_000);
    await stopping;
    expect(order).toEqual(["aborted at 25000", "0 visible"]);
    expect(queue.visible).toHaveLength(1);
    expect(names()).toEqual(["retried", "stopped"]);
    expect(last("retried")).toMatchObject({ delayInMs: 0 });
  });

  it("gives back also what a handler will not let go", async () => {
    await enqueue(queue, "p");
    const consumer = await consume(() => new Promise(() => undefined), { drainTimeoutInMs: 1_000 });
    await pass(10);
    const stopping = consumer.stop();
    await pass(2_000);
    await stopping;
    expect(queue.visible).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("lets a receive in flight finish, and gives back what it brings", async () => {
    const handler = vi.fn<Handler>();
    let answer!: () => void;
    const receive = queue.receiveMessages.bind(queue);
    queue.receiveMessages = async (options) => {
      const received = await receive(options);
      await new Promise<void>((resolve) => (answer = resolve));
      return received;
    };
    await enqueue(queue, "p");
    const consumer = await consume(handler);
    await pass(10);
    const stopping = consumer.stop();
    await pass(1_000);
    answer();
    await pass(10);
    await stopping;
    expect(handler).not.toHaveBeenCalled();
    expect(queue.visible).toHaveLength(1);
    expect(JSON.parse(queue.messages[0]!.text)).toMatchObject({ uncharged: 1 });
  });

  it("comes to an end even if nothing answers any more", async () => {
    await enqueue(queue, "p");
    const consumer = await consume((_, { signal }) => until(signal));
    await pass(10);
    for (const kind of ["receive", "update", "delete"]) queue.faults.always(kind, "hang");
    const stopping = consumer.stop();
    await pass(60_000);
    await stopping;
    expect(vi.getTimerCount()).toBe(0);
  });

  it("may be called twice, before start, and be followed by another start", async () => {
    const handler = vi.fn<Handler>();
    const consumer = await consume(handler);
    await Promise.all([consumer.stop(), consumer.stop()]);
    expect(consumer.health().isRunning).toBe(false);
    await enqueue(queue, "p");
    await consumer.start();
    await pass(10);
    expect(handler).toHaveBeenCalledTimes(1);
    await new QueueConsumer(queue, handler).stop();
  });

  it("is what run does when its signal aborts", async () => {
    const controller = new AbortController();
    const consumer = new QueueConsumer(queue, vi.fn());
    const running = consumer.run({ abortSignal: controller.signal });
    await pass(1_000);
    expect(consumer.health().isRunning).toBe(true);
    controller.abort();
    await pass(10);
    await running;
    expect(consumer.health().isRunning).toBe(false);
  });
});

describe("start", () => {
  it("fails if the queue is missing, and creates the poison queue and the inbox table", async () => {
    queue.exists = false;
    poisonQueue.exists = false;
    const table = new FakeTable();
    const options = { poisonQueue, inbox: new ClaimInbox(table, { createTable: true }) };
    const consumer = new QueueConsumer(queue, vi.fn(), options);
    await expect(consumer.start()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND", url: queue.url });
    queue.exists = true;
    await consumer.start();
    bench.stopAtEnd(consumer);
    expect(poisonQueue.exists).toBe(true);
    expect(table.faults.log).toEqual(["createTable", "get", "transaction"]);
  });

  it.each<QueueConsumerOptions<unknown>>([
    { concurrency: 0 },
    { visibilityTimeoutInSeconds: 0.5 },
    { maxAttempts: 0 },
    { minPollIntervalInMs: 100, maxPollIntervalInMs: 10 },
    { encoding: "utf-16" as "text" },
  ])("is not even reached with %o", (options) => {
    expect(() => new QueueConsumer(queue, vi.fn(), options)).toThrow(RangeError);
  });
});

describe("with an inbox", () => {
  it.each([
    ["MemoryInbox", () => new MemoryInbox()],
    ["ClaimInbox", () => new ClaimInbox(new FakeTable())],
  ])("(%s) a message that was sent twice is handled once", async (_, create) => {
    await enqueue(queue, "p", { idempotencyKey: "k" });
    await enqueue(queue, "p", { idempotencyKey: "k" });
    const handler = vi.fn<Handler>();
    await consume(handler, { inbox: create(), maxPollIntervalInMs: 100 });
    await pass(10_000);
    expect(handler).toHaveBeenCalledTimes(1);
    expect(names()).toEqual(["completed", "duplicate"]);
    expect(queue.messages).toEqual([]);
  });

  it("a message whose delete never got through is recognised when it comes again", async () => {
    await enqueue(queue, "p");
    queue.faults.next("update", "lost");
    const handler = vi.fn<Handler>(() => new Promise((resolve) => setTimeout(resolve, 35_000)));
    await consume(handler, { inbox: new MemoryInbox(), maxPollIntervalInMs: 100 });
    await pass(36_000);
    expect(names()).toEqual(["completed"]);
    expect(queue.messages).toHaveLength(1);
    await pass(120_000);
    expect(names()).toEqual(["completed", "duplicate"]);
    expect(handler).toHaveBeenCalledTimes(1);
    expect(queue.messages).toEqual([]);
  });

  it("that is out nothing is handled; the messages are kept, and it goes on by itself", async () => {
    const table = FakeTable.used();
    await enqueue(queue, "p");
    table.faults.always("transaction", "denied");
    const handler = vi.fn<Handler>();
    const consumer = await consume(handler, { inbox: new ClaimInbox(table), maxPollIntervalInMs: 1_000 });
    await pass(30_000);
    expect(queue.visible).toEqual([]);
    expect(consumer.health().consecutiveErrors).toBeGreaterThan(2);
    await pass(120_000);
    expect(handler).not.toHaveBeenCalled();
    expect(new Set(names())).toEqual(new Set(["error", "paused"]));
    expect(names().filter((name) => name === "paused")).toHaveLength(1);
    expect(last("paused")).toMatchObject({ reason: "infrastructure", error: { statusCode: 403 } });
    table.faults.always("transaction", "ok");
    await pass(70_000);
    expect(handler).toHaveBeenCalledExactlyOnceWith("p", expect.objectContaining({ attempt: 1 }));
    expect(queue.messages).toEqual([]);
    expect(consumer.health().consecutiveErrors).toBe(0);
  });

  it("that is out when the handler is through, the completion is tried until it is there", async () => {
    const table = new FakeTable();
    await enqueue(queue, "p");
    const handler = vi.fn<Handler>(() => table.faults.always("transaction", "denied"));
    await consume(handler, { inbox: new ClaimInbox(table) });
    await pass(100_000);
    expect(queue.messages).toHaveLength(1);
    expect(queue.visible).toEqual([]);
    table.faults.always("transaction", "ok");
    await pass(10_000);
    expect(handler).toHaveBeenCalledTimes(1);
    expect(names().filter((name) => name !== "error")).toEqual(["completed"]);
  });

  it("a claim that cannot be extended stops the handler before another message with the key can start", async () => {
    const table = new FakeTable();
    await enqueue(queue, "p", { idempotencyKey: "k" });
    await consume((_, { signal }) => until(signal), { inbox: new ClaimInbox(table) });
    await pass(10);
    table.faults.always("transaction", "hang");
    await pass(118_500);
    expect(names().filter((name) => name !== "error")).toEqual([]);
    await pass(600);
    expect(names().filter((name) => name !== "error")).toEqual(["lost"]);
    expect(last("lost").error).toMatchObject({ reason: "claim" });
  });

  it("the message of a long handler is extended in the queue and in the inbox", async () => {
    const table = new FakeTable();
    await enqueue(queue, "p");
    await consume(() => new Promise((resolve) => setTimeout(resolve, 400_000)), { inbox: new ClaimInbox(table) });
    await pass(401_000);
    expect(names()).toEqual(["completed"]);
  });

  it("a poisoned key may be brought back at once", async () => {
    const inbox = new ClaimInbox(new FakeTable());
    await enqueue(queue, "p", { idempotencyKey: "k" });
    let calls = 0;
    const handler: Handler = (_, context) => (++calls === 1 ? context.poison("first") : undefined);
    await consume(handler, { inbox, maxPollIntervalInMs: 100 });
    await pass(100);
    await enqueue(queue, "p", { idempotencyKey: "k" });
    await pass(200);
    expect(names()).toEqual(["poisoned", "completed"]);
  });
});

describe("a checkpoint", () => {
  it("goes along with a renewal, costs no request, and is there for the next attempt", async () => {
    await enqueue(queue, "p", { idempotencyKey: "k" });
    const seen: unknown[] = [];
    await consume(
      async (_, context) => {
        seen.push(context.lastCheckpoint);
        if (context.attempt > 1) return;
        context.checkpoint({ page: 3 });
        await new Promise((resolve) => setTimeout(resolve, 31_000));
        context.checkpoint({ page: 4 });
        throw new Error("later");
      },
      { maxPollIntervalInMs: 100 },
    );
    await pass(30_500);
    expect(JSON.parse(queue.messages[0]!.text)).toMatchObject({ key: "k", body: "p", checkpoint: { page: 3 } });
    await pass(5_000);
    expect(seen).toEqual([undefined, { page: 4 }]);
    expect(queue.faults.count("update")).toBe(2);
  });

  it("that does not fit is refused", async () => {
    await enqueue(queue, "p");
    const errors: unknown[] = [];
    await consume((_, context) => {
      try {
        context.checkpoint("x".repeat(70_000));
      } catch (error) {
        errors.push(error);
      }
    });
    await pass(10);
    expect(errors).toEqual([expect.any(RangeError)]);
  });
});
