/* A thousand callers of one record: in one process they share reads and writes. */
import { ContainerClient } from "@azure/storage-blob";
import { optimisticUpdate } from "azure-storage-concurrency";
import { replaceEndpoints, startFaultProxy } from "azure-storage-concurrency/testing";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

interface Counter {
  count: number;
}

const callers = 1_000;

export const hotCounter: Sample = {
  name: "hot-counter",
  title: "A hot counter",
  helper: "optimisticUpdate",
  section: "docs/updates.md#cost",
  plan: "1,000 callers add one to the same JSON document, all at the same time.",
  lesson: "With a loop for each caller, all but one would lose each round, and nearly all requests would be in vain. Callers of one process that wait for the same record are written together.",
  async run(storage) {
    const azurite = await storage.emulator();
    // No faults here: what it counts is wanted.
    await using proxy = await startFaultProxy(azurite.blobUrl);
    const container = new ContainerClient(replaceEndpoints(azurite.connectionString, { blobUrl: proxy.url }), "hot-counter");
    await container.create();
    const blob = container.getBlockBlobClient("counter.json");
    proxy.reset();

    const started = performance.now();
    const add = (): Promise<unknown> =>
      optimisticUpdate<Counter>(
        blob,
        (counter) => {
          counter.count++;
        },
        { initial: { count: 0 } },
      );
    await Promise.all(Array.from({ length: callers }, add));
    say.step(`all of them are done after ${Math.round(performance.now() - started)} ms`);

    const { requests } = proxy;
    const { count } = JSON.parse((await blob.downloadToBuffer()).toString()) as Counter;
    check(count === callers, "each caller is counted once");
    check(requests < callers / 10, "callers share their requests");
    return `counted to ${count}, with ${requests} requests`;
  },
};

await runIfStarted(hotCounter, import.meta.url);
