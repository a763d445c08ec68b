/* An order and the message that announces it belong together: both are stored, or neither, and a crash in between loses nothing. */
import { CommitInbox, Outbox, QueueConsumer, runTransaction } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const orderOutbox: Sample = {
  name: "order-outbox",
  title: "An order and its message",
  helper: "Outbox",
  section: "docs/outbox.md#quick-example",
  plan: "A shop places 20 orders; every fifth is rejected. For half of them its queue does not exist yet, so the messages are left in the table, and another process sends them.",
  lesson: "The message is a row of the transaction that creates the order. It is sent after the commit, by the shop itself or by any relay, and the consumer's inbox makes it take effect once.",
  async run(storage) {
    const [table, queue] = [await storage.table(), await storage.queue()];
    const late = await storage.queue();
    await late.delete();

    const shop = new Outbox(table, { queues: [queue, late], relayAfterInMs: 1_000 });
    let rejected = 0;
    shop.on("error", () => rejected++);
    for (let i = 0; i < 20; i++) {
      await runTransaction(table, "eu", (tx) => {
        tx.create({ rowKey: `order-${i}`, total: i });
        shop.add(tx, i % 2 === 0 ? queue : late, { order: `order-${i}` });
        if (i % 5 === 4) throw new Error("no such article");
      }).catch(() => undefined);
    }
    await shop.stop();
    const left: string[] = [];
    for await (const { idempotencyKey } of shop.list()) left.push(idempotencyKey);
    say.step(`the shop has ended; ${left.length} messages are left, ${rejected} sends have failed`);

    await late.create();
    const relay = new Outbox(table, { queues: [late], relayAfterInMs: 1_000, pollIntervalInMs: 200 });
    await relay.start();
    const inbox = new CommitInbox(table);
    const handled = new Set<string>();
    const consumers = [queue, late].map(
      (source) =>
        new QueueConsumer<{ order: string }>(source, async ({ order }, { commit }) => {
          await commit([["create", { rowKey: `invoice-${order}` }]]);
          handled.add(order);
        }, { inbox, partitionOf: () => "invoices" }), // prettier-ignore
    );
    await Promise.all(consumers.map((consumer) => consumer.start()));
    for (const deadline = Date.now() + 20_000; handled.size < 16 && Date.now() < deadline; ) await new Promise((resolve) => setTimeout(resolve, 100));
    await Promise.all([relay, ...consumers].map((service) => service.stop()));
    say.step(`a relay has sent the rest; ${handled.size} orders have an invoice`);

    check(left.length === 8, "what could not be sent is kept in the table");
    const orders: string[] = [];
    for await (const { rowKey } of table.listEntities({ queryOptions: { filter: "PartitionKey eq 'eu' and RowKey lt '~'" } })) orders.push(rowKey!);
    check(orders.length === 16 && orders.every((order) => handled.has(order)), "each order that was placed has an invoice");
    check(handled.size === 16, "no order that was rejected has one");
    return "16 orders, 16 invoices; 4 rejected orders, no message";
  },
};

await runIfStarted(orderOutbox, import.meta.url);
