/* A hundred writers of one record: in one process they share reads and writes. */
import { optimisticUpdate } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Counter {
  count: number;
}

export const hotCounter: Sample = {
  title: "A hot counter",
  async run(storage) {
    const blob = (await storage.container()).getBlockBlobClient("counter.json");
    const increment = (): Promise<unknown> =>
      optimisticUpdate<Counter>(
        blob,
        (counter) => {
          counter.count++;
        },
        { initial: { count: 0 } },
      );

    const started = performance.now();
    await Promise.all(Array.from({ length: 1_000 }, increment));
    const elapsed = performance.now() - started;

    const { value } = await optimisticUpdate<Counter>(blob, () => undefined);
    say.step("1,000 concurrent increments of one JSON document");
    say.result(`counted to ${value.count} in ${Math.round(elapsed)} ms: the calls that wait are written together`);
  },
};

await runIfStarted(hotCounter, import.meta.url);
