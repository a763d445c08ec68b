/* The network loses every fifth answer. The SDK sends the write again, is told 412, and a plain loop counts twice. */
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
  name: "lost-response",
  title: "A network that loses answers",
  helper: "optimisticUpdate",
  section: "docs/guarantees/updates.md#how-it-works",
  plan: `${increments} increments by a loop of one's own, then ${increments} by the library. One in five answers to a write gets lost on the way back.`,
  lesson: "The SDK sends a write again when its answer is lost. The first one had landed, so the second is refused, and a loop takes that for a lost race and counts once more. The library leaves a mark with each write, and finds it.",
  async run(storage) {
    // Always on an emulator: nobody wants a real account behind a broken network.
    const azurite = await storage.emulator();
    await using proxy = await startFaultProxy(azurite.blobUrl, [dropResponse({ when: isWrite, probability: 0.2 })]);
    const direct = new ContainerClient(azurite.connectionString, "lost-response");
    await direct.create();
    const container = new ContainerClient(replaceEndpoints(azurite.connectionString, { blobUrl: proxy.url }), "lost-response", {
      retryOptions: { retryDelayInMs: 10, maxRetryDelayInMs: 50 },
    });
    for (const name of ["by-hand", "ours"]) await direct.getBlockBlobClient(name).upload('{"count":0}', 11);
    const countOf = async (name: string): Promise<number> =>
      (JSON.parse((await direct.getBlockBlobClient(name).downloadToBuffer()).toString()) as Counter).count;

    await repeat(increments, "increments by hand", () => incrementByHand(container.getBlockBlobClient("by-hand")));
    const byHand = await countOf("by-hand");
    const lostByHand = proxy.faultCount();
    say.trouble(`${lostByHand} answers were lost, and the loop with If-Match counted to ${byHand}`);

    await repeat(increments, "increments by the library", () =>
      optimisticUpdate<Counter>(container.getBlockBlobClient("ours"), (counter) => {
        counter.count++;
      }),
    );
    const ours = await countOf("ours");
    check(byHand > increments, "lost answers make a plain loop count twice");
    check(ours === increments, "an update is applied exactly once");
    return `optimisticUpdate counted to ${ours}, with ${proxy.faultCount() - lostByHand} answers lost`;
  },
};

await runIfStarted(lostResponse, import.meta.url);
