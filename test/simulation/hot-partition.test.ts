import { describe, expect, it } from "vitest";
import { CommitInbox, enqueueMany, Once, QueueConsumer, runTransaction } from "../../src/index.js";
import type { Transaction } from "../../src/index.js";
import { openEnvelope } from "../../src/queue/envelope.js";
import { stormy } from "./storage/network-conditions.js";
import type { SimProcess } from "./storage/world.js";
import { World } from "./storage/world.js";

interface Numbered {
  n: number;
}

const messages = 30;
const minute = 60_000;

/** Adds one to the total, and creates the row of its caller. Now and then it throws, is slow, or writes rows that others read as missing. */
function addOne(world: World, mayFail: () => boolean, rowKey: string): (tx: Transaction) => Promise<string> {
  const { random } = world.time;
  const fail = (share: number): void => {
    if (mayFail() && random() < share) throw new Error("by chance");
  };
  return async (tx) => {
    fail(0.1);
    const flag = `flag${Math.floor(random() * 3)}`;
    const isSet = (await tx.get(flag)) !== undefined;
    fail(0.1);
    const total = (await tx.get<Numbered>("total"))?.n ?? 0;
    fail(0.1);
    if (random() < 0.05) await world.time.sleep(random() * 3_000);
    if (random() < 0.3 && isSet) tx.delete(flag);
    else if (random() < 0.3) tx.upsert({ rowKey: flag, n: total });
    tx.upsert({ rowKey: "total", n: total + 1 });
    tx.create({ rowKey, n: 1 });
    fail(0.1);
    return rowKey;
  };
}

async function startConsumer(world: World, process: SimProcess, mayFail: () => boolean): Promise<QueueConsumer<number>> {
  const { random } = world.time;
  const consumer = new QueueConsumer<number>(process.queue("jobs"), async (id, context) => {
    const add = addOne(world, mayFail, `m${id}`);
    await context.transaction(async (tx) => {
      tx.send({ queue: process.queue("out"), payload: id });
      await add(tx);
    }, mayFail() && random() < 0.1 ? { timeoutInMs: 500 } : {});
    if (mayFail() && random() < 0.1) throw new Error("after the commit");
  }, { inbox: new CommitInbox(process.table("t")), partitionOf: () => "hot", poisonQueue: process.queue("poison"), retryDelayInMs: 1_000, maxPollIntervalInMs: 1_000, concurrency: 8 });
  consumer.on("error", () => undefined);
  await consumer.start();
  return consumer;
}

/** Until it resolves, within limits. */
async function insist(world: World, call: () => Promise<unknown>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await call();
      return;
    } catch (error) {
      if (tries === 200) throw error;
      await world.time.sleep(500);
    }
  }
}

describe("messages, results of Once and plain transactions that share the commits of one partition", () => {
  it.each([1, 2, 3, 4, 5, 6])("have one effect each, whatever functions throw and responses are lost (seed %i)", { timeout: 60_000 }, async (seed) => {
    const world = new World(seed);
    await world.time.run(async () => {
      let isStorm = true;
      const mayFail = (): boolean => isStorm;
      const processes = [world.newProcess(), world.newProcess()];
      const consumers = await Promise.all(processes.map((process) => startConsumer(world, process, mayFail)));
      const ids = Array.from({ length: messages }, (_, id) => id);
      const jobs = world.newProcess().queue("jobs");
      await enqueueMany(jobs, [...ids, ...ids.slice(0, 5)], (id) => ({ payload: id, idempotencyKey: `k${id}` }));
      world.networkConditions = stormy(0.25);
      const calls = processes.flatMap((process, index) => ids.slice(0, 10).flatMap((id) => {
        const own = addOne(world, mayFail, `p${index}-${id}`);
        const shared = addOne(world, mayFail, `o${id}`);
        return [
          insist(world, () => runTransaction(process.table("t"), "hot", own, { operationId: `p${index}-${id}` })),
          insist(world, () => new Once(process.table("t")).runTransaction(`o${id}`, "hot", shared)),
        ];
      }));
      await world.time.sleep(minute);
      isStorm = false;
      world.networkConditions = stormy(0);
      expect((await Promise.allSettled(calls)).filter(({ status }) => status === "rejected")).toEqual([]);
      await world.time.sleep(10 * minute);
      await Promise.all(consumers.map((consumer) => consumer.stop()));

      const table = world.newProcess().table("t");
      const poisoned = world.newProcess().queue("poison").store.receive(messages, 0).map(({ messageText }) => openEnvelope(messageText, "text").body);
      const effects = ids.filter((id) => table.property("n", "hot", `m${id}`) !== undefined);
      expect([...effects, ...poisoned].sort()).toEqual(ids.sort());
      expect(jobs.store.size).toBe(0);
      expect(Number(table.property("n", "hot", "total")?.value)).toBe(effects.length + 10 + 20);
      const sent = world.newProcess().queue("out").store.receive(1_000, 0).map(({ messageText }) => openEnvelope(messageText, "text"));
      expect(new Set(sent.map(({ body }) => body))).toEqual(new Set(effects));
      expect(new Set(sent.map(({ key }) => key)).size).toBe(effects.length);
    });
  });
});
