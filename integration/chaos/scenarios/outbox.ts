import { randomUUID } from "node:crypto";

import { networkFailures, outOfTime, updateFailures } from "../expected-errors.js";
import type { Scenario, Storage } from "../scenario.js";
import { consumerOptions, isEmpty, runService, twice } from "./queues.js";

const partitions = ["outbox-a", "outbox-b"];
const effects = "outbox-effects";
const options = { relayAfterInMs: 3_000, pollIntervalInMs: 500, drainTimeoutInMs: 3_000 };

/** The first task of a worker consumes, and runs a relay; the others place orders, each with a message. */
export const outbox: Scenario = {
  name: "outbox",
  invariant: "every order that is committed, and no other, takes effect once at the other end of a queue (Outbox, CommitInbox)",
  tasks: 2,
  expects: [...updateFailures, ...networkFailures, ...outOfTime, "MESSAGE_LOST"],
  lanes: ["orders", "effects"],
  unhurried: [0],
  work: async (task) => {
    const { CommitInbox, Outbox, QueueConsumer, runTransaction } = task.library;
    const { table, placed } = task.storage;
    const box = new Outbox(table, { queues: [placed], ...options });
    box.on("error", (error) => task.reportError(error));
    if (task.id.endsWith("/0")) {
      const consumer = new QueueConsumer<string>(placed, async (key, { commit }) => {
        await commit([["create", { rowKey: randomUUID(), key }]]);
        task.progress("effects");
      }, { ...consumerOptions, inbox: new CommitInbox(table), partitionOf: () => effects });
      consumer.on("error", (error) => task.reportError(error));
      await Promise.all([consumer, box].map((service) => runService(task, service)));
      return;
    }
    while (!task.finish.aborted) {
      await task.operation(async (op) => {
        await runTransaction(table, partitions[op % 2] ?? "", async (tx) => {
          // Of its own in each run: what two runs have committed would be two orders.
          const rowKey = `order-${randomUUID()}`;
          tx.create({ rowKey });
          box.add(tx, placed, rowKey);
          await task.mayFaint();
        }, { timeoutInMs: 8_000 });
      }, "orders");
      await task.pause(30, 200);
    }
    await box.stop();
  },
  isDrained: async (storage) => (await isEmpty(storage.placed)) && (await keysOf(storage, partitions, "~asc~outbox!", '~asc~outbox"')).length === 0,
  check: async (storage) => {
    const orders = await keysOf(storage, partitions, "order-", "order.");
    const counts = new Map<string, number>();
    for await (const { key } of storage.table.listEntities<{ key?: string }>({ queryOptions: { filter: `PartitionKey eq '${effects}'` } })) {
      if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    const committed = new Set(orders);
    return [
      ...twice(counts, "took effect"),
      ...orders.filter((order) => !counts.has(order)).map((order) => `${order} was committed, and its message did not arrive`),
      ...[...counts.keys()].filter((order) => !committed.has(order)).map((order) => `the message of ${order} has arrived, which was not committed`),
    ];
  },
};

async function keysOf({ table }: Storage, partitionKeys: readonly string[], from: string, to: string): Promise<string[]> {
  const keys: string[] = [];
  for (const partitionKey of partitionKeys) {
    for await (const { rowKey } of table.listEntities({ queryOptions: { filter: `PartitionKey eq '${partitionKey}' and RowKey ge '${from}' and RowKey lt '${to}'` } })) if (rowKey !== undefined) keys.push(rowKey);
  }
  return keys;
}
