import { CommitInbox, QueueConsumer } from "azure-storage-concurrency";

import type { Bench } from "../harness.js";
import { compareDrains, concurrency, drainWith, receiveLoop } from "./queue-drain.js";
import type { Drain, Payload } from "./queue-drain.js";

interface Total {
  sum: number;
}

export const queueHotPartition: Bench = {
  name: "queue-hot-partition",
  about: "messages that all add to one entity: context.transaction, against a loop that receives 32 and for each reads the entity, and commits marker and sum with its ETag, retried with full jitter",
  async *run(env) {
    const ours = async (drain: Drain): Promise<void> => {
      await drain.table.createEntity({ partitionKey: "orders", rowKey: "total", sum: 0 });
      const consumer = new QueueConsumer<Payload>(
        drain.queue,
        ({ order }, context) =>
          context.transaction(async (tx) => {
            const total = await tx.get<Total>("total");
            tx.update({ rowKey: "total", sum: (total?.sum ?? 0) + order });
          }),
        { concurrency, inbox: new CommitInbox(drain.table), partitionOf: () => "orders" },
      );
      await drainWith(drain, consumer);
      await check(drain);
    };
    const baseline = async (drain: Drain): Promise<void> => {
      await drain.table.createEntity({ partitionKey: "orders", rowKey: "total", sum: 0 });
      await receiveLoop(drain, ({ order }, key) => addOnce(drain, order, key));
      await check(drain);
    };
    yield await compareDrains(env, "queue-hot-partition", { ours, baseline }, [{ of: "ratio", atLeast: 5 }]);
  },
};

async function addOnce({ table }: Drain, order: number, key: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const { etag, sum } = await table.getEntity<Total>("orders", "total");
    try {
      await table.submitTransaction([
        ["create", { partitionKey: "orders", rowKey: `done-${key}` }],
        ["update", { partitionKey: "orders", rowKey: "total", sum: sum + order }, "Merge", { etag }],
      ]);
      return;
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode !== 412) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(1_000, 10 * 2 ** attempt)));
  }
}

/** A fast wrong answer is no answer. */
async function check({ table, messages }: Drain): Promise<void> {
  const { sum } = await table.getEntity<Total>("orders", "total");
  const expected = (messages * (messages - 1)) / 2;
  if (sum !== expected) throw new Error(`the sum is ${sum}, not ${expected}`);
}
