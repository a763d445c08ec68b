import { Outbox, runTransaction } from "../../../src/index.js";
import { fastTable } from "../../support/fast-clients.js";
import { fastQueue } from "../../support/fast-queue.js";
import { runWorker } from "../../support/worker-process.js";

export interface ShopConfig {
  readonly connectionString: string;
  readonly table: string;
  readonly queue: string;
  readonly orders: number;
  readonly relayAfterInMs: number;
  /** How far the clock of this process is ahead. */
  readonly skewInMs: number;
}

/** Places orders in two partitions, several at a time, and tells of each. It also runs the relay. */
runWorker(async ({ connectionString, table, queue, orders, relayAfterInMs, skewInMs }: ShopConfig, parent) => {
  const now = Date.now.bind(Date);
  Date.now = () => now() + skewInMs;
  const [client, orderQueue] = [fastTable(connectionString, table), fastQueue(connectionString, queue)];
  const outbox = new Outbox(client, { queues: [orderQueue], relayAfterInMs, pollIntervalInMs: 300 });
  outbox.on("error", () => undefined);
  await outbox.start();
  const place = async (i: number): Promise<void> => {
    const rowKey = `order-${crypto.randomUUID()}`;
    try {
      await runTransaction(client, `p${i % 2}`, async (tx) => {
        const placed = (await tx.get<{ n: number }>("counter"))?.n ?? 0;
        tx.upsert({ rowKey: "counter", n: placed + 1 });
        tx.create({ rowKey, number: placed + 1 });
        outbox.add(tx, orderQueue, rowKey);
        if (i % 10 === 9) throw new Error("rejected");
      });
    } catch {
      // Rejected, or of an unknown outcome: the table tells what was committed.
    }
    parent.send(rowKey);
  };
  await Promise.all([0, 1, 2].map(async (lane) => {
    for (let i = lane; i < orders; i += 3) await place(i);
  })); // prettier-ignore
  await outbox.stop();
});
