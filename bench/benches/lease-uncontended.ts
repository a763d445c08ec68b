import type { BlockBlobClient, ContainerClient } from "@azure/storage-blob";
import { BlobLocks, withLease } from "azure-storage-concurrency";

import { alternate } from "../alternate.js";
import type { Bench, Measured } from "../harness.js";

const durationInSeconds = 30;

export const leaseUncontended: Bench = {
  name: "lease-uncontended",
  about: "a lease, and a lock, that no other client wants, against the plain calls",
  async *run(env) {
    const container = await env.freshContainer();
    const [ours, baseline] = [container.getBlockBlobClient("ours"), container.getBlockBlobClient("baseline")];
    for (const blob of [ours, baseline]) await blob.upload("", 0);
    yield await compare("withLease", 2, {
      ours: () => withLease(ours, () => undefined, { durationInSeconds }),
      baseline: () => leaseBaseline(baseline),
    });

    const locks = new BlobLocks(container);
    await locks.withLock("ours", () => undefined);
    yield await compare("withLock", 2.1, {
      ours: () => locks.withLock("ours", () => undefined, { durationInSeconds }),
      baseline: () => leaseBaseline(baseline),
    }, 1.1);
    yield await compare("withLock, epochs by hand", 2.1, {
      ours: () => locks.withLock("ours", () => undefined, { durationInSeconds }),
      baseline: () => lockBaseline(container, "baseline"),
    });
  },
};

async function leaseBaseline(blob: BlockBlobClient): Promise<void> {
  const lease = blob.getBlobLeaseClient();
  await lease.acquireLease(durationInSeconds);
  await lease.releaseLease();
}

/** A name leads to the blob, and each holder has a number and leaves its own name, as with a lock. */
async function lockBaseline(container: ContainerClient, name: string): Promise<void> {
  const blob = container.getBlockBlobClient(name);
  const lease = blob.getBlobLeaseClient();
  const { leaseId } = lease;
  await lease.acquireLease(durationInSeconds);
  const { metadata } = await blob.getProperties({ conditions: { leaseId } });
  const epoch = String(Number(metadata?.["epoch"] ?? 0) + 1);
  await blob.setMetadata({ epoch, holder: "me", since: new Date().toISOString() }, { conditions: { leaseId } });
  await lease.releaseLease();
}

async function compare(name: string, requests: number, ways: Parameters<typeof alternate>[0], maxRatio = 1.15): Promise<Measured> {
  const { microseconds, ...figures } = await alternate(ways, { turns: 200, opsPerTurn: 5, warmUpTurns: 150 });
  return {
    name,
    unit: "µs/lease",
    ...microseconds,
    ...figures,
    bounds: [
      { of: "ratio", atMost: maxRatio },
      { of: "requests", atMost: requests },
    ],
  };
}
