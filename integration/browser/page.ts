/** What runs inside of Chromium: the sources of the library and the browser builds of the SDKs, in one bundle. */
import { AzureSASCredential, TableClient } from "@azure/data-tables";
import { type BlockBlobClient, ContainerClient } from "@azure/storage-blob";
import { QueueClient } from "@azure/storage-queue";

import { ClaimInbox, enqueue, isConcurrencyError, optimisticUpdate, QueueConsumer, readTarget, runTransaction, tableEntity, textBlob, tryAcquireLease, withLease } from "../../src/index.js";

/** Where the page finds its container, table and queue, and the right to use them. */
export interface Scene {
  readonly name: string;
  readonly blobUrl: string;
  readonly queueUrl: string;
  readonly tableUrl: string;
  /** A browser never gets the account's key. */
  readonly sas: string;
  readonly tableSas: string;
}

interface Counter {
  n: number;
}

const blobOf = ({ blobUrl, name, sas }: Scene, blob: string): BlockBlobClient => new ContainerClient(`${blobUrl}/${name}?${sas}`).getBlockBlobClient(blob);

const tableOf = ({ tableUrl, name, tableSas }: Scene): TableClient =>
  new TableClient(tableUrl, name, new AzureSASCredential(tableSas), { allowInsecureConnection: true });

const increment = (counter: Counter): void => void (counter.n += 1);

const scenes = {
  /** Twelve at the same time, of two clients that race. */
  async updateBlob(scene: Scene): Promise<{ n: number; attempts: number }> {
    const updates = [0, 1].flatMap(() => {
      const blob = blobOf(scene, "counter");
      return Array.from({ length: 6 }, () => optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } }));
    });
    const results = await Promise.all(updates);
    const { value } = await readTarget<Counter>(blobOf(scene, "counter"));
    return { n: value.n, attempts: Math.max(...results.map((result) => result.attempts)) };
  },

  /** One after the other, while answers get lost. */
  async updateOften(scene: Scene, times: number): Promise<{ blob: number; entity: number; rows: number }> {
    const blob = blobOf(scene, "lossy");
    const table = tableOf(scene);
    const entity = tableEntity<Counter>(table, "lossy", "counter");
    const initial = { partitionKey: "lossy", rowKey: "counter", n: 0 };
    for (let i = 0; i < times; i++) {
      await optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } });
      await optimisticUpdate(entity, increment, { initial });
      await runTransaction(table, "lossy", async (tx) => {
        const rows = await tx.get<Counter>("rows");
        tx.upsert({ rowKey: "rows", n: (rows?.n ?? 0) + 1 });
      });
    }
    const rows = await readTarget(tableEntity<Counter>(table, "lossy", "rows"));
    return { blob: (await readTarget<Counter>(blob)).value.n, entity: (await readTarget(entity)).value.n, rows: rows.value.n };
  },

  async rewriteText(scene: Scene): Promise<string> {
    const text = textBlob(blobOf(scene, "text"));
    await optimisticUpdate(text, (current) => `${current}, Welt`, { initial: "Grüße" });
    return (await readTarget(text)).value;
  },

  async updateEntity(scene: Scene): Promise<number> {
    const table = tableOf(scene);
    const initial = { partitionKey: "p", rowKey: "counter", n: 0 };
    await Promise.all(Array.from({ length: 4 }, () => optimisticUpdate(tableEntity<Counter>(table, "p", "counter"), increment, { initial })));
    await runTransaction(table, "p", async (tx) => {
      const counter = await tx.get<Counter>("counter");
      tx.update({ rowKey: "counter", n: (counter?.n ?? 0) + 1 });
      tx.create({ rowKey: "receipt" });
    });
    return (await readTarget(tableEntity<Counter>(table, "p", "counter"))).value.n;
  },

  /** Holds a lease until the test has seen enough renewals. */
  async holdLease(scene: Scene, untilReleased: string): Promise<{ second: unknown; held: boolean }> {
    const blob = blobOf(scene, "leased");
    const options = { durationInSeconds: 15, renewIntervalInMs: 100, createIfNotExists: true };
    return withLease(
      blob,
      async (lease) => {
        await new Promise((resolve) => globalThis.addEventListener(untilReleased, resolve, { once: true }));
        lease.assertHeld();
        return { second: await tryAcquireLease(blob), held: !lease.signal.aborted };
      },
      options,
    );
  },

  async loseLease(scene: Scene): Promise<boolean> {
    const blob = blobOf(scene, "broken");
    const held = withLease(blob, (lease) => new Promise((_, reject) => lease.signal.addEventListener("abort", () => reject(lease.signal.reason as Error))), {
      durationInSeconds: 15,
      renewIntervalInMs: 100,
      createIfNotExists: true,
    });
    const lost = held.then(() => false, (error: unknown) => isConcurrencyError(error, "LEASE_LOST"));
    for (let looks = 0; looks < 200 && !(await blob.exists()); looks++) await new Promise((next) => setTimeout(next, 20));
    await blob.getBlobLeaseClient().breakLease(0);
    return lost;
  },

  /** Each order is sent twice. Ends when the queue stays empty. */
  async consume(scene: Scene, orders: number): Promise<{ handled: number[]; left: number }> {
    const queue = new QueueClient(`${scene.queueUrl}/${scene.name}?${scene.sas}`);
    const numbers = Array.from({ length: orders }, (_, i) => i);
    for (const order of [...numbers, ...numbers]) await enqueue(queue, order, { idempotencyKey: `order-${order}` });
    const handled: number[] = [];
    const stop = new AbortController();
    const consumer = new QueueConsumer<number>(queue, (order) => void handled.push(order), {
      inbox: new ClaimInbox(tableOf(scene)),
      visibilityTimeoutInSeconds: 5,
      minPollIntervalInMs: 20, maxPollIntervalInMs: 100,
    });
    const left = async (): Promise<number> => (await queue.getProperties()).approximateMessagesCount ?? 0;
    consumer.on("empty", () => void left().then((count) => count === 0 && stop.abort()));
    await consumer.run({ abortSignal: stop.signal });
    return { handled: handled.toSorted((a, b) => a - b), left: await left() };
  },
};

export type Scenes = typeof scenes;

Object.assign(globalThis, { scenes });
