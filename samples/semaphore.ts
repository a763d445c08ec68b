/* At most three exports at a time, whoever starts them. */
import { BlobLocks, Semaphore } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const semaphore: Sample = {
  title: "A semaphore",
  async run(storage) {
    const exports = new Semaphore(new BlobLocks(await storage.container()), "exports", 3);
    let running = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 9 }, () =>
        exports.withSlot(async () => {
          most = Math.max(most, ++running);
          await new Promise((resolve) => setTimeout(resolve, 100));
          running--;
        }),
      ),
    );
    say.result(`9 exports are done, and never more than ${most} ran at once`);
  },
};

await runIfStarted(semaphore, import.meta.url);
