import type { Scenario } from "../scenario.js";

const partitionKey = "fenced";

/**
 * A read and a write without a condition, with time to be stopped in between. The holder does not ask whether it still
 * holds the lock: only the fence keeps what it read too long ago from being written.
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
    const lock = new TableLock(task.storage.table, new BlobLocks(task.storage.container), { granularity: "partition" });
    while (!task.finish.aborted) {
      await task.operation(async () => {
        const held = await lock.acquire(partitionKey, { durationInSeconds: 15, waitInMs: 4_000 });
        try {
          // Not the signal of the lock: whoever heeds it needs no fence. But a request that is never answered has to end.
          const abortSignal = AbortSignal.timeout(20_000);
          const partition = await held.partition(undefined, { abortSignal });
          const row = await partition.get<{ n: number; tasks: string }>("r", { abortSignal });
          await task.pause(5, 50);
          const tasks = JSON.parse(row?.tasks ?? "{}") as Record<string, number>;
          tasks[task.id] = (tasks[task.id] ?? 0) + 1;
          await task.mayFaint();
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
