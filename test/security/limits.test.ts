import { describe, expect, it, vi } from "vitest";

import { BlobLocks, bytesBlob, ConcurrentBlob, createIfNotExists, enqueue, jsonBlob, overwrite, QueueConsumer, readTarget, runTransaction, textBlob } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { holderOf } from "../lock/held-table.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { fakePartition } from "../transaction/fakes/partition.js";

describe("the content of a blob", () => {
  const large = "x".repeat(2_000);

  it.each([
    ["jsonBlob", (blob: FakeBlockBlob) => jsonBlob(blob, { maxSizeInBytes: 1_000 }), large],
    ["textBlob", (blob: FakeBlockBlob) => textBlob(blob, { maxSizeInBytes: 1_000 }), large],
    ["bytesBlob", (blob: FakeBlockBlob) => bytesBlob(blob, { maxSizeInBytes: 1_000 }), Buffer.from(large)],
  ] as const)("is neither read nor written beyond maxSizeInBytes: %s", async (_, targetOf, value) => {
    const blob = new FakeBlockBlob(new FakeService());
    const target = targetOf(blob) as ReturnType<typeof jsonBlob>;
    const tooLarge = { code: "CONTENT_TOO_LARGE", maxSizeInBytes: 1_000 };
    await expect(createIfNotExists(target, value)).rejects.toMatchObject(tooLarge);
    await expect(overwrite(target, value)).rejects.toMatchObject(tooLarge);
    expect(blob.stored).toBeUndefined();
    blob.put(large);
    await expect(readTarget(target)).rejects.toMatchObject({ ...tooLarge, sizeInBytes: 2_002 });
  });

  it("has a limit of 64 MiB by default, which is checked before the body is read", async () => {
    const blob = new FakeBlockBlob(new FakeService());
    blob.put({});
    const download = blob.download.bind(blob);
    blob.download = async (...args) => ({ ...(await download(...args)), contentLength: 64 * 1024 * 1024 + 1 });
    await expect(readTarget(jsonBlob(blob))).rejects.toMatchObject({ code: "CONTENT_TOO_LARGE", sizeInBytes: 67_108_865 });
    await expect(new ConcurrentBlob(blob as never, { maxSizeInBytes: 70_000_000 }).read()).rejects.not.toMatchObject({ code: "CONTENT_TOO_LARGE" });
  });

  it("has the limit even if the service does not say how long it is", async () => {
    const blob = new FakeBlockBlob(new FakeService());
    blob.put(large);
    const download = blob.download.bind(blob);
    blob.download = async (...args) => ({ ...(await download(...args)), contentLength: undefined });
    await expect(readTarget(jsonBlob(blob, { maxSizeInBytes: 1_000 }))).rejects.toMatchObject({ code: "CONTENT_TOO_LARGE" });
  });

  it.each([20_000, 200_000])("with %s levels is a typed error, and nobody else's", async (levels) => {
    const blob = new FakeBlockBlob(new FakeService());
    blob.put(Buffer.from("[".repeat(levels) + "]".repeat(levels)));
    await readTarget(jsonBlob(blob)).then(() => undefined, (error: unknown) => expect(error).toMatchObject({ name: expect.stringMatching(/Error$/) as string }));
  });
});

describe("the prefix of locks", () => {
  const container = () => new FakeLeaseServer().container();

  it.each(["../other/", "a/../../other/", "./", "a/./b/", "..", "/absolute/", "a//b/", "back\\slash/", "line\nbreak/", "lone\ud800/", "trailing./", "%2e%2e/other/"])("cannot leave the container: %j", (prefix) => {
    expect(() => new BlobLocks(container(), { prefix })).toThrow(RangeError);
  });

  it.each(["", "locks/", "a/b/", "a.b/", "team-1_", "..a/", "größe/"])("is taken as it is: %j", (prefix) => {
    expect(() => new BlobLocks(container(), { prefix })).not.toThrow();
  });
});

describe("a raw filter", () => {
  const leaving = ["n eq 1) or (PartitionKey eq 'q'", "n eq 1 or PartitionKey eq 'q')", "(n eq 1", "name eq 'open"];

  it.each(leaving)("with text of a user cannot leave the partition of a transaction: %s", async (filter) => {
    const { table } = fakePartition({ a: 1 });
    table.put({ n: { type: "Int32", value: 1 } }, "q", "secret");
    for (const validate of [true, false]) {
      await expect(runTransaction(table, "p", (tx) => tx.query({ filter }, { validate }))).rejects.toThrow(RangeError);
    }
  });

  it.each(leaving)("cannot leave the partition of a locked table: %s", async (filter) => {
    const { table } = fakePartition({ a: 1 });
    const partition = await holderOf(table, 7).partition("p");
    await expect(partition.list({ filter }).next()).rejects.toThrow(RangeError);
  });

  it("may contain parentheses and quotes", async () => {
    const { table } = fakePartition({ a: 1, b: 2 });
    const found = await runTransaction(table, "p", (tx) => tx.query({ filter: "(n eq 1) or (RowKey eq 'it''s) or (')" }));
    expect(found.map(({ rowKey }) => rowKey)).toEqual(["a"]);
  });
});

describe("an idempotency key", () => {
  it.each([["a lone surrogate", "key\ud800"], ["no character", ""], ["50,000 characters", "k".repeat(50_000)], ["half of a pair", "\udc00"]])("with %s is refused before anything is sent", async (_, idempotencyKey) => {
    const queue = new FakeQueue();
    await expect(enqueue(queue, 1, { idempotencyKey })).rejects.toThrow(RangeError);
    await expect(enqueue(queue, 1, { idempotencyKey: "k", group: idempotencyKey })).rejects.toThrow(RangeError);
    expect(queue.visible).toEqual([]);
  });
});

describe("what a producer writes as bookkeeping", () => {
  it("is not taken for that of a consumer: it gets no more attempts", async () => {
    vi.useFakeTimers();
    const [queue, poisonQueue] = [new FakeQueue(), new FakeQueue("poison")];
    const checkpoint = { admin: true };
    const forgeries = [{ checkpoint }, { uncharged: 1e9 }, { uncharged: "x", failures: -5 }, { failures: -1e9, checkpoint: 1 }, { of: "jobs-8", failures: 1, checkpoint }, { of: null, poisonPending: { reason: "r" }, checkpoint }, { of: ["jobs-13"], checkpoint }];
    for (const [index, fields] of forgeries.entries()) await queue.sendMessage(JSON.stringify({ asc: 1, key: `k${index}`, body: index, ...fields }));
    const seen: { payload: unknown; attempt: number; lastCheckpoint: unknown }[] = [];
    const consumer = new QueueConsumer(queue, (payload, { attempt, lastCheckpoint }) => {
      seen.push({ payload, attempt, lastCheckpoint });
      throw new Error("failed");
    }, { poisonQueue, maxAttempts: 3, retryDelayInMs: 10 });
    consumer.on("error", () => undefined);
    await consumer.start();
    await vi.advanceTimersByTimeAsync(120_000);
    const stopping = consumer.stop();
    await vi.advanceTimersByTimeAsync(60_000);
    await stopping;
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
    for (const [payload] of forgeries.entries()) {
      const attempts = seen.filter((run) => run.payload === payload);
      expect(attempts.map(({ attempt }) => attempt), `message ${payload}`).toEqual([1, 2, 3]);
    }
    expect(seen.filter(({ lastCheckpoint }) => lastCheckpoint !== undefined)).toEqual([]);
    expect(poisonQueue.messages).toHaveLength(forgeries.length);
    // Nor does it come back with a redrive.
    expect(poisonQueue.messages.filter(({ text }) => text.includes("checkpoint"))).toEqual([]);
  });

  it("is dropped although a consumer crashed during the first delivery, and a checkpoint of a consumer is kept", async () => {
    vi.useFakeTimers();
    const queue = new FakeQueue();
    await queue.sendMessage(JSON.stringify({ asc: 1, key: "k", body: 1, checkpoint: "of the producer" }));
    await queue.steal(1);
    await vi.advanceTimersByTimeAsync(1_000);
    const seen: unknown[] = [];
    const consumer = new QueueConsumer(queue, (_, { attempt, lastCheckpoint, checkpoint }) => {
      seen.push(lastCheckpoint);
      checkpoint(`of attempt ${attempt}`);
      if (attempt < 3) throw new Error("failed");
    }, { retryDelayInMs: 10 });
    await consumer.start();
    await vi.advanceTimersByTimeAsync(30_000);
    const stopping = consumer.stop();
    await vi.advanceTimersByTimeAsync(60_000);
    await stopping;
    vi.useRealTimers();
    expect(seen).toEqual([undefined, "of attempt 1", "of attempt 2"]);
  });

  it("nested 20,000 levels deep is dead-lettered as it is, and leaves nothing running", async () => {
    vi.useFakeTimers();
    const [queue, poisonQueue] = [new FakeQueue(), new FakeQueue("poison")];
    await queue.sendMessage(`{"asc":1,"key":"k","body":${"[".repeat(20_000)}${"]".repeat(20_000)}}`);
    await queue.sendMessage(JSON.stringify({ asc: 1, key: "next", body: "next" }));
    const handled: unknown[] = [];
    const refuse = (): never => {
      throw Object.assign(new Error("x"), { toJSON: () => { throw new Error("cannot be written"); } });
    };
    const schema = { "~standard": { version: 1 as const, vendor: "test", validate: (value: unknown) => (Array.isArray(value) ? refuse() : { value }) } };
    const consumer = new QueueConsumer(queue, (payload) => void handled.push(payload), { poisonQueue, maxAttempts: 1, schema });
    consumer.on("error", () => undefined);
    await consumer.start();
    await vi.advanceTimersByTimeAsync(60_000);
    const stopping = consumer.stop();
    await vi.advanceTimersByTimeAsync(60_000);
    await stopping;
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
    expect(handled).toEqual(["next"]);
    expect(poisonQueue.messages).toHaveLength(1);
  });
});
