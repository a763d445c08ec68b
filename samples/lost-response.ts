/* The network loses every fifth response. The SDK sends the write again and gets 412, and a loop with the bare SDK counts twice. */
import { ContainerClient } from "@azure/storage-blob";
import type { BlockBlobClient } from "@azure/storage-blob";
import { optimisticUpdate } from "azure-storage-concurrency";
import { dropResponse, isWrite, replaceEndpoints, startFaultProxy } from "azure-storage-concurrency/testing";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { repeat } from "./support/progress.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Counter {
  count: number;
}

const increments = 100;

/** The loop with the bare SDK: read, change, write with If-Match, and try again on 412. */
async function incrementWithSdk(blob: BlockBlobClient): Promise<void> {
  for (;;) {
    const response = await blob.download();
    const chunks: Uint8Array[] = [];
    for await (const chunk of response.readableStreamBody ?? []) chunks.push(chunk as Buffer);
    const counter = JSON.parse(Buffer.concat(chunks).toString()) as Counter;
    const text = JSON.stringify({ count: counter.count + 1 });
    try {
      await blob.upload(text, text.length, { conditions: { ifMatch: response.etag! } });
      return;
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode !== 412) throw error;
    }
  }
}

export const lostResponse: Sample = {
  name: "lost-response",
  title: "A network that loses responses",
  helper: "optimisticUpdate",
  section: "docs/guarantees/updates.md#how-it-works",
  plan: `${increments} increments with a loop on the bare SDK, then ${increments} with the library. One in five responses to a write is lost.`,
  lesson: "The SDK sends a write again when its response is lost. The first send was committed, so the service rejects the second with 412. A loop treats that as a conflict and increments again. The library stores an id with each write, and finds it when it reads back.",
  async run(storage) {
    // Always on an emulator: the faults are injected by a proxy in front of it.
    const azurite = await storage.emulator();
    await using proxy = await startFaultProxy(azurite.blobUrl, [dropResponse({ when: isWrite, probability: 0.2 })]);
    const direct = new ContainerClient(azurite.connectionString, "lost-response");
    await direct.create();
    const container = new ContainerClient(replaceEndpoints(azurite.connectionString, { blobUrl: proxy.url }), "lost-response", {
      retryOptions: { retryDelayInMs: 10, maxRetryDelayInMs: 50 },
    });
    for (const name of ["bare-sdk", "library"]) await direct.getBlockBlobClient(name).upload('{"count":0}', 11);
    const countOf = async (name: string): Promise<number> =>
      (JSON.parse((await direct.getBlockBlobClient(name).downloadToBuffer()).toString()) as Counter).count;

    await repeat(increments, "increments with the bare SDK", () => incrementWithSdk(container.getBlockBlobClient("bare-sdk")));
    const countWithSdk = await countOf("bare-sdk");
    const lostWithSdk = proxy.faultCount();
    say.trouble(`${lostWithSdk} responses were lost, and the loop with If-Match counted to ${countWithSdk}`);

    await repeat(increments, "increments with the library", () =>
      optimisticUpdate<Counter>(container.getBlockBlobClient("library"), (counter) => {
        counter.count++;
      }),
    );
    const countWithLibrary = await countOf("library");
    check(countWithSdk > increments, "lost responses make a loop with the bare SDK count twice");
    check(countWithLibrary === increments, "an update is applied exactly once");
    return `optimisticUpdate counted to ${countWithLibrary}, with ${proxy.faultCount() - lostWithSdk} responses lost`;
  },
};

await runIfStarted(lostResponse, import.meta.url);
