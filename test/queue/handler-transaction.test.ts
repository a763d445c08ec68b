import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { CommitInbox, enqueue, QueueConsumer } from "../../src/index.js";
import type { CommitConsumerOptions, CommitMessageContext, CommitTransactionResult, MessageHandler, QueueConsumerEvents } from "../../src/index.js";
import { after, answer, failAfterCommit, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { fakePartition, set, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";
import { FakeQueue } from "./fakes/fake-queue.js";

let queue: FakeQueue;
let poisonQueue: FakeQueue;
let partition: ReturnType<typeof fakePartition>;
let consumers: QueueConsumer[];
let events: [keyof QueueConsumerEvents, unknown][];

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  [queue, poisonQueue, partition] = [new FakeQueue(), new FakeQueue("jobs-poison"), fakePartition({ a: 0 })];
  [consumers, events] = [[], []];
});

afterEach(async () => {
  for (const consumer of consumers) {
    const stopping = consumer.stop();
    await pass(120_000);
    await stopping;
  }
  expect(vi.getTimerCount()).toBe(0);
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const names = (): string[] => events.map(([name]) => name);

type Handler = MessageHandler<unknown, CommitMessageContext>;

async function consume(handler: Handler, options: Partial<CommitConsumerOptions<unknown>> = {}): Promise<QueueConsumer> {
  const consumer = new QueueConsumer<unknown>(queue, handler, { inbox: new CommitInbox(partition.table), partitionOf: () => "p", poisonQueue, ...options });
  consumers.push(consumer);
  for (const event of ["completed", "duplicate", "retried", "poisoned", "lost", "paused"] as const) {
    consumer.on(event, (detail: unknown) => void events.push([event, detail]));
  }
  consumer.on("error", () => undefined);
  await consumer.start();
  return consumer;
}

const add = (context: CommitMessageContext): Promise<CommitTransactionResult<number>> =>
  context.transaction(async (tx) => {
    const a = await tx.get<Numbered>("a");
    tx.update({ rowKey: "a", n: (a?.n ?? 0) + 1 });
    return (a?.n ?? 0) + 1;
  });

describe("a transaction of a handler", () => {
  it("whose function throws in a later delivery leaves no record, whatever transactions it shares a commit with", async () => {
    let deliveries = 0;
    let arrive!: () => void;
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    await consume(async (payload, context) => {
      if (payload !== "late") {
        // They commit together with the second delivery of the other message.
        await arrived;
        return add(context);
      }
      if (++deliveries === 1) throw new Error("not yet");
      if (deliveries > 2) return add(context);
      arrive();
      return context.transaction(async (tx) => {
        await tx.get("a");
        throw new Error("no luck");
      });
    }, { retryDelayInMs: 2_000, maxPollIntervalInMs: 100 });
    await enqueue(queue, "late", { idempotencyKey: "late" });
    for (let i = 0; i < 12; i++) await enqueue(queue, i);
    await pass(3_000);
    expect(names().filter((name) => name === "completed")).toHaveLength(12);
    await pass(30_000);
    expect(names().filter((name) => name !== "completed")).toEqual(["retried", "retried"]);
    expect(valueOf(partition.table, "a")).toBe(13);
    expect(queue.messages).toEqual([]);
  });

  it("lets 60 messages add to one entity, for a fraction of a request each", async () => {
    for (let i = 0; i < 60; i++) await enqueue(queue, i);
    const before = partition.service.requests.length;
    const values: unknown[] = [];
    await consume(async (_, context) => void values.push((await add(context)).value));
    await pass(10_000);
    expect(valueOf(partition.table, "a")).toBe(60);
    expect(new Set(values).size).toBe(60);
    expect(names()).toEqual(Array<string>(60).fill("completed"));
    expect(queue.messages).toEqual([]);
    expect(partition.service.requests.length - before).toBeLessThanOrEqual(60 * 0.5);
  });

  it("costs one read and one commit for a lone message, as without the record", async () => {
    await enqueue(queue, 1);
    await consume((_, context) => add(context));
    const before = partition.service.operations.length;
    await pass(1_000);
    expect(partition.service.operations.slice(before)).toEqual(["getEntity", "submitTransaction"]);
  });

  it("is applied once for messages with one key that are handled together, and says which is the duplicate", async () => {
    await enqueue(queue, 1, { idempotencyKey: "k" });
    await enqueue(queue, 1, { idempotencyKey: "k" });
    const results: CommitTransactionResult<number>[] = [];
    await consume(async (_, context) => void results.push(await add(context)));
    await pass(1_000);
    expect(results.toSorted((a, b) => a.outcome.localeCompare(b.outcome))).toEqual([
      { outcome: "committed", value: 1 },
      { outcome: "duplicate", value: undefined },
    ]);
    expect(valueOf(partition.table, "a")).toBe(1);
    expect(names().toSorted()).toEqual(["completed", "duplicate"]);
  });

  it("is a duplicate for another consumer, which commits later", async () => {
    await enqueue(queue, 1, { idempotencyKey: "k" });
    await consume((_, context) => add(context));
    await pass(1_000);
    await enqueue(queue, 1, { idempotencyKey: "k" });
    await consume((_, context) => add(context), { inbox: new CommitInbox(partition.other) });
    await pass(20_000);
    expect([valueOf(partition.table, "a"), names()]).toEqual([1, ["completed", "duplicate"]]);
  });

  it("of a key that was committed for another payload is a mismatch: the message is poison", async () => {
    await enqueue(queue, 1, { idempotencyKey: "k" });
    await enqueue(queue, 2, { idempotencyKey: "k" });
    await consume((_, context) => add(context));
    await pass(1_000);
    expect([valueOf(partition.table, "a"), names().toSorted()]).toEqual([1, ["completed", "poisoned"]]);
  });

  it("and a commit with the same key exclude each other", async () => {
    await enqueue(queue, 1, { idempotencyKey: "k" });
    await consume((_, { commit }) => commit([["create", { rowKey: "b" }]]));
    await pass(1_000);
    await enqueue(queue, 1, { idempotencyKey: "k" });
    await consume((_, context) => add(context));
    await pass(20_000);
    // The first consumer may get the second message as well.
    expect([valueOf(partition.table, "a"), names()]).toEqual([0, ["completed", "duplicate"]]);
  });

  it("records the key even if the function writes nothing", async () => {
    await enqueue(queue, 1, { idempotencyKey: "k" });
    await enqueue(queue, 1, { idempotencyKey: "k" });
    let runs = 0;
    await consume((_, { transaction }) => transaction(() => {
      runs++;
    }));
    await pass(1_000);
    expect([runs, names().toSorted()]).toEqual([1, ["completed", "duplicate"]]);
  });

  const faults: readonly (readonly [string, Fault])[] = [
    ["the response is lost and the SDK sends again", loseAnswer],
    ["the response is lost for good", loseAnswerForGood],
    ["the request is lost", loseRequest],
    ["the service commits and responds 500", failAfterCommit],
  ];

  it.each(faults)("is applied once and returns its value when %s", async (_, fault) => {
    await enqueue(queue, 1);
    const results: unknown[] = [];
    await consume(async (_payload, context) => void results.push(await add(context)));
    partition.service.next("submitTransaction", fault);
    await pass(60_000);
    expect([valueOf(partition.table, "a"), results, names()]).toEqual([1, [{ outcome: "committed", value: 1 }], ["completed"]]);
  });

  it("returns its own value if another writer drops the journal after a lost response", async () => {
    await enqueue(queue, 1);
    const results: unknown[] = [];
    await consume(async (_payload, context) => void results.push(await add(context)));
    partition.service.next("submitTransaction", after(() => set(partition.other, "a", 10), loseAnswer));
    await pass(60_000);
    // The other writer has overwritten the effect, which was there: it is not applied again.
    expect([valueOf(partition.table, "a"), results, names()]).toEqual([10, [{ outcome: "committed", value: 1 }], ["completed"]]);
  });

  it("runs again on conflict, and reads its record only if that may exist", async () => {
    for (let i = 0; i < 8; i++) await enqueue(queue, i);
    let conflicts = 0;
    await consume((_, { transaction }) =>
      transaction(async (tx) => {
        const a = await tx.get<Numbered>("a");
        if (conflicts++ === 0) set(partition.other, "a", 100);
        tx.update({ rowKey: "a", n: a!.n + 1 });
      }),
    );
    const before = partition.service.requests.length;
    await pass(10_000);
    expect([valueOf(partition.table, "a"), names()]).toEqual([108, Array<string>(8).fill("completed")]);
    expect(partition.service.requests.length - before).toBeLessThanOrEqual(5);
  });

  it.each<[string, Fault]>([
    ["refuses everything", answer(403, "AuthorizationFailure")],
    ["does not exist", answer(404, "TableNotFound")],
    ["is busy", answer(503, "ServerBusy")],
  ])("of a table that %s is not charged to the message, and takes effect when the table is back", async (_, fault) => {
    await enqueue(queue, 1);
    await consume((_payload, context) => add(context), { maxAttempts: 1 });
    partition.service.each("any", fault);
    await pass(100_000);
    expect(names()).not.toContain("poisoned");
    partition.service.heal();
    await pass(200_000);
    expect([valueOf(partition.table, "a"), names().at(-1)]).toEqual([1, "completed"]);
  });

  it("whose conflicts do not end is not charged to the message", async () => {
    await enqueue(queue, 1);
    let other = true;
    await consume(
      (_, { transaction }) =>
        transaction(
          async (tx) => {
            const a = await tx.get<Numbered>("a");
            if (other) set(partition.other, "a", 0);
            tx.update({ rowKey: "a", n: a!.n + 1 });
          },
          { maxAttempts: 3 },
        ),
      { maxAttempts: 1 },
    );
    await pass(5_000);
    expect(names()[0]).toBe("retried");
    other = false;
    await pass(60_000);
    expect([valueOf(partition.table, "a"), names().at(-1)]).toEqual([1, "completed"]);
  });

  it("whose function throws is a failure of the message, also if it throws what looks like an outage", async () => {
    await enqueue(queue, 1);
    await consume((_, { transaction }) => transaction(() => Promise.reject(Object.assign(new Error("the shop is down"), { code: "ECONNRESET" }))), { maxAttempts: 1 });
    await pass(1_000);
    expect([names(), poisonQueue.messages.length]).toEqual([["poisoned"], 1]);
  });

  it("whose function never ends is a failure of the message", async () => {
    await enqueue(queue, 1);
    await consume((_, { transaction }) => transaction(() => new Promise(() => undefined), { timeoutInMs: 2_000 }), { maxAttempts: 1 });
    await pass(10_000);
    expect(names()).toEqual(["poisoned"]);
  });

  it.each(["commit", "transaction"] as const)("may not be followed by a %s", async (second) => {
    await enqueue(queue, 1);
    const errors: unknown[] = [];
    await consume(
      async (_, context) => {
        await add(context);
        await (second === "commit" ? context.commit([]) : add(context)).catch((error: unknown) => errors.push(error));
      },
      { maxAttempts: 1 },
    );
    await pass(1_000);
    expect([errors, names(), valueOf(partition.table, "a")]).toEqual([[expect.any(TypeError)], ["poisoned"], 1]);
  });

  it("that the handler does not await takes effect before the message is deleted", async () => {
    await enqueue(queue, 1);
    await consume((_, context) => void add(context));
    await pass(1_000);
    expect([valueOf(partition.table, "a"), names()]).toEqual([1, ["completed"]]);
  });

  it.each<[string, () => unknown, object | undefined]>([
    ["no function", () => undefined, undefined],
    ["an operation id", () => undefined, { operationId: "x" }],
    ["an unknown option", () => undefined, { maxAttemps: 1 }],
  ])("rejects %s before it sends a request", async (what, fn, options) => {
    await enqueue(queue, 1);
    const errors: unknown[] = [];
    await consume((_, { transaction }) => transaction((what === "no function" ? undefined : fn) as never, options as never).catch((error: unknown) => errors.push(error)));
    const before = partition.service.requests.length;
    await pass(10);
    expect(errors[0]).toBeInstanceOf(TypeError);
    // That of a handler that returns without a commit.
    expect(partition.service.requests.length).toBe(before + 1);
  });

  it("does not see or touch rows of the library, and leaves no tombstone for its record", async () => {
    await enqueue(queue, 1, { idempotencyKey: "k" });
    const found: string[] = [];
    await consume((_, { transaction }) => transaction(async (tx) => void found.push(...(await tx.query()).map(({ rowKey }) => rowKey))));
    await pass(1_000);
    expect(found).toEqual(["a"]);
    expect(partition.table.rowKeys()).toEqual(["a", "~asc~inbox!account:jobs!k"]);
  });
});
