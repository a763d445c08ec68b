/** Memory of 10,000 callers that wait for a lease, and of a consumer that handles 100,000 messages. Needs --expose-gc. */
import { setImmediate as nextTurn } from "node:timers/promises";

import { enqueue, QueueConsumer, withLease } from "azure-storage-concurrency";

import type { GrowingMemory } from "../benches/memory.js";
import { fakeQueue, heldLease } from "../fakes.js";

process.send!({ waiters: await waiting(10_000), ...(await handled(20_000, 100_000)) } satisfies GrowingMemory);

async function waiting(callers: number): Promise<number> {
  // Compiled before, and the queue of the resource exists.
  await attempt(100);
  const before = await bytesInUse();
  const stop = new AbortController();
  const blob = heldLease();
  const calls = Array.from({ length: callers }, () => withLease(blob, () => undefined, { waitInMs: Infinity, abortSignal: stop.signal }).catch(() => undefined));
  await nextTurn();
  const bytes = (await bytesInUse()) - before;
  stop.abort();
  await Promise.all(calls);
  return bytes;
}

async function attempt(callers: number): Promise<void> {
  const stop = new AbortController();
  const blob = heldLease();
  const calls = Array.from({ length: callers }, () => withLease(blob, () => undefined, { waitInMs: Infinity, abortSignal: stop.signal }).catch(() => undefined));
  await nextTurn();
  stop.abort();
  await Promise.all(calls);
}

async function handled(some: number, all: number): Promise<Pick<GrowingMemory, "afterSomeMessages" | "afterAllMessages">> {
  const queue = fakeQueue();
  let done = 0;
  const consumer = new QueueConsumer<{ order: number }>(queue, () => undefined, { concurrency: 32 });
  const finished = new Promise<void>((resolve) => {
    consumer.on("completed", () => {
      if (++done === all) resolve();
    });
  });
  const fill = async (count: number): Promise<void> => {
    for (let order = 0; order < count; order += 1_000) {
      await Promise.all(Array.from({ length: 1_000 }, (_, i) => enqueue(queue, { order: order + i }, { idempotencyKey: `order-${order + i}` })));
      await untilEmpty(queue);
    }
  };
  await consumer.start();
  await fill(some);
  const atSome = await bytesInUse();
  await fill(all - some);
  await finished;
  const atAll = await bytesInUse();
  await consumer.stop();
  return { afterSomeMessages: atSome, afterAllMessages: atAll };
}

async function untilEmpty(queue: ReturnType<typeof fakeQueue>): Promise<void> {
  while (queue.length > 0) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function bytesInUse(): Promise<number> {
  for (let i = 0; i < 5; i++) {
    await nextTurn();
    globalThis.gc!();
  }
  return process.memoryUsage().heapUsed;
}
