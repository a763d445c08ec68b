/* Two queues in a row: an order takes items from the stock and sends an invoice, in one transaction; both happen once. */
import { CommitInbox, enqueue, QueueConsumer } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Order {
  id: string;
  items: number;
}

export const orderChain: Sample = {
  name: "order-chain",
  title: "An order and its invoice",
  helper: "context.transaction, tx.send",
  section: "docs/queues.md#transactions-and-outgoing-messages",
  plan: "30 orders take items from one stock. Each sends an invoice to a second queue. Every fifth time the first consumer fails right after its transaction.",
  lesson: "The stock, the note that the order is done and the invoice to send are one transaction. If the consumer fails before it has sent the invoice, the next delivery of the order sends it. The second consumer drops repeats by their key.",
  async run(storage) {
    const [orders, invoices, table] = await Promise.all([storage.queue(), storage.queue(), storage.table()]);
    await table.createEntity({ partitionKey: "warehouse", rowKey: "stock", items: 1_000 });
    const placed: Order[] = Array.from({ length: 30 }, (_, i) => ({ id: `order-${i}`, items: 1 + (i % 3) }));
    await Promise.all(placed.map((order) => enqueue(orders, order, { idempotencyKey: order.id })));
    const options = { retryDelayInMs: 0, minPollIntervalInMs: 50, maxPollIntervalInMs: 200 };

    let runs = 0;
    let failures = 0;
    const warehouse = new QueueConsumer<Order>(
      orders,
      async (order, context) => {
        const run = ++runs;
        await context.transaction(async (tx) => {
          const stock = await tx.get<{ items: number }>("stock");
          tx.update({ rowKey: "stock", items: (stock?.items ?? 0) - order.items });
          tx.send({ queue: invoices, payload: order });
        });
        if (run % 5 === 0) throw new Error("the power fails");
      },
      { ...options, inbox: new CommitInbox(table), partitionOf: () => "warehouse" },
    );
    const office = new QueueConsumer<Order>(invoices, (order, { commit }) => commit([["create", { rowKey: order.id, items: order.items }]]), {
      ...options,
      inbox: new CommitInbox(table),
      partitionOf: () => "invoices",
    });
    let repeats = 0;
    const allStored = new Promise<void>((resolve) => {
      let stored = 0;
      const count = (): void => {
        if (++stored === placed.length) resolve();
      };
      office.on("completed", count).on("duplicate", () => repeats++);
    });
    warehouse.on("retried", () => failures++);
    await Promise.all([warehouse.start(), office.start()]);
    await allStored;
    await Promise.all([warehouse.stop(), office.stop()]);
    say.step(`${placed.length} orders: the first consumer failed ${failures} times; the second one dropped ${repeats} repeated invoices`);

    const sold = placed.reduce((sum, order) => sum + order.items, 0);
    const stock = await table.getEntity<{ items: number }>("warehouse", "stock");
    let invoiced = 0;
    for await (const { items } of table.listEntities<Partial<Order>>({ queryOptions: { filter: "PartitionKey eq 'invoices'" } })) invoiced += items ?? 0;
    check(failures > 0, "handlers fail");
    check(stock.items === 1_000 - sold, "each order takes its items once");
    check(invoiced === sold, "each order has one invoice");
    return `${sold} items are sold, ${invoiced} are invoiced, ${stock.items} are left`;
  },
};

await runIfStarted(orderChain, import.meta.url);
