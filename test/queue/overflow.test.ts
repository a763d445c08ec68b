import fc from "fast-check";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { ClaimInbox, ConcurrentQueue, enqueue, enqueueMany, purgeOverflow, redrive } from "../../src/index.js";
import type { ContainerLike, QueueConsumerOptions } from "../../src/index.js";
import { fingerprint, openEnvelope, sealEnvelope } from "../../src/queue/envelope.js";
import { MemoryInbox } from "../../src/testing.js";
import { Bench } from "./fakes/consume.js";
import { FakeContainer, hashAtOnce } from "./fakes/fake-container.js";
import { FakeQueue } from "./fakes/fake-queue.js";

const large = "x".repeat(70_000);
const day = 86_400_000;

interface Reference {
  key: string;
  blob: string;
  sha256: string;
  sizeInBytes: number;
  fingerprint: string;
}

const bench = new Bench();
let container: FakeContainer;
beforeEach(() => {
  hashAtOnce();
  container = new FakeContainer();
});

function send(payload: unknown = large, idempotencyKey = "order-1"): Promise<unknown> {
  return enqueue(bench.queue, payload, { idempotencyKey, overflow: container.client });
}

/** The payloads that the handler got. */
async function consume(options: QueueConsumerOptions<unknown> = {}, handler: (payload: unknown) => unknown = () => undefined): Promise<unknown[]> {
  const handled: unknown[] = [];
  await bench.consume((payload) => {
    handled.push(payload);
    return handler(payload);
  }, { overflow: container.client, ...options });
  await bench.pass(1_000);
  return handled;
}

function referenceOf(envelope: Record<string, unknown> | undefined): Reference {
  return (envelope as { body: { ascOverflow: Reference } }).body.ascOverflow;
}

/** Replaces the reference of the only message. */
function forge(change: Partial<Record<keyof Reference, unknown>>): void {
  const [message] = bench.queue.messages;
  const envelope = JSON.parse(message!.text) as Record<string, unknown>;
  message!.text = JSON.stringify({ ...envelope, body: { ascOverflow: { ...referenceOf(envelope), ...change } } });
}

describe("a payload that does not fit into a message", () => {
  it("goes to a blob before the message is sent, and is read, handled and deleted: 1 more request to send, 2 to consume", async () => {
    await send({ text: large });
    expect(container.faults.log).toEqual(["upload"]);
    expect(bench.queue.faults.log).toEqual(["send"]);
    expect(bench.queue.messages[0]!.text.length).toBeLessThan(600);
    expect(container.names).toEqual([expect.stringMatching(/^asc-overflow\/account\/jobs\/[0-9a-f]{32}-[0-9a-f]{64}$/)]);

    const handled = await consume();
    expect(handled).toEqual([{ text: large }]);
    expect(bench.names).toEqual(["completed"]);
    expect(bench.details("completed")[0]!.idempotencyKey).toBe("order-1");
    expect(container.faults.log.filter((kind) => kind !== "container")).toEqual(["upload", "download", "delete"]);
    expect(container.names).toEqual([]);
    expect(bench.queue.messages).toEqual([]);
  });

  it("is not used for a message that fits, and costs nothing then", async () => {
    await send("small");
    expect(await consume()).toEqual(["small"]);
    expect(container.faults.log).toEqual(["container"]);
  });

  it("leaves room for the counts and a checkpoint of the consumer", async () => {
    const overhead = sealEnvelope({ asc: 1, key: "order-1", body: "" }, "text").length;
    await send("x".repeat(65_536 - 1_024 - overhead));
    expect(container.names).toEqual([]);
    await send("x".repeat(65_536 - 1_024 - overhead + 1));
    expect(container.names).toHaveLength(1);
  });

  it("arrives as it was sent, whatever its size, encoding and characters", async () => {
    const chars = fc.constantFrom("x", "é", "€", "😀", "\uFFFE", "\uD800", '"', "\u0000", "\uFEFF");
    const sizes = fc.oneof(fc.integer({ min: 62_000, max: 66_500 }), fc.integer({ min: 20_000, max: 90_000 }));
    const property = fc.asyncProperty(chars, sizes, fc.constantFrom("text" as const, "base64" as const), async (char, size, encoding) => {
      const [queue, blobs] = [new FakeQueue(), new FakeContainer()];
      const payload = { text: char.repeat(size / char.length) };
      await enqueue(queue, payload, { encoding, overflow: blobs.client, idempotencyKey: char === "\uD800" ? "lone" : char });
      const facade = new ConcurrentQueue<unknown>(queue, { encoding, overflow: blobs.client });
      const handled: unknown[] = [];
      const consumer = facade.consume((found) => void handled.push(found));
      await consumer.start();
      await bench.pass(1_000);
      await Promise.all([consumer.stop(), bench.pass(30_000)]);
      expect(handled).toEqual([payload]);
      expect(blobs.names).toEqual([]);
    });
    await fc.assert(property, { numRuns: 60 });
  });

  it("can be sent by enqueueMany and by a facade whose consumers have the container", async () => {
    await enqueueMany(bench.queue, [large, "small"], undefined, { overflow: container.client });
    await enqueueMany(bench.queue, [large], (payload) => ({ payload, overflow: container.client }));
    const facade = new ConcurrentQueue(bench.queue, { overflow: container.client });
    await facade.enqueue(large);
    await facade.enqueueMany([large]);
    expect(container.names).toHaveLength(4);
    expect((await consume()).map((payload) => (payload as string).length).sort()).toEqual([5, 70_000, 70_000, 70_000, 70_000]);
  });

  it("is limited to 64 MiB, and needs a container: both are errors before any request", async () => {
    await expect(enqueue(bench.queue, large)).rejects.toThrow(/option overflow/);
    await expect(send("x".repeat(64 * 1024 * 1024))).rejects.toThrow(/limit with overflow is 67108864/);
    await expect(enqueue(bench.queue, 1, { overflow: {} as ContainerLike })).rejects.toThrow(TypeError);
    await expect(enqueueMany(bench.queue, [1], undefined, { overflow: {} as ContainerLike })).rejects.toThrow(TypeError);
    expect(() => bench.consume(() => undefined, { overflow: {} as ContainerLike })).toThrow(TypeError);
    await expect(enqueue(bench.queue, { ascOverflow: 1 })).rejects.toThrow(TypeError);
    await expect(enqueue(bench.queue, { toJSON: () => ({ ascOverflow: 1 }) })).rejects.toThrow(TypeError);
    expect([...bench.queue.faults.log, ...container.faults.log]).toEqual([]);
  });

  it("is not sent if the upload fails, and the error says why", async () => {
    container.exists = false;
    await expect(send()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    container.exists = true;
    container.faults.next("upload", "denied", "hang", "hang");
    await expect(send()).rejects.toMatchObject({ statusCode: 403 });
    const timedOut = expect(send()).rejects.toMatchObject({ code: "OPERATION_TIMEOUT" });
    await bench.pass(30_000);
    await timedOut;
    const controller = new AbortController();
    const aborted = expect(enqueue(bench.queue, large, { overflow: container.client, abortSignal: controller.signal })).rejects.toThrow("enough");
    await bench.pass(0);
    controller.abort(new Error("enough"));
    await aborted;
    expect(bench.queue.faults.log).toEqual([]);
  });

  it("is the same blob whenever the call is repeated, also after a lost response", async () => {
    container.faults.next("upload", "lost");
    await expect(send()).rejects.toThrow("socket hang up");
    await send();
    container.faults.next("upload", "resent");
    await send();
    expect(container.names).toHaveLength(1);
    await send(`${large}y`);
    await send(large, "order-2");
    expect(container.names).toHaveLength(3);
  });

  it("keeps checkpoint and counts of failures in the message", async () => {
    await send();
    const seen: unknown[] = [];
    await bench.consume((payload, { attempt, lastCheckpoint, checkpoint }) => {
      seen.push([(payload as string).length, attempt, lastCheckpoint]);
      checkpoint({ step: attempt });
      if (attempt < 3) throw new Error("not yet");
    }, { overflow: container.client, retryDelayInMs: 0 });
    await bench.pass(30_000);
    expect(seen).toEqual([[70_000, 1, undefined], [70_000, 2, { step: 1 }], [70_000, 3, { step: 2 }]]);
    expect(container.names).toEqual([]);
  });
});

describe("messages of a group with payloads in blobs", () => {
  it("wait for their turn like others, and are not given back because they are more than the handlers", async () => {
    const count = 24;
    const inOrder = Array.from({ length: count }, (_, i) => i + 1);
    for (const sequence of inOrder) await enqueue(bench.queue, { sequence, large }, { idempotencyKey: `part-${sequence}`, group: "report", sequence, overflow: container.client });
    const handled = await consume({ concurrency: 4, order: "sequence", inbox: new ClaimInbox(bench.table) }, () => new Promise((resolve) => setTimeout(resolve, 10)));
    await bench.pass(2_000);
    expect(handled.map((payload) => (payload as { sequence: number }).sequence)).toEqual(inOrder);
    expect(bench.queue.faults.count("update")).toBe(0);
    expect(container.faults.count("download")).toBe(count);
  });
});

describe("the blob of a message", () => {
  it("stays if the message is moved to the poison queue, and a redrive works again", async () => {
    await send();
    let broken = true;
    const handled = await consume({ maxAttempts: 1 }, () => {
      if (broken) throw new Error("broken");
    });
    expect(bench.names).toEqual(["poisoned"]);
    expect(container.names).toEqual([referenceOf(bench.poisons[0]).blob]);
    broken = false;
    expect(await redrive(bench.poisonQueue, bench.queue)).toEqual({ moved: 1, skipped: 0 });
    await bench.pass(20_000);
    expect(bench.names).toEqual(["poisoned", "completed"]);
    expect(bench.details("completed")[0]!.idempotencyKey).toBe("order-1");
    expect(handled).toEqual([large, large]);
    expect(container.names).toEqual([]);
  });

  it("stays until the message is deleted: a delete without a response leaves it for the redelivery", async () => {
    await send();
    bench.queue.faults.always("delete", "hang");
    await consume({ inbox: new MemoryInbox(), visibilityTimeoutInSeconds: 10 });
    await bench.pass(12_000);
    expect(container.names).toHaveLength(1);
    bench.queue.faults.always("delete", "ok");
    await bench.pass(60_000);
    expect(bench.names.filter((name) => name === "duplicate")).toHaveLength(1);
    expect(container.names).toEqual([]);
  });

  it("is deleted with a message that another one has completed before", async () => {
    const inbox = new MemoryInbox();
    await send();
    const handled = await consume({ inbox });
    await send();
    await bench.pass(20_000);
    expect(handled).toHaveLength(1);
    expect(bench.names).toEqual(["completed", "duplicate"]);
    expect(container.names).toEqual([]);
  });

  it("is not deleted if a producer has sent the same again since it was read", async () => {
    await send();
    let repeated = false;
    const handled = await consume({}, async () => {
      if (!repeated) await send();
      repeated = true;
    });
    await bench.pass(20_000);
    // Without an inbox, each of the two messages is handled. The delete of the first one would have taken the payload of the second.
    expect(handled).toEqual([large, large]);
    expect(bench.names).toEqual(["completed", "completed"]);
    expect(container.names).toEqual([]);
  });

  it("is not deleted without its ETag, and a failed delete is reported but harms nothing", async () => {
    container.withETag = false;
    await send();
    await consume();
    expect(container.names).toHaveLength(1);
    expect(bench.names).toEqual(["completed"]);
    container.withETag = true;
    container.faults.next("delete", "denied", "lost", "resent", "hang");
    for (const key of ["a", "b", "c", "d"]) {
      await send(large, key);
      await bench.pass(20_000);
    }
    // Denied, unknown (it was deleted), sent twice (404), and no response.
    expect(bench.names).toEqual(["completed", "completed", "error", "completed", "error", "completed", "completed", "error"]);
    expect(container.names).toHaveLength(3);
    expect(bench.queue.messages).toEqual([]);
  });
});

describe("a payload whose blob is missing", () => {
  /** The SDK has sent the message twice; both refer to one blob. */
  async function sendTwice(): Promise<void> {
    bench.queue.faults.next("send", "resent");
    await send();
    expect(bench.queue.messages).toHaveLength(2);
  }

  it.each([
    ["MemoryInbox", () => new MemoryInbox()],
    ["ClaimInbox", () => new ClaimInbox(bench.table)],
  ])("is a duplicate if the inbox says so: %s", async (_name, inbox) => {
    await sendTwice();
    const handled = await consume({ inbox: inbox(), concurrency: 1 });
    await bench.pass(20_000);
    expect(handled).toEqual([large]);
    expect(bench.names).toEqual(["completed", "duplicate"]);
    expect(bench.queue.messages).toEqual([]);
    expect(bench.poisonQueue.messages).toEqual([]);
  });

  it("is poison without an inbox, and not lost in silence", async () => {
    await sendTwice();
    const handled = await consume({ concurrency: 1 });
    await bench.pass(20_000);
    expect(handled).toEqual([large]);
    expect(bench.names).toEqual(["completed", "poisoned"]);
    expect(bench.details("poisoned")[0]!.reason).toMatch(/payload is missing/);
    expect(referenceOf(bench.poisons[0]).key).toBe("order-1");
  });

  it("is poison with a CommitInbox, whose partition depends on the payload", async () => {
    await send();
    container.blobs.clear();
    const partitionOf = vi.fn(() => "p");
    await bench.consumeAndCommit(() => undefined, { overflow: container.client, partitionOf });
    await bench.pass(20_000);
    expect(bench.names).toEqual(["poisoned"]);
    expect(partitionOf).not.toHaveBeenCalled();
  });

  it("is poison with an inbox that has no record of it, and the claim is released for the redrive", async () => {
    await send();
    const [name] = container.names;
    const { content } = container.blobs.get(name!)!;
    container.blobs.clear();
    const handled = await consume({ inbox: new ClaimInbox(bench.table) });
    expect(bench.names).toEqual(["poisoned"]);
    container.put(name!, new TextDecoder().decode(content));
    await redrive(bench.poisonQueue, bench.queue);
    await bench.pass(20_000);
    expect(bench.names).toEqual(["poisoned", "completed"]);
    expect(handled).toEqual([large]);
  });

  it("is not missing because the secondary says so, which may lag behind", async () => {
    await send();
    const open = container.getBlockBlobClient.bind(container);
    const lagging = Object.assign(new Error("BlobNotFound"), { statusCode: 404, code: "BlobNotFound", request: { url: container.url.replace("account", "account-secondary") } });
    const download = vi.fn<() => Promise<unknown>>().mockRejectedValueOnce(lagging).mockRejectedValueOnce(lagging);
    vi.spyOn(container, "getBlockBlobClient").mockImplementation((name) => {
      const client = open(name) as { download: (...args: unknown[]) => unknown };
      return { ...client, download: async (...args: unknown[]) => (await download()) ?? client.download(...args) };
    });
    expect(await consume()).toEqual([large]);
    expect(download).toHaveBeenCalledTimes(3);
  });

  it("is reported if the inbox has the key with another payload", async () => {
    const inbox = new MemoryInbox();
    await enqueue(bench.queue, "another", { idempotencyKey: "order-1" });
    await consume({ inbox });
    await send();
    container.blobs.clear();
    await bench.pass(20_000);
    expect(bench.details("poisoned")[0]!.reason).toMatch(/for another payload/);
  });
});

describe("a reference that is not trusted", () => {
  const victim = "asc-overflow/account/other/secret";

  it.each<[string, Partial<Record<keyof Reference, unknown>>, RegExp]>([
    ["a blob of another queue", { blob: victim }, /another queue or message/],
    ["a blob outside of the prefix", { blob: "invoices/2026.json" }, /another queue or message/],
    ["a path that leaves the prefix", { blob: "asc-overflow/account/jobs/../../../invoices" }, /another queue or message/],
    ["another key", { key: "order-2" }, /another queue or message/],
    ["another hash", { sha256: "0".repeat(64) }, /another queue or message/],
    ["a hash that is none", { sha256: "../x" }, /damaged/],
    ["a size that is too small", { sizeInBytes: 10 }, /size or hash/],
    ["a size that is too large", { sizeInBytes: 2 ** 40 }, /damaged/],
    ["a size that is none", { sizeInBytes: NaN }, /damaged/],
    ["no fingerprint", { fingerprint: undefined }, /damaged/],
    ["a key that is none", { key: 5 }, /cannot be decoded/],
  ])("goes to the poison queue: %s", async (_name, change, reason) => {
    await send();
    for (const name of [victim, "invoices/2026.json"]) container.put(name, JSON.stringify("secret"));
    const before = container.names;
    forge(change);
    expect(await consume()).toEqual([]);
    expect(bench.names).toEqual(["poisoned"]);
    expect(bench.details("poisoned")[0]!.reason).toMatch(reason);
    expect(bench.poisons[0]).toMatchObject({ key: "", body: { ascOverflow: {} } });
    expect(container.names).toEqual(before);
    expect(container.counts.every((count) => count! <= 70_003)).toBe(true);
  });

  it("is poison if the content was changed, also to another of the same size, to none, and to what is not UTF-8", async () => {
    for (const key of ["a", "b", "c"]) await send(large, key);
    const [a, b, c] = container.names as [string, string, string];
    container.put(a, JSON.stringify(large.replace("x", "y")));
    container.put(b, "");
    container.put(c, `${JSON.stringify(large)} and more`);
    expect(await consume()).toEqual([]);
    expect(bench.names).toEqual(["poisoned", "poisoned", "poisoned"]);
    expect(container.names).toEqual([a, b, c]);
    expect(Math.max(...container.counts.map(Number))).toBe(70_003);
  });
});

describe("a container that cannot be used", () => {
  it("is reported by start", async () => {
    container.exists = false;
    await expect(bench.consume(() => undefined, { overflow: container.client })).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    container.exists = true;
    // A SAS that may read blobs need not allow to ask for the container.
    container.faults.next("container", "denied");
    await bench.consume(() => undefined, { overflow: container.client });
  });

  it.each(["busy", "denied", "lost", "hang"] as const)("gives the message back without a failure, pauses, and recovers: %s", async (fault) => {
    await send();
    container.faults.always("download", fault);
    const handled = await consume({ maxAttempts: 1, maxPollIntervalInMs: 1_000 });
    await bench.pass(150_000);
    expect(handled).toEqual([]);
    expect(new Set(bench.names)).toEqual(new Set(["error", "paused", "retried"]));
    expect(bench.details("paused")[0]).toMatchObject({ reason: "infrastructure" });
    expect(bench.envelopes[0]).not.toHaveProperty("failures");
    container.faults.always("download", "ok");
    await bench.pass(130_000);
    expect(handled).toEqual([large]);
    expect(bench.names.at(-1)).toBe("completed");
    expect(bench.poisonQueue.messages).toEqual([]);
  });

  it("does not delay messages without a blob, and asks less and less", async () => {
    await send();
    container.faults.always("download", "busy");
    const handled = await consume({ maxAttempts: 1, maxPollIntervalInMs: 500 });
    for (let i = 0; i < 300; i++) {
      for (let n = 0; n < 5; n++) await enqueue(bench.queue, n);
      await bench.pass(1_000);
    }
    expect(handled.length).toBeGreaterThan(1_490);
    expect(container.faults.count("download")).toBeLessThan(25);
  });

  it("is a missing container, too: no message is taken for one whose payload is gone", async () => {
    await send();
    const handled = await consume({ inbox: new MemoryInbox(), maxPollIntervalInMs: 1_000 }, () => undefined);
    expect(handled).toHaveLength(1);
    await send(large, "order-2");
    container.exists = false;
    await bench.pass(30_000);
    expect(bench.names).not.toContain("poisoned");
    container.exists = true;
    await bench.pass(120_000);
    expect(handled).toHaveLength(2);
  });

  it("does not keep stop() waiting: the read is cut off, and the message given back", async () => {
    await send();
    container.faults.always("download", "hang");
    const consumer = await bench.consume(() => undefined, { overflow: container.client, drainTimeoutInMs: 1_000 });
    await bench.pass(2_000);
    const stopping = consumer.stop();
    await bench.pass(1_100);
    await stopping;
    expect(bench.queue.visible).toHaveLength(1);
  });
});

describe("a consumer that does not know the container", () => {
  it("moves the message to the poison queue with its reference, and a redrive works with the option", async () => {
    await send();
    const handler = vi.fn();
    const consumer = await bench.consume(handler);
    await bench.pass(1_000);
    expect(bench.details("poisoned")[0]!.reason).toMatch(/no option overflow/);
    await Promise.all([consumer.stop(), bench.pass(1_000)]);
    await redrive(bench.poisonQueue, bench.queue);
    expect(await consume()).toEqual([large]);
    expect(handler).not.toHaveBeenCalled();
  });

  it("cannot take the reference for a payload, even if it does not know references: their key is empty, which it rejects", async () => {
    await send();
    const envelope = openEnvelope(bench.queue.messages[0]!.text, "text");
    // What a consumer without this feature reads: an envelope, with a key that it must reject, before it decodes the body.
    expect(envelope).toMatchObject({ asc: 1, key: "", body: { ascOverflow: { key: "order-1", fingerprint: fingerprint(JSON.stringify(large)) } } });
    // It keeps the body in the poison queue, and writes the message id as the key. After a redrive, the reference is found all the same.
    const moved = { ...envelope, key: "jobs-1" };
    const poison = { reason: "cannot be decoded", attempts: 1, queue: "jobs", messageId: "jobs-1", insertedOn: "", poisonedOn: "", encoding: "text" as const };
    await bench.poisonQueue.sendMessage(sealEnvelope({ ...moved, poison }, "text"));
    bench.queue.messages = [];
    await redrive(bench.poisonQueue, bench.queue);
    expect(bench.envelopes).toEqual([envelope]);
    bench.queue.messages[0]!.text = sealEnvelope(moved, "text");
    expect(await consume()).toEqual([large]);
    expect(bench.details("completed")[0]!.idempotencyKey).toBe("order-1");
  });

  it("is not read by a consumer that gives a message up: after maxDeliveries, and if it should be poison already", async () => {
    await send();
    bench.queue.messages[0]!.dequeueCount = 60;
    await consume();
    expect(bench.details("poisoned")[0]!.reason).toMatch(/maxDeliveries/);
    expect(container.faults.count("download")).toBe(0);
    expect(container.names).toHaveLength(1);
  });
});

describe("purgeOverflow", () => {
  it("deletes old payloads of all queues, and nothing else", async () => {
    container.put("invoices/old.json", "1");
    await send();
    await enqueue(new FakeQueue("other"), large, { overflow: container.client });
    await bench.pass(30 * day);
    await send(large, "order-2");
    expect(await purgeOverflow(container.client)).toEqual({ deleted: 2, kept: 0 });
    expect(container.names).toEqual(["invoices/old.json", expect.stringContaining("/jobs/")]);
    expect(container.faults.count("list") + container.faults.count("delete")).toBe(3);
    expect(await purgeOverflow(container.client, { olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
  });

  it("counts the age from the last enqueue, and keeps a blob that is written meanwhile", async () => {
    await send();
    await bench.pass(30 * day);
    await send();
    expect(await purgeOverflow(container.client)).toEqual({ deleted: 0, kept: 0 });
    await bench.pass(30 * day);
    container.faults.next("delete", "hang");
    const purging = purgeOverflow(container.client);
    await bench.pass(0);
    const timedOut = expect(purging).rejects.toMatchObject({ code: "OPERATION_TIMEOUT" });
    await bench.pass(30_000);
    await timedOut;
    const list = container.listBlobsFlat.bind(container);
    vi.spyOn(container, "listBlobsFlat").mockImplementation(async function* (options) {
      for await (const blob of list(options)) {
        await send();
        yield blob;
      }
    });
    expect(await purgeOverflow(container.client)).toEqual({ deleted: 0, kept: 1 });
  });

  it("rejects with what is wrong", async () => {
    await expect(purgeOverflow({} as ContainerLike)).rejects.toThrow(TypeError);
    await expect(purgeOverflow(container.client, { olderThanInMs: -1 })).rejects.toThrow(RangeError);
    await expect(purgeOverflow(container.client, { olderThan: 1 } as object)).rejects.toThrow(TypeError);
    container.exists = false;
    await expect(purgeOverflow(container.client)).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    container.exists = true;
    container.put("asc-overflow/a/b/c", "1");
    container.faults.next("delete", "denied");
    await expect(purgeOverflow(container.client, { olderThanInMs: 0 })).rejects.toMatchObject({ statusCode: 403 });
    await expect(purgeOverflow(container.client, { abortSignal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough");
    container.faults.next("delete", "resent");
    expect(await purgeOverflow(container.client, { olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
  });
});
