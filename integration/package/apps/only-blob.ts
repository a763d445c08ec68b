/** With no other SDK than the one for blobs. */
import { ContainerClient } from "@azure/storage-blob";
import { BlobLocks, ConcurrentBlob, isConcurrencyError, tryAcquireLease, withLease } from "azure-storage-concurrency";

const { STORAGE = "", SCENE = "" } = process.env;
const container = new ContainerClient(STORAGE, SCENE);
await container.create();

const document = new ConcurrentBlob<{ n: number }>(container.getBlockBlobClient("document"));
await document.update((value) => void (value.n += 1), { initial: { n: 0 } });
const { value } = await document.update((current) => void (current.n += 1));

const second = await withLease(container.getBlobClient("document"), (lease) => {
  lease.assertHeld();
  return tryAcquireLease(container.getBlobClient("document"));
});
const epoch = await new BlobLocks(container).withLock("orders", async (lock) => lock.epoch);

console.log(JSON.stringify({ value, second: second === undefined, epoch, guard: isConcurrencyError(new Error(), "LEASE_UNAVAILABLE") }));
