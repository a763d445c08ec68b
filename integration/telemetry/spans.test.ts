import { ShareServiceClient } from "@azure/storage-file-share";
import { trace } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-node";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { acquireLease, appendExactlyOnce, BlobLocks, createIfNotExists, enqueue, enqueueMany, jsonBlob, LeaderElection, leasedUpdate, optimisticUpdate, overwrite, QueueConsumer, readTarget, redrive, deleteIfUnchanged, retryWhileInUse, runTransaction, Semaphore, TableLock, textFile, tryAcquireLease, withLease } from "../../src/index.js";
import { startFileShareServer } from "../../src/testing.js";
import { freshContainer, freshQueue, freshTable, queueClient } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { alone, RecordedSpans, unseen } from "./recorded-spans.js";

interface Doc {
  n: number;
}

let spans: RecordedSpans;
beforeAll(() => {
  spans = new RecordedSpans();
});
beforeEach(() => spans.clear());
afterAll(() => spans.stop());

describe("the spans of an update", () => {
  it("show each attempt with its requests, and a lost race as an outcome", async () => {
    const blob = (await unseen(() => freshContainer())).getBlockBlobClient("doc");
    await unseen(() => blob.upload('{"n":0}', 7));
    spans.clear();
    let runs = 0;
    await optimisticUpdate(jsonBlob<Doc>(blob), async (doc) => {
      if (runs++ === 0) await unseen(() => blob.upload('{"n":5}', 7));
      doc.n++;
    });
    expect(spans.treeOf("optimisticUpdate")).toEqual([
      "optimisticUpdate: updated",
      "  optimisticUpdate.attempt: conflict",
      "    HTTP GET",
      "    HTTP PUT",
      "  optimisticUpdate.attempt: updated",
      "    HTTP GET",
      "    HTTP PUT",
    ]);
    const [call] = spans.named("optimisticUpdate");
    expect(call!.attributes).toMatchObject({
      "az.namespace": "Microsoft.Storage",
      "azsc.target.kind": "jsonBlob",
      "azsc.attempts": 2,
      "azsc.requests": 4,
      "azsc.outcome": "updated",
      "url.full": blob.url,
    });
    expect(call!.attributes["azsc.wait_ms"]).toBeTypeOf("number");
    expect(spans.named("optimisticUpdate.attempt").map((span) => [span.attributes["azsc.attempt"], span.attributes["azsc.requests"], span.status.code])).toEqual([
      [1, 2, 0],
      [2, 2, 0],
    ]);
  });

  it("of an append show the claim, the block, and the requests that were counted", async () => {
    const log = (await unseen(() => freshContainer())).getAppendBlobClient("log");
    await unseen(() => log.create());
    spans.clear();
    await appendExactlyOnce(log, "one\n");
    expect(spans.treeOf("appendExactlyOnce")).toEqual([
      "appendExactlyOnce: appended",
      "  appendExactlyOnce.attempt: appended",
      "    HTTP HEAD",
      "    HTTP PUT",
      "    HTTP PUT",
    ]);
    const [call] = spans.named("appendExactlyOnce");
    expect(call!.attributes).toMatchObject({ "azsc.target.kind": "appendBlob", "azsc.attempts": 1, "azsc.requests": 3, "url.full": log.url });
  });

  it("that three callers share are in the trace of each, and lead to the requests", async () => {
    const blob = (await unseen(() => freshContainer())).getBlockBlobClient("doc");
    await unseen(() => blob.upload('{"n":0}', 7));
    spans.clear();
    const update = () => alone(() => optimisticUpdate(jsonBlob<Doc>(blob), (doc) => { doc.n++; }));
    await Promise.all([update(), update(), update()]);
    const calls = spans.named("optimisticUpdate");
    expect(new Set(calls.map((span) => span.spanContext().traceId)).size).toBe(3);
    const withRequests = calls.filter((call) => spans.tree(call).length > 2);
    expect(withRequests).toHaveLength(1);
    expect(spans.tree(withRequests[0]!)).toEqual(["optimisticUpdate: updated", "  optimisticUpdate.attempt: updated", "    HTTP GET", "    HTTP PUT"]);
    const [driving] = spans.childrenOf(withRequests[0]!);
    for (const call of calls.filter((other) => other !== withRequests[0])) {
      const [attempt, ...more] = spans.childrenOf(call);
      expect(more).toEqual([]);
      expect(attempt!.links.map((link) => link.context.spanId)).toEqual([driving!.spanContext().spanId]);
      expect(call.attributes).toMatchObject({ "azsc.attempts": 1, "azsc.outcome": "updated" });
    }
  });

  it("say that it failed, and by which kind of error, but not what the error says", async () => {
    const blob = (await unseen(() => freshContainer())).getBlockBlobClient("doc");
    await unseen(() => blob.upload('{"n":0}', 7));
    spans.clear();
    const missing = (await unseen(() => freshContainer())).getBlockBlobClient("missing");
    spans.clear();
    const refusal = new RangeError("account 4711 is overdrawn");
    await expect(optimisticUpdate(jsonBlob<Doc>(blob), () => { throw refusal; })).rejects.toBe(refusal);
    await expect(optimisticUpdate(jsonBlob<Doc>(missing), () => undefined)).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    const [first, second] = spans.named("optimisticUpdate");
    expect(first).toMatchObject({ status: { code: 2, message: "RangeError" }, attributes: { "error.type": "RangeError", "azsc.outcome": "failed" } });
    expect(second).toMatchObject({ status: { code: 2, message: "TargetNotFoundError (TARGET_NOT_FOUND)" } });
    expect(spans.childrenOf(first!)[0]).toMatchObject({ status: { code: 2 }, attributes: { "azsc.outcome": "failed" } });
  });

  it("have the caller's span as their parent, given explicitly or active", async () => {
    const { trace, context } = await import("@opentelemetry/api");
    const blob = (await unseen(() => freshContainer())).getBlockBlobClient("doc");
    spans.clear();
    const request = trace.getTracer("app").startSpan("request");
    const tracingContext = trace.setSpan(context.active(), request);
    await overwrite(blob, { n: 1 }, { tracingOptions: { tracingContext } });
    await context.with(tracingContext, () => readTarget(blob));
    request.end();
    const [root] = spans.named("request");
    expect(spans.childrenOf(root!).map(({ name }) => name)).toEqual(["overwrite", "readTarget"]);
  });
});

describe("the spans of an update under a lease", () => {
  it("show the lease, the requests under it, and its release", async () => {
    const blob = (await unseen(() => freshContainer())).getBlockBlobClient("doc");
    await unseen(() => blob.upload('{"n":0}', 7));
    spans.clear();
    await leasedUpdate(jsonBlob<Doc>(blob), (doc) => { doc.n++; });
    expect(spans.treeOf("leasedUpdate")).toEqual([
      "leasedUpdate: updated",
      "  leasedUpdate.attempt: updated",
      "    acquireLease: acquired",
      "      acquireLease.attempt: acquired",
      "        HTTP PUT",
      "    HTTP GET",
      "    HTTP PUT",
      "  LeaseHandle.release: -",
      "    HTTP PUT",
    ]);
    expect(spans.named("leasedUpdate")[0]!.attributes).toMatchObject({
      "azsc.target.kind": "jsonBlob",
      "azsc.attempts": 1,
      "azsc.requests": 2,
      "azsc.outcome": "updated",
      "url.full": blob.url,
    });
  });

  it("show each attempt of one that somebody else was faster to create", async () => {
    const blob = (await unseen(() => freshContainer())).getBlockBlobClient("doc");
    spans.clear();
    let runs = 0;
    await leasedUpdate(jsonBlob<Doc>(blob), async (doc) => {
      if (runs++ === 0) await unseen(() => blob.upload('{"n":5}', 7));
      doc.n++;
    }, { initial: { n: 0 } });
    const attempts = spans.named("leasedUpdate.attempt").map((span) => [span.attributes["azsc.attempt"], span.attributes["azsc.outcome"], span.attributes["azsc.requests"], span.status.code]);
    expect(attempts).toEqual([
      [1, "conflict", 2, 0],
      [2, "updated", 2, 0],
    ]);
    expect(spans.named("leasedUpdate")[0]!.attributes).toMatchObject({ "azsc.attempts": 2, "azsc.requests": 4, "azsc.outcome": "updated" });
  });

  it("show what a file takes that is written aside, one that is overwritten, and one that fails", async () => {
    const server = await startFileShareServer();
    onTestFinished(() => server.stop());
    const share = ShareServiceClient.fromConnectionString(server.connectionString).getShareClient("spans");
    const file = share.rootDirectoryClient.getFileClient("doc");
    await unseen(() => share.create());
    await unseen(() => file.uploadData(Buffer.from("a")));
    spans.clear();
    await leasedUpdate(textFile(file), () => "longer");
    await overwrite(textFile(file), "whatever");
    const refusal = new RangeError("account 4711 is overdrawn");
    await expect(leasedUpdate(textFile(file), () => { throw refusal; })).rejects.toBe(refusal);
    const [update, failed] = spans.named("leasedUpdate");
    expect(spans.tree(update!).slice(5)).toEqual(["    HTTP GET", "    HTTP PUT", "    HTTP PUT", "    HTTP PUT", "    HTTP PUT", "  LeaseHandle.release: -", "    HTTP PUT"]);
    expect(update!.attributes).toMatchObject({ "azsc.target.kind": "textFile", "azsc.requests": 5 });
    expect(spans.treeOf("overwrite")).toEqual(["overwrite: -", "  overwrite.attempt: done", "    HTTP PUT", "    HTTP PUT", "    HTTP PUT"]);
    expect(spans.named("overwrite")[0]!.attributes).toMatchObject({ "azsc.requests": 3 });
    expect(failed).toMatchObject({ status: { code: 2, message: "RangeError" }, attributes: { "error.type": "RangeError", "azsc.outcome": "failed", "azsc.requests": 1 } });
  });
});

describe("the spans of helpers that send what they are told", () => {
  it("are a call, an attempt and its requests", async () => {
    const blob = (await unseen(() => freshContainer())).getBlockBlobClient("doc");
    spans.clear();
    await createIfNotExists(blob, { n: 1 });
    await createIfNotExists(blob, { n: 1 });
    const { etag } = await readTarget(blob);
    await overwrite(blob, { n: 2 });
    await expect(deleteIfUnchanged(blob, etag)).rejects.toMatchObject({ code: "CONFLICT" });
    const [created, found] = spans.named("createIfNotExists");
    expect(spans.tree(created!)).toEqual(["createIfNotExists: created", "  createIfNotExists.attempt: done", "    HTTP PUT"]);
    expect(spans.tree(found!)).toEqual(["createIfNotExists: unchanged", "  createIfNotExists.attempt: done", "    HTTP PUT", "    HTTP GET"]);
    expect(spans.treeOf("overwrite")).toEqual(["overwrite: -", "  overwrite.attempt: done", "    HTTP PUT"]);
    expect(spans.treeOf("deleteIfUnchanged")).toEqual(["deleteIfUnchanged: failed", "  deleteIfUnchanged.attempt: failed", "    HTTP DELETE", "    HTTP GET"]);
    expect(spans.named("readTarget")[0]!.attributes).toMatchObject({ "azsc.attempts": 1, "azsc.requests": 1, "azsc.target.kind": "jsonBlob" });
  });

  it("show how often a file was in use", async () => {
    let left = 2;
    const inUse = Object.assign(new Error("in use"), { statusCode: 409, code: "SharingViolation" });
    await retryWhileInUse(async () => { if (left-- > 0) throw inUse; }, { retryDelayInMs: 1 });
    expect(spans.treeOf("retryWhileInUse")).toEqual([
      "retryWhileInUse: -",
      "  retryWhileInUse.attempt: in use",
      "  retryWhileInUse.attempt: in use",
      "  retryWhileInUse.attempt: done",
    ]);
  });
});

describe("the spans of a transaction", () => {
  it("show each run with its reads and its commit", async () => {
    const table = await unseen(() => freshTable());
    await unseen(() => table.createEntity({ partitionKey: "p", rowKey: "a", n: 1 }));
    spans.clear();
    let runs = 0;
    await runTransaction(table, "p", async (tx) => {
      const a = await tx.get<Doc>("a");
      if (runs++ === 0) await unseen(() => table.updateEntity({ partitionKey: "p", rowKey: "a", n: 7 }));
      tx.update({ rowKey: "a", n: a!.n + 1 });
    });
    expect(spans.treeOf("runTransaction")).toEqual([
      "runTransaction: committed",
      "  runTransaction.attempt: conflict",
      "    HTTP GET",
      "    HTTP POST",
      "  runTransaction.attempt: committed",
      "    HTTP GET",
      "    HTTP POST",
    ]);
    expect(spans.named("runTransaction")[0]!.attributes).toMatchObject({
      "azsc.target.kind": "tablePartition",
      "azsc.attempts": 2,
      "azsc.requests": 4,
    });
  });
});

describe("the spans of a lease", () => {
  it("show the tries, the holding and the release", async () => {
    const container = await unseen(() => freshContainer());
    const blob = container.getBlockBlobClient("leased");
    spans.clear();
    await withLease(blob, async (lease) => lease.renew(), { createIfNotExists: true });
    expect(spans.treeOf("withLease")).toEqual([
      "withLease: -",
      "  acquireLease: acquired",
      "    acquireLease.attempt: acquired",
      "      HTTP PUT",
      "      HTTP PUT",
      "      HTTP PUT",
      "  LeaseHandle.renew: -",
      "    HTTP PUT",
      "  LeaseHandle.release: -",
      "    HTTP PUT",
    ]);
    expect(spans.named("acquireLease")[0]!.attributes).toMatchObject({ "azsc.attempts": 1, "azsc.requests": 3, "url.full": blob.url });
  });

  it("say that a caller waited in vain", async () => {
    const blob = (await unseen(() => freshContainer())).getBlockBlobClient("leased");
    await unseen(() => blob.upload("", 0));
    await unseen(() => blob.getBlobLeaseClient().acquireLease(60));
    spans.clear();
    await expect(acquireLease(blob, { waitInMs: 0 })).rejects.toMatchObject({ code: "LEASE_UNAVAILABLE" });
    expect(spans.named("acquireLease")[0]).toMatchObject({
      status: { code: 2, message: "LeaseUnavailableError (LEASE_UNAVAILABLE)" },
      attributes: { "azsc.outcome": "failed", "error.type": "LeaseUnavailableError", "azsc.attempts": 1 },
    });
  });

  it("show that it was taken, and how long a caller waited", async () => {
    const container = await unseen(() => freshContainer());
    const blob = container.getBlockBlobClient("leased");
    await unseen(() => blob.upload("", 0));
    const other = blob.getBlobLeaseClient();
    await unseen(() => other.acquireLease(60));
    spans.clear();
    expect(await tryAcquireLease(blob)).toBeUndefined();
    const acquiring = acquireLease(blob);
    for (let looks = 0; looks < 1_000 && spans.named("acquireLease.attempt").length < 2; looks++) await pause(5);
    await unseen(() => other.releaseLease());
    await (await acquiring).release();
    expect(spans.treeOf("tryAcquireLease")).toEqual(["tryAcquireLease: taken", "  tryAcquireLease.attempt: taken", "    HTTP PUT"]);
    const [call] = spans.named("acquireLease");
    const tries = spans.childrenOf(call!);
    expect(tries.length).toBeGreaterThanOrEqual(3);
    expect(tries.map((span) => span.attributes["azsc.outcome"])).toEqual([...tries.slice(1).map(() => "taken"), "acquired"]);
    expect(call!.attributes).toMatchObject({ "azsc.attempts": tries.length, "azsc.requests": tries.length, "azsc.outcome": "acquired" });
    // Two pauses at least, of 25 ms or more each.
    expect(call!.attributes["azsc.wait_ms"]).toBeGreaterThan(40);
  });
});

describe("the spans of locks", () => {
  it("show who got which number, and hold renewals and release below the holder", async () => {
    const locks = new BlobLocks(await unseen(() => freshContainer()));
    spans.clear();
    const epoch = await locks.withLock("orders", (lock) => lock.epoch);
    expect(spans.treeOf("BlobLocks.withLock")).toEqual([
      "BlobLocks.withLock: -",
      "  BlobLocks.acquire: acquired",
      "    BlobLocks.acquire.attempt: acquired",
      "      HTTP PUT",
      "      HTTP PUT",
      "      HTTP PUT",
      "      HTTP HEAD",
      "      HTTP HEAD",
      "      HTTP PUT",
      "  LeaseHandle.release: -",
      "    HTTP PUT",
    ]);
    expect(spans.named("BlobLocks.acquire")[0]!.attributes).toMatchObject({ "azsc.target.kind": "lock", "azsc.epoch": epoch, "azsc.requests": 6 });
  });

  it("of a semaphore have a try of a slot in each look", async () => {
    const semaphore = new Semaphore(new BlobLocks(await unseen(() => freshContainer())), "exports", 1);
    spans.clear();
    await semaphore.withSlot(() => undefined);
    expect(spans.treeOf("Semaphore.withSlot").map((line) => line.replace(/^ +HTTP.*/, "")).filter((line) => line !== "")).toEqual([
      "Semaphore.withSlot: -",
      "  Semaphore.acquire: acquired",
      "    Semaphore.acquire.attempt: acquired",
      "      BlobLocks.tryAcquire: acquired",
      "        BlobLocks.tryAcquire.attempt: acquired",
      "  LeaseHandle.release: -",
    ]);
  });

  it("of a table lock hold the work under it", async () => {
    const table = await unseen(() => freshTable());
    const lock = new TableLock(table, new BlobLocks(await unseen(() => freshContainer())));
    spans.clear();
    await lock.withLock(async (held) => {
      const partition = await held.partition("p");
      await partition.create({ rowKey: "a", n: 1 });
    });
    const [root] = spans.named("TableLock.withLock");
    expect(spans.childrenOf(root!).map(({ name }) => name)).toEqual([
      "TableLock.acquire",
      "LockedTable.partition",
      "FencedPartition.create",
      "LeaseHandle.release",
    ]);
    expect(spans.named("FencedPartition.create")[0]!.attributes).toMatchObject({ "azsc.target.kind": "tablePartition" });
  });

  it("of an election are one for each term, around the leader's work", async () => {
    const container = await unseen(() => freshContainer());
    spans.clear();
    let worked!: () => void;
    const done = new Promise<void>((resolve) => (worked = resolve));
    const election = new LeaderElection(new BlobLocks(container), "scheduler", async ({ tracingOptions }) => {
      await readTarget(container.getBlockBlobClient("plan"), { tracingOptions }).catch(() => undefined);
      worked();
    });
    await election.start();
    await done;
    await election.stop();
    const tree = spans.treeOf("LeaderElection.term");
    expect(tree).toEqual([
      "LeaderElection.term: stopped",
      "  readTarget: failed",
      "    readTarget.attempt: failed",
      "      HTTP GET",
      "  LeaseHandle.release: -",
      "    HTTP PUT",
    ]);
  });
});

describe("the spans of a queue", () => {
  it("are one for each message, around its handler and its end, each in the trace of its producer", async () => {
    const queue = await unseen(() => freshQueue());
    const poison = queueClient(`${queue.name}-poison`);
    const container = await unseen(() => freshContainer());
    spans.clear();
    await enqueue(queue, { ok: true });
    await enqueue(queue, { ok: false });
    const consumer = new QueueConsumer<{ ok: boolean }>(queue, async ({ ok }, { tracingOptions }) => {
      await overwrite(container.getBlockBlobClient("done"), { n: 1 }, { tracingOptions });
      if (!ok) throw new Error("not today");
    }, { poisonQueue: poison, maxAttempts: 1 });
    let ended = 0;
    const both = new Promise<void>((resolve) => {
      const one = (): void => { if (++ended === 2) resolve(); };
      consumer.on("completed", one).on("poisoned", one);
    });
    await consumer.start();
    await both;
    await consumer.stop();
    const handled = spans.named("QueueConsumer.handle");
    expect(handled.map((span) => span.attributes["azsc.outcome"]).sort()).toEqual(["completed", "poisoned"]);
    const sent = spans.named("enqueue");
    expect(sent.map(({ kind }) => kind)).toEqual([3, 3]);
    expect(handled.map(idOfParent).sort()).toEqual(sent.map(idOf).sort());
    expect(new Set(handled.map(traceOf))).toEqual(new Set(sent.map(traceOf)));
    expect(handled.flatMap(({ links }) => links)).toEqual([]);
    const done = handled.find((span) => span.attributes["azsc.outcome"] === "completed");
    expect(spans.tree(done!)).toEqual([
      "QueueConsumer.handle: completed",
      "  overwrite: -",
      "    overwrite.attempt: done",
      "      HTTP PUT",
      "  HTTP DELETE",
    ]);
    expect(done!.attributes).toMatchObject({ "azsc.attempt": 1, "azsc.requests": 1, "azsc.target.kind": "queue", "url.full": queue.url });
    const failed = handled.find((span) => span !== done);
    expect(failed).toMatchObject({ status: { code: 2, message: "Error" }, kind: 4 });
    spans.clear();
    expect(await redrive(poison, queue)).toEqual({ moved: 1, skipped: 0 });
    expect(spans.named("redrive")[0]!.attributes).toMatchObject({ "azsc.outcome": "moved 1, skipped 0", "azsc.requests": 4 });
  });

  it("continue the trace of enqueueMany, over retries, the poison queue and a redrive", async () => {
    const queue = await unseen(() => freshQueue());
    const poison = queueClient(`${queue.name}-poison`);
    spans.clear();
    await enqueueMany(queue, ["a", "b"]);
    let failing = true;
    const handled = (outcome: string): ReadableSpan[] => spans.named("QueueConsumer.handle").filter(({ attributes }) => attributes["azsc.outcome"] === outcome);
    const until = async (count: number, outcome: string): Promise<void> => {
      for (let polls = 0; polls < 2_000 && handled(outcome).length < count; polls++) await pause(5);
    };
    const consumer = new QueueConsumer(queue, (_, { attempt, retry, poison }) => {
      if (failing) if (attempt === 1) retry({ delayInMs: 0 }); else poison("not now");
    }, { poisonQueue: poison, maxPollIntervalInMs: 100 });
    await consumer.start();
    await until(2, "poisoned");
    failing = false;
    await redrive(poison, queue);
    await until(2, "completed");
    await consumer.stop();
    const [sender] = spans.named("enqueueMany");
    const all = spans.named("QueueConsumer.handle");
    expect(all.map(({ attributes }) => attributes["azsc.outcome"]).sort()).toEqual(["completed", "completed", "poisoned", "poisoned", "retried", "retried"]);
    expect(new Set(all.map(idOfParent))).toEqual(new Set([idOf(sender!)]));
  });

  it("are in traces of their own if a message has no traceparent, or a forged one", async () => {
    const queue = await unseen(() => freshQueue());
    const forged = ["00-zz", "x".repeat(10_000), `00-${"0".repeat(32)}-${"1".repeat(16)}-01`, 5];
    await unseen(async () => {
      await queue.sendMessage("of another producer");
      for (const traceparent of forged) await queue.sendMessage(JSON.stringify({ asc: 1, key: String(traceparent).slice(0, 50), body: 1, traceparent }));
    });
    spans.clear();
    let ended = 0;
    const consumer = new QueueConsumer(queue, () => undefined);
    const all = new Promise<void>((resolve) => consumer.on("completed", () => { if (++ended === 5) resolve(); }));
    await alone(() => consumer.start());
    await all;
    await consumer.stop();
    const handled = spans.named("QueueConsumer.handle");
    expect(handled).toHaveLength(5);
    expect(handled.map(({ parentSpanContext }) => parentSpanContext)).toEqual(handled.map(() => undefined));
    expect(new Set(handled.map(traceOf)).size).toBe(5);
  });

  it("link to the span in which the consumer was started", async () => {
    const queue = await unseen(() => freshQueue());
    spans.clear();
    await alone(() => enqueue(queue, 1));
    const consumer = new QueueConsumer(queue, () => undefined);
    const completed = new Promise<void>((resolve) => consumer.on("completed", () => resolve()));
    const tracer = trace.getTracer("app");
    const started = await tracer.startActiveSpan("main", async (main) => {
      await consumer.start();
      await completed;
      await consumer.stop();
      main.end();
      return main.spanContext();
    });
    const [handled] = spans.named("QueueConsumer.handle");
    expect(idOfParent(handled!)).toBe(idOf(spans.named("enqueue")[0]!));
    expect(handled!.links.map(({ context }) => context.traceId)).toEqual([started.traceId]);
  });
});

function idOf(span: ReadableSpan): string {
  return span.spanContext().spanId;
}

function idOfParent(span: ReadableSpan): string | undefined {
  return span.parentSpanContext?.spanId;
}

function traceOf(span: ReadableSpan): string {
  return span.spanContext().traceId;
}
