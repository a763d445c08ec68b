/* A producer that sends every order twice, and a consumer whose effect happens once: in one transaction with its record. */
import { enqueue, QueueConsumer, TableInbox } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Order {
  id: string;
  amount: number;
}

export const orderConsumer: Sample = {
  title: "A queue consumer whose effect happens once",
  async run(storage) {
    const queue = await storage.queue();
    const table = await storage.table();
    const orders: Order[] = Array.from({ length: 20 }, (_, i) => ({ id: `order-${i}`, amount: i }));
    for (const order of [...orders, ...orders]) await enqueue(queue, order, { idempotencyKey: order.id });
    say.step("20 orders are in the queue, each of them twice");

    let handled = 0;
    let commits = 0;
    const consumer = new QueueConsumer<Order>(
      queue,
      async (order, context) => {
        handled++;
        const done = await context.commit("orders", [["create", { partitionKey: "orders", rowKey: order.id, amount: order.amount }]]);
        if (done === "committed") commits++;
      },
      { inbox: new TableInbox(table, { mode: "commit" }), pollIntervalInMs: { min: 50, max: 200 } },
    );
    const empty = new Promise<void>((resolve) => consumer.once("empty", () => resolve()));
    await consumer.start();
    await empty;
    await consumer.stop();
    say.result(`the handler ran ${handled} times, and ${commits} orders were booked`);
  },
};

await runIfStarted(orderConsumer, import.meta.url);
