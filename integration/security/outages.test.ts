import type { TableClient } from "@azure/data-tables";
import type { ContainerClient } from "@azure/storage-blob";
import { ShareServiceClient } from "@azure/storage-file-share";
import type { ShareClient } from "@azure/storage-file-share";
import type { QueueClient } from "@azure/storage-queue";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import {
  acquireLease, appendExactlyOnce, BlobLocks, breakLease, claimPages, ClaimInbox, CommitInbox, containerMetadata, createIfNotExists, deleteIfUnchanged, downloadConsistent, downloadConsistentStream, enqueue, enqueueMany, fileMetadata, IdAllocator, inspectLease, isConcurrencyError, jsonBlob, jsonFile, LeaderElection,
  leasedUpdate, listEntities, Once, optimisticUpdate, Outbox, overwrite, purgeOverflow, purgeStagingFiles, purgeTombstones, QueueConsumer, queueMetadata, readIfChanged, ReaderWriterLock, readTarget, redrive, runTransaction, Schedule,
  Semaphore, shareMetadata, tableEntity, TableLock, tryAcquireLease, tryReadTarget, watch, withLease, WorkBalancer,
} from "../../src/index.js";
import type { LeaseHandle, PageWriter } from "../../src/index.js";
import { hang, replaceEndpoints, respondWith, startFaultProxy } from "../../src/testing.js";
import type { FaultProxy, FaultRule } from "../../src/testing.js";
import { azurite, containerClient, freshContainer, freshName, freshQueue, freshTable, queueClient, withFiles } from "../support/clients.js";
import { startClosablePort } from "../support/closable-port.js";
import type { ClosablePort } from "../support/closable-port.js";
import { startLoopTimer } from "../support/loop-timer.js";
import { pause } from "../support/pause.js";

/** In front of the proxies. */
let ports: ClosablePort[];
let proxies: { blob: FaultProxy; table: FaultProxy; queue: FaultProxy; file: FaultProxy };
let container: ContainerClient;
let table: TableClient;
let queue: QueueClient;
let otherQueue: QueueClient;
let share: ShareClient;
let pages: PageWriter;
let heldLease: LeaseHandle;

beforeAll(async () => {
  const { blobUrl, tableUrl, queueUrl, fileUrl } = azurite();
  const [blob, ofTable, ofQueue, file] = await Promise.all([startFaultProxy(blobUrl), startFaultProxy(tableUrl), startFaultProxy(queueUrl), startFaultProxy(fileUrl ?? "")]);
  proxies = { blob, table: ofTable, queue: ofQueue, file };
  const [blobPort, tablePort, queuePort, filePort] = await Promise.all([startClosablePort(blob.url), startClosablePort(ofTable.url), startClosablePort(ofQueue.url), startClosablePort(file.url)]);
  ports = [blobPort, tablePort, queuePort, filePort];
  container = await freshContainer({ through: blobPort });
  table = await freshTable({ through: tablePort });
  queue = await freshQueue({ through: queuePort });
  otherQueue = queueClient("other", { through: queuePort });
  share = ShareServiceClient.fromConnectionString(replaceEndpoints(withFiles(), { fileUrl: filePort.url })).getShareClient(freshName());
  await share.create();
  await share.rootDirectoryClient.getFileClient("doc").uploadData(Buffer.from("{}"));
  const direct = containerClient(container.containerName);
  await direct.getBlockBlobClient("doc").upload("{}", 2);
  await direct.getAppendBlobClient("log").create();
  await direct.getPageBlobClient("pages").create(512);
  await direct.getBlockBlobClient("held").upload("", 0);
  pages = await claimPages(container.getPageBlobClient("pages"));
  // Never expires: it is held during all outages.
  heldLease = await acquireLease(container.getBlockBlobClient("held"), { durationInSeconds: Infinity });
});
afterAll(() => Promise.all([...Object.values(proxies).map((proxy) => proxy.stop()), ...ports.map((port) => port.close())]));
beforeEach(async () => {
  await Promise.all(ports.map((port) => port.open()));
  reset([]);
});

function reset(rules: readonly FaultRule[]): void {
  for (const proxy of Object.values(proxies)) proxy.reset(rules);
}

const requests = (): number => Object.values(proxies).reduce((sum, proxy) => sum + proxy.count(() => true), 0);
const blob = () => container.getBlockBlobClient("doc");
const doc = () => jsonBlob<Record<string, number>>(blob());
const file = () => jsonFile<Record<string, number>>(share.rootDirectoryClient.getFileClient("doc"));
const locks = () => new BlobLocks(container);
const limitInMs = 500;
const wait = { waitInMs: limitInMs };
const time = { timeoutInMs: limitInMs };

/** Every helper with a time limit, and a call that needs the service. */
const calls: [string, () => Promise<unknown>][] = [
  ["acquireLease", () => acquireLease(blob(), wait)],
  ["withLease", () => withLease(blob(), () => undefined, wait)],
  ["BlobLocks.withLock", () => locks().withLock("a", () => undefined, wait)],
  ["BlobLocks.withLock, fair", () => new BlobLocks(container, { fair: true }).withLock("f", () => undefined, wait)],
  ["BlobLocks.withLocks", () => locks().withLocks(["b", "c"], () => undefined, wait)],
  ["Semaphore", () => new Semaphore(locks(), "s", 2).withSlot(() => undefined, wait)],
  ["ReaderWriterLock, read", () => new ReaderWriterLock(locks(), "rw").withReadLock(() => undefined, wait)],
  ["ReaderWriterLock, write", () => new ReaderWriterLock(locks(), "rw").withWriteLock(() => undefined, wait)],
  ["TableLock", () => new TableLock(table, locks()).withLock(() => undefined, wait)],
  ["leasedUpdate, timeoutInMs", () => leasedUpdate(doc(), () => undefined, time)],
  ["leasedUpdate, waitInMs", () => leasedUpdate(doc(), () => undefined, wait)],
  ["optimisticUpdate", () => optimisticUpdate(doc(), () => undefined, time)],
  ["optimisticUpdate of an entity", () => optimisticUpdate(tableEntity<{ n: number }>(table, "p", "r"), () => undefined, time)],
  ["createIfNotExists", () => createIfNotExists(doc(), {}, time)],
  ["overwrite", () => overwrite(doc(), {}, time)],
  ["deleteIfUnchanged", () => deleteIfUnchanged(doc(), '"0x1"', time)],
  ["readTarget", () => readTarget(doc(), time)],
  ["readIfChanged", () => readIfChanged(doc(), '"0x1"', time)],
  ["runTransaction, read", () => runTransaction(table, "p", async (tx) => { await tx.get("a"); }, time)],
  ["runTransaction, write", () => runTransaction(table, "p", (tx) => tx.upsert({ rowKey: "a", n: 1 }), time)],
  ["appendExactlyOnce", () => appendExactlyOnce(container.getAppendBlobClient("log"), "x", time)],
  ["IdAllocator", () => new IdAllocator(jsonBlob(container.getBlockBlobClient("ids")), time).next()],
  ["PageWriter.write", () => pages.write(0, new Uint8Array(512), time)],
  ["PageWriter.clear", () => pages.clear(0, 512, time)],
  ["tryReadTarget", () => tryReadTarget(doc(), time)],
  ["leasedUpdate of metadata", () => leasedUpdate(containerMetadata(container), () => ({ a: "1" }), time)],
  ["leasedUpdate of a file's metadata", () => leasedUpdate(fileMetadata(share.rootDirectoryClient.getFileClient("doc")), () => ({ a: "1" }), time)],
  ["leasedUpdate of a share's metadata", () => leasedUpdate(shareMetadata(share), () => ({ a: "1" }), time)],
  ["leasedUpdate with a lock", () => leasedUpdate(queueMetadata(queue), () => ({ a: "1" }), { ...time, lock: { locks: locks(), name: "q" } })],
  ["leasedUpdate with a crash guard", () => leasedUpdate(file(), () => undefined, { ...time, crashGuard: locks() })],
  ["acquireLease with a crash guard", () => acquireLease(share.rootDirectoryClient.getFileClient("doc"), { ...wait, durationInSeconds: Infinity, crashGuard: locks() })],
  ["breakLease of a file", () => breakLease(share.rootDirectoryClient.getFileClient("doc"), time)],
  ["claimPages", () => claimPages(container.getPageBlobClient("pages"), time)],
  ["inspectLease", () => inspectLease(blob(), time)],
  ["breakLease", () => breakLease(blob(), time)],
  ["Once.run", () => new Once(table).run("k", () => 1, time)],
  ["Once.runTransaction", () => new Once(table).runTransaction("k", "p", (tx) => tx.upsert({ rowKey: "a", n: 1 }), time)],
  ["readTarget of a file", () => readTarget(file(), time)],
  ["leasedUpdate of a file", () => leasedUpdate(file(), () => undefined, time)],
  ["leasedUpdate of a file, waitInMs", () => leasedUpdate(file(), () => undefined, wait)],
  ["createIfNotExists of a file", () => createIfNotExists(file(), {}, time)],
  ["overwrite of a file", () => overwrite(file(), {}, time)],
  ["acquireLease of a file", () => acquireLease(share.rootDirectoryClient.getFileClient("doc"), { ...wait, durationInSeconds: Infinity })],
  // A timer may fire a moment early: another poll would follow if the failures were to last exactly as long as the poll.
  ["watch, one poll", () => watch(doc(), { tryTimeoutInMs: limitInMs, maxFailureTimeInMs: limitInMs / 2 }).next()],
];

const job = { everyInMs: 60_000, run: () => undefined };
const schedule = () => new Schedule(table, locks(), { job });

/** Calls whose limit of their own is longer, or that have none: the signal of their caller ends them. */
const endless: [string, (call: { abortSignal: AbortSignal }) => Promise<unknown>][] = [
  ["downloadConsistent", (call) => downloadConsistent(blob(), call)],
  ["listEntities", (call) => listEntities(table, call).next()],
  ["downloadConsistentStream", (call) => downloadConsistentStream(blob(), call)],
  ["BlobLocks.inspect", (call) => locks().inspect("a", call)],
  ["BlobLocks.list", (call) => locks().list(call).next()],
  ["BlobLocks.break", (call) => locks().break("a", call)],
  ["Semaphore.inspect", (call) => new Semaphore(locks(), "s", 2).inspect(call)],
  ["LeaseHandle.renew", (call) => heldLease.renew(call)],
  ["enqueue", (call) => enqueue(queue, 1, call)],
  ["enqueue with overflow", (call) => enqueue(queue, "x".repeat(70_000), { ...call, overflow: container })],
  ["enqueueMany", async (call) => {
    // It reports per message.
    const [result] = await enqueueMany(queue, [1], undefined, call);
    throw (result as { error: unknown }).error;
  }],
  ["redrive", (call) => redrive(queue, otherQueue, call)],
  ["QueueConsumer.start", (call) => new QueueConsumer(queue, () => undefined, { inbox: new ClaimInbox(table) }).start(call)],
  ["ClaimInbox.get", (call) => new ClaimInbox(table).get(queue, "k", call)],
  ["ClaimInbox.forget", (call) => new ClaimInbox(table).forget(queue, "k", call)],
  ["ClaimInbox.getGroup", (call) => new ClaimInbox(table).getGroup(queue, "g", call)],
  ["ClaimInbox.skip", (call) => new ClaimInbox(table).skip(queue, "g", 1, call)],
  ["ClaimInbox.purge", (call) => new ClaimInbox(table).purge(call)],
  ["CommitInbox.purge", (call) => new CommitInbox(table).purge(call)],
  ["Once.get", (call) => new Once(table).get("k", call)],
  ["Once.forget", (call) => new Once(table).forget("k", call)],
  ["Once.purge", (call) => new Once(table).purge(call)],
  ["Outbox.start", (call) => new Outbox(table, { queues: [queue] }).start(call)],
  ["Outbox.flush", (call) => new Outbox(table, { queues: [queue] }).flush(call)],
  ["Schedule.start", (call) => schedule().start(call)],
  ["Schedule.trigger", (call) => schedule().trigger("job", call)],
  ["Schedule.pause", (call) => schedule().pause("job", call)],
  ["Schedule.resume", (call) => schedule().resume("job", call)],
  ["Schedule.status", (call) => schedule().status(call)],
  ["Schedule.history", (call) => schedule().history("job", call).next()],
  ["Schedule.purge", (call) => schedule().purge(call)],
  ["WorkBalancer.start", (call) => new WorkBalancer(locks(), "w", 2, () => undefined).start(call)],
  ["LeaderElection.start", (call) => new LeaderElection(locks(), "e", () => undefined).start(call)],
  ["BlobLocks.purge", (call) => locks().purge(call)],
  ["TableLock.purge", (call) => new TableLock(table, locks()).purge(call)],
  ["purgeTombstones", (call) => purgeTombstones(table, call)],
  ["purgeOverflow", (call) => purgeOverflow(container, call)],
  ["purgeStagingFiles", (call) => purgeStagingFiles(share, call)],
];

/** Calls that do not wait, and have no option that limits them: one attempt. */
const tries: [string, () => Promise<unknown>][] = [
  ["tryAcquireLease", () => tryAcquireLease(blob())],
  ["BlobLocks.tryAcquire", () => locks().tryAcquire("t1")],
  ["BlobLocks.tryAcquire, fair", () => new BlobLocks(container, { fair: true }).tryAcquire("t2")],
  ["acquireLease with a waitInMs of 0", () => acquireLease(blob(), { waitInMs: 0 })],
  ["Semaphore.tryAcquire", () => new Semaphore(locks(), "t3", 2).tryAcquire()],
  ["ReaderWriterLock.tryAcquireReadLock", () => new ReaderWriterLock(locks(), "t4").tryAcquireReadLock()],
  ["ReaderWriterLock.tryAcquireWriteLock", () => new ReaderWriterLock(locks(), "t5").tryAcquireWriteLock()],
  ["TableLock.tryAcquire", () => new TableLock(table, locks()).tryAcquire()],
];

/** Calls whose function runs when the outage begins: all that is left to do then is to write, to release, or to store what it returned. */
const inProgress: [string, (meet: () => Promise<unknown>, call: { abortSignal: AbortSignal }) => Promise<unknown>][] = [
  ["withLease", (meet, call) => withLease(freshBlob(), meet, { ...call, createIfNotExists: true })],
  ["withLease that never expires", (meet, call) => withLease(freshBlob(), meet, { ...call, createIfNotExists: true, durationInSeconds: Infinity })],
  ["withLease with a crash guard", (meet, call) => withLease(freshBlob(), meet, { ...call, createIfNotExists: true, durationInSeconds: Infinity, crashGuard: locks() })],
  ["BlobLocks.withLock", (meet, call) => locks().withLock(freshName(), meet, call)],
  ["BlobLocks.withLocks", (meet, call) => locks().withLocks([freshName(), freshName()], meet, call)],
  ["Semaphore.withSlot", (meet, call) => new Semaphore(locks(), freshName(), 2).withSlot(meet, call)],
  ["ReaderWriterLock.withReadLock", (meet, call) => new ReaderWriterLock(locks(), freshName()).withReadLock(meet, call)],
  ["ReaderWriterLock.withWriteLock", (meet, call) => new ReaderWriterLock(locks(), freshName()).withWriteLock(meet, call)],
  ["TableLock.withLock", (meet, call) => new TableLock(table, new BlobLocks(container, { prefix: `${freshName()}/` })).withLock(meet, call)],
  ["leasedUpdate", async (meet, call) => leasedUpdate(jsonBlob(freshBlob()), () => meet().then(() => 1), { ...call, initial: 0 })],
  ["optimisticUpdate", (meet, call) => optimisticUpdate(jsonBlob(freshBlob()), () => meet().then(() => 1), { ...call, initial: 0 })],
  ["runTransaction", (meet, call) => runTransaction(table, freshName(), async (tx) => { await meet(); tx.upsert({ rowKey: "a" }); }, call)],
  ["Once.run", (meet, call) => new Once(table).run(freshName(), meet, call)],
  ["Once.run with overflow", (meet, call) => new Once(table, { overflow: container }).run(freshName(), () => meet().then(() => "x".repeat(100_000)), call)],
  ["Once.run whose function throws", (meet, call) => new Once(table).run(freshName(), () => meet().then(() => { throw new Error("own"); }), call)],
  ["Once.runTransaction", (meet, call) => new Once(table).runTransaction(freshName(), freshName(), async (tx) => { await meet(); tx.upsert({ rowKey: "a" }); }, call)],
];
const freshBlob = () => container.getBlockBlobClient(freshName());

const outages: [string, begin: () => unknown][] = [
  ["answers 503 to everything", () => reset([respondWith(503)])],
  ["answers nothing", () => reset([hang()])],
  ["refuses all connections", () => Promise.all(ports.map((port) => port.close()))],
];

describe.each(outages)("when the service %s", (_, begin) => {
  it("the time limit of every helper holds within 250 ms", async () => {
    await begin();
    const late: string[] = [];
    const others: unknown[] = [];
    // A few at a time: what is measured is not to wait for the processor.
    for (let first = 0; first < calls.length; first += 5) {
      await Promise.all(
        calls.slice(first, first + 5).map(async ([name, call]) => {
          const stopTimer = startLoopTimer(limitInMs + 250, () => late.push(name));
          const error: unknown = await call().catch((thrown: unknown) => thrown);
          stopTimer();
          if (!isConcurrencyError(error) || !/OPERATION_TIMEOUT|LEASE_UNAVAILABLE|COMMIT_UNKNOWN|WATCH_FAILED/.test(error.code)) others.push([name, String(error)]);
        }),
      );
    }
    expect({ late, others }).toEqual({ late: [], others: [] });
  });

  it("a call without a time limit ends within 250 ms when its signal aborts", async () => {
    await begin();
    const late: string[] = [];
    const others: unknown[] = [];
    for (let first = 0; first < endless.length; first += 5) {
      await Promise.all(
        endless.slice(first, first + 5).map(async ([name, call]) => {
          const controller = new AbortController();
          const calling = call({ abortSignal: controller.signal }).then(() => undefined, (error: unknown) => error);
          await pause(limitInMs);
          const stopTimer = startLoopTimer(250, () => late.push(name));
          controller.abort(new Error("enough"));
          const error = await calling;
          stopTimer();
          if (!(error instanceof Error) || error.message !== "enough") others.push([name, String(error)]);
        }),
      );
    }
    expect({ late, others }).toEqual({ late: [], others: [] });
  });

  it("a call whose function ran when the outage began ends within 250 ms when its signal aborts, and Once within its time", async () => {
    const late: string[] = [];
    let waiting = inProgress.length + 1;
    let go = (): void => undefined;
    const all = new Promise<void>((resolve) => (go = resolve));
    const meet = (): Promise<unknown> => {
      if (--waiting === 0) void Promise.resolve(begin()).then(go);
      return all;
    };
    const controller = new AbortController();
    const pending = new Set(inProgress.map(([name]) => name));
    const early: unknown[] = [];
    const ended = (name: string, error?: unknown): void => {
      pending.delete(name);
      if (waiting <= 0) return;
      early.push([name, String(error)]);
      go();
    };
    const calling = inProgress.map(([name, call]) => call(meet, { abortSignal: controller.signal }).then(() => ended(name), (error: unknown) => ended(name, error)));
    // Not as short as the others: a part of it is spent on the claim, while all of them begin.
    const timeoutInMs = 4_000;
    const once = new Once(table).run(freshName(), meet, { timeoutInMs }).catch((error: unknown) => {
      ended("Once.run with timeoutInMs", error);
      return error;
    });
    await all;
    expect(early).toEqual([]);
    const onceIsInTime = startLoopTimer(timeoutInMs + 250, () => late.push("Once.run with timeoutInMs"));
    expect(await once).toMatchObject({ code: "COMMIT_UNKNOWN" });
    onceIsInTime();
    const allAreInTime = startLoopTimer(250, () => late.push(...pending));
    controller.abort(new Error("enough"));
    await Promise.all(calling);
    allAreInTime();
    expect(late).toEqual([]);
  });

  it("a call that does not wait has 5 seconds for its response", async () => {
    await begin();
    const late: string[] = [];
    await Promise.all(
      tries.map(async ([name, call]) => {
        const stopTimer = startLoopTimer(5_250, () => late.push(name));
        await expect(call(), name).rejects.toMatchObject({ code: expect.stringMatching(/OPERATION_TIMEOUT|LEASE_UNAVAILABLE/) as string });
        stopTimer();
      }),
    );
    expect(late).toEqual([]);
  }, 30_000);
});

describe("callers whose waits for a lock end together", () => {
  it("share the request that names its holder, and are not held up by it", async () => {
    const holder = await new BlobLocks(containerClient(container.containerName), { holder: "the holder" }).acquire("named");
    const waiting = locks();
    const waits = Array.from({ length: 1_000 }, () => waiting.acquire("named", { waitInMs: 300 }).catch((error: unknown) => error as Error));
    const errors = (await Promise.all(waits)) as Error[];
    expect(errors.every(({ name }) => name === "LeaseUnavailableError")).toBe(true);
    // One attempt, its ticket and a few looks while they wait; without sharing, there would be 1,000 to name the holder.
    // Releases of earlier tests are repeated in the background.
    expect(proxies.blob.count(({ path }) => path.includes("/named"))).toBeLessThan(30);
    await holder.release();
  });
});

describe("many calls on one resource during an outage", () => {
  const count = 50;
  const many: [string, () => Promise<unknown>, (index: number) => Promise<unknown>][] = [
    ["optimisticUpdate", () => blob().download(0, undefined, { abortSignal: AbortSignal.timeout(2_000) }), () => optimisticUpdate(doc(), (draft) => { draft["n"] = 1; }, { timeoutInMs: 2_000 })],
    ["runTransaction", () => table.getEntity("p", "a", { abortSignal: AbortSignal.timeout(2_000) }), (index) => runTransaction(table, "p", async (tx) => { await tx.get(`row-${index}`); tx.upsert({ rowKey: `row-${index}` }); }, { timeoutInMs: 2_000 })],
    ["BlobLocks.acquire", () => blob().getProperties({ abortSignal: AbortSignal.timeout(2_000) }), () => locks().acquire("storm", { waitInMs: 2_000 })],
  ];

  it.each(many)("%s: no more requests than the SDK alone sends for as many operations", async (_, bySdk, call) => {
    reset([respondWith(503)]);
    await Promise.allSettled(Array.from({ length: count }, bySdk));
    const alone = requests();
    reset([respondWith(503)]);
    await Promise.allSettled(Array.from({ length: count }, (_unused, index) => call(index)));
    expect(requests()).toBeLessThanOrEqual(alone);
  });

  it("the callers of an update share a read that the service refuses", async () => {
    reset([respondWith(403, { errorCode: "AuthorizationFailure" })]);
    const outcomes = await Promise.allSettled(Array.from({ length: 100 }, () => optimisticUpdate(doc(), (draft) => { draft["n"] = 1; })));
    expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
    expect(proxies.blob.count(({ path }) => path.endsWith("/doc"))).toBe(1);
  });

  it("a single read is not repeated sooner than the SDK would repeat it", async () => {
    reset([respondWith(503)]);
    await expect(readTarget(doc(), { timeoutInMs: 3_500, tryTimeoutInMs: 500 })).rejects.toMatchObject({ code: "OPERATION_TIMEOUT" });
    // The SDK sends the second time at once, and the third time after 4 seconds. Releases of earlier tests are repeated in the background.
    expect(proxies.blob.count(({ method, path }) => method === "GET" && path.endsWith("/doc"))).toBe(2);
  });
});
