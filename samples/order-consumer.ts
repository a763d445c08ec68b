/* Orders come twice, and the consumer fails in the middle; each is booked once: in one transaction with its record. */
import { CommitInbox, enqueue, QueueConsumer } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Order {
  id: string;
  amount: number;
}

export const orderConsumer: Sample = {
  name: "order-consumer",
  title: "Each order is booked once",
  helper: "QueueConsumer, CommitInbox",
  section: "docs/queues.md#inboxes",
  plan: "20 orders, each sent twice by a nervous producer. Every fourth time the handler fails after it has booked the order, before it can say so.",
  lesson: "A queue delivers at least once. The booking and the note that this order is done are one transaction, so that a second delivery finds the note: the effect happens exactly once.",
  async run(storage) {
    const queue = await storage.queue();
    const table = await storage.table();
    const orders: Order[] = Array.from({ length: 20 }, (_, i) => ({ id: `order-${i}`, amount: i }));
    await Promise.all([...orders, ...orders].map((order) => enqueue(queue, order, { idempotencyKey: order.id })));

    let runs = 0;
    let failures = 0;
    const consumer = new QueueConsumer<Order>(
      queue,
      async (order, context) => {
        const run = ++runs;
        await context.commit([["create", { rowKey: order.id, amount: order.amount }]]);
        if (run % 4 === 0) throw new Error("the power fails");
      },
      { inbox: new CommitInbox(table), partitionOf: () => "orders", retryDelayInMs: 0, minPollIntervalInMs: 50, maxPollIntervalInMs: 200 },
    );
    // A message is off the queue when its handler has finished, or the inbox knows its order to be booked.
    let left = 2 * orders.length;
    const allGone = new Promise<void>((resolve) => {
      const gone = (): void => {
        if (--left === 0) resolve();
      };
      consumer.on("completed", gone).on("duplicate", gone).on("retried", () => failures++);
    });
    await consumer.start();
    await allGone;
    await consumer.stop();
    say.step(`${2 * orders.length} messages: the handler ran ${runs} times, and failed ${failures} times after booking`);

    // The partition also has the notes of the inbox.
    const booked = new Set<unknown>();
    for await (const { rowKey, amount } of table.listEntities<Partial<Order>>()) if (amount !== undefined) booked.add(rowKey);
    check(failures > 0, "handlers fail");
    check(booked.size === orders.length, "each order is booked once");
    return `${booked.size} orders are booked, none twice`;
  },
};

await runIfStarted(orderConsumer, import.meta.url);
