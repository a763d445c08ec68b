import { randomUUID } from "node:crypto";

import type { QueueClient } from "@azure/storage-queue";

import { machineTime } from "../claims.js";
import { isExpected, labelOf, networkFailures, queueFailures } from "../expected-errors.js";
import { checkDeliveries } from "../histories/deliveries.js";
import type { DeliveryEvent } from "../histories/deliveries.js";
import type { OperationLog } from "../operation-log.js";
import type { Scenario, Task } from "../scenario.js";

/** A transfer of one unit between two accounts. */
export interface Job {
  readonly key: string;
  readonly from: number;
  readonly to: number;
}

/** So many that two handlers seldom meet. */
export const accounts = 64;
export const start = 1_000;
const effectsPartition = "effects";
const logName = "queue-claims.log";

export const consumerOptions = { concurrency: 8, visibilityTimeoutInSeconds: 10, maxAttempts: 1_000, minPollIntervalInMs: 50, maxPollIntervalInMs: 500, drainTimeoutInMs: 5_000 };

/** The first task of a worker consumes, the others produce. */
export function work(lane: string, queueOf: (task: Task) => QueueClient, consume: (task: Task) => Promise<void>): Scenario["work"] {
  return async (task) => {
    if (task.id.endsWith("/0")) return consume(task);
    while (!task.finish.aborted) {
      await task.operation(async (op) => {
        const key = `${task.id}#${op}`;
        const from = task.random.between(0, accounts - 1);
        const to = (from + task.random.between(1, accounts - 1)) % accounts;
        const send = (): Promise<unknown> => task.library.enqueue(queueOf(task), { key, from, to } satisfies Job, { idempotencyKey: key, abortSignal: AbortSignal.timeout(8_000) });
        await send();
        // As a producer does that was not sure.
        if (task.random.between(1, 3) === 1) await send();
      }, lane);
      await task.pause(30, 200);
    }
  };
}

/** Starts a service again whose start was rejected, as an orchestrator does: the checks at the start meet the same faults. */
export async function runService(task: Task, service: { run(options: { abortSignal: AbortSignal }): Promise<void> }): Promise<void> {
  while (!task.stop.aborted) {
    try {
      await service.run({ abortSignal: task.stop });
      return;
    } catch (error) {
      if (!isExpected(labelOf(error), ["OPERATION_TIMEOUT", ...networkFailures])) throw error;
      await task.pause(100, 500);
    }
  }
}

export const queueCommit: Scenario = {
  name: "queue, commit",
  invariant: "every transfer is applied exactly once, no money is made or lost (QueueConsumer, CommitInbox)",
  tasks: 2,
  expects: queueFailures,
  lanes: ["messages", "handlers"],
  unhurried: [0],
  prepare: async ({ table }) => {
    for (let i = 0; i < accounts; i++) await table.createEntity({ partitionKey: effectsPartition, rowKey: accountOf(i), balance: start });
  },
  work: work(
    "messages",
    (task) => task.storage.commits,
    async (task) => {
      const { CommitInbox, QueueConsumer } = task.library;
      const inbox = new CommitInbox(task.storage.table);
      const consumer = new QueueConsumer<Job>(
        task.storage.commits,
        async (job, context) => {
          const { key, from, to } = job;
          const [giver, taker] = await Promise.all([from, to].map((i) => task.storage.table.getEntity<{ balance: number }>(effectsPartition, accountOf(i))));
          if (!giver || !taker) throw new Error("an account is gone");
          await task.pause(1, 40);
          await context.commit([
            ["update", { rowKey: accountOf(from), balance: giver.balance - 1 }, "Merge", { etag: giver.etag }],
            ["update", { rowKey: accountOf(to), balance: taker.balance + 1 }, "Merge", { etag: taker.etag }],
            // A row of its own each time: a transfer that is applied twice leaves two.
            ["create", { rowKey: randomUUID(), key, from, to }],
          ]);
          task.progress("handlers");
        },
        { ...consumerOptions, inbox, partitionOf: () => effectsPartition },
      );
      consumer.on("error", (error) => task.reportError(error));
      await runService(task, consumer);
    },
  ),
  isDrained: ({ commits }) => isEmpty(commits),
  check: async ({ table }, operationLog) => {
    const effects = new Map<string, number>();
    const expected = new Map<string, number>();
    const balances = new Map<string, number>();
    const change = (account: string, by: number): unknown => expected.set(account, (expected.get(account) ?? start) + by);
    const rows = table.listEntities<{ rowKey: string; key?: string; from?: number; to?: number; balance?: number }>({ queryOptions: { filter: `PartitionKey eq '${effectsPartition}'` } });
    for await (const { rowKey, key, from, to, balance } of rows) {
      if (balance !== undefined) balances.set(rowKey, balance);
      if (key === undefined || from === undefined || to === undefined) continue;
      effects.set(key, (effects.get(key) ?? 0) + 1);
      change(accountOf(from), -1);
      change(accountOf(to), 1);
    }
    const wrong = [...balances].filter(([account, balance]) => balance !== (expected.get(account) ?? start));
    return [
      ...twice(effects, "took effect"),
      ...lost("queue, commit", operationLog, effects),
      ...wrong.map(([account, balance]) => `${account} has ${balance}, its transfers say ${expected.get(account) ?? start}`),
      ...(balances.size === accounts ? [] : [`${balances.size} accounts, not ${accounts}`]),
    ];
  },
};

export const queueClaim: Scenario = {
  name: "queue, claim",
  invariant: "every message is appended, none by two handlers at a time, none is completed twice (QueueConsumer, ClaimInbox)",
  tasks: 2,
  expects: queueFailures,
  lanes: ["messages", "handlers"],
  unhurried: [0],
  prepare: async ({ container }) => {
    await container.getAppendBlobClient(logName).create();
  },
  work: work(
    "messages",
    (task) => task.storage.claims,
    async (task) => {
      const { ClaimInbox, QueueConsumer } = task.library;
      const log = task.storage.container.getAppendBlobClient(logName);
      const consumer = new QueueConsumer<Job>(
        task.storage.claims,
        async ({ key }, { assertHeld }) => {
          // The time is taken before the check: it was held at that time, even if the process is suspended in between.
          const from = machineTime();
          assertHeld();
          await task.pause(1, 40);
          const to = machineTime();
          assertHeld();
          task.note({ kind: "handled", key, from, to } satisfies DeliveryEvent);
          task.progress("handlers");
          // Not idempotent: each run leaves a line.
          const line = `${key}\n`;
          await log.appendBlock(line, line.length);
        },
        { ...consumerOptions, inbox: new ClaimInbox(task.storage.table) },
      );
      consumer.on("completed", ({ idempotencyKey }) => task.note({ kind: "completed", key: idempotencyKey, at: machineTime() } satisfies DeliveryEvent));
      consumer.on("error", (error) => task.reportError(error));
      await runService(task, consumer);
    },
  ),
  isDrained: ({ claims }) => isEmpty(claims),
  check: async ({ container }, operationLog) => {
    const handled = new Map<string, number>();
    const lines = (await container.getBlobClient(logName).downloadToBuffer()).toString().split("\n");
    for (const key of lines.filter((line) => line !== "")) handled.set(key, (handled.get(key) ?? 0) + 1);
    return [...checkDeliveries(operationLog.notesOf<DeliveryEvent>("queue, claim")), ...lost("queue, claim", operationLog, handled)];
  },
};

export function accountOf(i: number): string {
  return `account-${i}`;
}

export async function isEmpty(queue: QueueClient): Promise<boolean> {
  return (await queue.getProperties()).approximateMessagesCount === 0;
}

export function twice(counts: ReadonlyMap<string, number>, what: string): string[] {
  return [...counts].filter(([, n]) => n > 1).map(([key, n]) => `${key} ${what} ${n} times`);
}

/** A message whose sending is done has to have been handled. One whose sending is open may have been sent or not. */
export function lost(scenario: string, operationLog: OperationLog, handled: ReadonlyMap<string, number>): string[] {
  return operationLog.compare(scenario, (task) => [...handled.keys()].filter((key) => key.slice(0, key.lastIndexOf("#")) === task).length);
}
