import { randomUUID } from "node:crypto";

import type { QueueClient } from "@azure/storage-queue";

import type { Ledger } from "../ledger.js";
import type { Lane, Scenario } from "../scenario.js";

interface Job {
  readonly key: string;
}

const consumerOptions = { concurrency: 8, visibilityTimeoutInSeconds: 10, maxAttempts: 1_000, pollIntervalInMs: { min: 50, max: 500 }, drainTimeoutInMs: 5_000 };

/** The first lane of a worker consumes, the others produce. */
function work(queueOf: (lane: Lane) => QueueClient, consume: (lane: Lane) => Promise<void>): Scenario["work"] {
  return async (lane) => {
    if (lane.id.endsWith("/0")) return consume(lane);
    while (!lane.finish.aborted) {
      await lane.operation(async (op) => {
        const key = `${lane.id}#${op}`;
        await lane.library.enqueue(queueOf(lane), { key } satisfies Job, { idempotencyKey: key, abortSignal: AbortSignal.timeout(8_000) });
      });
      await lane.pause(30, 200);
    }
  };
}

export const queueCommit: Scenario = {
  name: "queue, commit",
  invariant: "every message takes effect exactly once (QueueConsumer, TableInbox in commit mode)",
  lanes: 2,
  work: work(
    (lane) => lane.storage.commits,
    async (lane) => {
      const { QueueConsumer, TableInbox } = lane.library;
      const inbox = new TableInbox(lane.storage.table, { mode: "commit" });
      const consumer = new QueueConsumer<Job>(
        lane.storage.commits,
        async (job, context) => {
          await lane.pause(1, 40);
          // A row of its own each time: an effect that happens twice leaves two.
          await context.commit("effects", [["create", { partitionKey: "effects", rowKey: randomUUID(), key: job.key }]]);
        },
        { ...consumerOptions, inbox },
      );
      consumer.on("error", () => undefined);
      await consumer.run({ abortSignal: lane.stop });
    },
  ),
  isDrained: ({ commits }) => isEmpty(commits),
  check: async ({ table }, ledger) => {
    const effects = new Map<string, number>();
    const rows = table.listEntities<{ key?: string }>({ queryOptions: { filter: "PartitionKey eq 'effects'" } });
    for await (const { key } of rows) if (key !== undefined) effects.set(key, (effects.get(key) ?? 0) + 1);
    return [...twice(effects, "took effect"), ...lost("queue, commit", ledger, effects)];
  },
};

export const queueClaim: Scenario = {
  name: "queue, claim",
  invariant: "no message is lost, none is completed twice (QueueConsumer, TableInbox in claim mode)",
  lanes: 2,
  work: work(
    (lane) => lane.storage.claims,
    async (lane) => {
      const { QueueConsumer, TableInbox } = lane.library;
      const consumer = new QueueConsumer<Job>(
        lane.storage.claims,
        async (job) => {
          await lane.pause(1, 40);
          // Handled at least once is what the handler itself can tell; how often completed, the consumer.
          lane.note({ handled: job.key });
        },
        { ...consumerOptions, inbox: new TableInbox(lane.storage.table) },
      );
      consumer.on("completed", ({ key }) => lane.note({ completed: key }));
      consumer.on("error", () => undefined);
      await consumer.run({ abortSignal: lane.stop });
    },
  ),
  isDrained: ({ claims }) => isEmpty(claims),
  check: (_, ledger) => {
    const handled = new Map<string, number>();
    const completed = new Map<string, number>();
    for (const note of ledger.notesOf<{ handled?: string; completed?: string }>("queue, claim")) {
      if (note.handled !== undefined) handled.set(note.handled, (handled.get(note.handled) ?? 0) + 1);
      if (note.completed !== undefined) completed.set(note.completed, (completed.get(note.completed) ?? 0) + 1);
    }
    return Promise.resolve([...twice(completed, "was completed"), ...lost("queue, claim", ledger, handled)]);
  },
};

async function isEmpty(queue: QueueClient): Promise<boolean> {
  return (await queue.getProperties()).approximateMessagesCount === 0;
}

function twice(counts: ReadonlyMap<string, number>, what: string): string[] {
  return [...counts].filter(([, n]) => n > 1).map(([key, n]) => `${key} ${what} ${n} times`);
}

/** A message whose sending is done has to have been handled. One whose sending is open may have been sent or not. */
function lost(scenario: string, ledger: Ledger, handled: ReadonlyMap<string, number>): string[] {
  return ledger.compare(scenario, (lane) => [...handled.keys()].filter((key) => key.slice(0, key.lastIndexOf("#")) === lane).length);
}
