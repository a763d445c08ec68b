import type { TransactionAction } from "@azure/data-tables";
import { afterEach, beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";

import { ClaimInbox, CommitInbox, ConcurrentQueue, enqueue, QueueConsumer } from "../../src/index.js";
import type { CommitConsumerOptions, CommitMessageContext, MessageContext, MessageHandler, QueueConsumerEvents, QueueConsumerOptions } from "../../src/index.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import { FakeTable } from "./fakes/fake-table.js";

let queue: FakeQueue;
let poisonQueue: FakeQueue;
let table: FakeTable;
let consumers: QueueConsumer<string>[];
let events: (keyof QueueConsumerEvents)[];

beforeEach(() => {
  vi.useFakeTimers();
  queue = new FakeQueue();
  poisonQueue = new FakeQueue("jobs-poison");
  table = new FakeTable();
  [consumers, events] = [[], []];
});

afterEach(async () => {
  for (const consumer of consumers) {
    const stopping = consumer.stop();
    await pass(120_000);
    await stopping;
  }
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

type Handler = MessageHandler<string, CommitMessageContext>;

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const effects = (): string[] => [...table.rows.values()].filter(({ rowKey }) => !rowKey.startsWith("~asc~inbox!")).map(({ rowKey }) => rowKey);

async function consume(handler: Handler, options: Partial<CommitConsumerOptions<string>> = {}): Promise<void> {
  const consumer = new QueueConsumer<string>(queue, handler, { inbox: new CommitInbox(table), partitionOf: () => "p", poisonQueue, ...options });
  consumers.push(consumer);
  for (const event of ["completed", "duplicate", "retried", "poisoned", "lost", "error"] as const) consumer.on(event, () => void events.push(event));
  await consumer.start();
}

describe("a commit", () => {
  it("takes effect once for messages with the same key, at two requests each and a share of a receive", async () => {
    await enqueue(queue, "p", { idempotencyKey: "k" });
    await enqueue(queue, "p", { idempotencyKey: "k" });
    await consume((_, { commit, messageId }) => commit([["create", { rowKey: messageId }]]));
    await pass(10);
    expect(effects()).toHaveLength(1);
    expect(events.toSorted()).toEqual(["completed", "duplicate"]);
    expect(queue.messages).toEqual([]);
  });

  it("is followed by a retry if the handler fails afterwards: the next run finds it done, and goes on", async () => {
    await enqueue(queue, "p");
    const results: string[] = [];
    const followUps: string[] = [];
    await consume(async (_, { commit, attempt }) => {
      results.push(await commit([["create", { rowKey: "r" }]]));
      if (attempt === 1) throw new Error("no mail server");
      followUps.push("mail");
    });
    await pass(10);
    expect([effects(), events, followUps]).toEqual([["r"], ["retried"], []]);
    await pass(20_000);
    expect([effects(), events, followUps]).toEqual([["r"], ["retried", "duplicate"], ["mail"]]);
    expect(results).toEqual(["committed", "duplicate"]);
    expect(queue.messages).toEqual([]);
  });

  it.each<[string, (context: CommitMessageContext) => void, string]>([
    ["retry", ({ retry }) => retry(), "retried"],
    ["poison", ({ poison }) => poison("no mail server"), "poisoned"],
  ])("does not make the consumer forget that the handler asked for %s", async (_, ask, event) => {
    await enqueue(queue, "p");
    await consume(async (_payload, context) => {
      await context.commit([["create", { rowKey: "r" }]]);
      ask(context);
    });
    await pass(10);
    expect(events).toEqual([event]);
  });

  it("that the handler does not await takes effect before the message is deleted", async () => {
    await enqueue(queue, "p");
    table.faults.next("transaction", "busy");
    await consume((_, { commit }) => void commit([["create", { rowKey: "r" }]]));
    await pass(5_000);
    expect([effects(), events, queue.messages]).toEqual([["r"], ["completed"], []]);
  });

  it("that the handler does not await, and that fails, is a failure of the message", async () => {
    await enqueue(queue, "p");
    await consume((_, { commit }) => void commit([["bogus" as never, { rowKey: "r" }]]), { maxAttempts: 1 });
    await pass(5_000);
    expect([effects(), events]).toEqual([[], ["poisoned"]]);
  });

  it("of a handler that has ended is rejected and reported, and writes nothing: its message is gone, and would not send what belongs to it", async () => {
    const mails = new FakeQueue("mails");
    await enqueue(queue, "p");
    queue.faults.next("delete", "busy");
    const results: unknown[] = [];
    await consume((_, { commit }) => {
      setTimeout(() => void commit([["create", { rowKey: "r" }]], { send: [{ queue: mails, payload: 1 }] }).catch((error: unknown) => results.push(error)), 1);
    });
    await pass(5_000);
    expect(results).toEqual([expect.any(TypeError)]);
    expect([effects(), mails.messages, events, queue.messages]).toEqual([[], [], ["error", "completed"], []]);
  });

  it("may be called once", async () => {
    await enqueue(queue, "p");
    const results: unknown[] = [];
    await consume(async (_, { commit }) => {
      for (let i = 0; i < 2; i++) results.push(await commit([]).catch((error: unknown) => error));
    });
    await pass(10);
    expect(results).toEqual(["committed", expect.any(TypeError)]);
  });

  it.each([true, false])("of two that are called together the second is rejected, and the message fails (awaited: %s)", async (awaited) => {
    await enqueue(queue, "p");
    const results: unknown[] = [];
    await consume(
      async (_, { commit }) => {
        const both = Promise.allSettled([commit([["create", { rowKey: "a" }]]), commit([["create", { rowKey: "b" }]])]);
        void both.then((settled) => results.push(...settled));
        if (awaited) await both;
      },
      { maxAttempts: 1 },
    );
    await pass(10);
    expect(results).toMatchObject([{ value: "committed" }, { reason: expect.any(TypeError) as unknown }]);
    expect([effects(), events]).toEqual([["a"], ["poisoned"]]);
  });

  it("with an entity of another partition, or an unknown option, is rejected before any request", async () => {
    await enqueue(queue, "p");
    const errors: unknown[] = [];
    await consume(async (_, { commit }) => {
      errors.push(await commit([["create", { partitionKey: "q", rowKey: "r" }]]).catch((error: unknown) => error));
      errors.push(await commit([], { timeoutInMs: 1 } as object).catch((error: unknown) => error));
    });
    await pass(10);
    expect(errors).toEqual([expect.any(RangeError), expect.any(TypeError)]);
    // Those of start, and of a handler that returns without a commit.
    expect(table.faults.log).toEqual(["get", "get"]);
  });
});

describe("a commit with a row key of the library, as a payload may contain one,", () => {
  it("is rejected before any request: it would complete the key of another message, whose effect would be lost", async () => {
    await enqueue(queue, "~asc~inbox!account:jobs!victim", { idempotencyKey: "attacker" });
    const errors: unknown[] = [];
    const handler: Handler = async (rowKey, { commit, idempotencyKey }) => {
      const committed = commit([["create", { rowKey, state: "done", by: idempotencyKey }]]);
      await committed.catch((error: unknown) => errors.push(error));
      await committed;
    };
    await consume(handler, { maxAttempts: 1 });
    await pass(10);
    expect(events).toEqual(["poisoned"]);
    expect(errors).toEqual([expect.any(RangeError)]);
    expect([...table.rows.values()]).toEqual([]);
    await enqueue(queue, "order-1", { idempotencyKey: "victim" });
    await pass(1_000);
    expect([events, effects()]).toEqual([["poisoned", "completed"], ["order-1"]]);
  });
});

describe("a commit of something else than actions", () => {
  it.each([[[["bogus", { rowKey: "r" }]]], [undefined]])("%j rejects with a TypeError before any request, and records nothing", async (actions) => {
    await enqueue(queue, "p");
    const errors: unknown[] = [];
    await consume((_, { commit, poison }) =>
      commit(actions as never).then(undefined, (error: unknown) => {
        errors.push(error);
        poison("wrong");
      }),
    );
    await pass(10);
    expect(errors).toEqual([expect.any(TypeError)]);
    expect(errors[0]).toMatchObject({ message: expect.stringMatching(/^commit: /) as string });
    expect(table.rows.size).toBe(0);
  });
});

describe("the partition", () => {
  it("is what partitionOf says, with the payload and the properties of the message, and is known to the handler", async () => {
    await enqueue(queue, "customer-1", { idempotencyKey: "k" });
    const partitionOf = vi.fn((payload: string) => payload);
    const partitions: string[] = [];
    await consume(
      (_, { commit, partitionKey }) => {
        partitions.push(partitionKey);
        return commit([["create", { rowKey: "r" }]]);
      },
      { partitionOf },
    );
    await pass(10);
    expect(partitionOf).toHaveBeenCalledWith("customer-1", expect.objectContaining({ idempotencyKey: "k", messageId: "jobs-1", dequeueCount: 1 }));
    expect(partitions).toEqual(["customer-1"]);
    expect([...table.rows.values()].map(({ partitionKey, rowKey }) => `${partitionKey} ${rowKey}`)).toEqual(["customer-1 ~asc~inbox!account:jobs!k", "customer-1 r"]);
  });

  it.each<[string, () => string]>([
    ["throws", () => { throw new Error("no customer"); }], // prettier-ignore
    ["returns no string", () => undefined as unknown as string],
    ["returns what is no key", () => "a/b"],
  ])("whose function %s moves the message to the poison queue: it would fail each time", async (_, partitionOf) => {
    await enqueue(queue, "p");
    const handler = vi.fn<Handler>();
    await consume(handler, { partitionOf });
    await pass(10);
    expect(handler).not.toHaveBeenCalled();
    expect(poisonQueue.messages).toHaveLength(1);
    expect(events).toEqual(["poisoned"]);
  });
});

describe("a function of the application that returns a promise", () => {
  it.each<[string, Partial<CommitConsumerOptions<string>>, string]>([
    ["partitionOf", { partitionOf: () => Promise.reject(new Error("no")) as never }, "poisoned"],
    ["idempotencyKeyOf", { idempotencyKeyOf: () => Promise.reject(new Error("no")) as never }, "poisoned"],
    ["retryDelayInMs", { retryDelayInMs: () => Promise.reject(new Error("no")) as never }, "error"],
  ])("%s is refused, and its rejection does not end the process", async (_, options, event) => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    await queue.sendMessage("p");
    await consume(() => Promise.reject(new Error("failed")), options);
    await pass(10);
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
    expect(events).toContain(event);
  });
});

it.each([[{}], [{ "~standard": {} }], ["schema"], [null]])("a schema that is not a Standard Schema (%j) is a TypeError of the constructor", (schema) => {
  expect(() => new QueueConsumer(queue, vi.fn(), { schema: schema as never })).toThrow(TypeError);
  expect(() => new QueueConsumer(queue, vi.fn(), { schema: schema as never })).toThrow(/schema must be a Standard Schema/);
});

describe("an inbox that is used otherwise than intended", () => {
  const handler = vi.fn();

  it("is a TypeError of the constructor, and not a consumer that recognises no duplicates", () => {
    const inbox = new CommitInbox(table);
    expect(() => new QueueConsumer(queue, handler, { inbox } as unknown as QueueConsumerOptions<unknown>)).toThrow(/needs the option partitionOf/);
    expect(() => new QueueConsumer(queue, handler, { inbox: new ClaimInbox(table), partitionOf: () => "p" } as never)).toThrow(/needs a CommitInbox/);
    expect(() => new QueueConsumer(queue, handler, { partitionOf: () => "p" } as never)).toThrow(/needs a CommitInbox/);
    expect(() => new QueueConsumer(queue, handler, { inbox: {} as never })).toThrow(/prepare and claim/);
    // Of a configuration that was not loaded: an option that is there must be usable.
    for (const nothing of [null, false, 5]) expect(() => new QueueConsumer(queue, handler, { inbox: nothing as never })).toThrow(/must be a ClaimInbox, a CommitInbox or an Inbox/);
    expect(() => new QueueConsumer(queue, handler, { poisonQueue: null as never })).toThrow(TypeError);
    expect(() => new QueueConsumer(queue, handler, { overflow: null as never })).toThrow(TypeError);
    expect(() => new CommitInbox({} as never)).toThrow(TypeError);
    expect(() => new ClaimInbox(table, { mode: "commit" } as object)).toThrow(/unknown option "mode"/);
  });

  it("has no commit in the context at run time", async () => {
    await enqueue(queue, "p");
    let context: MessageContext | undefined;
    const consumer = new QueueConsumer<string>(queue, (_, given) => void (context = given), { inbox: new ClaimInbox(table) });
    consumers.push(consumer);
    await consumer.start();
    await pass(50);
    expect(context).toBeDefined();
    expect(context).not.toHaveProperty("commit");
    expect(context).not.toHaveProperty("partitionKey");
  });
});

it("the types tie the context to the inbox, and accept the actions of the SDK", () => {
  const sdkActions: TransactionAction[] = [["create", { partitionKey: "p", rowKey: "r" }]];
  const create = (): void => {
    new QueueConsumer(queue, (_order: { id: string }, context) => context.commit(sdkActions), { inbox: new CommitInbox(table), partitionOf: (order) => order.id });
    // @ts-expect-error -- only with a CommitInbox
    new QueueConsumer(queue, (_order: { id: string }, { commit }) => typeof commit, { inbox: new ClaimInbox(table) });
    // @ts-expect-error -- a CommitInbox needs the partition
    new QueueConsumer<{ id: string }>(queue, () => undefined, { inbox: new CommitInbox(table) });
    const jobs = new ConcurrentQueue<{ id: string }>(queue);
    jobs.consume((order, context) => context.commit([["create", { rowKey: order.id }]]), { inbox: new CommitInbox(table), partitionOf: ({ id }) => id });
    // @ts-expect-error -- only with a CommitInbox
    jobs.consume((_order, { commit }) => typeof commit);
  };
  expectTypeOf(create).toBeFunction();
  expectTypeOf<CommitMessageContext["commit"]>().returns.resolves.toEqualTypeOf<"committed" | "duplicate">();
});
