/* The network loses every fifth answer. The SDK sends the write again, is told 412, and a plain loop counts twice. */
import { BlobServiceClient } from "@azure/storage-blob";
import type { BlockBlobClient } from "@azure/storage-blob";
import { optimisticUpdate } from "azure-storage-concurrency";
import { dropAnswer, isWrite, replaceEndpoints, startAzurite, startFaultProxy } from "azure-storage-concurrency/testing";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Counter {
  count: number;
}

const increments = 100;

/** What one would write by hand: read, change, write with If-Match, and again on 412. */
async function incrementByHand(blob: BlockBlobClient): Promise<void> {
  for (;;) {
    const answer = await blob.download();
    const chunks: Uint8Array[] = [];
    for await (const chunk of answer.readableStreamBody ?? []) chunks.push(chunk as Buffer);
    const counter = JSON.parse(Buffer.concat(chunks).toString()) as Counter;
    const text = JSON.stringify({ count: counter.count + 1 });
    try {
      await blob.upload(text, text.length, { conditions: { ifMatch: answer.etag! } });
      return;
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode !== 412) throw error;
    }
  }
}

export const lostResponse: Sample = {
  title: "Lost responses",
  async run() {
    // Always on an emulator of its own: nobody wants a real account behind a broken network.
    await using azurite = await startAzurite();
    await using proxy = await startFaultProxy(azurite.blobUrl, [dropAnswer({ when: isWrite, probability: 0.2 })]);
    const direct = BlobServiceClient.fromConnectionString(azurite.connectionString).getContainerClient("counters");
    await direct.create();
    const container = BlobServiceClient.fromConnectionString(
      replaceEndpoints(azurite.connectionString, { blobUrl: proxy.url }),
      { retryOptions: { retryDelayInMs: 10, maxRetryDelayInMs: 50 } },
    ).getContainerClient("counters");
    for (const name of ["by-hand", "ours"]) await direct.getBlockBlobClient(name).upload('{"count":0}', 11);

    say.step(`${increments} increments each, one after the other, while 20 % of the answers to writes get lost`);
    for (let i = 0; i < increments; i++) await incrementByHand(container.getBlockBlobClient("by-hand"));
    for (let i = 0; i < increments; i++) {
      await optimisticUpdate<Counter>(container.getBlockBlobClient("ours"), (counter) => {
        counter.count++;
      });
    }

    const countOf = async (name: string): Promise<number> =>
      (JSON.parse((await direct.getBlockBlobClient(name).downloadToBuffer()).toString()) as Counter).count;
    say.warn(`an If-Match loop written by hand counted to ${await countOf("by-hand")}`);
    say.result(`optimisticUpdate counted to ${await countOf("ours")}`);
  },
};

await runIfStarted(lostResponse, import.meta.url);
