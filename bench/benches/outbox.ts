import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

import type { TableClient } from "@azure/data-tables";
import { QueueClient } from "@azure/storage-queue";
import { Outbox, runTransaction } from "azure-storage-concurrency";

import { alternate } from "../alternate.js";
import { contest } from "../contest.js";
import type { Bench, Side } from "../harness.js";
import { measureThroughput } from "../throughput.js";

/** Places an order, and returns when its message is in the queue. */
type PlaceOrder = () => Promise<boolean>;

/** How often the baseline looks for rows that a crash left: as often as a relay does. */
const pollIntervalInMs = 10_000;

export const outbox: Bench = {
  name: "outbox",
  about: "an order and its message: a transaction with a row for the message, a send and a delete of the row; the baseline finds what a crash left by a query over the table. Alone, and 32 at a time in one partition",
  async *run(env) {
    const table = await env.freshTable();
    const [ours, baseline] = await Promise.all([open(env.connectionString, table, "ours"), open(env.connectionString, table, "baseline")]);
    try {
      // Requests are not compared here: those with which the library deletes rows, in the background, fall into the turn of the baseline.
      const { microseconds, ratio, spread } = await alternate({ ours: ours.place, baseline: baseline.place }, { turns: 300, opsPerTurn: 1, warmUpTurns: 200 });
      yield { name: "alone", unit: "µs/order", ...microseconds, ratio, spread, bounds: [{ of: "ratio", atMost: 1.3 }] };
    } finally {
      await Promise.all([ours.close(), baseline.close()]);
    }
    const crowd = { ours: await open(env.connectionString, table, "ours"), baseline: await open(env.connectionString, table, "baseline") };
    const side = ({ place, queue }: Opened): Parameters<typeof contest>[1][Side] => ({
      run: () => measureThroughput(place, { updaters: 32, warmUpInMs: 1_000, measureInMs: 3_000 }),
      counter: async () => (await queue.getProperties()).approximateMessagesCount ?? 0,
    });
    try {
      yield await contest("32 at a time", { ours: side(crowd.ours), baseline: side(crowd.baseline) }, [{ of: "ratio", atLeast: 1.2 }, { of: "requests", atMost: 2 }]);
    } finally {
      await Promise.all([crowd.ours.close(), crowd.baseline.close()]);
    }
  },
};

interface Opened {
  readonly place: PlaceOrder;
  readonly queue: QueueClient;
  close(): Promise<void>;
}

async function open(connectionString: string, table: TableClient, side: Side): Promise<Opened> {
  const queue = new QueueClient(connectionString, `bench-${randomUUID()}`);
  await queue.create();
  const partitionKey = `${side}-${randomUUID()}`;
  return { queue, ...(side === "ours" ? await openOurs(table, queue, partitionKey) : openBaseline(table, queue, partitionKey)) };
}

async function openOurs(table: TableClient, queue: QueueClient, partitionKey: string): Promise<Omit<Opened, "queue">> {
  const box = new Outbox(table, { queues: [queue], pollIntervalInMs });
  const waiting = new Map<string, () => void>();
  box.on("sent", ({ idempotencyKey }) => waiting.get(idempotencyKey)?.());
  await box.start();
  return {
    close: () => box.stop(),
    place: async () => {
      const rowKey = randomUUID();
      const sent = new Promise<void>((resolve) => waiting.set(rowKey, resolve));
      await runTransaction(table, partitionKey, (tx) => {
        tx.create({ rowKey, total: 3 });
        box.add(tx, queue, { order: rowKey }, { idempotencyKey: rowKey });
      });
      await sent;
      return waiting.delete(rowKey);
    },
  };
}

/** As it is usually written. Its poll reads rows of all partitions: on a table with many entities, that is a scan. */
function openBaseline(table: TableClient, queue: QueueClient, partitionKey: string): Omit<Opened, "queue"> {
  const stop = new AbortController();
  const seen = new Set<string>();
  const poll = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      for await (const { rowKey } of table.listEntities({ queryOptions: { filter: "RowKey ge 'outbox-' and RowKey lt 'outbox.'" } })) seen.add(rowKey ?? ""); // it would send what is old enough
      await pause(pollIntervalInMs, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  };
  const polling = poll();
  return {
    close: async () => {
      stop.abort();
      await polling;
    },
    place: async () => {
      const order = randomUUID();
      const [rowKey, text] = [`outbox-${order}`, JSON.stringify({ key: order, order })];
      await table.submitTransaction([
        ["create", { partitionKey, rowKey: order, total: 3 }],
        ["create", { partitionKey, rowKey, text }],
      ]);
      await queue.sendMessage(text);
      await table.deleteEntity(partitionKey, rowKey);
      return true;
    },
  };
}
