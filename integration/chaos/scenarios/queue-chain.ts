import { randomUUID } from "node:crypto";

import { queueFailures } from "../expected-errors.js";
import type { Scenario } from "../scenario.js";
import { accountOf, accounts, consumerOptions, isEmpty, lost, runService, start, twice, work } from "./queues.js";
import type { Job } from "./queues.js";

/** Other scenarios have accounts of their own in the same table. */
const bankPartition = "orders-bank";

/** The first consumer moves money in a transaction, and sends an invoice with it; the second one stores the invoice. */
export const queueChain: Scenario = {
  name: "queue, chain",
  invariant: "every order moves money once and causes one invoice (context.transaction, tx.send, two queues)",
  tasks: 2,
  expects: queueFailures,
  lanes: ["orders", "transfers", "invoices"],
  unhurried: [0],
  prepare: async ({ table }) => {
    for (let i = 0; i < accounts; i++) await table.createEntity({ partitionKey: bankPartition, rowKey: accountOf(i), balance: start, moves: 0 });
  },
  work: work(
    "orders",
    (task) => task.storage.orders,
    async (task) => {
      const { CommitInbox, QueueConsumer } = task.library;
      const { table, orders, invoices } = task.storage;
      const bank = new QueueConsumer<Job>(
        orders,
        async ({ key, from, to }, { transaction }) => {
          await transaction(async (tx) => {
            const [payer, payee] = await tx.getMany<{ balance: number; moves: number }>([accountOf(from), accountOf(to)]);
            if (!payer || !payee) throw new Error("an account is gone");
            tx.update({ rowKey: accountOf(from), balance: payer.balance - 1, moves: payer.moves + 1 });
            tx.update({ rowKey: accountOf(to), balance: payee.balance + 1 });
            tx.send({ queue: invoices, payload: key });
          });
          task.progress("transfers");
        },
        { ...consumerOptions, inbox: new CommitInbox(table), partitionOf: () => bankPartition },
      );
      const office = new QueueConsumer<string>(invoices, async (key, { commit }) => {
        await commit([["create", { rowKey: randomUUID(), key }]]);
        task.progress("invoices");
      }, {
        ...consumerOptions,
        inbox: new CommitInbox(table),
        partitionOf: () => "invoices",
      });
      for (const consumer of [bank, office]) consumer.on("error", (error) => task.reportError(error));
      await Promise.all([bank, office].map((consumer) => runService(task, consumer)));
    },
  ),
  isDrained: async ({ orders, invoices }) => (await isEmpty(orders)) && (await isEmpty(invoices)),
  check: async ({ table }, operationLog) => {
    const counts = new Map<string, number>();
    for await (const { key } of table.listEntities<{ key?: string }>({ queryOptions: { filter: "PartitionKey eq 'invoices'" } })) {
      if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    let [sum, moves] = [0, 0];
    for (let i = 0; i < accounts; i++) {
      const account = await table.getEntity<{ balance: number; moves: number }>(bankPartition, accountOf(i));
      sum += account.balance;
      moves += account.moves;
    }
    return [
      ...twice(counts, "was invoiced"),
      ...lost("queue, chain", operationLog, counts),
      ...(sum === accounts * start ? [] : [`the accounts have ${sum} together, not ${accounts * start}`]),
      ...(moves === counts.size ? [] : [`${moves} moves of money, but ${counts.size} invoices`]),
    ];
  },
};
