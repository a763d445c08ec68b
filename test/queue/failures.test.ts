import { describe, expect, it, vi } from "vitest";

import { ClaimInbox, CommitInbox, enqueue, QueueConsumer } from "../../src/index.js";
import type { QueueConsumerOptions } from "../../src/index.js";
import { fingerprint } from "../../src/queue/envelope.js";
import { MemoryInbox } from "../../src/queue/inbox/memory-inbox.js";
import { Bench, untilAborted } from "./fakes/consume.js";
import type { CommitHandler, Handler } from "./fakes/consume.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import { storageError } from "./fakes/faults.js";
import { deliver, request } from "./inbox/deliveries.js";

const bench = new Bench();
const often = { minPollIntervalInMs: 100, maxPollIntervalInMs: 100 };
/** As an SDK rejects a request that it has sent once. */
const rejected = (error: Error, options?: { abortSignal?: AbortSignal }): Promise<never> =>
  bench.table.faults.request("transaction", options?.abortSignal, () => {
    throw error;
  });
const fail: Handler = () => Promise.reject(new Error("no luck"));

const inboxes: [string, () => QueueConsumerOptions<unknown>][] = [
  ["without an inbox", () => ({})],
  ["with an inbox in memory", () => ({ inbox: new MemoryInbox() })],
  ["with a ClaimInbox", () => ({ inbox: new ClaimInbox(bench.table) })],
];

describe.each(inboxes)("%s, attempts", (_, inbox) => {
  it("count failures, not deliveries whose response was lost", async () => {
    await enqueue(bench.queue, "p");
    bench.queue.faults.next("receive", ...Array.from({ length: 8 }, () => "lost" as const));
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, ...inbox(), visibilityTimeoutInSeconds: 1 });
    await bench.pass(30_000);
    expect(handler).toHaveBeenCalledExactlyOnceWith("p", expect.objectContaining({ attempt: 1 }));
    expect(bench.queue.messages).toEqual([]);
    expect(bench.poisonQueue.messages).toEqual([]);
  });

  it("do not count that the consumer was stopped, however often", async () => {
    await enqueue(bench.queue, "p");
    const attempts: number[] = [];
    for (let deployment = 0; deployment < 4; deployment++) {
      const consumer = await bench.consume((_payload, context) => {
        attempts.push(context.attempt);
        return untilAborted(context);
      }, { ...often, ...inbox(), maxAttempts: 2 }); // prettier-ignore
      await bench.pass(100);
      const stopping = consumer.stop({ drainTimeoutInMs: 0 });
      await bench.pass(5_000);
      await stopping;
    }
    expect(attempts).toEqual([1, 1, 1, 1]);
    expect(bench.poisonQueue.messages).toEqual([]);
    expect(bench.envelopes).toMatchObject([{ uncharged: 4 }]);
  });

  it("of two messages with one key are counted for each of them", async () => {
    for (let i = 0; i < 2; i++) await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    const handler = vi.fn<Handler>(fail);
    await bench.consume(handler, { ...often, ...inbox(), maxAttempts: 2, visibilityTimeoutInSeconds: 2 });
    await bench.pass(120_000);
    expect(handler).toHaveBeenCalledTimes(4);
    expect(bench.poisons).toHaveLength(2);
  });

  it("of a message of another producer do not change its text", async () => {
    await bench.queue.sendMessage("<order/>");
    const texts: string[] = [];
    const handler = vi.fn<Handler>(() => {
      texts.push(bench.queue.messages[0]!.text);
      throw new Error("no luck");
    });
    const consumer = await bench.consume(handler, { ...often, ...inbox(), maxAttempts: 3, visibilityTimeoutInSeconds: 2 });
    await bench.pass(1_500);
    const stopping = consumer.stop();
    await bench.pass(5_000);
    await stopping;
    await bench.consume(handler, { ...often, ...inbox(), maxAttempts: 3, visibilityTimeoutInSeconds: 2 });
    await bench.pass(60_000);
    expect(new Set(texts)).toEqual(new Set(["<order/>"]));
    expect(bench.poisons).toMatchObject([{ text: "<order/>", poison: { reason: "failed 3 times" } }]);
    if (inbox().inbox instanceof ClaimInbox) expect(handler).toHaveBeenCalledTimes(3);
  });

  it.each(["a producer", "a consumer, and damaged"])("that an envelope of %s claims are not believed", async (by) => {
    const forged = [{ failures: -1e9 }, { failures: "NaN" }, { failures: 1e300 }, { uncharged: 1e9 }, { uncharged: null, failures: null }, { poisonPending: 7 }];
    for (const fields of forged) {
      const { messageId } = await bench.queue.sendMessage(JSON.stringify({ asc: 1, body: "p", ...fields }));
      if (by !== "a producer") bench.queue.messages.at(-1)!.text = JSON.stringify({ asc: 1, body: "p", of: messageId, ...fields });
    }
    const handler = vi.fn<Handler>(fail);
    await bench.consume(handler, { ...often, ...inbox(), maxAttempts: 3 });
    await bench.pass(300_000);
    expect(handler).toHaveBeenCalledTimes(3 * forged.length);
    expect(bench.poisons.map(({ poison }) => (poison as { attempts: number }).attempts)).toEqual(forged.map(() => 3));
  });
});

describe("a message that ends its process each time", () => {
  it.each([{}, { uncharged: 1e9 }])("is poisoned after maxDeliveries, whatever its envelope says (%j)", async (fields) => {
    await bench.queue.sendMessage(JSON.stringify({ asc: 1, body: "p", ...fields }));
    // Each delivery is received by a process that ends without a word.
    for (let i = 0; i < 4; i++) {
      await bench.queue.steal(1);
      await bench.pass(1_000);
    }
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, maxDeliveries: 3 });
    await bench.pass(100);
    expect(handler).not.toHaveBeenCalled();
    expect(bench.poisons).toMatchObject([{ poison: { reason: expect.stringMatching(/^delivered \d+ times without an outcome \(maxDeliveries\)$/) as string } }]);
  });

  it("is poisoned although its envelope says that it was given back more often than it was delivered", async () => {
    const { messageId } = await bench.queue.sendMessage("");
    bench.queue.messages[0]!.text = JSON.stringify({ asc: 1, body: "p", uncharged: 1e9, of: messageId });
    for (let i = 0; i < 4; i++) {
      await bench.queue.steal(1);
      await bench.pass(1_000);
    }
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, maxDeliveries: 3 });
    await bench.pass(100);
    expect(handler).not.toHaveBeenCalled();
    expect(bench.poisons).toHaveLength(1);
  });

  it("is not poisoned by maxDeliveries as long as each delivery is given back", async () => {
    await enqueue(bench.queue, "p");
    const handler = vi.fn<Handler>();
    const inbox = new ClaimInbox(bench.table);
    await inbox.prepare({ abortSignal: new AbortController().signal, tracingOptions: {} });
    bench.table.faults.next("transaction", ...Array.from({ length: 400 }, () => "denied" as const));
    await bench.consume(handler, { minPollIntervalInMs: 10_000, inbox, maxDeliveries: 1, visibilityTimeoutInSeconds: 1 });
    await bench.pass(4 * 3_600_000);
    expect(bench.poisons).toEqual([]);
    expect(bench.queue.faults.count("update")).toBeGreaterThan(20);
    expect(handler).toHaveBeenCalledTimes(1);
  });

  it.each(inboxes)("is poisoned without being decoded: its decoder may be what ends the process (%s)", async (_, inbox) => {
    await enqueue(bench.queue, "p");
    for (let i = 0; i < 3; i++) {
      await bench.queue.steal(1);
      await bench.pass(1_000);
    }
    const decode = vi.fn();
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, ...inbox(), decode, maxDeliveries: 3 });
    await bench.pass(1_000);
    expect(decode).not.toHaveBeenCalled();
    expect(handler).not.toHaveBeenCalled();
    expect(bench.poisons).toMatchObject([{ body: "p", poison: { reason: "delivered 4 times without an outcome (maxDeliveries)" } }]);
  });

  it("is dropped as a duplicate, if its key was completed in the meantime", async () => {
    const inbox = new ClaimInbox(bench.table);
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    for (let i = 0; i < 3; i++) {
      await bench.queue.steal(1);
      await bench.pass(1_000);
    }
    await bench.queue.steal(60);
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    await bench.consume(() => undefined, { ...often, inbox, maxDeliveries: 3 });
    await bench.pass(90_000);
    expect(bench.names).toEqual(["completed", "duplicate"]);
    expect(bench.poisons).toEqual([]);
  });

  it("is handled up to maxDeliveries", async () => {
    await enqueue(bench.queue, "p");
    for (let i = 0; i < 2; i++) {
      await bench.queue.steal(1);
      await bench.pass(1_000);
    }
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, maxDeliveries: 3 });
    await bench.pass(100);
    expect(handler).toHaveBeenCalledExactlyOnceWith("p", expect.objectContaining({ attempt: 1, dequeueCount: 3 }));
  });
});

describe("a message of another producer, which cannot carry the number of its deliveries,", () => {
  const crash = async (inbox: ClaimInbox, message: string): Promise<void> => {
    const { receivedMessageItems } = (await bench.queue.steal(1)) as { receivedMessageItems: readonly { dequeueCount: number }[] };
    const { dequeueCount } = receivedMessageItems[0]!;
    await inbox.claim([deliver(message, { messageId: message, dequeueCount, queueUrl: bench.queue.url, payloadHash: fingerprint("p") })], request);
    await bench.pass(1_000);
  };

  it("is not poisoned by an outage of the inbox, however long: no handler has run", async () => {
    await bench.queue.sendMessage("p");
    const inbox = new ClaimInbox(bench.table);
    await inbox.prepare(request);
    bench.table.faults.next("transaction", ...Array.from({ length: 60 }, () => "denied" as const));
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { minPollIntervalInMs: 10_000, inbox, maxDeliveries: 5, visibilityTimeoutInSeconds: 1 });
    await bench.pass(3_600_000);
    expect(bench.poisons).toEqual([]);
    expect(handler).toHaveBeenCalledExactlyOnceWith("p", expect.objectContaining({ attempt: 1 }));
    expect(handler.mock.calls[0]![1].dequeueCount).toBeGreaterThan(10);
  });

  it("is poisoned after maxDeliveries all the same if it was claimed each time: it ends its process", async () => {
    const { messageId } = await bench.queue.sendMessage("p");
    const inbox = new ClaimInbox(bench.table);
    for (let i = 0; i < 3; i++) await crash(inbox, messageId);
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, inbox, maxDeliveries: 3 });
    await bench.pass(100);
    expect(handler).not.toHaveBeenCalled();
    expect(bench.poisons).toMatchObject([{ poison: { reason: "delivered 4 times without an outcome (maxDeliveries)" } }]);
  });

  it("is not decoded any more after twenty times as many, as its decoder may be what ends the process", async () => {
    await bench.queue.sendMessage("p");
    for (let i = 0; i < 41; i++) {
      await bench.queue.steal(1);
      await bench.pass(1_000);
    }
    const decode = vi.fn();
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, inbox: new ClaimInbox(bench.table), decode, maxDeliveries: 2 });
    await bench.pass(1_000);
    expect([decode.mock.calls, handler.mock.calls]).toEqual([[], []]);
    expect(bench.poisons).toMatchObject([{ poison: { reason: "delivered 42 times without an outcome (maxDeliveries)" } }]);
  });
});

describe("a message of another producer that waits for a handler of the same key", () => {
  it("is delivered less and less often, and so handled in the end", async () => {
    for (let i = 0; i < 2; i++) await bench.queue.sendMessage(JSON.stringify({ order: 7 }));
    let first = true;
    const handler = vi.fn<Handler>(async () => {
      if (!first) return;
      first = false;
      await new Promise((resolve) => setTimeout(resolve, 300_000));
      throw new Error("no luck");
    });
    await bench.consume(handler, { ...often, inbox: new ClaimInbox(bench.table), idempotencyKeyOf: () => "7", retryDelayInMs: 600_000 });
    await bench.pass(1_500_000);
    expect(bench.poisons).toEqual([]);
    expect(bench.names).toEqual(["retried", "completed", "duplicate"]);
  });
});

describe("a message whose life ends", () => {
  it("before the next attempt is moved to the poison queue, and does not vanish", async () => {
    await enqueue(bench.queue, "p", { timeToLiveInSeconds: 60 });
    await bench.consume(fail, { ...often, retryDelayInMs: 120_000 });
    await bench.pass(100);
    expect(bench.names).toEqual(["poisoned"]);
    expect(bench.poisons).toMatchObject([{ body: "p", poison: { reason: "its time to live would be over before the next attempt, in 120000 ms", error: "Error: no luck" } }]);
  });

  it("before the next attempt is delivered again at half of its life, if there is no poison queue", async () => {
    await enqueue(bench.queue, "p", { timeToLiveInSeconds: 60 });
    await bench.consume(fail, { ...often, retryDelayInMs: 120_000, poisonQueue: undefined });
    await bench.pass(100);
    expect(bench.queue.messages[0]!.visibleAt - Date.now()).toBeLessThanOrEqual(30_000);
  });

  it.each([-3_600_000, 3_600_000])("is told by the service, also where its date is hidden (in browsers) and the clock is %i ms ahead", async (aheadInMs) => {
    FakeQueue.inBrowser(bench.queue, aheadInMs);
    await enqueue(bench.queue, "short", { timeToLiveInSeconds: 60 });
    await enqueue(bench.queue, "long", { timeToLiveInSeconds: 300 });
    const inbox = new MemoryInbox();
    const claim = vi.spyOn(inbox, "claim");
    await bench.consume(fail, { ...often, inbox, retryDelayInMs: 120_000, concurrency: 2 });
    await bench.pass(100);
    expect([bench.names.toSorted(), bench.poisons.map(({ body }) => body)]).toEqual([["poisoned", "retried"], ["short"]]);
    const { receivedOn } = claim.mock.calls[0]![0][0]!;
    expect(Math.abs(receivedOn.getTime() + aheadInMs - Date.now())).toBeLessThan(2_000);
  });

  it("while it is handled is reported as that", async () => {
    await enqueue(bench.queue, "p", { timeToLiveInSeconds: 20 });
    let reason: unknown;
    await bench.consume(async (_, context) => {
      reason = await untilAborted(context).catch((error: unknown) => error);
      throw reason;
    }, often); // prettier-ignore
    await bench.pass(20_000);
    bench.queue.messages = []; // The service deletes it.
    await bench.pass(60_000);
    expect(bench.names).toEqual(["lost"]);
    expect(bench.details("lost")).toMatchObject([{ error: { code: "MESSAGE_LOST", reason: "timeToLive" } }]);
    expect(reason).toMatchObject({ reason: "timeToLive" });
  });
});

describe("a message whose life ends, and that no handler can have,", () => {
  const briefly = { timeToLiveInSeconds: 40 };

  it("because the inbox does not work, is moved to the poison queue; those that live longer are handled", async () => {
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, inbox: new ClaimInbox(bench.table) });
    bench.table.faults.always("transaction", "busy");
    await enqueue(bench.queue, "short", briefly);
    await enqueue(bench.queue, "shorter", { timeToLiveInSeconds: 20 });
    await enqueue(bench.queue, "long");
    await bench.pass(41_000);
    expect(bench.poisons.map(({ body }) => body)).toEqual(["shorter", "short"]);
    expect(bench.details("poisoned")).toMatchObject(Array.from({ length: 2 }, () => ({ reason: "its time to live ends while the inbox cannot be used" })));
    bench.table.faults.always("transaction", "ok");
    await bench.pass(120_000);
    expect(handler.mock.calls.map(([payload]) => payload)).toEqual(["long"]);
    expect(bench.details("lost")).toEqual([]);
  });

  it("is given back at once if the consumer stops, as another one can have it", async () => {
    const consumer = await bench.consume(() => undefined, { ...often, maxPollIntervalInMs: 10_000, inbox: new ClaimInbox(bench.table) });
    bench.table.faults.always("transaction", "busy");
    await enqueue(bench.queue, "p", { timeToLiveInSeconds: 5 });
    await bench.pass(300);
    const stopping = consumer.stop();
    await bench.pass(1_000);
    await stopping;
    expect([bench.poisons.length, bench.queue.messages.length]).toEqual([0, 1]);
  });

  it.each<[string, CommitHandler]>([
    ["is given back, as the table does not work", (_, { commit }) => { bench.table.faults.always("transaction", "busy"); return commit([]); }], // prettier-ignore
    ["meets conflicts again and again", (_, { commit }) => commit([["update", { rowKey: "missing" }]])],
    ["has outgoing messages for a queue that is missing", (_, { commit }) => { const mails = new FakeQueue("mails"); mails.exists = false; return commit([], { send: [{ queue: mails, payload: 1 }] }); }], // prettier-ignore
  ])("because it %s, is moved to the poison queue", async (_, handler) => {
    await enqueue(bench.queue, "p", briefly);
    await bench.consumeAndCommit(handler, often);
    await bench.pass(60_000);
    expect(bench.poisons).toMatchObject([{ body: "p", poison: { reason: expect.stringContaining("its time to live would be over before the next attempt") as string } }]);
    expect(bench.queue.messages).toEqual([]);
  });

  it.each<[string, Partial<QueueConsumerOptions<unknown>>]>([
    ["key", { idempotencyKeyOf: () => "k" }],
    ["group", { groupOf: () => "g" }],
  ])("because another consumer handles its %s, is moved to the poison queue shortly before", async (_, options) => {
    const handler: Handler = (_payload, context) => untilAborted(context);
    await bench.queue.sendMessage("first");
    await bench.consume(handler, { ...often, ...options, inbox: new ClaimInbox(bench.table) });
    await bench.pass(100);
    await bench.queue.sendMessage("second", { messageTimeToLive: 100 });
    await bench.consume(handler, { ...options, inbox: new ClaimInbox(bench.table) });
    await bench.pass(90_000);
    expect(bench.poisons).toEqual([]);
    await bench.pass(10_000);
    expect(bench.poisons).toMatchObject([{ text: "second", poison: { reason: expect.stringContaining("its time to live ends while") as string } }]);
  });
});

describe("a table that cannot be used, in the commits of handlers,", () => {
  const commitOne = { rowKey: "effect" };

  it.each([
    ["403", storageError(403, "AuthorizationFailure")],
    ["a missing table", storageError(404, "TableNotFound")],
    ["no response", Object.assign(new Error("socket hang up"), { code: "ECONNRESET" })],
  ])("(%s) is charged to no message: all take effect when it recovers, and polling has paused meanwhile", async (_, error) => {
    const transaction = bench.table.submitTransaction.bind(bench.table);
    let works = false;
    vi.spyOn(bench.table, "submitTransaction").mockImplementation((...args) => (works ? transaction(...args) : rejected(error, args[1])));
    for (let i = 0; i < 40; i++) await enqueue(bench.queue, i);
    const handler = vi.fn((n: unknown, { commit }: { commit: (actions: [["create", { rowKey: string }]]) => unknown }) => commit([["create", { rowKey: String(n) }]]));
    const consumer = await bench.consumeAndCommit(handler, { maxAttempts: 2, maxPollIntervalInMs: 5_000 });
    await bench.pass(600_000);
    expect(bench.poisons).toEqual([]);
    expect(new Set(bench.names)).toEqual(new Set(["error", "paused", "retried"]));
    expect(bench.details("paused")).toMatchObject([{ reason: "infrastructure" }]);
    expect(consumer.health()).toMatchObject({ isPaused: true });
    expect(consumer.health().consecutiveErrors).toBeGreaterThan(2);
    // 600 s at 5 s, and one message at a time.
    expect(handler.mock.calls.length).toBeLessThan(16 + 160);
    works = true;
    await bench.pass(180_000);
    expect(bench.effects).toHaveLength(40);
    expect([bench.queue.messages, bench.poisons]).toEqual([[], []]);
    expect(consumer.health()).toMatchObject({ isPaused: false, consecutiveErrors: 0 });
  });

  it.each<[string, CommitHandler]>([
    ["returns without a commit", () => undefined],
    ["meets a conflict", (_, { commit }) => commit([["update", { rowKey: "missing" }]])],
  ])("works again for a handler that %s: polling is as before, although another consumer has the message that was given back", async (_, next) => {
    await enqueue(bench.queue, "first");
    bench.table.faults.next("transaction", "denied");
    const consumer = await bench.consumeAndCommit((payload, context) => (payload === "first" ? context.commit([]) : next(payload, context)));
    await bench.pass(100);
    expect(consumer.health()).toMatchObject({ isPaused: true, consecutiveErrors: 1 });
    bench.queue.messages.length = 0;
    await enqueue(bench.queue, "second");
    await bench.pass(10_000);
    expect(consumer.health()).toMatchObject({ isPaused: false, consecutiveErrors: 0 });
  });

  it("is charged if the service rejects what the message made the handler write", async () => {
    await enqueue(bench.queue, "p");
    vi.spyOn(bench.table, "submitTransaction").mockImplementation((_, options) => rejected(storageError(400, "PropertyValueTooLarge"), options));
    await bench.consumeAndCommit((_, { commit }) => commit([["create", commitOne]]), { ...often, maxAttempts: 2 });
    await bench.pass(10_000);
    expect(bench.poisons).toMatchObject([{ poison: { reason: "failed 2 times" } }]);
  });

  it("a conflict with another writer is no failure, but does not go on for ever either", async () => {
    await enqueue(bench.queue, "p");
    bench.table.rows.set("p\neffect", { partitionKey: "p", rowKey: "effect", etag: "e", timestamp: "" });
    const handler = vi.fn<Handler>();
    await bench.consumeAndCommit((payload, context) => {
      void handler(payload, context);
      return context.commit([["create", commitOne]]);
    }, { ...often, maxAttempts: 2, maxDeliveries: 6 }); // prettier-ignore
    await bench.pass(300_000);
    expect(handler).toHaveBeenCalledTimes(6);
    expect(handler.mock.calls.every(([, { attempt }]) => attempt === 1)).toBe(true);
    expect(bench.poisons).toMatchObject([{ poison: { reason: "delivered 7 times without an outcome (maxDeliveries)" } }]);
  });
});

describe("a key that is used for two payloads", () => {
  it.each(inboxes.slice(1))("moves the second message to the poison queue, and drops it not in silence: %s", async (_, inbox) => {
    await enqueue(bench.queue, { pay: 1 }, { idempotencyKey: "k" });
    await enqueue(bench.queue, { pay: 2 }, { idempotencyKey: "k" });
    const handler = vi.fn<Handler>();
    await bench.consume(handler, { ...often, ...inbox() });
    await bench.pass(10_000);
    expect(handler).toHaveBeenCalledTimes(1);
    expect(bench.poisons).toMatchObject([{ body: { pay: 2 }, poison: { reason: "its idempotency key was used before, for another payload" } }]);
  });

  it("does so in the commit of a handler", async () => {
    await enqueue(bench.queue, { pay: 1 }, { idempotencyKey: "k" });
    await enqueue(bench.queue, { pay: 2 }, { idempotencyKey: "k" });
    const errors: unknown[] = [];
    await bench.consumeAndCommit(async (_, { commit, messageId }) => {
      await commit([["create", { rowKey: messageId }]]).catch((error: unknown) => {
        errors.push(error);
        throw error;
      });
    }, { ...often, concurrency: 1 }); // prettier-ignore
    await bench.pass(10_000);
    expect(errors).toMatchObject([{ code: "IDEMPOTENCY_MISMATCH", key: "k", committed: false }]);
    expect(bench.effects).toHaveLength(1);
    expect(bench.poisons).toMatchObject([{ body: { pay: 2 }, poison: { reason: "its idempotency key was used before, for another payload" } }]);
  });
});

describe("an outage of the poison queue", () => {
  it("does not lose the reason, nor run the handler again", async () => {
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    bench.poisonQueue.faults.always("send", "busy");
    const handler = vi.fn<Handler>((_, { poison }) => poison("no such customer"));
    await bench.consume(handler, often);
    await bench.pass(20_000);
    expect(bench.envelopes).toMatchObject([{ poisonPending: { reason: "no such customer" } }]);
    bench.poisonQueue.faults.always("send", "ok");
    // As long as the outage was, at most.
    await bench.pass(20_000);
    expect(handler).toHaveBeenCalledTimes(1);
    expect(bench.poisons).toEqual([{ asc: 1, key: "k", body: "p", poison: expect.objectContaining({ reason: "no such customer" }) as unknown }]);
  });

  it("sends no copy of a message that another consumer may have by then", async () => {
    await enqueue(bench.queue, "p");
    await bench.consume(async (_, context) => {
      context.poison("no such customer");
      await untilAborted(context).catch(() => undefined);
    }, { ...often, visibilityTimeoutInSeconds: 10 }); // prettier-ignore
    await bench.pass(100);
    bench.queue.faults.always("update", "denied");
    await bench.pass(10_000);
    expect([bench.names, bench.poisons]).toEqual([["lost"], []]);
  });

  const bad: Handler = (payload) => (payload === "bad" ? Promise.reject(new Error("no luck")) : undefined);
  const undecodable = { decode: (text: string): unknown => { if (text === '"bad"') throw new Error("no luck"); return text; } }; // prettier-ignore

  it.each<[string, Handler, Partial<QueueConsumerOptions<unknown>>]>([
    ["of handlers that fail", bad, {}],
    ["that cannot be decoded", () => undefined, undecodable],
  ])("that does not respond delays no messages but those %s", async (_, handler, options) => {
    bench.poisonQueue.faults.always("send", "hang");
    for (let i = 0; i < 40; i++) await enqueue(bench.queue, "bad");
    await bench.consume(handler, { ...often, maxAttempts: 1, retryDelayInMs: 0, inbox: new ClaimInbox(bench.table), ...options });
    await bench.pass(60_000);
    for (let i = 0; i < 40; i++) await enqueue(bench.queue, "good");
    await bench.pass(10_000);
    expect(bench.details("completed")).toHaveLength(40);
    bench.poisonQueue.faults.always("send", "ok");
    await bench.pass(90_000);
    expect([bench.poisons.length, bench.queue.messages]).toEqual([40, []]);
  });

  it("makes its messages come back less and less often, and is over for all of them within a minute", async () => {
    bench.poisonQueue.exists = false;
    for (let i = 0; i < 10; i++) await enqueue(bench.queue, "bad");
    await bench.consume(() => undefined, { ...often, ...undecodable });
    bench.poisonQueue.exists = false; // The start has created it.
    await bench.pass(600_000);
    const sends = bench.poisonQueue.faults.count("send");
    await bench.pass(300_000);
    expect(bench.poisonQueue.faults.count("send") - sends).toBeLessThanOrEqual(110);
    bench.poisonQueue.exists = true;
    await bench.pass(60_000);
    expect(bench.poisons).toHaveLength(10);
  });
});

describe("handlers that fail one after the other", () => {
  it.each<[string, Partial<QueueConsumerOptions<unknown>>, unknown]>([
    ["are duplicates", { inbox: new MemoryInbox() }, "again"],
    ["cannot be decoded", { decode: (text) => JSON.parse(text) as unknown }, undefined],
  ])("do not make messages wait that need no handler, as they %s", async (_, options, payload) => {
    if (payload !== undefined) await enqueue(bench.queue, payload, { idempotencyKey: "k" });
    const consumer = await bench.consume((given) => (given === "bad" ? fail(given, undefined as never) : undefined), { ...options, maxAttempts: 1, concurrency: 4 });
    await bench.pass(100);
    for (let i = 0; i < 25; i++) await enqueue(bench.queue, "bad");
    await bench.pass(5_000);
    expect(consumer.health().isPaused).toBe(true);
    for (let i = 0; i < 100; i++) await (payload === undefined ? bench.queue.sendMessage("{no JSON") : enqueue(bench.queue, payload, { idempotencyKey: "k" }));
    await enqueue(bench.queue, "good");
    await bench.pass(120_000);
    expect(consumer.health().isPaused).toBe(false);
    expect(bench.queue.messages).toEqual([]);
  });

  it("slow polling down, one message at a time, until one succeeds", async () => {
    let broken = true;
    for (let i = 0; i < 200; i++) await enqueue(bench.queue, i);
    const handler = vi.fn<Handler>(() => (broken ? Promise.reject(new Error("the database is down")) : undefined));
    const consumer = await bench.consume(handler, { maxAttempts: 100, concurrency: 4, maxPollIntervalInMs: 10_000 });
    await bench.pass(60_000);
    expect(bench.details("paused")).toMatchObject([{ reason: "failures", error: { message: "the database is down" } }]);
    expect(handler.mock.calls.length).toBeLessThan(40);
    expect(consumer.health().isPaused).toBe(true);
    broken = false;
    await bench.pass(10_000 * 1.2);
    await bench.pass(1_000);
    expect(consumer.health().isPaused).toBe(false);
    await bench.pass(30_000);
    expect(bench.queue.messages.length).toBeLessThan(40);
  });
});

describe("pause", () => {
  it("stops polling and leaves the handlers alone, resume polls at once", async () => {
    const handler = vi.fn<Handler>();
    const consumer = await bench.consume(handler, often);
    consumer.pause();
    consumer.pause();
    await enqueue(bench.queue, "p");
    await bench.pass(60_000);
    consumer.notify();
    await bench.pass(60_000);
    expect([handler.mock.calls.length, bench.names, consumer.health().isPaused]).toEqual([0, ["paused"], true]);
    expect(bench.details("paused")).toEqual([{ reason: "requested", error: undefined }]);
    consumer.resume();
    await bench.pass(1);
    expect([handler.mock.calls.length, consumer.health().isPaused]).toEqual([1, false]);
  });

  it("before the start is remembered, and does not keep stop waiting", async () => {
    const handler = vi.fn<Handler>();
    await enqueue(bench.queue, "p");
    const consumer = new QueueConsumer(bench.queue, handler, often);
    consumer.pause();
    await consumer.start();
    await bench.pass(1_000);
    expect(handler).not.toHaveBeenCalled();
    await consumer.stop();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("start with a SAS for one queue", () => {
  it("works, although it may neither read the properties nor create the poison queue", async () => {
    await enqueue(bench.queue, "p");
    bench.queue.faults.always("properties", "denied");
    bench.poisonQueue.faults.always("properties", "denied");
    bench.poisonQueue.faults.always("create", "denied");
    await bench.consume(vi.fn());
    await bench.pass(100);
    expect(bench.names).toEqual(["completed"]);
  });

  it("fails if the poison queue that it may not create does not exist", async () => {
    bench.poisonQueue.exists = false;
    bench.poisonQueue.faults.always("create", "denied");
    await expect(bench.consume(vi.fn())).rejects.toMatchObject({ code: "TARGET_NOT_FOUND", message: expect.stringContaining("jobs-poison") as string });
  });
});

describe.each([["a ClaimInbox"], ["a CommitInbox"]])("start with %s", (name) => {
  const start = (): Promise<unknown> =>
    name === "a ClaimInbox" ? bench.consume(vi.fn(), { inbox: new ClaimInbox(bench.table) }) : bench.consumeAndCommit(vi.fn());

  it("rejects if the table does not exist, and says which one", async () => {
    bench.table.exists = false;
    await expect(start()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND", message: expect.stringMatching(/^The inbox table https:\/\/account\.table\.example\/inbox does not exist/) as string });
  });

  it("rejects if the table cannot be read", async () => {
    bench.table.faults.next("get", "denied");
    await expect(start()).rejects.toMatchObject({ statusCode: 403 });
  });

  it("costs one request, and one more for the first ClaimInbox of a table, which records the number of shards", async () => {
    await start();
    const first = name === "a ClaimInbox" ? ["get", "transaction"] : ["get"];
    expect(bench.table.faults.log).toEqual(first);
    await start();
    expect(bench.table.faults.log).toEqual([...first, "get"]);
  });
});

it.each(["queue", "table"] as const)("start rejects after 30 seconds if the %s never responds", async (silent) => {
  bench[silent].faults.always(silent === "queue" ? "properties" : "get", "hang");
  const started = vi.fn();
  void bench.consume(vi.fn(), { inbox: new ClaimInbox(bench.table) }).then(started, started);
  await bench.pass(29_900);
  expect(started).not.toHaveBeenCalled();
  await bench.pass(200);
  expect(started).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ code: "OPERATION_TIMEOUT" }));
});

describe("a decoder that never settles", () => {
  it("delays no other message, is a failure of its own, and does not keep stop waiting", async () => {
    for (const payload of ["hangs", "b", "c"]) await enqueue(bench.queue, payload);
    const handled: unknown[] = [];
    const consumer = await bench.consume((payload) => void handled.push(payload), {
      ...often,
      visibilityTimeoutInSeconds: 10,
      maxAttempts: 3,
      decode: (text) => (text.includes("hangs") ? new Promise(() => undefined) : (JSON.parse(text) as unknown)),
    });
    await bench.pass(200);
    expect(handled).toEqual(["b", "c"]);
    await bench.pass(10_000);
    expect(bench.details("retried")).toMatchObject([{ attempt: 1, error: { message: expect.stringContaining("not decoded in time") as string } }]);
    await bench.pass(3_000);
    const stopped = vi.fn();
    void consumer.stop({ drainTimeoutInMs: 500 }).then(stopped);
    await bench.pass(2_600);
    expect(stopped).toHaveBeenCalled();
  });
});

it("a function for the retry delay that throws is reported, and its message is retried all the same", async () => {
  await enqueue(bench.queue, "p");
  await bench.consume(fail, { ...often, maxAttempts: 2, retryDelayInMs: () => { throw new Error("no delay"); } }); // prettier-ignore
  await bench.pass(10_000);
  expect(bench.names).toEqual(["error", "retried", "poisoned"]);
});

it("a CommitInbox does not let a message that was stopped after its commit count as done: what follows the commit may be missing", async () => {
  await enqueue(bench.queue, "p");
  const inbox = new CommitInbox(bench.table);
  const consumer = await bench.consumeAndCommit(async (_, context) => {
    await context.commit([["create", { rowKey: "r" }]]);
    await untilAborted(context).catch(() => undefined);
  }, { ...often, inbox }); // prettier-ignore
  await bench.pass(100);
  const stopping = consumer.stop({ drainTimeoutInMs: 0 });
  await bench.pass(5_000);
  await stopping;
  expect([bench.names, bench.queue.messages.length]).toEqual([["retried", "stopped"], 1]);
  await bench.consumeAndCommit((_, { commit }) => commit([["create", { rowKey: "r" }]]), { ...often, inbox });
  await bench.pass(1_000);
  expect([bench.names, bench.effects.length]).toEqual([["retried", "stopped", "duplicate"], 1]);
});

describe("without a listener", () => {
  it.each<[string, Handler, QueueConsumerOptions<unknown>, string[]]>([
    ["a handler that fails", fail, { maxAttempts: 3 }, ["Error"]],
    ["a message that is poisoned", fail, { maxAttempts: 1 }, ["Error"]],
    ["a message that its handler poisons", (_payload, { poison }) => poison("no use"), {}, ["PoisonMessage"]],
    ["a handler that is abandoned", () => new Promise(() => undefined), { maxProcessingTimeInMs: 10 }, ["AbandonedHandler", "OperationTimeoutError"]],
  ])("%s is written to the console, once for each cause", async (_, handler, options, causes) => {
    const written = vi.spyOn(console, "warn").mockReturnValue(undefined);
    await enqueue(bench.queue, "p");
    await enqueue(bench.queue, "q");
    const consumer = new QueueConsumer(bench.queue, handler, { poisonQueue: bench.poisonQueue, ...options });
    await consumer.start();
    await bench.pass(20_000);
    const stopping = consumer.stop();
    await bench.pass(60_000);
    await stopping;
    expect(written.mock.calls.map(([message]) => /QueueConsumer of jobs reported an error \((\w+)/.exec(String(message))?.[1])).toEqual(causes);
  });

  it("of that event, but with one of error, nothing is written", async () => {
    const written = vi.spyOn(console, "warn").mockReturnValue(undefined);
    await enqueue(bench.queue, "p");
    const consumer = new QueueConsumer(bench.queue, fail, { poisonQueue: bench.poisonQueue });
    consumer.on("error", vi.fn());
    await consumer.start();
    await bench.pass(2_000);
    await consumer.stop();
    expect(written).not.toHaveBeenCalled();
  });
});

it("a poison queue that is the queue itself is a TypeError of the constructor", () => {
  expect(() => new QueueConsumer(bench.queue, vi.fn(), { poisonQueue: bench.queue })).toThrow(/must be another queue/);
});

it("a message without an inbox that could not be deleted is reported as lost, and not as completed", async () => {
  await enqueue(bench.queue, "p");
  bench.queue.faults.always("delete", "busy");
  await bench.consume(vi.fn(), { ...often, visibilityTimeoutInSeconds: 5 });
  await bench.pass(5_000);
  expect(bench.names[0]).toBe("lost");
  expect(bench.names).not.toContain("completed");
});

describe("health", () => {
  it("reads the length of the queue in the background, once in ten seconds at most, and knows the oldest message of the last receive", async () => {
    const sentOn = new Date();
    for (let i = 0; i < 3; i++) await enqueue(bench.queue, i);
    vi.spyOn(bench.queue, "getProperties").mockImplementation((options = {}) =>
      bench.queue.faults.request("properties", options.abortSignal, () => ({ approximateMessagesCount: bench.queue.messages.length })),
    );
    await bench.pass(5_000);
    // With three slots for three messages it does not poll again.
    const consumer = await bench.consume((_, context) => untilAborted(context), { concurrency: 3 });
    await bench.pass(100);
    const before = bench.queue.faults.count("properties");
    expect(consumer.health()).toMatchObject({ approximateMessageCount: undefined });
    for (let i = 0; i < 50; i++) {
      await bench.pass(100);
      consumer.health();
    }
    expect(bench.queue.faults.count("properties") - before).toBe(1);
    expect(consumer.health()).toMatchObject({ approximateMessageCount: 3, oldestMessageInsertedOn: sentOn });
    await bench.pass(6_000);
    consumer.health();
    expect(bench.queue.faults.count("properties") - before).toBe(2);
  });

  it("does not keep stop waiting, nor the process alive", async () => {
    const consumer = await bench.consume(vi.fn());
    bench.queue.faults.always("properties", "hang");
    consumer.health();
    await bench.pass(1);
    const stopped = vi.fn();
    void consumer.stop().then(stopped);
    await bench.pass(10);
    expect(stopped).toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });
});
