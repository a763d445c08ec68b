import { describe, expect, it, onTestFinished } from "vitest";

import { CommitInbox, enqueue, isLibraryRow, listEntities, Outbox, QueueConsumer, runTransaction } from "../../src/index.js";
import { dropResponse, isWrite, respondWith, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshQueue, freshTable } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorker } from "../support/workers.js";
import type { ShopConfig } from "./workers/shop.js";

const shop = new URL("./workers/shop.ts", import.meta.url);
const relayAfterInMs = 2_000;

describe("Outbox on Azurite", () => {
  it("sends messages of any text after the commit, and leaves no rows that other programs cannot read", async () => {
    const [table, queue] = await Promise.all([freshTable(), freshQueue()]);
    const outbox = new Outbox(table, { queues: [queue] });
    const payload = { text: "ä€😀\uFFFF'", list: [1, 2], long: "x".repeat(40_000) };
    const partition = "it's a %partition 😀";
    await runTransaction(table, partition, (tx) => {
      tx.create({ rowKey: "o1" });
      outbox.add(tx, queue, payload, { idempotencyKey: "k" });
      outbox.add(tx, queue, payload);
    });
    const rows: object[] = [];
    for await (const row of table.listEntities()) rows.push(row);
    expect(() => JSON.stringify(rows)).not.toThrow();
    expect(rows.filter((row) => !isLibraryRow(row))).toHaveLength(1);
    expect(await outbox.flush()).toEqual({ sent: 2, failed: 0 });
    const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 32 });
    const bodies = receivedMessageItems.map(({ messageText }) => JSON.parse(messageText) as { key: string; body: unknown });
    expect(bodies.map(({ body }) => body)).toEqual([payload, payload]);
    expect(bodies.map(({ key }) => key)).toContain("k");
    await outbox.stop();
    const left: string[] = [];
    for await (const { rowKey } of table.listEntities()) left.push(rowKey!);
    expect(left).toEqual(["o1"]);
  });

  it("relays what a process left, by the clock of the service", async () => {
    const [table, queue] = await Promise.all([freshTable(), freshQueue()]);
    const noQueue = await freshQueue();
    await noQueue.delete();
    const outbox = new Outbox(table, { queues: [queue, noQueue], relayAfterInMs: 1_000, pollIntervalInMs: 200 });
    outbox.on("error", () => undefined);
    await runTransaction(table, "p", (tx) => outbox.add(tx, noQueue, 17));
    // The send may have failed before, so that it is not one of those in progress.
    expect((await outbox.flush()).sent).toBe(0);
    const listed: string[] = [];
    for await (const { queue: name } of outbox.list()) listed.push(name);
    expect(listed).toEqual([expect.stringMatching(new RegExp(`:${noQueue.name}$`))]);
    await outbox.start();
    await noQueue.create();
    await expect.poll(async () => (await noQueue.getProperties()).approximateMessagesCount, { timeout: 20_000 }).toBe(1);
    await outbox.stop();
  }, 30_000);

  it("five processes with skewed clocks that are killed and suspended, and lose responses: exactly the committed orders arrive, each once", async () => {
    const [table, queue] = await Promise.all([freshTable(), freshQueue()]);
    const faults = [dropResponse({ when: isWrite, probability: 0.1 }), respondWith(503, { probability: 0.03 })];
    const proxies = await Promise.all([azurite().tableUrl, azurite().queueUrl].map((url) => startFaultProxy(url, faults, { logLimit: 0 })));
    onTestFinished(async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()));
    });
    const config: Omit<ShopConfig, "skewInMs"> = {
      connectionString: connectionString({ tableUrl: proxies[0]!.url, queueUrl: proxies[1]!.url }),
      table: table.tableName,
      queue: queue.name,
      orders: 40,
      relayAfterInMs,
    };
    let placed = 0;
    /** Each life but the last ends in the middle; in the last one the process is suspended for longer than a relay waits. */
    const runProcess = async (kills: number, skewInMs: number): Promise<void> => {
      for (let life = 0; life <= kills; life++) {
        const worker = startWorker(shop, { ...config, skewInMs } satisfies ShopConfig, { timeoutInMs: 150_000 });
        for (let told = 0; ; told++) {
          if ((await worker.receive<string>().catch(() => undefined)) === undefined) break;
          placed++;
          if (told === 12 && life < kills) void worker.stop(); // kill -9
          if (told === 12 && life === kills) {
            worker.signal("SIGSTOP");
            await pause(relayAfterInMs * 2);
            worker.signal("SIGCONT");
          }
        }
        if (life === kills) await worker.result;
        else await worker.exited;
      }
    };
    await Promise.all([runProcess(2, 0), runProcess(2, 300_000), runProcess(2, -240_000), runProcess(1, 120_000), runProcess(1, -600_000)]);

    // Whatever is left is sent by a process that has placed no order, and each message takes effect once.
    const relay = new Outbox(table, { queues: [queue], relayAfterInMs, pollIntervalInMs: 300 });
    const relayed: string[] = [];
    relay.on("sent", ({ idempotencyKey }) => relayed.push(idempotencyKey));
    let deliveries = 0;
    const consumer = new QueueConsumer<string>(queue, async (order, { commit }) => {
      deliveries++;
      await commit([["create", { rowKey: `${order}!${crypto.randomUUID()}` }]]);
    }, { inbox: new CommitInbox(table), partitionOf: () => "effects" }); // prettier-ignore
    onTestFinished(async () => {
      await Promise.all([relay.stop(), consumer.stop()]);
    });
    await Promise.all([relay.start(), consumer.start()]);
    const orders = (await rowKeys("p0")).concat(await rowKeys("p1")).filter((rowKey) => rowKey.startsWith("order-")).sort();
    const effects = async (): Promise<string[]> => (await rowKeys("effects")).map((rowKey) => rowKey.split("!")[0]!).sort();
    await expect.poll(async () => new Set(await effects()).size, { timeout: 60_000, interval: 500 }).toBe(orders.length);
    // Long enough for anything that would still be sent.
    await pause(3 * relayAfterInMs);
    await expect.poll(async () => (await queue.getProperties()).approximateMessagesCount, { timeout: 30_000 }).toBe(0);
    expect(await effects()).toEqual(orders);
    for await (const message of relay.list()) expect(message).toBeUndefined();
    console.log(`${placed} orders placed, ${orders.length} committed, ${relayed.length} relayed after the last process, ${deliveries} deliveries, ${proxies.map((proxy) => proxy.faultCount()).join(" and ")} faults`);
    expect(orders.length).toBeGreaterThan(200);

    async function rowKeys(partitionKey: string): Promise<string[]> {
      const keys: string[] = [];
      for await (const { rowKey } of listEntities(table, { filter: `PartitionKey eq '${partitionKey}'` })) keys.push(rowKey);
      return keys;
    }
  }, 240_000);

  it("is read by a consumer as a message that enqueue has sent", async () => {
    const [table, queue] = await Promise.all([freshTable(), freshQueue()]);
    const outbox = new Outbox(table, { queues: [queue] });
    await runTransaction(table, "p", (tx) => outbox.add(tx, queue, "same", { idempotencyKey: "k", group: "g" }));
    await outbox.stop();
    await enqueue(queue, "same", { idempotencyKey: "k", group: "g" });
    const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 32 });
    expect(new Set(receivedMessageItems.map(({ messageText }) => messageText)).size).toBe(1);
  });
});
