/* A thousand callers update one document: within a process they share reads and writes. */
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
  lesson: "With a separate loop for each caller, one write of each round would succeed and all others would fail with a conflict. The library combines the updates of all callers in a process that wait for the same document into one write.",
  async run(storage) {
    const azurite = await storage.emulator();
    // No faults: the proxy only counts the requests.
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
    say.step(`all updates are committed after ${Math.round(performance.now() - started)} ms`);

    const { requests } = proxy;
    const { count } = JSON.parse((await blob.downloadToBuffer()).toString()) as Counter;
    check(count === callers, "each update is applied once");
    check(requests < callers / 10, "callers share their requests");
    return `the counter is ${count}, after ${requests} requests`;
  },
};

await runIfStarted(hotCounter, import.meta.url);
