import { setTimeout as pause } from "node:timers/promises";

import { ContainerClient } from "@azure/storage-blob";
import { BlobLocks, Semaphore } from "azure-storage-concurrency";
import { delay, replaceEndpoints, startFaultProxy } from "azure-storage-concurrency/testing";

import type { Bench } from "../harness.js";
import { acquireBaseline } from "../lock-baseline.js";
import { requestsSent } from "../requests.js";

const slots = 50;
const callers = 150;
const sectionInMs = 200;
const latencyInMs = 20;

export const semaphore: Bench = {
  name: "semaphore",
  about: `${callers} callers of ${sectionInMs} ms at a semaphore of ${slots} slots with ${latencyInMs} ms a request, against leases of ${slots} blobs that are tried at random; ${(callers / slots) * sectionInMs} ms would be ideal`,
  async *run(env) {
    const { containerName } = await env.freshContainer();
    const direct = new ContainerClient(env.connectionString, containerName);
    const proxy = await startFaultProxy(direct.url.slice(0, -containerName.length - 1), [delay(latencyInMs)]);
    try {
      const container = new ContainerClient(replaceEndpoints(env.connectionString, { blobUrl: proxy.url }), containerName);
      const limit = new Semaphore(new BlobLocks(container), "slots", slots);
      const ours = await together((section) => limit.withSlot(section));
      for (let slot = 0; slot < slots; slot++) await direct.getBlockBlobClient(`baseline-${slot}`).upload("", 0);
      const baseline = await together(async (section) => {
        const lease = await acquireBaseline(() => container.getBlockBlobClient(`baseline-${Math.floor(Math.random() * slots)}`), 20, 100);
        await section();
        await lease.releaseLease();
      });
      yield {
        name: "semaphore",
        unit: "ms",
        ours: ours.elapsedInMs,
        baseline: baseline.elapsedInMs,
        requestsPerOp: { ours: ours.requests / callers, baseline: baseline.requests / callers },
        bounds: [{ of: "ours", atMost: 1_500 }],
      };
    } finally {
      await proxy.stop();
    }
  },
};

async function together(withSlot: (section: () => Promise<void>) => Promise<void>): Promise<{ elapsedInMs: number; requests: number }> {
  let inside = 0;
  const sentBefore = requestsSent();
  const start = performance.now();
  await Promise.all(
    Array.from({ length: callers }, () =>
      withSlot(async () => {
        if (++inside > slots) throw new Error(`${inside} at a time`);
        await pause(sectionInMs);
        inside--;
      }),
    ),
  );
  // The requests of the proxy are those of the clients once more.
  return { elapsedInMs: performance.now() - start, requests: (requestsSent() - sentBefore) / 2 };
}
