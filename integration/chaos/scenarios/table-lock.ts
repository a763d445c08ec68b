import type { TableClient } from "@azure/data-tables";

import type { Scenario, Task } from "../scenario.js";

const partitionKey = "fenced";

/**
 * A read and a write without a condition. Now and then the process is stopped when the write has left: neither the clock nor the
 * signal of the lock can hold it back any more, and only the fence keeps what was read too long ago from being written.
 */
export const tableLock: Scenario = {
  name: "table lock",
  invariant: "a holder that was stopped too long is refused by the storage (TableLock, fence)",
  tasks: 1,
  prepare: async ({ table }) => {
    await table.createEntity({ partitionKey, rowKey: "r", n: 0, tasks: "{}" });
  },
  work: async (task) => {
    const { TableLock, BlobLocks } = task.library;
    stopWhenWritesHaveLeft(task.storage.table, task);
    const lock = new TableLock(task.storage.table, new BlobLocks(task.storage.container), { granularity: "partition" });
    while (!task.finish.aborted) {
      await task.operation(async () => {
        const held = await lock.acquire(partitionKey, { durationInSeconds: 15, waitInMs: 20_000 }); // longer than a stopped holder keeps the lock
        try {
          // A request that is never answered has to end.
          const abortSignal = AbortSignal.timeout(20_000);
          const partition = await held.partition(undefined, { abortSignal });
          const row = await partition.get<{ n: number; tasks: string }>("r", { abortSignal });
          await task.pause(5, 50);
          const tasks = JSON.parse(row?.tasks ?? "{}") as Record<string, number>;
          tasks[task.id] = (tasks[task.id] ?? 0) + 1;
          await partition.submit([["update", { rowKey: "r", n: (row?.n ?? 0) + 1, tasks: JSON.stringify(tasks) }]], { abortSignal: AbortSignal.timeout(8_000) });
        } finally {
          await held[Symbol.asyncDispose]();
        }
      });
      await task.pause(1, 20);
    }
  },
  check: async ({ table }, operationLog) => {
    const { n, tasks } = await table.getEntity<{ n: number; tasks: string }>(partitionKey, "r");
    const counted = JSON.parse(tasks) as Record<string, number>;
    const sum = Object.values(counted).reduce((a, b) => a + b, 0);
    const problems = operationLog.compare("table lock", (task) => counted[task] ?? 0);
    return sum === n ? problems : [...problems, `the tasks add up to ${sum}, the row says ${n}`];
  },
};

const current = new WeakMap<TableClient, Task>();

/** The policy is added once for each client; it stops the process for the task that works now. */
function stopWhenWritesHaveLeft(table: TableClient, task: Task): void {
  const isNew = !current.has(table);
  current.set(table, task);
  if (!isNew) return;
  table.pipeline.addPolicy({
    name: "network that delivers late",
    sendRequest: async (request, next) => {
      const isWrite = request.url.includes("$batch") && typeof request.body === "string" && request.body.includes(`PartitionKey='${partitionKey}',RowKey='r'`);
      if (!isWrite) return next(request);
      const started = Date.now();
      await current.get(table)?.mayFaint();
      // It has left: an abort does not bring it back.
      if (Date.now() - started > 10_000) delete request.abortSignal;
      return next(request);
    },
  }, { afterPhase: "Retry" });
}
