import { AppendBlobClient, ContainerClient } from "@azure/storage-blob";

import { ClaimInbox, CommitInbox, enqueue, QueueConsumer, redrive } from "../../src/index.js";
import { fastTable } from "../support/fast-clients.js";
import { fastQueue } from "../support/fast-queue.js";

/** What a process does, until it is killed; and then another one, until the queue is empty. */
export type Step = "claim" | "commit" | "chain" | "group" | "poison" | "redrive" | "enqueue";

export interface KilledConfig {
  readonly step: Step;
  readonly connectionString: string;
  readonly queue: string;
  readonly poisonQueue: string;
  /** To which a chain sends. */
  readonly invoices: string;
  readonly table: string;
  readonly container: string;
  /** How many messages are handled before it ends. */
  readonly messages: number;
}

/** A transfer between two accounts in one partition. */
export interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly amount: number;
}

export const bank = "bank";
export const log = "log";
export const group = "group";

export interface Invoice {
  readonly of: string;
  readonly amount: number;
}

export async function perform(config: KilledConfig): Promise<void> {
  const { connectionString, step } = config;
  const queue = fastQueue(connectionString, config.queue);
  const poisonQueue = fastQueue(connectionString, config.poisonQueue);
  if (step === "enqueue") await enqueue(queue, { n: 0 }, { idempotencyKey: "key-0" });
  else if (step === "redrive") await redrive(poisonQueue, queue);
  else await until(consumerOf(config), config.messages);
}

/** Handles messages until so many were settled, and stops. */
async function until(consumer: QueueConsumer<Transfer>, messages: number): Promise<void> {
  let settled = 0;
  const done = new Promise<void>((resolve) => {
    const one = (): void => { if (++settled >= messages) resolve(); };
    consumer.on("completed", one).on("duplicate", one).on("poisoned", one);
  });
  consumer.on("error", () => undefined);
  await consumer.start();
  await done;
  await consumer.stop();
}

export function consumerOf({ step, connectionString, ...names }: KilledConfig): QueueConsumer<Transfer> {
  const table = fastTable(connectionString, names.table);
  const queue = fastQueue(connectionString, names.queue);
  // One at a time where the effects are counted right after the kill: an append of another handler could still be in flight then.
  const options = { concurrency: step === "claim" ? 1 : 4, visibilityTimeoutInSeconds: 2, minPollIntervalInMs: 20, maxPollIntervalInMs: 200, retryDelayInMs: 0, poisonQueue: fastQueue(connectionString, names.poisonQueue) };
  if (step === "commit") {
    return new QueueConsumer<Transfer>(queue, async ({ from, to, amount }, { commit }) => {
      const [giver, taker] = await Promise.all([from, to].map((rowKey) => table.getEntity<{ balance: number }>(bank, rowKey)));
      await commit([
        ["update", { rowKey: from, balance: giver!.balance - amount }, "Merge", { etag: giver!.etag }],
        ["update", { rowKey: to, balance: taker!.balance + amount }, "Merge", { etag: taker!.etag }],
      ]);
    }, { ...options, inbox: new CommitInbox(table), partitionOf: () => bank });
  }
  if (step === "chain") {
    const invoices = fastQueue(connectionString, names.invoices);
    return new QueueConsumer<Transfer>(queue, ({ from, to, amount }, { idempotencyKey: of, transaction }) => transaction(async (tx) => {
      const [giver, taker] = await tx.getMany<{ balance: number }>([from, to]);
      tx.update({ rowKey: from, balance: giver!.balance - amount });
      tx.update({ rowKey: to, balance: taker!.balance + amount });
      tx.send({ queue: invoices, payload: { of, amount } satisfies Invoice });
    }), { ...options, inbox: new CommitInbox(table), partitionOf: () => bank });
  }
  // An effect that shows each repeat, and cannot be taken back.
  const blob = new AppendBlobClient(connectionString, names.container, log, { retryOptions: { maxTries: 1 } });
  return new QueueConsumer<Transfer>(queue, async (_, { idempotencyKey, poison, assertHeld }) => {
    const line = `${idempotencyKey}\n`;
    assertHeld();
    if (step === "poison") poison("not now");
    else await blob.appendBlock(line, line.length);
  }, {
    ...options,
    inbox: new ClaimInbox(table),
    ...(step === "group" && { order: "sequence" as const, overflow: new ContainerClient(connectionString, names.container, { retryOptions: { maxTries: 1 } }) }),
  });
}
