import { IdAllocator, jsonBlob } from "azure-storage-concurrency";
import type { IdCounter } from "azure-storage-concurrency";

import { incrementBlobOnce, untilItLands } from "../baseline.js";
import { contest } from "../contest.js";
import type { Bench } from "../harness.js";
import { measureThroughput } from "../throughput.js";
import type { Throughput, Update } from "../throughput.js";

export const ids: Bench = {
  name: "ids",
  about: "Ids one after the other from blocks of 1,000, against one conditional update of a counter for each id",
  async *run(env) {
    const container = await env.freshContainer();
    const allocator = new IdAllocator(jsonBlob<IdCounter>(container.getBlockBlobClient("ours")));
    let last = 0;
    let ours = 0;
    const nextId: Update = async () => {
      const id = await allocator.next();
      if (id <= last) throw new Error(`id ${id} after ${last}`);
      last = id;
      // The clock of the measurement must get its turn: an id that is at hand takes no turn of the event loop.
      if (++ours % 100 === 0) await new Promise(setImmediate);
      return true;
    };
    const counter = container.getBlockBlobClient("baseline");
    await counter.upload('{"n":0}', 7);
    const measure = (update: Update): Promise<Throughput> => measureThroughput(update, { updaters: 1, warmUpInMs: 500, measureInMs: 2_000 });
    yield await contest(
      "ids",
      {
        ours: { run: () => measure(nextId), counter: () => Promise.resolve(ours) },
        baseline: {
          run: () => measure((stop) => untilItLands(() => incrementBlobOnce(counter), stop)),
          counter: async () => (JSON.parse((await counter.downloadToBuffer()).toString()) as { n: number }).n,
        },
      },
      [
        { of: "ratio", atLeast: 100 },
        { of: "requests", atMost: 0.01 },
      ],
    );
  },
};
