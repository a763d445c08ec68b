import { inspect } from "node:util";

import { ShareServiceClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import {
  acquireLease, appendExactlyOnce, BlobLocks, blobHttpHeaders, blobMetadata, blobTags, bytesBlob, bytesFile, claimPages, ClaimInbox, CommitInbox, ConcurrentBlob, ConcurrentFile, ConcurrentQueue, ConcurrentTable,
  containerAccessPolicy, containerMetadata, downloadConsistent, downloadConsistentStream, encodedBlob, enqueue, fileHttpHeaders, fileMetadata, IdAllocator, jsonBlob, jsonFile, LeaderElection, Once, optimisticUpdate, Outbox, QueueConsumer, queueMetadata,
  ReaderWriterLock, readTarget, runTransaction, Schedule, Semaphore, shareMetadata, tableEntity, TableLock, textBlob, textFile, watch, WorkBalancer,
} from "../../src/index.js";
import { emulatorAccount, startFileShareServer } from "../../src/testing.js";
import type { FileShareServer } from "../../src/testing.js";
import { freshContainer, freshQueue, freshTable } from "../support/clients.js";

let files: FileShareServer;

beforeAll(async () => {
  files = await startFileShareServer();
});
afterAll(() => files.stop());

/** Everything that `console.log`, a debugger or a structured logger could write of an object. */
function printed(value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch {
    // it refers to itself
  }
  return [inspect(value, { depth: 30 }), inspect(value, { depth: 30, showHidden: true }), json, String(value)].join("\n");
}

const { key } = emulatorAccount;
const bytesOfKey = inspect(Buffer.from(key, "base64")).slice(8, 50);

function expectNoSecret(objects: Readonly<Record<string, unknown>>): void {
  const leaks = Object.entries(objects).filter(([, value]) => {
    const text = printed(value);
    return text.includes(key) || text.includes(bytesOfKey);
  });
  expect(leaks.map(([name]) => name)).toEqual([]);
}

describe("what is printed of a public object contains no account key", () => {
  it("the clients do: otherwise this test would show nothing", async () => {
    expect(printed(await freshContainer())).toContain(bytesOfKey);
  });

  it("helpers, facades, targets and watches", async () => {
    const [container, table, queue] = [await freshContainer(), await freshTable(), await freshQueue()];
    const share = ShareServiceClient.fromConnectionString(files.connectionString).getShareClient("share");
    const [blob, file] = [container.getBlockBlobClient("doc"), share.rootDirectoryClient.getFileClient("doc")];
    const locks = new BlobLocks(container);
    expectNoSecret({
      ConcurrentBlob: new ConcurrentBlob(blob),
      ConcurrentTable: new ConcurrentTable(table),
      ConcurrentEntity: new ConcurrentTable(table).entity("p", "r"),
      ConcurrentQueue: new ConcurrentQueue(queue),
      ConcurrentFile: new ConcurrentFile(file),
      locks,
      semaphore: new Semaphore(locks, "s", 2),
      readerWriterLock: new ReaderWriterLock(locks, "rw"),
      election: new LeaderElection(locks, "leader", () => undefined),
      tableLock: new TableLock(table, locks),
      claimInbox: new ClaimInbox(table),
      commitInbox: new CommitInbox(table),
      consumer: new QueueConsumer(queue, () => undefined),
      ids: new IdAllocator(jsonBlob(blob)),
      targets: [jsonBlob(blob), textBlob(blob), bytesBlob(blob), encodedBlob(blob, { encode: () => new Uint8Array(), decode: () => 1 }), blobHttpHeaders(blob), blobMetadata(blob), blobTags(blob), containerMetadata(container), containerAccessPolicy(container)],
      fileTargets: [jsonFile(file), textFile(file), bytesFile(file), fileMetadata(file), fileHttpHeaders(file), shareMetadata(share)],
      otherTargets: [queueMetadata(queue), tableEntity(table, "p", "r")],
      watch: watch(jsonBlob(blob)),
      once: new Once(table, { overflow: container }),
      outbox: new Outbox(table, locks, { queues: [queue] }),
      schedule: new Schedule(table, locks, { job: { everyInMs: 60_000, run: () => undefined } }),
      balancer: new WorkBalancer(locks, "feeds", 2, () => undefined),
      consumerWithOverflow: new QueueConsumer(queue, () => undefined, { overflow: container, inbox: new ClaimInbox(table), poisonQueue: await freshQueue() }),
    });
  });

  it("handles, contexts, results and errors", async () => {
    const [container, table, queue] = [await freshContainer(), await freshTable(), await freshQueue()];
    const blob = container.getBlockBlobClient("doc");
    await blob.upload("{}", 2);
    const locks = new BlobLocks(container);
    const objects: Record<string, unknown> = {};
    const lease = await acquireLease(blob);
    objects["lease"] = lease;
    objects["requestOptions"] = lease.requestOptions;
    await lease.release();
    await locks.withLock("a", (lock) => void (objects["lock"] = lock));
    await locks.withLocks(["a", "b"], (set) => void (objects["lockSet"] = set));
    await new Semaphore(locks, "s", 1).withSlot((slot) => void (objects["slot"] = slot));
    await new ReaderWriterLock(locks, "rw").withReadLock((lock) => void (objects["readLock"] = lock));
    await new TableLock(table, locks).withLock(async (held) => {
      objects["lockedTable"] = held;
      objects["fencedPartition"] = await held.partition("p");
    });
    await runTransaction(table, "p", (tx) => void (objects["tx"] = tx));
    objects["mutatorContext"] = await new Promise((resolve) => void optimisticUpdate(jsonBlob(blob), (_draft, context) => resolve(context)));
    objects["readResult"] = await readTarget(jsonBlob(blob));
    objects["updateResult"] = await optimisticUpdate(jsonBlob<{ n?: number }>(blob), (draft) => { draft.n = 1; });
    objects["missing"] = await readTarget(jsonBlob(container.getBlockBlobClient("missing"))).catch((error: unknown) => error);
    objects["conflict"] = await optimisticUpdate(jsonBlob(blob), () => 1, { ifMatch: '"0x0"' }).catch((error: unknown) => error);
    objects["append"] = await appendExactlyOnce(container.getAppendBlobClient("log"), "x", { createIfNotExists: true });
    const pages = container.getPageBlobClient("pages");
    await pages.create(512);
    objects["pageWriter"] = await claimPages(pages);
    await enqueue(queue, 1);
    const consumer = new QueueConsumer(queue, (_payload, context) => void (objects["messageContext"] = context), { inbox: new ClaimInbox(table), minPollIntervalInMs: 20 });
    const handled = new Promise((resolve) => consumer.on("completed", (detail) => resolve((objects["event"] = detail))));
    await consumer.start();
    await handled;
    await consumer.stop();
    objects["health"] = consumer.health();
    await new Once(table, { overflow: container }).run("k", (context) => { objects["onceContext"] = context; return "x".repeat(70_000); });
    objects["onceState"] = await new Once(table, { overflow: container }).get("k");
    objects["onceError"] = await new Once(table).get("k").catch((error: unknown) => error);
    objects["largeMessage"] = await enqueue(queue, "x".repeat(70_000), { overflow: container });
    objects["download"] = await downloadConsistent(blob);
    objects["stream"] = await downloadConsistentStream(blob);
    const outbox = new Outbox(table, { queues: [queue] });
    await runTransaction(table, "outbox", (tx) => outbox.add(tx, queue, 1));
    objects["outbox"] = outbox;
    objects["flushed"] = await outbox.flush();
    await outbox.stop();
    const schedule = new Schedule(table, locks, { job: { nextRun: () => undefined, run: (context) => void (objects["jobContext"] = context) } });
    objects["triggered"] = await schedule.trigger("job");
    const finished = new Promise((resolve) => schedule.on("finished", resolve));
    await schedule.start();
    objects["finished"] = await finished;
    objects["jobStatus"] = await schedule.status();
    await schedule.stop();
    let balancer: WorkBalancer | undefined;
    await new Promise<void>((resolve) => {
      balancer = new WorkBalancer(locks, "feeds", 1, (context) => { objects["shardContext"] = context; resolve(); });
      void balancer.start();
    });
    objects["balancer"] = balancer;
    await balancer?.stop();
    expect(Object.values(objects).filter((value) => value === undefined)).toEqual([]);
    expectNoSecret(objects);
  });
});
