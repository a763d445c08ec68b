import { setTimeout as pause } from "node:timers/promises";

import { type QueueClient } from "@azure/storage-queue";
import { afterAll, describe, expect, it } from "vitest";

import { CommitInbox, ConcurrentQueue, enqueue, isConcurrencyError, QueueConsumer, redrive } from "../../src/index.js";
import type { MessageContext, QueueConsumerEvents, QueueConsumerOptions } from "../../src/index.js";
import { hang, MemoryInbox, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshName, freshQueue, freshTable, queueClient } from "../support/clients.js";
import { startWorker } from "../support/workers.js";
import type { ConsumerConfig, ConsumerNote, Work } from "./workers/consumer.js";

// The tests run at the same time, and Vitest's own hooks do not know which of them they are called from.
const cleanups: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  await Promise.all(cleanups.map((cleanup) => cleanup()));
});

/** A consumer that polls all the time, stopped when the tests are over. */
async function consume<T = unknown>(
  queue: QueueClient,
  handler: (payload: T, context: MessageContext) => unknown,
  options: QueueConsumerOptions<T> = {},
): Promise<QueueConsumer<T>> {
  const consumer = new QueueConsumer<T>(queue, handler, { minPollIntervalInMs: 20, maxPollIntervalInMs: 100, drainTimeoutInMs: 0, ...options });
  await consumer.start();
  cleanups.push(() => consumer.stop());
  return consumer;
}

function count<T>(consumer: QueueConsumer<T>, event: keyof QueueConsumerEvents, times: number): Promise<void> {
  let seen = 0;
  return new Promise((resolve) => {
    consumer.on(event, () => {
      if (++seen === times) resolve();
    });
  });
}

const isUpdate = ({ method, path }: { method: string; path: string }): boolean => method === "PUT" && path.includes("/messages/");

describe.concurrent("a queue consumer on Azurite", () => {
  it("keeps a message three times as long as it would be hidden", async () => {
    const queue = await freshQueue();
    await enqueue(queue, 1);
    let starts = 0;
    const handler = async (): Promise<void> => {
      starts++;
      await pause(31_000);
    };
    const consumers = await Promise.all([0, 1].map(() => consume(queue, handler, { visibilityTimeoutInSeconds: 10, drainTimeoutInMs: 1_000 })));
    await Promise.race(consumers.map((consumer) => count(consumer, "completed", 1)));
    expect(starts).toBe(1);
    expect((await queue.getProperties()).approximateMessagesCount).toBe(0);
  });

  it("tells a handler whose renewals are blocked before another consumer gets the message", async () => {
    const queue = await freshQueue();
    await enqueue(queue, 1);
    const proxy = await startFaultProxy(azurite().queueUrl, [hang({ when: isUpdate })]);
    cleanups.push(() => proxy.stop());
    let toldAt: number | undefined;
    const lost = await new Promise<{ reason: unknown; startedAt: number }>((resolve, reject) => {
      let first: AbortSignal | undefined;
      const blocked = (_: unknown, { signal }: MessageContext): Promise<void> =>
        new Promise((stop) => {
          // The same consumer may be the next one to receive the message, as well as another one.
          if (first) {
            resolve({ reason: first.reason, startedAt: Date.now() });
            stop();
            return;
          }
          first = signal;
          signal.addEventListener("abort", () => {
            toldAt = Date.now();
            stop();
          });
          // Another consumer from now on.
          consume(queue, () => resolve({ reason: signal.reason, startedAt: Date.now() })).catch(reject);
        });
      consume(queueClient(queue.name, { through: proxy }), blocked, { visibilityTimeoutInSeconds: 6, concurrency: 1 }).catch(reject);
    });
    expect(isConcurrencyError(lost.reason, "MESSAGE_LOST")).toBe(true);
    expect(toldAt).toBeLessThan(lost.startedAt);
    expect(proxy.faultCount("hang")).toBeGreaterThan(0);
  });

  it("moves what fails too often to the poison queue, and a redrive brings it back to have its effect once", async () => {
    const [queue, table] = await Promise.all([freshQueue(), freshTable()]);
    const poisonQueue = queueClient(`${queue.name}-poison`);
    let broken = true;
    const options = { poisonQueue, maxAttempts: 2, retryDelayInMs: 0 };
    const jobs = new ConcurrentQueue<{ n: number }>(queue, options);
    const effects: string[] = [];
    const consumer = jobs.consume(
      async ({ n }, { commit, idempotencyKey }) => {
        if (broken) throw new Error("out of order");
        const outcome = await commit([["create", { rowKey: crypto.randomUUID(), n }]]);
        effects.push(`${idempotencyKey} ${outcome}`);
      },
      { maxPollIntervalInMs: 100, inbox: new CommitInbox(table), partitionOf: () => "p" },
    );
    cleanups.push(() => consumer.stop());
    await jobs.enqueue({ n: 1 }, { idempotencyKey: "order 1" });
    await jobs.enqueue({ n: 1 }, { idempotencyKey: "order 1" });
    await queue.sendMessage('{"n":2}');
    const poisoned = count(consumer, "poisoned", 3);
    await consumer.start();
    await poisoned;

    const peeked = (await poisonQueue.peekMessages({ numberOfMessages: 32 })).peekedMessageItems;
    const envelopes = peeked.map(({ messageText }) => JSON.parse(messageText) as { key: string; poison: object });
    const foreign = envelopes.find(({ key }) => key !== "order 1")!;
    expect(envelopes.filter(({ key }) => key === "order 1")).toHaveLength(2);
    for (const { poison } of envelopes) {
      expect(poison).toMatchObject({ attempts: 2, queue: queue.name, error: "Error: out of order", reason: "failed 2 times" });
    }

    broken = false;
    const finished = Promise.all([count(consumer, "completed", 2), count(consumer, "duplicate", 1)]);
    expect(await jobs.redrive()).toEqual({ moved: 3, skipped: 0 });
    await finished;
    expect(effects.toSorted()).toEqual([`${foreign.key} committed`, "order 1 committed", "order 1 duplicate"].toSorted());
    expect((await poisonQueue.getProperties()).approximateMessagesCount).toBe(0);
    const rows = [];
    for await (const { rowKey } of table.listEntities()) if (!rowKey!.startsWith("~asc~inbox!")) rows.push(rowKey);
    expect(rows).toHaveLength(2);
  });

  it.each<[string, string, unknown, "text" | "base64"]>([
    ["plain text", "grüße <&>", "grüße <&>", "text"],
    ["JSON", '{"a":1}', { a: 1 }, "text"],
    ["base64", Buffer.from('{"ä":1}').toString("base64"), { ä: 1 }, "base64"],
  ])("takes %s from a foreign producer, with the message id as the key", async (_, text, payload, encoding) => {
    const queue = await freshQueue();
    const { messageId } = await queue.sendMessage(text);
    const got = await new Promise((resolve, reject) => {
      consume(queue, (received, { idempotencyKey }) => resolve([received, idempotencyKey]), { encoding, inbox: new MemoryInbox() }).catch(reject);
    });
    expect(got).toEqual([payload, messageId]);
  });

  it("carries every character and a checkpoint there and back, in both encodings", async () => {
    for (const encoding of ["text", "base64"] as const) {
      const queue = await freshQueue();
      const payload = "ä€😀 <&>\"'\\ \u0000\u001f \uFFFE\uFFFF \r\n]]>";
      await enqueue(queue, payload, { encoding });
      const seen: unknown[] = [];
      const consumer = await consume(
        queue,
        (received, context) => {
          seen.push(received, context.lastCheckpoint);
          if (context.attempt > 1) return;
          context.checkpoint({ at: payload });
          context.retry({ delayInMs: 0 });
        },
        { encoding },
      );
      await count(consumer, "completed", 1);
      expect(seen).toEqual([payload, undefined, payload, { at: payload }]);
    }
  });

  it("says at start that the queue is missing", async () => {
    await expect(new QueueConsumer(queueClient(freshName()), () => undefined).start()).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
  });

  it("stops on SIGTERM: what runs completes or is back at once, and nothing is charged to any message", async () => {
    const [queue, poison, table] = await Promise.all([freshQueue(), freshQueue(), freshTable()]);
    const proxy = await startFaultProxy(azurite().tableUrl);
    cleanups.push(() => proxy.stop());
    const config: ConsumerConfig = {
      connectionString: connectionString({ tableUrl: proxy.url }),
      queue: queue.name,
      poisonQueue: poison.name,
      table: table.tableName,
      mode: "claim",
      concurrency: 32,
      visibilityTimeoutInSeconds: 60,
      drainTimeoutInMs: 3_000,
      tell: true,
    };
    const worker = startWorker(new URL("./workers/consumer.ts", import.meta.url), config);
    cleanups.push(() => worker.stop());
    const send = (key: string, ms: number): Promise<unknown> => enqueue(queue, { ms } satisfies Work, { idempotencyKey: key });
    const note = async (is: ConsumerNote["is"]): Promise<void> => {
      while ((await worker.receive<ConsumerNote>()).is !== is);
    };

    await note("ready");
    await Promise.all([send("long 1", 120_000), send("long 2", 120_000)]);
    await note("start");
    await note("start");
    proxy.rules = [hang({ name: "claims" })];
    const claiming = proxy.waitFor(({ ruleNames }) => ruleNames.includes("claims"));
    await Promise.all([send("never 1", 0), send("never 2", 0)]);
    await claiming;
    process.kill(worker.pid, "SIGTERM");
    await worker.result;
    expect((await worker.exited).code).toBe(0);

    const attempts = new Map<string, number>();
    const consumer = await consume(queue, (_, { idempotencyKey, attempt }) => void attempts.set(idempotencyKey, attempt));
    await count(consumer, "completed", 4);
    expect(Object.fromEntries(attempts)).toEqual({ "long 1": 1, "long 2": 1, "never 1": 1, "never 2": 1 });
  });

  it("completes on SIGTERM what ends in time", async () => {
    const [queue, poison, table] = await Promise.all([freshQueue(), freshQueue(), freshTable()]);
    const config: ConsumerConfig = {
      connectionString: azurite().connectionString,
      queue: queue.name,
      poisonQueue: poison.name,
      table: table.tableName,
      mode: "claim",
      concurrency: 4,
      visibilityTimeoutInSeconds: 60,
      tell: true,
    };
    const worker = startWorker(new URL("./workers/consumer.ts", import.meta.url), config);
    cleanups.push(() => worker.stop());
    await enqueue(queue, { ms: 1_000 } satisfies Work);
    while ((await worker.receive<ConsumerNote>()).is !== "start");
    process.kill(worker.pid, "SIGTERM");
    expect(await worker.result).toMatchObject({ completed: 1, retried: 0, lost: 0 });
    expect((await queue.getProperties()).approximateMessagesCount).toBe(0);
  });

  it("brings messages back only while there are old ones", async () => {
    const [poison, queue] = await Promise.all([freshQueue(), freshQueue()]);
    expect(await redrive(poison, queue)).toEqual({ moved: 0, skipped: 0 });
  });
});
