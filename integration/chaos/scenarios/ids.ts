import type { Scenario } from "../scenario.js";

export const ids: Scenario = {
  name: "ids",
  invariant: "no id is given out twice (IdAllocator)",
  lanes: 1,
  work: async (lane) => {
    const { IdAllocator, jsonBlob } = lane.library;
    const counter = jsonBlob<{ next: number }>(lane.storage.container.getBlockBlobClient("ids.json"));
    const allocator = new IdAllocator(counter, { blockSize: 40, timeoutInMs: 8_000 });
    try {
      while (!lane.finish.aborted) {
        await lane.operation(async () => lane.note(await allocator.nextMany(lane.random.between(1, 30))));
        await lane.pause(20, 150);
      }
    } finally {
      allocator.close();
    }
  },
  check: (_, ledger) => {
    const given = new Set<number>();
    const problems: string[] = [];
    for (const id of ledger.notesOf<number[]>("ids").flat()) {
      if (given.has(id)) problems.push(`${id} was given out twice`);
      given.add(id);
    }
    return Promise.resolve(problems);
  },
};
