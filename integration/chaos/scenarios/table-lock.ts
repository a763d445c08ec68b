import type { TableClient } from "@azure/data-tables";

import { machineTime } from "../claims.js";
import { lockFailures, networkFailures, outOfTime, updateFailures } from "../expected-errors.js";
import type { Scenario, Task } from "../scenario.js";

/** Several: one whose holder was killed or stopped stays locked for 15 s. */
const partitionKeys = ["fenced-1", "fenced-2", "fenced-3", "fenced-4"] as const;

/**
 * A read and a write without a condition. Now and then the process is stopped when the write has left: neither the clock nor the
 * signal of the lock can hold it back any more, and only the fence keeps what was read too long ago from being written.
 */
export const tableLock: Scenario = {
  name: "table lock",
  invariant: "a holder that was stopped too long is refused by the storage (TableLock, fence)",
  tasks: 2,
  expects: [...updateFailures, ...lockFailures, ...outOfTime, ...networkFailures, "FENCED"],
  takesOver: true,
  prepare: async ({ table }) => {
    for (const partitionKey of partitionKeys) await table.createEntity({ partitionKey, rowKey: "r", n: 0, tasks: "{}" });
  },
  work: async (task) => {
    const { TableLock, BlobLocks } = task.library;
    stopWhenWritesHaveLeft(task.storage.table, task);
    const lock = new TableLock(task.storage.table, new BlobLocks(task.storage.container), { granularity: "partition" });
    while (!task.finish.aborted) {
      const partitionKey = task.random.pick(partitionKeys);
      await task.operation(async () => {
        const held = await lock.acquire(partitionKey, { durationInSeconds: 15, waitInMs: 20_000 }); // longer than a stopped holder keeps the lock
        await task.holding(partitionKey, async () => {
          // A request that is never answered has to end.
          const abortSignal = AbortSignal.timeout(20_000);
          const partition = await held.partition(undefined, { abortSignal });
          const row = await partition.get<{ n: number; tasks: string }>("r", { abortSignal });
          await task.pause(5, 50);
          const tasks = JSON.parse(row?.tasks ?? "{}") as Record<string, number>;
          tasks[task.id] = (tasks[task.id] ?? 0) + 1;
          await partition.submit([["update", { rowKey: "r", n: (row?.n ?? 0) + 1, tasks: JSON.stringify(tasks) }]], { abortSignal: AbortSignal.timeout(8_000) });
        }).finally(() => held[Symbol.asyncDispose]());
      });
      await task.pause(1, 20);
    }
  },
  check: async ({ table }, operationLog) => {
    const done = new Map<string, number>();
    const problems: string[] = [];
    for (const partitionKey of partitionKeys) {
      const { n, tasks } = await table.getEntity<{ n: number; tasks: string }>(partitionKey, "r");
      const counted = Object.entries(JSON.parse(tasks) as Record<string, number>);
      for (const [task, count] of counted) done.set(task, (done.get(task) ?? 0) + count);
      const sum = counted.reduce((total, [, count]) => total + count, 0);
      if (sum !== n) problems.push(`${partitionKey}: the tasks add up to ${sum}, the row says ${n}`);
    }
    return [...operationLog.compare("table lock", (task) => done.get(task) ?? 0), ...problems];
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
      const isWrite = request.url.includes("$batch") && typeof request.body === "string" && partitionKeys.some((key) => (request.body as string).includes(`PartitionKey='${key}',RowKey='r'`));
      if (!isWrite) return next(request);
      const started = machineTime();
      await current.get(table)?.mayFaint();
      // It has left: an abort does not bring it back.
      if (machineTime() - started > 10_000) delete request.abortSignal;
      return next(request);
    },
  }, { afterPhase: "Retry" });
}
