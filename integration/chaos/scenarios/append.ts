import { updateFailures } from "../expected-errors.js";
import type { Scenario } from "../scenario.js";

/** The records of all tasks in one append blob; each names its task and its number. */
export const append: Scenario = {
  name: "append",
  invariant: "every record is there exactly once, those of a task in order (appendExactlyOnce)",
  tasks: 2,
  expects: updateFailures,
  prepare: async ({ container }) => {
    await container.getAppendBlobClient("log").create();
  },
  work: async (task) => {
    const log = task.storage.container.getAppendBlobClient("log");
    while (!task.finish.aborted) {
      await task.operation((op) => task.library.appendExactlyOnce(log, `${task.id}#${op}\n`, { timeoutInMs: 8_000 }));
      await task.pause(20, 150);
    }
  },
  check: async ({ container }, operationLog) => {
    const text = (await container.getAppendBlobClient("log").downloadToBuffer()).toString();
    const problems: string[] = [];
    const records = new Map<string, number[]>();
    for (const record of text.split("\n").slice(0, -1)) {
      const [task = "", op] = record.split("#");
      const before = records.get(task) ?? [];
      if (Number(op) <= (before.at(-1) ?? -1)) problems.push(`${record} came after ${before.at(-1) ?? "nothing"}`);
      records.set(task, [...before, Number(op)]);
    }
    return [...problems, ...operationLog.compare("append", (task) => records.get(task)?.length ?? 0)];
  },
};
