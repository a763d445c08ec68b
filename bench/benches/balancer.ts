import { setTimeout as pause } from "node:timers/promises";

import type { BlobLeaseClient, ContainerClient } from "@azure/storage-blob";
import { BlobLocks, WorkBalancer } from "azure-storage-concurrency";

import type { Bench } from "../harness.js";
import { paced } from "../pace.js";
import { requestsSent } from "../requests.js";

const workers = 4;
const shards = 16;
const durationInSeconds = 15;
const restInMs = 30_000;

export const balancer: Bench = {
  name: "balancer",
  about: `${shards} shards of ${workers} workers at rest, against a loop in each that renews the leases it has and tries all others, three times in ${durationInSeconds} s`,
  async *run(env) {
    const [container, baselineContainer] = [await env.freshContainer(), await env.freshContainer()];
    const ours = await measure(() => startBalancers(container));
    const baseline = await measure(() => startLoops(baselineContainer));
    yield {
      name: "at rest",
      unit: "shards of the busiest worker",
      ours: ours.most,
      baseline: baseline.most,
      requestsPerOp: { ours: ours.requests, baseline: baseline.requests },
      // A listing, and a renewal for the worker and each of its shards.
      bounds: [{ of: "ours", atMost: shards / workers }, { of: "requests", atMost: (3 / durationInSeconds) * (2 + shards / workers) * 1.2 }],
    };
  },
};

interface Fleet {
  /** How many shards each worker has. */
  readonly owned: () => readonly number[];
  readonly stop: () => Promise<unknown>;
}

/** Requests of a worker in a second, when all shards have owners. */
async function measure(start: () => Promise<Fleet>): Promise<{ most: number; requests: number }> {
  const fleet = await start();
  const isRunning = (): boolean => fleet.owned().reduce((sum, count) => sum + count, 0) === shards;
  for (let waited = 0; !isRunning(); waited += 100) {
    if (waited > 60_000) throw new Error("after a minute, there are shards without an owner");
    await pause(100);
  }
  await pause(2 * 1_000 * durationInSeconds); // until they are spread evenly
  const before = requestsSent();
  await pause(paced(restInMs));
  const requests = (requestsSent() - before) / (paced(restInMs) / 1_000) / workers;
  const most = Math.max(...fleet.owned());
  await fleet.stop();
  return { most, requests };
}

async function startBalancers(container: ContainerClient): Promise<Fleet> {
  const balancers = Array.from({ length: workers }, (_, n) => new WorkBalancer(new BlobLocks(container, { holder: `worker-${n}` }), "feeds", shards, () => undefined, { durationInSeconds }));
  await Promise.all(balancers.map((worker) => worker.start()));
  return { owned: () => balancers.map(({ ownedShards }) => ownedShards.length), stop: () => Promise.all(balancers.map((worker) => worker.stop())) };
}

/** As it is written without a library: whoever comes first has most of the shards, for as long as it runs. */
async function startLoops(container: ContainerClient): Promise<Fleet> {
  const blobs = Array.from({ length: shards }, (_, shard) => container.getBlockBlobClient(`shard-${shard}`));
  await Promise.all(blobs.map((blob) => blob.upload("", 0)));
  const stop = new AbortController();
  const held = Array.from({ length: workers }, () => new Map<number, BlobLeaseClient>());
  const loops = held.map(async (own) => {
    while (!stop.signal.aborted) {
      for (const [shard, blob] of blobs.entries()) {
        const lease = own.get(shard) ?? blob.getBlobLeaseClient();
        try {
          await (own.has(shard) ? lease.renewLease() : lease.acquireLease(durationInSeconds));
          own.set(shard, lease);
        } catch {
          own.delete(shard);
        }
      }
      await pause((durationInSeconds * 1_000) / 3, undefined, { signal: stop.signal }).catch(() => undefined);
    }
    await Promise.all([...own.values()].map((lease) => lease.releaseLease()));
  });
  return {
    owned: () => held.map(({ size }) => size),
    stop: () => {
      stop.abort();
      return Promise.all(loops);
    },
  };
}
