import { updateFailures } from "../expected-errors.js";
import type { OperationLog } from "../operation-log.js";
import type { Scenario, Task } from "../scenario.js";

/** How often each task was counted. A table property cannot be an object, so that it is kept as text there. */
export interface Counts {
  total: number;
  tasks: string;
}

const timeoutInMs = 8_000;

export const counterEntity: Scenario = {
  name: "hot entity",
  invariant: "every update is applied exactly once (optimisticUpdate)",
  tasks: 4,
  expects: updateFailures,
  prepare: async ({ table }) => {
    await table.createEntity({ partitionKey: "counter", rowKey: "r", total: 0, tasks: "{}" });
  },
  work: (task) => {
    const target = task.library.tableEntity<Counts>(task.storage.table, "counter", "r");
    return countOn(task, () => task.library.optimisticUpdate(target, (draft) => count(draft, task.id), { timeoutInMs }));
  },
  check: async ({ table }, operationLog) => compare("hot entity", operationLog, await table.getEntity<Counts>("counter", "r")),
};

export const counterBlob: Scenario = {
  name: "hot blob",
  invariant: "every update is applied exactly once (optimisticUpdate, each write by itself)",
  tasks: 2,
  expects: updateFailures,
  prepare: async ({ container }) => {
    const text = JSON.stringify({ total: 0, tasks: "{}" });
    await container.getBlockBlobClient("counter.json").upload(text, text.length);
  },
  work: (task) => {
    const target = task.library.jsonBlob<Counts>(task.storage.container.getBlockBlobClient("counter.json"));
    return countOn(task, () => task.library.optimisticUpdate(target, (draft) => count(draft, task.id), { timeoutInMs, coalesce: false }));
  },
  check: async ({ container }, operationLog) => {
    const text = (await container.getBlockBlobClient("counter.json").downloadToBuffer()).toString();
    return compare("hot blob", operationLog, JSON.parse(text) as Counts);
  },
};

export async function countOn(task: Task, update: () => Promise<unknown>): Promise<void> {
  while (!task.finish.aborted) {
    await task.operation(update);
    await task.pause(5, 60);
  }
}

export function count(counts: Counts, task: string): void {
  counts.total++;
  const tasks = JSON.parse(counts.tasks) as Record<string, number>;
  tasks[task] = (tasks[task] ?? 0) + 1;
  counts.tasks = JSON.stringify(tasks);
}

export function compare(scenario: string, operationLog: OperationLog, { total, tasks }: Counts): string[] {
  const counted = JSON.parse(tasks) as Record<string, number>;
  const sum = Object.values(counted).reduce((a, b) => a + b, 0);
  const problems = operationLog.compare(scenario, (task) => counted[task] ?? 0);
  return sum === total ? problems : [...problems, `the tasks add up to ${sum}, the total is ${total}`];
}
