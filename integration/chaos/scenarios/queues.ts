import { randomUUID } from "node:crypto";

import type { QueueClient } from "@azure/storage-queue";

import type { OperationLog } from "../operation-log.js";
import type { Scenario, Task } from "../scenario.js";

interface Job {
  readonly key: string;
}

const consumerOptions = { concurrency: 8, visibilityTimeoutInSeconds: 10, maxAttempts: 1_000, minPollIntervalInMs: 50, maxPollIntervalInMs: 500, drainTimeoutInMs: 5_000 };

/** The first task of a worker consumes, the others produce. */
function work(queueOf: (task: Task) => QueueClient, consume: (task: Task) => Promise<void>): Scenario["work"] {
  return async (task) => {
    if (task.id.endsWith("/0")) return consume(task);
    while (!task.finish.aborted) {
      await task.operation(async (op) => {
        const key = `${task.id}#${op}`;
        await task.library.enqueue(queueOf(task), { key } satisfies Job, { idempotencyKey: key, abortSignal: AbortSignal.timeout(8_000) });
      });
      await task.pause(30, 200);
    }
  };
}

export const queueCommit: Scenario = {
  name: "queue, commit",
  invariant: "every message takes effect exactly once (QueueConsumer, CommitInbox)",
  tasks: 2,
  work: work(
    (task) => task.storage.commits,
    async (task) => {
      const { CommitInbox, QueueConsumer } = task.library;
      const inbox = new CommitInbox(task.storage.table);
      const consumer = new QueueConsumer<Job>(
        task.storage.commits,
        async (job, context) => {
          await task.pause(1, 40);
          // A row of its own each time: an effect that happens twice leaves two.
          await context.commit([["create", { rowKey: randomUUID(), key: job.key }]]);
        },
        { ...consumerOptions, inbox, partitionOf: () => "effects" },
      );
      consumer.on("error", () => undefined);
      await consumer.run({ abortSignal: task.stop });
    },
  ),
  isDrained: ({ commits }) => isEmpty(commits),
  check: async ({ table }, operationLog) => {
    const effects = new Map<string, number>();
    const rows = table.listEntities<{ key?: string }>({ queryOptions: { filter: "PartitionKey eq 'effects'" } });
    for await (const { key } of rows) if (key !== undefined) effects.set(key, (effects.get(key) ?? 0) + 1);
    return [...twice(effects, "took effect"), ...lost("queue, commit", operationLog, effects)];
  },
};

export const queueClaim: Scenario = {
  name: "queue, claim",
  invariant: "no message is lost, none is completed twice (QueueConsumer, ClaimInbox)",
  tasks: 2,
  work: work(
    (task) => task.storage.claims,
    async (task) => {
      const { ClaimInbox, QueueConsumer } = task.library;
      const consumer = new QueueConsumer<Job>(
        task.storage.claims,
        async (job) => {
          await task.pause(1, 40);
          // Handled at least once is what the handler itself can tell; how often completed, the consumer.
          task.note({ handled: job.key });
        },
        { ...consumerOptions, inbox: new ClaimInbox(task.storage.table) },
      );
      consumer.on("completed", ({ idempotencyKey }) => task.note({ completed: idempotencyKey }));
      consumer.on("error", () => undefined);
      await consumer.run({ abortSignal: task.stop });
    },
  ),
  isDrained: ({ claims }) => isEmpty(claims),
  check: (_, operationLog) => {
    const handled = new Map<string, number>();
    const completed = new Map<string, number>();
    for (const note of operationLog.notesOf<{ handled?: string; completed?: string }>("queue, claim")) {
      if (note.handled !== undefined) handled.set(note.handled, (handled.get(note.handled) ?? 0) + 1);
      if (note.completed !== undefined) completed.set(note.completed, (completed.get(note.completed) ?? 0) + 1);
    }
    return Promise.resolve([...twice(completed, "was completed"), ...lost("queue, claim", operationLog, handled)]);
  },
};

async function isEmpty(queue: QueueClient): Promise<boolean> {
  return (await queue.getProperties()).approximateMessagesCount === 0;
}

function twice(counts: ReadonlyMap<string, number>, what: string): string[] {
  return [...counts].filter(([, n]) => n > 1).map(([key, n]) => `${key} ${what} ${n} times`);
}

/** A message whose sending is done has to have been handled. One whose sending is open may have been sent or not. */
function lost(scenario: string, operationLog: OperationLog, handled: ReadonlyMap<string, number>): string[] {
  return operationLog.compare(scenario, (task) => [...handled.keys()].filter((key) => key.slice(0, key.lastIndexOf("#")) === task).length);
}
