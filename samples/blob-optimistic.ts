/* Two writers of one blob: the second write fails because the ETag has changed, and the update runs again. */
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
  plan: "This process appends to a text. Between its read and its write, another process replaces the text.",
  lesson: "An unconditional upload would have overwritten the text of the other process. A write with the ETag of the version that was read is rejected, and the mutator runs again on the current version.",
  async run(storage) {
    const blob = (await storage.container()).getBlockBlobClient("hello.txt");
    await blob.upload("Hello World!", 12);
    say.step('the blob contains "Hello World!"');

    let interrupted = false;
    const result = await optimisticUpdate(textBlob(blob), async (text) => {
      // A mutator should only compute, because it may run again. This one writes once, to cause the conflict.
      if (!interrupted) {
        interrupted = true;
        await blob.upload("Hello from another process!", 27);
        say.trouble("another process writes after this one has read");
      }
      return `${text} And from this one.`;
    });

    check(result.value === "Hello from another process! And from this one.", "the changes of both writers are kept");
    return `"${result.value}" (${result.attempts} attempts)`;
  },
};

await runIfStarted(blobOptimistic, import.meta.url);
