import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { QueueCallOptions } from "../../src/clients/queue.js";
import { enqueue, enqueueMany, redrive } from "../../src/index.js";
import { openEnvelope } from "../../src/queue/envelope.js";
import { storageError } from "./fakes/faults.js";
import { FakeQueue } from "./fakes/fake-queue.js";

const textOf = (queue: FakeQueue): string => queue.messages[0]!.text;

describe("a queue that is being deleted", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Sent once: the SDK adds one listener for each send. */
  const beingDeleted = (options?: QueueCallOptions): Promise<never> => {
    options?.abortSignal?.addEventListener("abort", () => undefined);
    return Promise.reject(storageError(409, "QueueBeingDeleted"));
  };

  it("gets the message once it was created again", async () => {
    const queue = new FakeQueue();
    const recreated = Date.now() + 10_000;
    const send = queue.sendMessage.bind(queue);
    queue.sendMessage = (text, options) => (Date.now() < recreated ? beingDeleted(options) : send(text, options));
    const sent = enqueue(queue, { n: 1 });
    await vi.advanceTimersByTimeAsync(60_000);
    await sent;
    expect(queue.messages).toHaveLength(1);
  });

  it("is a TargetStateError if that takes longer than half a minute, and no message was sent", async () => {
    const queue = new FakeQueue();
    queue.sendMessage = (_text, options) => beingDeleted(options);
    const sent = enqueue(queue, { n: 1 }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await sent).toMatchObject({ name: "TargetStateError", reason: "beingDeleted", committed: false });
  });
});

describe("enqueue", () => {
  it("sends the payload as JSON with its key", async () => {
    const queue = new FakeQueue();
    const result = await enqueue(queue, { n: 1 }, { idempotencyKey: "order 1" });
    expect(result).toEqual({ messageId: "jobs-1", idempotencyKey: "order 1" });
    expect(JSON.parse(textOf(queue))).toEqual({ asc: 1, key: "order 1", body: { n: 1 } });
  });

  it("gives both messages the same key when the SDK sends twice", async () => {
    const queue = new FakeQueue();
    queue.faults.next("send", "resent");
    const { idempotencyKey } = await enqueue(queue, 1);
    expect(queue.messages.map(({ text }) => (JSON.parse(text) as { key: string }).key)).toEqual([idempotencyKey, idempotencyKey]);
  });

  it("writes base64 for those who expect it, and nothing that XML cannot carry", async () => {
    const queue = new FakeQueue();
    const payload = "ä€😀 \u0000 \uFFFE\uFFFF \uD800 \r\n";
    await enqueue(queue, payload, { encoding: "base64" });
    expect(textOf(queue)).toMatch(/^[A-Za-z0-9+/=]+$/);
    expect(openEnvelope(textOf(queue), "base64").body).toBe(payload);
    await enqueue(queue, payload);
    expect(queue.messages[1]!.text).not.toMatch(/[\uFFFE\uFFFF]|\p{Cs}|\p{Cc}/u);
    expect(openEnvelope(queue.messages[1]!.text, "text").body).toBe(payload);
  });

  it("refuses what cannot be sent, before it sends anything", async () => {
    const queue = new FakeQueue();
    await expect(enqueue(queue, undefined)).rejects.toThrow(TypeError);
    await expect(enqueue(queue, "x".repeat(65_536))).rejects.toThrow(/Store the payload in a blob/);
    await expect(enqueue(queue, 1, { idempotencyKey: "" })).rejects.toThrow(RangeError);
    await expect(enqueue(queue, 1, { idempotencyKey: 5 as unknown as string })).rejects.toThrow(TypeError);
    await expect(enqueue(queue, 1, { idempotencyKey: "a\uD800" })).rejects.toThrow(/well-formed Unicode/);
    await expect(enqueue(queue, 1, { idempotencyKey: "\uDC00a" })).rejects.toThrow(RangeError);
    await expect(enqueue(queue, 1, { timeToLiveInSeconds: 0 })).rejects.toThrow(RangeError);
    await expect(enqueue(queue, 1, { abortSignal: AbortSignal.abort(new Error("no")) })).rejects.toThrow("no");
    expect(queue.faults.log).toEqual([]);
  });

  it.each([[0, 0], [1, 1], [1_000, 1], [1_001, 2], [7 * 86_400_000 - 1_000, 604_799]])("hides a message for %i ms: rounded up to %i s", async (delayInMs, seconds) => {
    const queue = new FakeQueue();
    const send = vi.spyOn(queue, "sendMessage");
    await enqueue(queue, 1, { delayInMs });
    expect(send).toHaveBeenCalledExactlyOnceWith(expect.any(String), expect.objectContaining({ visibilityTimeout: seconds }));
  });

  it("hides a message for up to 7 days, if it lives longer", async () => {
    const queue = new FakeQueue();
    const send = vi.spyOn(queue, "sendMessage");
    const delayInMs = 7 * 86_400_000;
    await enqueue(queue, 1, { delayInMs, timeToLiveInSeconds: -1 });
    await enqueue(queue, 1, { delayInMs, timeToLiveInSeconds: 604_801 });
    expect(send.mock.calls.map(([, options]) => options)).toMatchObject([
      { visibilityTimeout: 604_800, messageTimeToLive: -1 },
      { visibilityTimeout: 604_800, messageTimeToLive: 604_801 },
    ]);
  });

  it.each([
    [60_000, 60],
    [59_001, 60],
    [60_000, 1],
    [7 * 86_400_000, undefined],
  ])("rejects a message that would expire before it becomes visible: after %i ms, to live %s s", async (delayInMs, timeToLiveInSeconds) => {
    const queue = new FakeQueue();
    const error = await enqueue(queue, 1, { delayInMs, timeToLiveInSeconds }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RangeError);
    expect((error as Error).message).toMatch(/^enqueue: the message would expire after \d+ s, and be hidden for \d+ s/);
    const [result] = await enqueueMany(queue, [1], (payload) => ({ payload, delayInMs, timeToLiveInSeconds }));
    expect(result).toMatchObject({ error: expect.any(RangeError) as unknown });
    expect(queue.faults.log).toEqual([]);
  });

  it("rejects, and does not throw, for options that it does not know and values that it cannot use", async () => {
    const queue = new FakeQueue();
    await expect(enqueue(queue, 1, { delayInSeconds: 5 } as object)).rejects.toThrow(/unknown option "delayInSeconds"/);
    await expect(enqueue(queue, 1, { delayInMs: -1 })).rejects.toThrow(RangeError);
    await expect(enqueue(queue, 1, { delayInMs: 7 * 86_400_000 + 1 })).rejects.toThrow(RangeError);
    await expect(enqueue({} as FakeQueue, 1)).rejects.toThrow(/enqueue needs a QueueClient/);
    await expect(enqueue(queue, 1n)).rejects.toThrow(TypeError);
    expect(queue.faults.log).toEqual([]);
  });

  it("takes a payload of just the size that fits", async () => {
    const queue = new FakeQueue();
    const room = 65_536 - JSON.stringify({ asc: 1, key: "k", body: "" }).length;
    await enqueue(queue, "x".repeat(room), { idempotencyKey: "k" });
    await expect(enqueue(queue, "x".repeat(room + 1), { idempotencyKey: "k" })).rejects.toThrow(RangeError);
  });
});

describe("redrive", () => {
  const facts = { reason: "r", attempts: 5, queue: "jobs", messageId: "m", insertedOn: "", poisonedOn: "", encoding: "text" };
  const put = (queue: FakeQueue, content: object, more: object = {}): Promise<unknown> =>
    queue.sendMessage(JSON.stringify({ asc: 1, key: "k", ...content, poison: { ...facts, ...more } }));

  it("brings messages back with their key, and takes them off the poison queue", async () => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    for (let i = 0; i < 40; i++) await put(poison, { body: i });
    expect(await redrive(poison, queue)).toEqual({ moved: 40, skipped: 0 });
    expect(poison.messages).toEqual([]);
    expect(queue.messages.map(({ text }) => JSON.parse(text) as unknown)).toEqual(
      Array.from({ length: 40 }, (_, body) => ({ asc: 1, key: "k", body })),
    );
  });

  it("brings them back in the encoding in which they came", async () => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    await put(poison, { body: 1 }, { encoding: "base64" });
    await redrive(poison, queue);
    expect(openEnvelope(textOf(queue), "base64")).toEqual({ asc: 1, key: "k", body: 1 });
  });

  it.each([
    ["could not be decoded", { text: "raw" }, { raw: true }, "raw"],
    ["has no room for its key", { text: "x".repeat(49_140) }, { encoding: "base64" }, btoa("x".repeat(49_140))],
  ])("brings a message back exactly as it was if it %s", async (_, content, more, text) => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    await put(poison, content, more);
    await redrive(poison, queue);
    expect(textOf(queue) === text).toBe(true);
  });

  it("brings only those that are asked for, and shows the others again", async () => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    await put(poison, { body: 1 }, { reason: "other" });
    await put(poison, { body: 2 });
    await poison.sendMessage("no envelope");
    expect(await redrive(poison, queue, { filter: (f) => f?.reason === "r" })).toEqual({ moved: 1, skipped: 2 });
    expect(poison.visible).toHaveLength(2);
    expect(await redrive(poison, queue, { maxMessages: 1 })).toEqual({ moved: 1, skipped: 0 });
  });

  it("moves a message only if the filter returns true, and observes a promise that it returns", async () => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    await put(poison, { body: 1 });
    for (const filter of [() => undefined, () => 1, () => Promise.resolve(true), () => Promise.reject(new Error("no"))]) {
      expect(await redrive(poison, queue, { filter: filter as unknown as () => boolean })).toEqual({ moved: 0, skipped: 1 });
    }
    await new Promise((resolve) => setTimeout(resolve));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
    expect(poison.visible).toHaveLength(1);
  });

  it("tells the filter why a message was poisoned, with dates and without the fields of the stored form", async () => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    await put(poison, { body: 1 }, { insertedOn: "2026-01-02T03:04:05.000Z", poisonedOn: "2026-01-02T03:05:05.000Z", raw: true });
    const seen: unknown[] = [];
    await redrive(poison, queue, { filter: (details) => seen.push(details) > 0 });
    expect(seen).toEqual([
      {
        queue: "jobs", messageId: "m", attempts: 5, reason: "r", error: undefined,
        insertedOn: new Date("2026-01-02T03:04:05.000Z"), poisonedOn: new Date("2026-01-02T03:05:05.000Z"),
      },
    ]); // prettier-ignore
  });

  it("rejects, and does not throw, for options that it cannot use", async () => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    await expect(redrive(poison, queue, { maxMessages: 0 })).rejects.toThrow(RangeError);
    await expect(redrive(poison, queue, { maxMessages: 1.5 })).rejects.toThrow(RangeError);
    await expect(redrive(poison, queue, { filter: "r" as never })).rejects.toThrow(/^redrive: filter must be a function/);
    await expect(redrive(poison, queue, { max: 1 } as object)).rejects.toThrow(/unknown option "max"/);
    await expect(redrive(poison, undefined as unknown as FakeQueue)).rejects.toThrow(/redrive needs a QueueClient/);
    expect(poison.faults.log).toEqual([]);
  });

  it("leaves a message where it is if it cannot be sent, and counts one whose delete was answered twice", async () => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    await put(poison, { body: 1 });
    queue.faults.next("send", "busy");
    await expect(redrive(poison, queue)).rejects.toMatchObject({ statusCode: 503 });
    expect(poison.messages).toHaveLength(1);
    poison.messages[0]!.visibleAt = 0;
    poison.faults.next("delete", "resent");
    expect(await redrive(poison, queue)).toMatchObject({ moved: 1 });
  });

  it("does not go round in circles with what fails again meanwhile", async () => {
    const [poison, queue] = [new FakeQueue("jobs-poison"), new FakeQueue()];
    await put(poison, { body: 1 });
    const send = queue.sendMessage.bind(queue);
    queue.sendMessage = async (text) => {
      const sent = await send(text);
      await put(poison, { body: 1 });
      Object.assign(poison.messages.at(-1)!, { insertedOn: new Date(Date.now() + 5_000) });
      return sent;
    };
    expect(await redrive(poison, queue)).toEqual({ moved: 1, skipped: 1 });
  });
});
