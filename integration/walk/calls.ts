/** The calls that can be traced: one of each helper with a walkthrough, alone, and with nobody in its way. */
import { randomUUID } from "node:crypto";

import type { ContainerClient } from "@azure/storage-blob";

import type * as Library from "../../src/index.js";
import type { FileShareServer } from "../../src/testing.js";
import { freshShare } from "../file/support.js";
import { fastContainer, fastTable } from "../support/fast-clients.js";
import { fastQueue } from "../support/fast-queue.js";

/** Where the calls go. */
export interface Storage {
  /** Of an Azurite. */
  readonly connectionString: string;
  readonly fileServer: FileShareServer;
}

/** Runs the part that is to be traced. */
export type Trace = (part: () => Promise<unknown>) => Promise<unknown>;

export interface Call {
  /** On the command line. */
  readonly name: string;
  /** What the heading of its walkthrough in CONTRIBUTING names as code. Without one, it has no walkthrough. */
  readonly heading?: string;
  /** The most files it may go through, so that a reader can follow it. Without one, they are only counted. */
  readonly limit?: number;
  /** Creates what the call needs. What it returns makes the call once, and can be called again. */
  prepare(library: typeof Library, storage: Storage): Promise<(trace: Trace) => Promise<unknown>>;
}

export const calls: readonly Call[] = [
  {
    name: "optimisticUpdate",
    heading: "optimisticUpdate",
    limit: 20,
    async prepare({ jsonBlob, optimisticUpdate }, { connectionString }) {
      const blob = (await container(connectionString)).getBlockBlobClient("counter.json");
      await blob.upload('{"count":1}', 11);
      const target = jsonBlob<{ count: number }>(blob);
      return (trace) => trace(() => optimisticUpdate(target, ({ count }) => ({ count: count + 1 })));
    },
  },
  {
    name: "withLease",
    heading: "withLease",
    limit: 17,
    async prepare({ withLease }, { connectionString }) {
      const blob = (await container(connectionString)).getBlockBlobClient("leased");
      await blob.upload("", 0);
      return (trace) => trace(() => withLease(blob, () => undefined));
    },
  },
  {
    name: "withLock",
    heading: "BlobLocks.withLock",
    limit: 25,
    async prepare({ BlobLocks }, { connectionString }) {
      const locks = new BlobLocks(await container(connectionString));
      return (trace) => trace(() => locks.withLock("name", () => undefined));
    },
  },
  {
    name: "message",
    heading: "QueueConsumer",
    limit: 32,
    async prepare({ ClaimInbox, enqueue, QueueConsumer }, { connectionString }) {
      const queue = fastQueue(connectionString, freshName());
      const table = fastTable(connectionString, freshName());
      await Promise.all([queue.create(), table.createTable()]);
      const inbox = new ClaimInbox(table);
      return async (trace) => {
        const consumer = new QueueConsumer(queue, () => undefined, {
          inbox,
          // It does not look for the next message before it is through with this one,
          concurrency: 1,
          // and not for this one before it is told to: the message is sent before the trace begins.
          minPollIntervalInMs: 3_600_000, maxPollIntervalInMs: 3_600_000,
        });
        const event = (name: "empty" | "completed"): Promise<void> => new Promise((done) => consumer.once(name, () => done()));
        const empty = event("empty");
        await consumer.start();
        await empty;
        await enqueue(queue, "payload");
        await trace(async () => {
          const completed = event("completed");
          consumer.notify();
          await completed;
        });
        await consumer.stop();
      };
    },
  },
  {
    name: "leasedUpdate",
    heading: "leasedUpdate",
    limit: 40,
    async prepare({ BlobLocks, jsonFile, leasedUpdate }, { connectionString, fileServer }) {
      const share = await freshShare(fileServer);
      const file = share.rootDirectoryClient.getFileClient("list.json");
      await file.create(2);
      await file.uploadRange("[]", 0, 2);
      const target = jsonFile<string[]>(file);
      const crashGuard = new BlobLocks(await container(connectionString));
      // The file gets longer each time: with the same length it would be written in place, which is the shorter way.
      return (trace) => trace(() => leasedUpdate(target, (list) => [...list, "more"], { crashGuard }));
    },
  },
  {
    name: "runTransaction",
    heading: "runTransaction",
    async prepare({ runTransaction }, { connectionString }) {
      const table = fastTable(connectionString, freshName());
      await table.createTable();
      await table.createEntity({ partitionKey: "counters", rowKey: "one", count: 1 });
      return (trace) =>
        trace(() =>
          runTransaction(table, "counters", async (transaction) => {
            const count = (await transaction.get<{ count: number }>("one"))?.count ?? 0;
            transaction.upsert({ rowKey: "one", count: count + 1 });
          }),
        );
    },
  },
];

async function container(connectionString: string): Promise<ContainerClient> {
  const client = fastContainer(connectionString, freshName());
  await client.create();
  return client;
}

/** Valid for containers, tables and queues alike. */
function freshName(): string {
  return `t${randomUUID().replaceAll("-", "")}`;
}
