/* A lease keeps everybody else from writing to a blob while we work on it. */
import { optimisticUpdate, textBlob, withLease } from "azure-storage-concurrency";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const blobPessimistic: Sample = {
  title: "Pessimistic concurrency on a blob",
  async run(storage) {
    const blob = (await storage.container()).getBlockBlobClient("report.txt");
    await blob.upload("draft", 5);

    await withLease(
      blob,
      async (lease) => {
        say.step(`we hold the lease for ${Math.round(lease.remainingInMs / 1_000)} s, and it is renewed as long as we work`);
        try {
          await blob.upload("scribble", 8);
        } catch (error) {
          say.warn(`somebody without the lease tries to write: ${(error as { statusCode?: number }).statusCode} ${(error as { code?: string }).code}`);
        }
        await optimisticUpdate(textBlob(blob), (text) => `${text}, then final`, { conditions: lease.conditions });
      },
      { durationInSeconds: 15 },
    );
    say.result(`the blob says "${(await blob.downloadToBuffer()).toString()}", and everybody may write again`);
  },
};

await runIfStarted(blobPessimistic, import.meta.url);
