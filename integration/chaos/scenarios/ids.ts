import type { IdCounter } from "azure-storage-concurrency";
import { updateFailures } from "../expected-errors.js";
import type { Scenario } from "../scenario.js";

export const ids: Scenario = {
  name: "ids",
  invariant: "no id is given out twice (IdAllocator)",
  tasks: 1,
  expects: updateFailures,
  work: async (task) => {
    const { IdAllocator, jsonBlob } = task.library;
    const counter = jsonBlob<IdCounter>(task.storage.container.getBlockBlobClient("ids.json"));
    const allocator = new IdAllocator(counter, { blockSize: 40, timeoutInMs: 8_000 });
    try {
      while (!task.finish.aborted) {
        await task.operation(async () => task.note(await allocator.nextMany(task.random.between(1, 30))));
        await task.pause(20, 150);
      }
    } finally {
      allocator.close();
    }
  },
  check: (_, operationLog) => {
    const given = new Set<number>();
    const problems: string[] = [];
    for (const id of operationLog.notesOf<number[]>("ids").flat()) {
      if (given.has(id)) problems.push(`${id} was given out twice`);
      given.add(id);
    }
    return Promise.resolve(problems);
  },
};
