/* Two writers of one blob: the ETag tells the second that what it read is outdated, and it starts again. */
import { optimisticUpdate, textBlob } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const blobOptimistic: Sample = {
  title: "Optimistic concurrency on a blob",
  async run(storage) {
    const blob = (await storage.container()).getBlockBlobClient("hello.txt");
    await blob.upload("Hello World!", 12);
    say.step('the blob says "Hello World!"; we want to append to it');

    let interrupted = false;
    const result = await optimisticUpdate(textBlob(blob), async (text) => {
      if (!interrupted) {
        interrupted = true;
        await blob.upload("Hello from somebody else!", 25);
        say.warn("somebody else overwrites the blob after we have read it");
      }
      return `${text} And from us.`;
    });
    say.result(`"${result.value}" after ${result.attempts} attempts: nothing of either writer is lost`);
  },
};

await runIfStarted(blobOptimistic, import.meta.url);
