import { expect, it } from "vitest";

import { enqueue, QueueConsumer, redrive } from "../../src/index.js";
import { freshQueue, queueClient } from "../support/clients.js";

it("brings messages back with key, checkpoint and lifetime, and those of others byte for byte", async () => {
  const queue = await freshQueue();
  const poisonQueue = queueClient(`${queue.name}-poison`);
  await enqueue(queue, { order: 1 }, { idempotencyKey: "k", timeToLiveInSeconds: 90 });
  await enqueue(queue, { order: 2 }, { idempotencyKey: "for ever", timeToLiveInSeconds: -1 });
  const consumer = new QueueConsumer(queue, (_, context) => {
    context.checkpoint({ page: 3 });
    context.poison("no");
  }, { poisonQueue, minPollIntervalInMs: 20 });
  const poisoned = new Promise<void>((resolve) => {
    let count = 0;
    consumer.on("poisoned", () => {
      if (++count === 2) resolve();
    });
  });
  await consumer.start();
  await poisoned;
  await consumer.stop();
  const foreign = [Buffer.from('{"order": 42}').toString("base64"), "plain <text> & more", Buffer.from([255, 254]).toString("base64")];
  for (const text of foreign) await poisonQueue.sendMessage(text);

  expect(await redrive(poisonQueue, queue)).toEqual({ moved: 5, skipped: 0 });
  const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 32 });
  const texts = receivedMessageItems.map(({ messageText }) => messageText);
  expect(texts).toEqual(expect.arrayContaining(foreign));
  const own = receivedMessageItems.filter(({ messageText }) => messageText.includes('"asc"'));
  const found = own.map(({ messageText, insertedOn, expiresOn }) => ({ ...(JSON.parse(messageText) as object), lifetime: (expiresOn.getTime() - insertedOn.getTime()) / 1_000 }));
  expect(found).toEqual(expect.arrayContaining([
    { asc: 1, key: "k", body: { order: 1 }, checkpoint: { page: 3 }, of: expect.any(String) as string, lifetime: 90 },
    { asc: 1, key: "for ever", body: { order: 2 }, checkpoint: { page: 3 }, of: expect.any(String) as string, lifetime: expect.any(Number) as number },
  ]));
  expect(found.find((message) => (message as { key?: string }).key === "for ever")!.lifetime).toBeGreaterThan(1e9);
  expect((await poisonQueue.peekMessages()).peekedMessageItems).toEqual([]);
});
