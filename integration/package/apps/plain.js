import { BlobServiceClient } from "@azure/storage-blob";
import { BlobLocks, optimisticUpdate, withLease } from "azure-storage-concurrency";

const container = BlobServiceClient.fromConnectionString(process.env.STORAGE).getContainerClient(process.env.SCENE);
await container.createIfNotExists();
const blob = container.getBlockBlobClient("from-a-module");
const { value } = await optimisticUpdate(blob, (counter) => ({ n: counter.n + 1 }), { initial: { n: 0 } });
const held = await withLease(blob, async (lease) => lease.remainingInMs > 0);
const epoch = await new BlobLocks(container).withLock("module", async (lock) => lock.epoch);
console.log(JSON.stringify({ value, held, epoch }));
