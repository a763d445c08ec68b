import { setTimeout as pause } from "node:timers/promises";

import type { TableClient } from "@azure/data-tables";
import type { QueueClient } from "@azure/storage-queue";
import { describe, expect, it, onTestFinished } from "vitest";

import { CommitInbox, enqueue, excludeLibraryRows, QueueConsumer } from "../../src/index.js";
import type { BackgroundService } from "../../src/index.js";
import { dropRequest, dropResponse, startFaultProxy } from "../../src/testing.js";
import type { FaultProxy, FaultRule } from "../../src/testing.js";
import { azurite, connectionString, freshQueue, freshTable, queueClient, tableClient } from "../support/clients.js";
import { fastTable } from "../support/fast-clients.js";
import { fastQueue } from "../support/fast-queue.js";

interface Order {
  readonly from: string;
  readonly to: string;
  readonly amount: number;
}

/** Orders move money between accounts and send an invoice, in one transaction; invoices are stored by a second consumer. */
interface Chain {
  readonly orders: QueueClient;
  readonly invoices: QueueClient;
  readonly poison: QueueClient;
  readonly table: TableClient;
  readonly proxies: readonly FaultProxy[];
  run(): Promise<void>;
}

async function chain(messages: number): Promise<Chain> {
  const [orders, invoices, poison, table] = await Promise.all([freshQueue(), freshQueue(), freshQueue(), freshTable()]);
  for (const rowKey of ["a", "b"]) await table.createEntity({ partitionKey: "bank", rowKey, balance: 100 });
  for (let i = 0; i < messages; i++) await enqueue(orders, { from: i % 2 ? "a" : "b", to: i % 2 ? "b" : "a", amount: i + 1 } satisfies Order, { idempotencyKey: `order-${i}` });
  const proxies = await Promise.all([azurite().queueUrl, azurite().tableUrl].map((url) => startFaultProxy(url)));
  onTestFinished(async () => {
    await Promise.all(proxies.map((proxy) => proxy.stop()));
  });
  const through = connectionString({ queueUrl: proxies[0]!.url, tableUrl: proxies[1]!.url });
  const options = { poisonQueue: fastQueue(through, poison.name), visibilityTimeoutInSeconds: 2, minPollIntervalInMs: 20, maxPollIntervalInMs: 100, maxAttempts: 1, retryDelayInMs: 0 };
  const run = async (): Promise<void> => {
    const first = new QueueConsumer<Order>(
      fastQueue(through, orders.name),
      ({ from, to, amount }, context) =>
        context.transaction<undefined>(async (tx) => {
          const [payer, payee] = await tx.getMany<{ balance: number }>([from, to]);
          tx.update({ rowKey: from, balance: payer!.balance - amount });
          tx.update({ rowKey: to, balance: payee!.balance + amount });
          tx.send({ queue: fastQueue(through, invoices.name), payload: { order: context.idempotencyKey, amount } });
          return undefined;
        }),
      { ...options, inbox: new CommitInbox(fastTable(through, table.tableName)), partitionOf: () => "bank" },
    );
    const second = new QueueConsumer<{ order: string; amount: number }>(
      fastQueue(through, invoices.name),
      // A row of its own each time: an effect that happens twice leaves two.
      ({ order, amount }, { commit }) => commit([["create", { rowKey: crypto.randomUUID(), order, amount }]]),
      { ...options, inbox: new CommitInbox(fastTable(through, table.tableName)), partitionOf: () => "invoices" },
    );
    const consumers = [first, second];
    for (const consumer of consumers) consumer.on("error", () => undefined);
    for (const consumer of consumers) await started(consumer);
    try {
      await until(async () => (await lengthOf(queueClient(orders.name))) + (await lengthOf(queueClient(invoices.name))) === 0);
    } finally {
      await Promise.all(consumers.map((consumer) => consumer.stop()));
    }
  };
  return { orders, invoices, poison, table: tableClient(table.tableName), proxies, run };
}

/** The fault may hit the checks of the start. */
async function started(consumer: BackgroundService): Promise<void> {
  await consumer.start().catch(() => consumer.start());
}

async function lengthOf(queue: QueueClient): Promise<number> {
  return (await queue.getProperties()).approximateMessagesCount ?? 0;
}

/** A watchdog: a busy machine takes its time. */
async function until(isTrue: () => Promise<boolean>, timeoutInMs = 240_000): Promise<void> {
  const end = Date.now() + timeoutInMs;
  while (!(await isTrue())) {
    if (Date.now() > end) throw new Error("it did not happen in time");
    await pause(20);
  }
}

async function expectOnce({ table, poison }: Chain, messages: number): Promise<void> {
  const sum = Array.from({ length: messages }, (_, i) => (i % 2 ? 1 : -1) * (i + 1)).reduce((a, b) => a + b, 0);
  const balances = await Promise.all(["a", "b"].map(async (rowKey) => (await table.getEntity<{ balance: number }>("bank", rowKey)).balance));
  expect(balances).toEqual([100 - sum, 100 + sum]);
  const invoices: string[] = [];
  for await (const { order } of table.listEntities<{ order: string }>({ queryOptions: { filter: excludeLibraryRows("PartitionKey eq 'invoices'") } })) invoices.push(order);
  expect(invoices.toSorted()).toEqual(Array.from({ length: messages }, (_, i) => `order-${i}`).toSorted());
  expect(await lengthOf(poison)).toBe(0);
}

describe("a chain of two consumers", () => {
  it("moves the money and stores the invoices once, with a fifth of the responses lost", async () => {
    const of = await chain(60);
    for (const proxy of of.proxies) proxy.setRules([dropResponse({ probability: 0.2 })]);
    await of.run();
    await expectOnce(of, 60);
    expect(of.proxies.reduce((sum, proxy) => sum + proxy.faultCount(), 0)).toBeGreaterThan(5);
  }, 300_000);

  const faults: readonly (readonly [string, (options: { when: () => boolean; times: number }) => FaultRule])[] = [
    ["the response to one of its requests", dropResponse],
    ["one of its requests", dropRequest],
  ];

  it.each(faults)("does so if %s is lost, whichever it is", async (_, fault) => {
    // The requests of one message, without polls that find nothing: see the test of the costs.
    for (const service of [0, 1]) {
      for (let skip = 0; skip < (service === 0 ? 9 : 7); skip++) {
        const of = await chain(1);
        let seen = 0;
        of.proxies[service]!.setRules([fault({ when: () => seen++ === skip, times: 1 })]);
        await of.run();
        await expectOnce(of, 1);
      }
    }
  }, 300_000);
});
