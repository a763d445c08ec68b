import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { enqueue, QueueConsumer, redrive } from "../../src/index.js";
import type { PoisonDetails, QueueConsumerOptions } from "../../src/index.js";
import { openEnvelope } from "../../src/queue/envelope.js";
import { rejection } from "../support/outcome.js";
import { FakeQueue } from "./fakes/fake-queue.js";

let queue: FakeQueue;
let poison: FakeQueue;

beforeEach(() => {
  vi.useFakeTimers();
  [queue, poison] = [new FakeQueue(), new FakeQueue("jobs-poison")];
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

const never = (): Promise<never> => new Promise(() => undefined);
const details = { reason: "r", attempts: 5, queue: "jobs", messageId: "m", insertedOn: "2026-01-01T00:00:00.000Z", poisonedOn: "2026-01-02T00:00:00.000Z", encoding: "text" };
const put = (content: object, more: object = {}): Promise<unknown> =>
  poison.sendMessage(JSON.stringify({ asc: 1, key: "k", ...content, poison: { ...details, ...more } }));
const lifetimes = (): number[] => queue.messages.map(({ insertedOn, expiresOn }) => (expiresOn.getTime() - insertedOn.getTime()) / 1_000);

/** A consumer that poisons the only message of the queue. */
async function poisonOne(handler: ConstructorParameters<typeof QueueConsumer>[1], options: Partial<QueueConsumerOptions<unknown>> = {}): Promise<void> {
  const consumer = new QueueConsumer(queue, handler, { poisonQueue: poison, ...options });
  const poisoned = new Promise((resolve) => consumer.once("poisoned", resolve));
  const started = consumer.start();
  await vi.advanceTimersByTimeAsync(1_000);
  await started;
  await poisoned;
  const stopped = consumer.stop();
  await vi.advanceTimersByTimeAsync(1_000);
  await stopped;
}

describe("what a message keeps", () => {
  it.each([60, 7 * 86_400, 30 * 86_400, -1])("has a new lifetime as long as the original one: %i s", async (timeToLiveInSeconds) => {
    await enqueue(queue, 1, { timeToLiveInSeconds });
    const [original] = queue.messages;
    await poisonOne((_, context) => context.poison("no"));
    expect(poison.messages[0]!.expiresOn.getUTCFullYear()).toBe(9999);
    await vi.advanceTimersByTimeAsync(3_600_000);
    await redrive(poison, queue);
    if (timeToLiveInSeconds === -1) expect(queue.messages[0]!.expiresOn).toEqual(original!.expiresOn);
    else expect(lifetimes()).toEqual([timeToLiveInSeconds]);
  });

  it.each([undefined, 0, -2, 1.5, Infinity, 2 ** 40, "60", null])("has the default lifetime if the details have none that can be: %s", async (timeToLiveInSeconds) => {
    await put({ body: 1 }, { timeToLiveInSeconds });
    await redrive(poison, queue);
    expect(lifetimes()).toEqual([7 * 86_400]);
  });

  it("keeps its checkpoint, that of the last attempt included", async () => {
    await enqueue(queue, 1, { idempotencyKey: "k" });
    await poisonOne((_, context) => {
      context.checkpoint({ page: 3 });
      context.poison("no");
    });
    await redrive(poison, queue);
    expect(openEnvelope(queue.messages[0]!.text, "text")).toEqual({ asc: 1, key: "k", body: 1, checkpoint: { page: 3 }, of: queue.messages[0]!.messageId });
    expect(queue.visible).toHaveLength(1);
    const seen: unknown[] = [];
    await poisonOne((_, context) => {
      seen.push(context.lastCheckpoint);
      context.poison("again");
    });
    expect(seen).toEqual([{ page: 3 }]);
  });

  it("is hidden until it has its checkpoint, and comes without it if the process dies in between", async () => {
    await put({ body: 1, checkpoint: 7 });
    queue.faults.next("update", "busy");
    await expect(redrive(poison, queue)).rejects.toMatchObject({ statusCode: 503 });
    expect(queue.visible).toEqual([]);
    expect(poison.visible).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(openEnvelope(queue.visible[0]!.text, "text")).toEqual({ asc: 1, key: "k", body: 1 });
  });

  it("comes without its checkpoint if the client may not update messages", async () => {
    await put({ body: 1, checkpoint: 7 });
    queue.faults.next("update", "denied");
    expect(await redrive(poison, queue)).toEqual({ moved: 1, skipped: 0 });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(openEnvelope(queue.visible[0]!.text, "text")).toEqual({ asc: 1, key: "k", body: 1 });
  });

  it("starts with a new count of attempts, also if it was too large for the details", async () => {
    const envelope = { asc: 1, key: "k", body: 1, group: "g" };
    // Without details, the text is the producer's own: its checkpoint, too.
    const counted = JSON.stringify({ ...envelope, checkpoint: 2, of: "m", uncharged: 3, failures: 5, poisonPending: { reason: "r" } });
    await poison.sendMessage(counted);
    await poison.sendMessage(btoa(counted));
    await put({ body: 1, uncharged: 3, failures: 5 });
    await redrive(poison, queue);
    const [text, base64, explained] = queue.messages.map((message) => message.text);
    expect(openEnvelope(text!, "text")).toEqual(envelope);
    expect(openEnvelope(base64!, "base64")).toEqual(envelope);
    expect(openEnvelope(explained!, "text")).toEqual({ asc: 1, key: "k", body: 1 });
  });

  const json = JSON.stringify({ asc: 1, key: "k", body: { a: 1 } });
  it.each([
    ["text", "plain <text> & more"],
    ["JSON of another producer", '{ "a" : 1.0, "asc": 2 }'],
    ["base64, as Azure Functions writes it", btoa('{"order": 42}')],
    ["base64 of bytes that are no text", btoa("\u00ff\u00fe")],
    ["base64 of an envelope", btoa(json)],
    ["an envelope without details", ` ${json}`],
    ["an envelope without counts", json],
    ["nothing", ""],
  ])("comes back byte for byte without details: %s", async (_, text) => {
    await poison.sendMessage(text);
    await put({ text }, { raw: true });
    await redrive(poison, queue);
    expect(queue.messages.map((message) => message.text)).toEqual([text, text]);
  });
});

describe("hostile messages", () => {
  const wrong = [null, 5, true, [], {}, "x", "__proto__", "constructor", -1, "x".repeat(20_000)];
  const fields = ["reason", "error", "attempts", "queue", "messageId", "insertedOn", "poisonedOn", "encoding", "raw", "timeToLiveInSeconds"];

  it("gives the filter details of the right types, whatever is stored", async () => {
    const seen: (PoisonDetails | undefined)[] = [];
    const filter = (found: PoisonDetails | undefined): boolean => {
      seen.push(found);
      found?.insertedOn.toISOString();
      found?.poisonedOn.toISOString();
      return `${found?.reason.length}${found?.error?.length}${found?.queue.length}${found?.messageId.length}${found?.attempts.toFixed()}` !== "";
    };
    for (const field of fields) for (const value of wrong) await put({ body: 1 }, { [field]: value });
    for (const value of wrong) await poison.sendMessage(JSON.stringify({ asc: 1, key: "k", body: 1, poison: value }));
    await poison.sendMessage('{"asc":1,"body":1,"__proto__":{"poison":{"raw":true}},"poison":{"__proto__":{"reason":5},"constructor":1,"toString":2}}');
    const count = poison.messages.length;
    const { moved, skipped } = await redrive(poison, queue, { filter });
    expect(moved + skipped).toBe(count);
    expect(queue.messages.length + poison.messages.length).toBe(count);
    expect(skipped).toBe(0);
    for (const found of seen) if (found) expect(found).toMatchObject({ insertedOn: expect.any(Date) as Date, attempts: expect.any(Number) as number, reason: expect.any(String) as string });
    expect(({} as { poison?: unknown }).poison).toBeUndefined();
  });

  it("does not encode a message as base64 because of an encoding that does not exist", async () => {
    await put({ body: 1 }, { encoding: "utf-7" });
    await redrive(poison, queue);
    expect(openEnvelope(queue.messages[0]!.text, "text").body).toBe(1);
  });

  it.each([
    ["is too large in its encoding", { body: "x".repeat(60_000) }, { encoding: "base64" }],
    ["has characters that a request cannot carry", { text: "\u0000" }, { raw: true }],
    ["has a lone surrogate", { text: "\ud800" }, { raw: true }],
  ])("leaves a message where it is that %s, and moves the others", async (_, content, more) => {
    await put(content, more);
    await put({ body: 2 });
    expect(await redrive(poison, queue)).toEqual({ moved: 1, skipped: 1 });
    expect(poison.visible).toHaveLength(1);
  });

  it("rather drops a checkpoint than leave the message", async () => {
    await put({ body: 1, checkpoint: "x".repeat(60_000) }, { encoding: "base64" });
    expect(await redrive(poison, queue)).toEqual({ moved: 1, skipped: 0 });
    expect(openEnvelope(queue.messages[0]!.text, "base64")).toEqual({ asc: 1, key: "k", body: 1 });
  });
});

describe("the requests", () => {
  it("are one receive for 32 messages, and two for each, 16 messages at a time in their order", async () => {
    for (let i = 0; i < 40; i++) await put({ body: i });
    poison.faults.log.length = 0;
    let [running, most] = [0, 0];
    const send = queue.sendMessage.bind(queue);
    queue.sendMessage = async (...args) => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 100));
      running--;
      return send(...args);
    };
    const redriving = redrive(poison, queue);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await redriving).toEqual({ moved: 40, skipped: 0 });
    expect(most).toBe(16);
    expect([poison.faults.count("receive"), queue.faults.count("send"), poison.faults.count("delete"), poison.faults.count("update")]).toEqual([3, 40, 40, 0]);
    expect(queue.messages.map(({ text }) => openEnvelope(text, "text").body)).toEqual(Array.from({ length: 40 }, (_, i) => i));
  });

  it("are one more for a message with a checkpoint, also if its response was lost", async () => {
    await put({ body: 1, checkpoint: 7 });
    poison.faults.log.length = 0;
    queue.faults.next("update", "resent");
    expect(await redrive(poison, queue)).toEqual({ moved: 1, skipped: 0 });
    expect([queue.faults.count("send"), queue.faults.count("update"), poison.faults.count("delete")]).toEqual([1, 2, 1]);
    expect(openEnvelope(queue.visible[0]!.text, "text")).toMatchObject({ checkpoint: 7 });
  });

  it("are one more for each message that stays", async () => {
    for (let i = 0; i < 40; i++) await put({ body: i });
    poison.faults.log.length = 0;
    expect(await redrive(poison, queue, { filter: () => false })).toEqual({ moved: 0, skipped: 40 });
    expect([poison.faults.count("receive"), poison.faults.count("update")]).toEqual([3, 40]);
  });

  it("end although messages that stay become visible again meanwhile", async () => {
    for (let i = 0; i < 64; i++) await put({ body: i });
    const receive = poison.receiveMessages.bind(poison);
    poison.receiveMessages = (options) => {
      vi.setSystemTime(Date.now() + 151_000);
      return receive(options);
    };
    const seen: unknown[] = [];
    expect(await redrive(poison, queue, { filter: (found) => seen.push(found) < 0 })).toEqual({ moved: 0, skipped: 32 });
    expect(seen).toHaveLength(32);
    expect(poison.visible).toHaveLength(64);
  });
});

it.each([-3_600_000, 3_600_000])("moves what was there when it began by the clock of the service, also where its date is hidden (in browsers) and the clock is %i ms ahead", async (aheadInMs) => {
  await put({ body: 1 });
  FakeQueue.inBrowser(poison, aheadInMs);
  expect(await redrive(poison, queue)).toMatchObject({ moved: 1, skipped: 0 });
});

describe("a redrive that fails", () => {
  it.each([
    ["a send is rejected", () => queue.faults.next("send", "ok", "ok", "denied"), { statusCode: 403 }],
    ["a delete fails", () => poison.faults.next("delete", "ok", "ok", "busy"), { statusCode: 503 }],
    ["the filter throws", () => undefined, { message: "filter" }],
  ])("shows all messages again that it has not moved: %s", async (what, plan, error) => {
    for (let i = 0; i < 30; i++) await put({ body: i });
    plan();
    let calls = 0;
    const filter = (): boolean => {
      if (++calls === 20 && what === "the filter throws") throw new Error("filter");
      return calls % 2 === 0;
    };
    expect(await rejection(redrive(poison, queue, { filter }))).toMatchObject(error);
    expect(poison.visible).toHaveLength(poison.messages.length);
    expect(poison.messages.length + queue.messages.length).toBeGreaterThanOrEqual(30);
  });

  it.each(["receive", "send", "delete"])("ends after 20 seconds without a response to a %s, and says how many it has moved", async (kind) => {
    for (let i = 0; i < 3; i++) await put({ body: i });
    (kind === "send" ? queue : poison).faults.next(kind, "hang");
    const redriving = rejection(redrive(poison, queue));
    await vi.advanceTimersByTimeAsync(20_000);
    const error = await redriving;
    expect(error).toMatchObject({ code: "OPERATION_TIMEOUT", committed: "unknown", url: poison.url });
    expect(error.message).toContain(kind === "receive" ? "0 messages were moved" : "2 messages were moved");
    expect(poison.visible).toHaveLength(poison.messages.length);
  });

  it.each(["receiveMessages", "sendMessage", "deleteMessage", "updateMessage"] as const)("ends when it is cancelled, even if the client ignores its signal: %s", async (member) => {
    for (let i = 0; i < 3; i++) await put({ body: i });
    Object.assign(member === "sendMessage" ? queue : poison, { [member]: never });
    const controller = new AbortController();
    const settled = redrive(poison, queue, { abortSignal: controller.signal, ...(member === "updateMessage" && { filter: () => false }) }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(10);
    controller.abort(new Error("enough"));
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await settled).toMatchObject(member === "updateMessage" ? { moved: 0, skipped: 3 } : { message: "enough" });
    if (member === "sendMessage") expect(poison.visible).toHaveLength(3);
  });

  it("does not wait longer than 5 seconds to show messages again", async () => {
    for (let i = 0; i < 20; i++) await put({ body: i });
    queue.faults.always("send", "denied");
    poison.updateMessage = never;
    const redriving = rejection(redrive(poison, queue));
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await redriving).toMatchObject({ statusCode: 403 });
  });
});

it.each(["", "/", "?sv=1&sig=2", "/?sig=2"])("rejects a poison queue that is the queue itself (%j)", async (end) => {
  const same = Object.assign(new FakeQueue(), { url: `https://ACCOUNT.queue.example:443/jobs${end}` });
  expect(await rejection(redrive(same, queue))).toMatchObject({ name: "TypeError" });
  expect([...same.faults.log, ...queue.faults.log]).toEqual([]);
});
