import { setTimeout as pause } from "node:timers/promises";

import type { ContainerClient } from "@azure/storage-blob";
import type { QueueClient } from "@azure/storage-queue";
import { describe, expect, it, onTestFinished } from "vitest";

import { ClaimInbox, enqueue, isConcurrencyError, purgeOverflow, QueueConsumer, redrive } from "../../src/index.js";
import type { QueueConsumerEvents, QueueConsumerOptions } from "../../src/index.js";
import { cutBody, dropResponse, respondWith, startFaultProxy } from "../../src/testing.js";
import type { FaultProxy, FaultRule } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer, freshQueue, freshTable, queueClient, tableClient } from "../support/clients.js";
import { startWorker, type Worker } from "../support/workers.js";
import type { ConsumerConfig, ConsumerNote } from "./workers/consumer.js";

const payload = { text: "€".repeat(50_000) };
const fast = { minPollIntervalInMs: 20, maxPollIntervalInMs: 100, visibilityTimeoutInSeconds: 5, retryDelayInMs: 0, drainTimeoutInMs: 0 };

async function namesOf(container: ContainerClient): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of containerClient(container.containerName).listBlobsFlat()) names.push(name);
  return names;
}

/** The messages that are left, and those in the poison queue. */
async function countsOf(...queues: QueueClient[]): Promise<(number | undefined)[]> {
  return Promise.all(queues.map(async ({ name }) => (await queueClient(name).getProperties()).approximateMessagesCount));
}

async function proxyOf(url: string, rules: FaultRule[] = []): Promise<FaultProxy> {
  const proxy = await startFaultProxy(url, rules);
  onTestFinished(() => proxy.stop());
  return proxy;
}

/** Consumes until a message is completed, or recognised as a duplicate, and everything is settled. */
async function consumeOne(queue: QueueClient, handler: (payload: unknown) => unknown, options: QueueConsumerOptions<unknown>): Promise<(keyof QueueConsumerEvents)[]> {
  const events: (keyof QueueConsumerEvents)[] = [];
  const consumer = new QueueConsumer(queue, handler, { ...fast, ...options });
  const ended = new Promise((resolve) => {
    for (const event of ["completed", "duplicate", "poisoned", "lost", "error"] as const) {
      consumer.on(event, () => {
        events.push(event);
        if (event !== "error") resolve(event);
      });
    }
  });
  await consumer.start();
  await ended;
  await consumer.stop({ drainTimeoutInMs: 10_000 });
  return events;
}

describe.concurrent("large messages on Azurite", () => {
  it.each(["text", "base64"] as const)("go through a blob, which is deleted: %s", async (encoding) => {
    const [queue, poisonQueue, table] = await Promise.all([freshQueue(), freshQueue(), freshTable()]);
    const blobs = await startFaultProxy(azurite().blobUrl);
    try {
      const container = await freshContainer({ through: blobs });
      await enqueue(queue, payload, { overflow: container, encoding });
      expect(blobs.log.length).toBe(1);
      const handled: unknown[] = [];
      const events = await consumeOne(queue, (found) => handled.push(found), { overflow: container, encoding, poisonQueue, inbox: new ClaimInbox(table) });
      expect(events).toEqual(["completed"]);
      expect(handled).toEqual([payload]);
      // The check of start(), one read and one delete.
      expect(blobs.log.length).toBe(1 + 3);
      expect(await namesOf(container)).toEqual([]);
      expect(await countsOf(queue, poisonQueue)).toEqual([0, 0]);
    } finally {
      await blobs.stop();
    }
  });

  it("keep their blob in the poison queue, and a redrive works again", async () => {
    const [queue, poisonQueue, container] = await Promise.all([freshQueue(), freshQueue(), freshContainer()]);
    await enqueue(queue, payload, { overflow: container, idempotencyKey: "order-1" });
    const fail = (): never => {
      throw new Error("broken");
    };
    expect(await consumeOne(queue, fail, { overflow: container, poisonQueue, maxAttempts: 1 })).toEqual(["poisoned"]);
    expect(await namesOf(container)).toHaveLength(1);
    expect(await redrive(poisonQueue, queue)).toEqual({ moved: 1, skipped: 0 });
    const handled: unknown[] = [];
    await consumeOne(queue, (found) => handled.push(found), { overflow: container, poisonQueue });
    expect(handled).toEqual([payload]);
    expect(await namesOf(container)).toEqual([]);
  });

  it("need a container that exists", async () => {
    const queue = await freshQueue();
    const missing = containerClient("missing-container");
    const error: unknown = await enqueue(queue, payload, { overflow: missing }).catch((thrown: unknown) => thrown);
    expect(isConcurrencyError(error, "TARGET_NOT_FOUND")).toBe(true);
    await expect(new QueueConsumer(queue, () => undefined, { overflow: missing }).start()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    expect(await countsOf(queue)).toEqual([0]);
  });

  it("are purged if no message refers to them, and no other blob is", async () => {
    const [queue, container] = await Promise.all([freshQueue(), freshContainer()]);
    await container.uploadBlockBlob("invoice.json", "1", 1);
    await enqueue(queue, payload, { overflow: container });
    expect(await purgeOverflow(container)).toEqual({ deleted: 0, kept: 0 });
    expect(await purgeOverflow(container, { olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
    expect(await namesOf(container)).toEqual(["invoice.json"]);
  });

  it("survive a body that is cut, and a service that is busy", async () => {
    const [queue, poisonQueue] = await Promise.all([freshQueue(), freshQueue()]);
    const blobs = await startFaultProxy(azurite().blobUrl, [
      cutBody(60_000, { when: ({ method }) => method === "GET", times: 1 }),
      respondWith(503, { errorCode: "ServerBusy", when: ({ method }) => method === "GET", times: 2 }),
    ]);
    try {
      const container = await freshContainer({ through: blobs, retries: false });
      await enqueue(queue, payload, { overflow: container });
      const handled: unknown[] = [];
      const events = await consumeOne(queue, (found) => handled.push(found), { overflow: container, poisonQueue, maxAttempts: 1 });
      expect(events.at(-1)).toBe("completed");
      expect(handled).toEqual([payload]);
      expect(await countsOf(queue, poisonQueue)).toEqual([0, 0]);
    } finally {
      await blobs.stop();
    }
  });
});

/** The requests that send and consume a large message, by service and order. Those for start() and polls without messages come in between. */
const requests = [
  ["blobUrl", "PUT", /asc-overflow/],
  ["queueUrl", "POST", /messages$/],
  ["queueUrl", "GET", /messages/],
  ["blobUrl", "GET", /asc-overflow/],
  ["tableUrl", "POST", /batch/],
  ["queueUrl", "DELETE", /messages/],
  ["blobUrl", "DELETE", /asc-overflow/],
] as const;

describe("a large message of which one response is lost", () => {
  it.each(requests.flatMap(([service, method, path]) => [true, false].map((retries) => [service, method, path, retries] as const)))(
    "has its effect once, and leaves nothing but a blob for the purge: %s %s %s, with retries of the SDK: %s",
    async (service, method, path, retries) => {
      const rule = dropResponse({ when: (request) => request.method === method && path.test(decodeURIComponent(request.path)), times: 1 });
      const lossy = await proxyOf(azurite()[service], [rule]);
      const through = (of: typeof service): object => ({ retries, ...(of === service && { through: lossy }) });
      const [freshQ, poisonQueue, freshT, freshC] = await Promise.all([freshQueue(), freshQueue(), freshTable(), freshContainer()]);
      const queue = queueClient(freshQ.name, through("queueUrl"));
      const container = containerClient(freshC.containerName, through("blobUrl"));
      const inbox = new ClaimInbox(tableClient(freshT.tableName, through("tableUrl")));
      // As another consumer has done before: the first transaction is that of the claim.
      await new ClaimInbox(freshT).prepare({ abortSignal: new AbortController().signal, tracingOptions: {} });
      const send = (): Promise<unknown> => enqueue(queue, payload, { overflow: container, idempotencyKey: "order-1" });
      // As a producer does that gets an error: it repeats the call with the same key.
      await send().catch(send);
      const handled: unknown[] = [];
      const consumer = new QueueConsumer(queue, (found) => void handled.push(found), { ...fast, overflow: container, poisonQueue, inbox });
      consumer.on("error", () => undefined); // the response that is lost
      await consumer.start();
      onTestFinished(() => consumer.stop());
      const limit = Date.now() + 30_000;
      while ((await countsOf(queue))[0] !== 0 && Date.now() < limit) await pause(100);
      await consumer.stop({ drainTimeoutInMs: 10_000 });
      expect(lossy.faultCount()).toBe(1);
      expect(handled).toEqual([payload]);
      expect(await countsOf(queue, poisonQueue)).toEqual([0, 0]);
      await purgeOverflow(freshC, { olderThanInMs: 0 });
      expect(await namesOf(freshC)).toEqual([]);
    },
    60_000,
  );
});

describe("consumers of large messages that are killed, with every tenth response lost", () => {
  it("complete each message, poison none, and leave blobs that the purge finds", async () => {
    const [messages, repeats, maxKills] = [300, 60, 6];
    const [queue, poison, table, container] = await Promise.all([freshQueue(), freshQueue(), freshTable(), freshContainer()]);
    const loss = (): FaultRule[] => [dropResponse({ probability: 0.1 })];
    const [queueProxy, tableProxy, blobProxy] = [await proxyOf(azurite().queueUrl, loss()), await proxyOf(azurite().tableUrl, loss()), await proxyOf(azurite().blobUrl, loss())];
    const config: ConsumerConfig = {
      connectionString: connectionString({ queueUrl: queueProxy.url, tableUrl: tableProxy.url, blobUrl: blobProxy.url }),
      queue: queue.name,
      poisonQueue: poison.name,
      table: table.tableName,
      overflow: container.containerName,
      mode: "claim",
      concurrency: 16,
      visibilityTimeoutInSeconds: 8,
      tell: true,
    };
    const ended = new Set<string>();
    const start = (): Worker<unknown> => {
      const worker = startWorker(new URL("./workers/consumer.ts", import.meta.url), config, { timeoutInMs: 200_000 });
      void (async () => {
        for (;;) {
          const note = await worker.receive<ConsumerNote>();
          if (note.is === "end") ended.add(note.key);
        }
      })().catch(() => undefined);
      return worker;
    };
    const running = [start(), start()];
    onTestFinished(async () => {
      await Promise.all(running.map((worker) => worker.stop()));
    });
    // Some are sent again while the first ones are handled: both messages have one blob.
    const keys = Array.from({ length: messages + repeats }, (_, i) => (i < messages ? i : (i - messages) * 5));
    for (let i = 0; i < keys.length; i += 20) {
      await Promise.all(keys.slice(i, i + 20).map((key) => enqueue(queue, { ms: 20, pad: "x".repeat(70_000) }, { idempotencyKey: `order-${key}`, overflow: container })));
    }
    const limit = Date.now() + 150_000;
    for (let kills = 0; (await countsOf(queue))[0] !== 0 && Date.now() < limit; ) {
      await pause(1_500);
      if (kills >= maxKills) continue;
      const turn = kills++ % 2;
      running[turn]!.signal("SIGKILL");
      await running[turn]!.exited;
      running[turn] = start();
    }
    for (const worker of running) worker.send("stop");
    await Promise.all(running.map((worker) => worker.result));
    expect(ended.size).toBe(messages);
    expect(await countsOf(queue, poison)).toEqual([0, 0]);
    expect(blobProxy.faultCount()).toBeGreaterThan(10);
    await purgeOverflow(container, { olderThanInMs: 0 });
    expect(await namesOf(container)).toEqual([]);
  }, 240_000);
});
