import { randomUUID } from "node:crypto";

import type { TableClient } from "@azure/data-tables";
import { QueueClient } from "@azure/storage-queue";
import { enqueue, QueueConsumer } from "azure-storage-concurrency";
import type { MessageHandler, QueueConsumerOptions } from "azure-storage-concurrency";

import type { BenchEnv, Bound, Measured, Side } from "../harness.js";
import { paced } from "../pace.js";
import { requestsSent } from "../requests.js";

export const concurrency = 32;

/** What both sides get: a queue with 1,000 messages (250 in a quick run), and an empty table. */
export interface Drain {
  readonly queue: QueueClient;
  /** How many. */
  readonly messages: number;
  readonly table: TableClient;
  /** To be called for each message that is done; resolves `drained` after the last. */
  readonly done: () => void;
  readonly drained: Promise<void>;
  readonly isDrained: () => boolean;
}

export interface Payload {
  readonly order: number;
}

// Each side comes first once and last once, after a turn of each that does not count.
const turns: readonly [side: Side, counts: boolean][] = [
  ["baseline", false],
  ["ours", false],
  ["baseline", true],
  ["ours", true],
  ["ours", true],
  ["baseline", true],
];

/** Lets both sides empty a queue in turn, and compares messages per second and requests per message. */
export async function compareDrains(
  env: BenchEnv,
  name: string,
  sides: Readonly<Record<Side, (drain: Drain) => Promise<void>>>,
  bounds: readonly Bound[],
): Promise<Measured> {
  const totals = { ours: { seconds: 0, requests: 0, messages: 0 }, baseline: { seconds: 0, requests: 0, messages: 0 } };
  for (const [side, counts] of turns) {
    const drain = await prepare(env);
    const sentBefore = requestsSent();
    const start = performance.now();
    const running = sides[side](drain);
    await drain.drained;
    const seconds = (performance.now() - start) / 1_000;
    const requests = requestsSent() - sentBefore;
    await running;
    const left = (await drain.queue.getProperties()).approximateMessagesCount;
    if (left !== 0) throw new Error(`${name}, ${side}: ${left ?? "?"} messages are left`);
    await drain.queue.delete();
    if (!counts) continue;
    totals[side].seconds += seconds;
    totals[side].requests += requests;
    totals[side].messages += drain.messages;
  }
  const rate = (side: Side): number => totals[side].messages / totals[side].seconds;
  const perMessage = (side: Side): number => totals[side].requests / totals[side].messages;
  return {
    name,
    unit: "messages/s",
    ours: rate("ours"),
    baseline: rate("baseline"),
    requestsPerOp: { ours: perMessage("ours"), baseline: perMessage("baseline") },
    bounds,
  };
}

/** Empties the queue with a `QueueConsumer`. */
export function consume(drain: Drain, handler: MessageHandler<Payload>, options: QueueConsumerOptions<Payload>): Promise<void> {
  return drainWith(drain, new QueueConsumer<Payload>(drain.queue, handler, { concurrency, ...options }));
}

export async function drainWith({ done, drained }: Drain, consumer: QueueConsumer<Payload>): Promise<void> {
  consumer.on("completed", done);
  await consumer.start();
  await drained;
  await consumer.stop();
}

/** Empties the queue as code on the bare SDK does: receive a batch, work on all of it, receive the next. */
export async function receiveLoop(
  { queue, done, isDrained }: Drain,
  work: (payload: Payload, key: string) => Promise<unknown>,
  numberOfMessages = concurrency,
): Promise<void> {
  while (!isDrained()) {
    const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages, visibilityTimeout: 60 });
    await Promise.all(
      receivedMessageItems.map(async ({ messageId, popReceipt, messageText }) => {
        const { body, key } = JSON.parse(messageText) as { body: Payload; key: string };
        await work(body, key);
        await queue.deleteMessage(messageId, popReceipt);
        done();
      }),
    );
  }
}

async function prepare(env: BenchEnv): Promise<Drain> {
  const queue = new QueueClient(env.connectionString, `b${randomUUID()}`);
  const table = await env.freshTable();
  const messages = paced(1_000);
  await queue.create();
  for (let order = 0; order < messages; order += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, i) => enqueue(queue, { order: order + i }, { idempotencyKey: `order-${order + i}` })));
  }
  let left = messages;
  let resolve!: () => void;
  const drained = new Promise<void>((settle) => (resolve = settle));
  const done = (): void => {
    if (--left === 0) resolve();
  };
  return { queue, messages, table, done, drained, isDrained: () => left === 0 };
}
