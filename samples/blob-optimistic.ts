/* Two writers of one blob: the ETag tells the second that what it read is outdated, and it starts again. */
import { optimisticUpdate, textBlob } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const blobOptimistic: Sample = {
  name: "blob-optimistic",
  title: "Two writers of one blob",
  helper: "optimisticUpdate",
  section: "docs/updates.md#quick-example",
  plan: "We append to a text. Between our read and our write, somebody else replaces it.",
  lesson: "A plain upload would have wiped out the other's text. A write with the ETag of what was read is refused instead, and the change is made again on what is there now.",
  async run(storage) {
    const blob = (await storage.container()).getBlockBlobClient("hello.txt");
    await blob.upload("Hello World!", 12);
    say.step('the blob says "Hello World!"');

    let interrupted = false;
    const result = await optimisticUpdate(textBlob(blob), async (text) => {
      // A mutator should only compute, as it may run again. This one makes sure that it has to.
      if (!interrupted) {
        interrupted = true;
        await blob.upload("Hello from somebody else!", 25);
        say.trouble("after we have read it, somebody else writes");
      }
      return `${text} And from us.`;
    });

    check(result.value === "Hello from somebody else! And from us.", "nothing of either writer is lost");
    return `"${result.value}" (${result.attempts} attempts)`;
  },
};

await runIfStarted(blobOptimistic, import.meta.url);
