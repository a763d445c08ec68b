import { describe, expect, it, vi } from "vitest";

import { CommitInbox, enqueue, QueueConsumer, redrive } from "../../src/index.js";
import type { CommitMessageContext, CommitOptions, OutgoingMessage } from "../../src/index.js";
import { outgoingIn, outgoingProperties } from "../../src/queue/inbox/stored-outgoing.js";
import type { StoredMessage } from "../../src/queue/inbox/stored-outgoing.js";
import { fakePartition } from "../transaction/fakes/partition.js";
import { Bench } from "./fakes/consume.js";
import { FakeQueue } from "./fakes/fake-queue.js";
import { storageError } from "./fakes/faults.js";

const bench = new Bench();
const sent = (queue: FakeQueue): [key: unknown, body: unknown][] =>
  queue.messages.map(({ text }) => JSON.parse(text) as { key: unknown; body: unknown }).map(({ key, body }) => [key, body]);
const keysOf = (queue: FakeQueue): unknown[] => sent(queue).map(([key]) => key);

describe("messages that are sent with a commit", () => {
  it("are sent after it, with keys that are derived from queue and key of the incoming message", async () => {
    const [invoices, mails] = [new FakeQueue("invoices"), new FakeQueue("mails")];
    await enqueue(bench.queue, "p", { idempotencyKey: "order/1" });
    const results: unknown[] = [];
    await bench.consumeAndCommit(async (_, { commit }) => {
      results.push(await commit([["create", { rowKey: "r" }]], { send: [{ queue: invoices, payload: { n: 1 } }, { queue: mails, payload: "hello", idempotencyKey: "own" }] }));
      results.push(sent(invoices).length);
    });
    await bench.pass(100);
    expect(results).toEqual(["committed", 1]);
    expect([sent(invoices), sent(mails)]).toEqual([[["account:jobs/order/1/0", { n: 1 }]], [["own", "hello"]]]);
    expect([bench.names, bench.queue.messages]).toEqual([["completed"], []]);
    expect([invoices.faults.log, bench.table.faults.log]).toEqual([["send"], ["get", "transaction"]]);
  });

  it("keep delay, lifetime and encoding", async () => {
    const mails = new FakeQueue("mails");
    const send = vi.spyOn(mails, "sendMessage");
    await enqueue(bench.queue, "p");
    await bench.consumeAndCommit((_, { commit }) => commit([], { send: [{ queue: mails, payload: 1, delayInMs: 5_000, timeToLiveInSeconds: 60, encoding: "base64" }] }));
    await bench.pass(100);
    const [text, options] = send.mock.calls[0]!;
    expect(options).toMatchObject({ visibilityTimeout: 5, messageTimeToLive: 60 });
    expect(JSON.parse(atob(text))).toMatchObject({ body: 1 });
  });

  it("are not sent if the commit fails", async () => {
    const mails = new FakeQueue("mails");
    await enqueue(bench.queue, "p");
    await bench.consumeAndCommit((_, { commit }) => commit([["bogus" as never, { rowKey: "r" }]], { send: [{ queue: mails, payload: 1 }] }), { maxAttempts: 1 });
    await bench.pass(100);
    expect([mails.messages, bench.names]).toEqual([[], ["poisoned"]]);
  });

  it("are sent again by the next delivery if the process ended before they were sent", async () => {
    const mails = new FakeQueue("mails");
    mails.faults.always("send", "hang");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    const handler = (_: unknown, { commit }: CommitMessageContext): unknown => commit([["upsert", { rowKey: "r" }]], { send: [{ queue: mails, payload: 1 }] });
    const first = await bench.consumeAndCommit(handler, { visibilityTimeoutInSeconds: 30 });
    await bench.pass(100);
    expect([bench.effects.length, mails.messages]).toEqual([1, []]);
    // As a crash: the consumer is cut off, and the message becomes visible.
    const stopping = first.stop({ drainTimeoutInMs: 0 });
    await bench.pass(5_000);
    await stopping;
    mails.faults.always("send", "ok");
    await bench.consumeAndCommit(handler);
    await bench.pass(60_000);
    expect([keysOf(mails), bench.names.at(-1), bench.queue.messages]).toEqual([["account:jobs/k/0"], "duplicate", []]);
  });

  it("are those of the commit, and not those of the handler that finds it done", async () => {
    const mails = new FakeQueue("mails");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    let run = 0;
    await bench.consumeAndCommit(async (_, { commit }) => {
      run++;
      await commit([], { send: [{ queue: mails, payload: `of run ${run}` }, ...(run > 1 ? [{ queue: mails, payload: "one more" }] : [])] });
      if (run === 1) throw new Error("after the commit");
    });
    await bench.pass(60_000);
    expect(sent(mails)).toEqual([
      ["account:jobs/k/0", "of run 1"],
      ["account:jobs/k/0", "of run 1"],
    ]);
  });

  it("are sent by the next delivery even if its handler returns without a commit", async () => {
    const [mails, option] = [new FakeQueue("mails"), new FakeQueue("mails")];
    mails.faults.always("send", "denied");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    const first = await bench.consumeAndCommit((_, { commit }) => commit([], { send: [{ queue: mails, payload: 1 }] }));
    await bench.pass(100);
    await Promise.all([first.stop(), bench.pass(30_000)]);
    await bench.consumeAndCommit(() => undefined, { outgoingQueues: [option] });
    await bench.pass(120_000);
    expect([keysOf(option), bench.queue.messages]).toEqual([["account:jobs/k/0"], []]);
  });

  it("are sent by another message with the key, such as a redriven one, even if its handler returns without a commit", async () => {
    const mails = new FakeQueue("mails");
    mails.faults.always("send", "denied");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    const first = await bench.consumeAndCommit(async (_, { commit, poison }) => {
      await commit([["upsert", { rowKey: "r" }]], { send: [{ queue: mails, payload: 1 }] });
      poison("later");
    });
    await bench.pass(100);
    await Promise.all([first.stop(), bench.pass(30_000)]);
    expect([bench.names.at(-2), bench.effects.length, mails.messages]).toEqual(["poisoned", 1, []]);
    mails.faults.always("send", "ok");
    await Promise.all([redrive(bench.poisonQueue, bench.queue), bench.pass(10)]);
    bench.table.faults.log.length = 0;
    await bench.consumeAndCommit(() => undefined, { outgoingQueues: [mails] });
    await bench.pass(1_000);
    expect([keysOf(mails), bench.queue.messages]).toEqual([["account:jobs/k/0"], []]);
  });

  it("cost one read of the record, if a handler returns without a commit", async () => {
    await enqueue(bench.queue, "p");
    await bench.consumeAndCommit(() => undefined);
    bench.table.faults.log.length = 0;
    await bench.pass(1_000);
    expect([bench.table.faults.log, bench.names]).toEqual([["get"], ["completed"]]);
  });

  it("are sent even if the handler ignores that the outcome of its commit is unknown", async () => {
    const mails = new FakeQueue("mails");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    const errors: unknown[] = [];
    await bench.consumeAndCommit((_, { commit }) => commit([], { send: [{ queue: mails, payload: 1 }] }).catch((error: unknown) => errors.push(error)));
    bench.table.faults.next("transaction", "lost");
    bench.table.faults.next("get", "denied", "denied", "denied");
    await bench.pass(60_000);
    expect(errors).toEqual([expect.objectContaining({ code: "COMMIT_UNKNOWN" })]);
    expect([keysOf(mails), bench.queue.messages]).toEqual([["account:jobs/k/0"], []]);
  });

  it("keep the incoming message if the queue is missing or refuses, whatever the handler returns; it is not charged, and they are sent later", async () => {
    const mails = new FakeQueue("mails");
    mails.exists = false;
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    const results: unknown[] = [];
    const consumer = await bench.consumeAndCommit(
      async (_, { commit }) => void results.push(await commit([["upsert", { rowKey: "r" }]], { send: [{ queue: mails, payload: 1 }] })),
      { maxAttempts: 1 },
    );
    await bench.pass(30_000);
    expect(results[0]).toBe("committed");
    expect(bench.names).not.toContain("poisoned");
    expect(bench.names).not.toContain("completed");
    expect(consumer.health().isPaused).toBe(true);
    mails.exists = true;
    await bench.pass(400_000);
    expect([keysOf(mails), bench.queue.messages, bench.names.at(-1)]).toEqual([["account:jobs/k/0"], [], "duplicate"]);
  });

  it("are not charged to the incoming message if their queue rejects them for another reason", async () => {
    const mails = new FakeQueue("mails");
    const send = vi.spyOn(mails, "sendMessage").mockRejectedValue(storageError(400, "OutOfRangeQueryParameterValue"));
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    await bench.consumeAndCommit((_, { commit }) => commit([["upsert", { rowKey: "r" }]], { send: [{ queue: mails, payload: 1 }] }), { maxAttempts: 1 });
    await bench.pass(120_000);
    expect(bench.names).not.toContain("poisoned");
    expect(bench.effects).toHaveLength(1);
    send.mockRestore();
    await bench.pass(400_000);
    expect([keysOf(mails), bench.queue.messages]).toEqual([["account:jobs/k/0"], []]);
  });

  it.each(["lost", "busy"] as const)("are sent again at once if a response is %s: a repeat has the same key", async (fault) => {
    const mails = new FakeQueue("mails");
    mails.faults.next("send", fault);
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    await bench.consumeAndCommit((_, { commit }) => commit([], { send: [{ queue: mails, payload: 1 }] }));
    await bench.pass(1_000);
    expect(new Set(keysOf(mails))).toEqual(new Set(["account:jobs/k/0"]));
    expect(bench.names).toEqual(["completed"]);
  });

  it("have different keys for each incoming queue, key and position, however long the keys are", async () => {
    const mails = new FakeQueue("mails");
    const other = new FakeQueue("other");
    for (const key of ["k", "k/0", "x".repeat(1_024), `${"x".repeat(1_023)}y`]) await enqueue(bench.queue, "p", { idempotencyKey: key });
    await enqueue(other, "p", { idempotencyKey: "k" });
    const handler = (_: unknown, { commit }: CommitMessageContext): unknown =>
      commit([], { send: [0, 1].map((n) => ({ queue: mails, payload: n })) });
    await bench.consumeAndCommit(handler);
    const consumer = new QueueConsumer<unknown>(other, handler, { inbox: new CommitInbox(bench.table), partitionOf: () => "p" });
    await consumer.start();
    // Long keys are hashed by another thread, which the fake clock does not wait for.
    await vi.waitFor(() => expect(mails.messages).toHaveLength(10), { timeout: 30_000 });
    await Promise.all([consumer.stop(), bench.pass(1_000)]);
    expect(new Set(keysOf(mails)).size).toBe(10);
  });

  it.each<[string, CommitOptions]>([
    ["a queue that is none", { send: [{ queue: {} as never, payload: 1 }] }],
    ["a payload that cannot be written", { send: [{ queue: new FakeQueue(), payload: undefined }] }],
    ["a promise as payload", { send: [{ queue: new FakeQueue(), payload: Promise.resolve() }] }],
    ["a payload that is too large", { send: [{ queue: new FakeQueue(), payload: "x".repeat(70_000) }] }],
    ["a misspelt option", { send: [{ queue: new FakeQueue(), payload: 1, delay: 1 } as OutgoingMessage] }],
    ["no array", { send: new FakeQueue() as never }],
    ["no object", { send: [undefined as never] }],
    ["more than the record can store", { send: Array.from({ length: 10 }, () => ({ queue: new FakeQueue(), payload: "x".repeat(60_000) })) }],
  ])("with %s are rejected before anything is written", async (_, options) => {
    await enqueue(bench.queue, "p");
    const errors: unknown[] = [];
    await bench.consumeAndCommit((_payload, { commit }) => commit([["create", { rowKey: "r" }]], options).catch((error: unknown) => errors.push(error)));
    await bench.pass(10);
    expect(errors).toEqual([expect.toSatisfy((error) => error instanceof TypeError || error instanceof RangeError)]);
    expect(bench.effects).toEqual([]);
  });

  it("need a CommitInbox: the option outgoingQueues is rejected without one", () => {
    expect(() => new QueueConsumer(bench.queue, () => undefined, { outgoingQueues: [bench.queue] } as never)).toThrow(TypeError);
    expect(() => new QueueConsumer(bench.queue, () => undefined, { inbox: new CommitInbox(bench.table), partitionOf: () => "p", outgoingQueues: [1 as never] })).toThrow(TypeError);
  });

  it("that another program has damaged are a failure of the message, and are not dropped", async () => {
    const mails = new FakeQueue("mails");
    mails.faults.always("send", "denied");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    await bench.consumeAndCommit((_, { commit }) => commit([], { send: [{ queue: mails, payload: 1 }] }), { maxAttempts: 2 });
    await bench.pass(100);
    for (const row of bench.table.rows.values()) if ("outgoing0" in row) Object.assign(row, { outgoing0: "[{]" });
    await bench.pass(600_000);
    expect([bench.names.at(-1), bench.poisons.length]).toEqual(["poisoned", 1]);
  });
});

describe("messages that are sent with a transaction", () => {
  const add = (mails: FakeQueue, { transaction }: CommitMessageContext): Promise<unknown> =>
    transaction(async (tx) => {
      const a = await tx.get<{ n: number }>("a");
      if (a && a.n > 0) throw new Error("no more than one");
      tx.upsert({ rowKey: "a", n: 1 });
      tx.send({ queue: mails, payload: tx.attempt });
    });

  it("are those of the run that was committed", async () => {
    const { table, other } = fakePartition({ a: 0 });
    const mails = new FakeQueue("mails");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    await bench.consumeAndCommit(
      (_, { transaction }) =>
        transaction(async (tx) => {
          const a = await tx.get<{ n: number }>("a");
          if (tx.attempt === 1) other.put({ n: { type: "Int32", value: 7 } }, "p", "a");
          tx.upsert({ rowKey: "a", n: a!.n + 1 });
          tx.send({ queue: mails, payload: { was: a!.n, attempt: tx.attempt } });
        }),
      { inbox: new CommitInbox(table) },
    );
    await bench.pass(5_000);
    expect(sent(mails)).toEqual([["account:jobs/k/0", { was: 7, attempt: 2 }]]);
    expect(bench.names).toEqual(["completed"]);
  });

  it.each([
    ["that the function names when it is run again", false],
    ["of the option outgoingQueues, if the function throws before it names one", true],
  ])("are sent by another process with the client %s", async (_, throws) => {
    const { table } = fakePartition({ a: 0 });
    const mails = new FakeQueue("mails");
    mails.faults.always("send", "denied");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    const first = await bench.consumeAndCommit((_payload, context) => add(mails, context), { inbox: new CommitInbox(table) });
    await bench.pass(100);
    await Promise.all([first.stop(), bench.pass(30_000)]);
    const ofOtherProcess = new FakeQueue("mails");
    const again = (context: CommitMessageContext): Promise<unknown> =>
      throws ? add(ofOtherProcess, context) : context.transaction((tx) => tx.send({ queue: ofOtherProcess, payload: "not this one" }));
    await bench.consumeAndCommit((_payload, context) => again(context), { inbox: new CommitInbox(table), ...(throws && { outgoingQueues: [ofOtherProcess] }) });
    await bench.pass(120_000);
    expect([sent(ofOtherProcess), bench.queue.messages]).toEqual([[["account:jobs/k/0", 1]], []]);
    expect(table.property("n", "p", "a")?.value).toBe(1);
  });

  it("keep the incoming message as long as no process has a client for the queue, and say what to do", async () => {
    const { table } = fakePartition({ a: 0 });
    const mails = new FakeQueue("mails");
    mails.faults.always("send", "denied");
    await enqueue(bench.queue, "p", { idempotencyKey: "k" });
    const first = await bench.consumeAndCommit((_payload, context) => add(mails, context), { inbox: new CommitInbox(table) });
    await bench.pass(100);
    await Promise.all([first.stop(), bench.pass(30_000)]);
    await bench.consumeAndCommit((_payload, context) => add(new FakeQueue("mails"), context), { inbox: new CommitInbox(table) });
    await bench.pass(60_000);
    expect(bench.queue.messages).toHaveLength(1);
    expect(bench.details("retried").at(-1)?.error).toMatchObject({ message: expect.stringContaining("outgoingQueues") as string });
  });

  it("cannot be added after the function has returned", async () => {
    const { table } = fakePartition();
    const mails = new FakeQueue("mails");
    await enqueue(bench.queue, "p");
    const errors: unknown[] = [];
    await bench.consumeAndCommit(
      async (_, { transaction }) => {
        let late: (() => void) | undefined;
        await transaction((tx) => void (late = () => tx.send({ queue: mails, payload: 1 })));
        try {
          late?.();
        } catch (error) {
          errors.push(error);
        }
      },
      { inbox: new CommitInbox(table) },
    );
    await bench.pass(1_000);
    expect([errors, mails.messages]).toEqual([[expect.any(TypeError)], []]);
  });
});

it("the stored form of outgoing messages survives any text, in properties of limited length", () => {
  const text = "😀".repeat(40_000);
  const messages: StoredMessage[] = [0, 1, 2].map((n) => ({ queue: "a:b", key: `${n}`, text: `${"x".repeat(n)}${text}`, timing: { visibilityTimeout: n } }));
  const properties = outgoingProperties(messages);
  expect(Math.max(...Object.values(properties).map((value) => value.length))).toBeLessThanOrEqual(32_000);
  for (const value of Object.values(properties)) expect(/\p{Cs}/u.test(value)).toBe(false);
  expect(outgoingIn(properties)).toEqual(messages);
  expect(outgoingIn({})).toEqual([]);
  expect(outgoingIn({ outgoing0: "x" })).toBeUndefined();
  expect(outgoingIn({ outgoing0: "[1]" })).toBeUndefined();
});
