import { jsonBlob, optimisticUpdate } from "azure-storage-concurrency";

import { incrementBlobOnce, untilItLands } from "../baseline.js";
import type { Counter } from "../baseline.js";
import { contest } from "../contest.js";
import type { Bench, Side } from "../harness.js";
import { measureThroughput } from "../throughput.js";
import type { Update } from "../throughput.js";

export const hotBlob: Bench = {
  name: "hot-blob",
  about: "64 concurrent updaters of one JSON blob, against an If-Match loop with full-jitter backoff",
  async *run(env) {
    const container = await env.freshContainer();
    const side = async (name: Side): Promise<Parameters<typeof contest>[1][Side]> => {
      const blob = container.getBlockBlobClient(name);
      const start = JSON.stringify({ n: 0 });
      await blob.upload(start, start.length, { blobHTTPHeaders: { blobContentType: "application/json" } });
      const updates: Record<Side, Update> = {
        ours: async () => {
          await optimisticUpdate(jsonBlob<Counter>(blob), (counter) => {
            counter.n += 1;
          });
          return true;
        },
        baseline: (stop) => untilItLands(() => incrementBlobOnce(blob), stop),
      };
      return {
        run: () => measureThroughput(updates[name], { updaters: 64, warmUpInMs: 2_000, measureInMs: 4_000 }),
        counter: async () => (JSON.parse((await blob.downloadToBuffer()).toString()) as Counter).n,
      };
    };
    yield await contest("hot-blob", { ours: await side("ours"), baseline: await side("baseline") }, [
      { of: "ratio", atLeast: 100 },
      { of: "requests", atMost: 0.2 },
    ]);
  },
};
