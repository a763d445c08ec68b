import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { expect, it } from "vitest";

import { ClaimInbox, QueueConsumer } from "../../src/index.js";
import { notFaked } from "../../test/support/not-faked.js";
import type { TableLike } from "../../src/index.js";
import { FakeQueue } from "../../test/queue/fakes/fake-queue.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** A table that takes everything and keeps nothing: what grows is not its content. */
const sink: TableLike = {
  url: "https://account.table.example/sink",
  tableName: "sink",
  createEntity: notFaked,
  updateEntity: notFaked,
  upsertEntity: notFaked,
  createTable: () => Promise.resolve(),
  getEntity: () => Promise.reject(Object.assign(new Error("missing"), { statusCode: 404 })),
  deleteEntity: () => Promise.resolve(),
  submitTransaction: (actions, options) => {
    options?.abortSignal?.addEventListener("abort", () => undefined);
    return Promise.resolve({ subResponses: actions.map(() => ({ status: 204, etag: "e" })) });
  },
  listEntities: () => ({ byPage: async function* () {} }),
};

it("stays flat over 20,000 messages", async () => {
  const queue = new FakeQueue();
  let sent = 0;
  const receive = queue.receiveMessages.bind(queue);
  // The queue is filled as it is emptied: 20,000 messages at once would be the memory of the fake.
  queue.receiveMessages = async (options) => {
    queue.faults.log.length = 0;
    queue.receivedCounts.length = 0;
    for (let i = 0; i < 32 && sent < 20_000; i++, sent++) await queue.sendMessage(JSON.stringify({ n: sent, text: "x".repeat(1_000) }));
    return receive(options);
  };
  let completed = 0;
  let heapAtStart = 0;
  const consumer = new QueueConsumer(queue, () => new Promise((resolve) => setImmediate(resolve)), { inbox: new ClaimInbox(sink), concurrency: 32 });
  const heap = await new Promise<number>((resolve) => {
    consumer.on("completed", () => {
      completed++;
      if (completed === 4_000 || completed === 20_000) {
        setImmediate(() => {
          collectGarbage();
          const { heapUsed } = process.memoryUsage();
          if (completed < 20_000) heapAtStart = heapUsed;
          else resolve(heapUsed);
        });
      }
    });
    void consumer.start();
  });
  await consumer.stop();
  // 16,000 messages that left as little as 100 bytes each would show.
  expect(heap - heapAtStart).toBeLessThan(1_500_000);
});
