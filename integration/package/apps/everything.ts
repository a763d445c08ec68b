/**
 * All four services in one program: responses that get lost, races between clients, a lease that renews, a queue with
 * duplicates, a file that an SMB client has open and that a lease under a lock guards. Compiled as an ES module and as CommonJS.
 */
import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";
import { ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { QueueClient } from "@azure/storage-queue";
import { BlobLocks, ClaimInbox, enqueue, jsonBlob, jsonFile, leasedUpdate, optimisticUpdate, QueueConsumer, retryWhileInUse, runTransaction, tableEntity, TableLock, tryAcquireLease, withLease } from "azure-storage-concurrency";
import { dropResponse, isLease, isWrite, replaceEndpoints, startFaultProxy, startFileShareServer } from "azure-storage-concurrency/testing";

const { STORAGE = "", BLOB_URL = "", TABLE_URL = "", SCENE = "" } = process.env;

interface Counter {
  n: number;
}

const container = (storage = STORAGE): ContainerClient => new ContainerClient(storage, SCENE);
const table = (storage = STORAGE): TableClient => TableClient.fromConnectionString(storage, SCENE, { allowInsecureConnection: true });
const oneLost = (): ReturnType<typeof dropResponse> => dropResponse({ when: isWrite, times: 1 });

async function updateBlobs(): Promise<object> {
  const proxy = await startFaultProxy(BLOB_URL);
  const blob = container(replaceEndpoints(STORAGE, { blobUrl: proxy.url })).getBlockBlobClient("counter");
  await optimisticUpdate(jsonBlob<Counter>(blob), (counter) => void (counter.n += 1), { initial: { n: 0 } });
  proxy.setRules([oneLost()]);
  const { value } = await optimisticUpdate<Counter>(blob, (counter) => void (counter.n += 1));
  const lost = proxy.faultCount();

  const second = await withLease(
    blob,
    async (lease) => {
      for (let renewals = 0; renewals < 2; renewals++) await proxy.waitFor((r) => isLease("renew")(r) && proxy.count(isLease("renew")) > renewals);
      lease.assertHeld();
      return tryAcquireLease(blob);
    },
    { durationInSeconds: 15, renewIntervalInMs: 100 },
  );
  await proxy.stop();
  return { n: value.n, lost, second: second === undefined };
}

async function updateEntities(): Promise<object> {
  const proxy = await startFaultProxy(TABLE_URL, [oneLost()]);
  const lossy = table(replaceEndpoints(STORAGE, { tableUrl: proxy.url }));
  const increment = (counter: Counter): void => void (counter.n += 1);
  const { value } = await optimisticUpdate(tableEntity<Counter>(lossy, "p", "counter"), increment, { initial: { n: 0 } });

  const transfer = (client: TableClient): Promise<void> =>
    runTransaction(client, "p", async (tx) => {
      const counter = await tx.get<Counter>("counter");
      tx.upsert({ rowKey: "counter", n: (counter?.n ?? 0) + 1 });
    });
  proxy.setRules([oneLost()]);
  await transfer(lossy);
  // Each client has a queue of its own: they race.
  await Promise.all([table(), table(), table()].flatMap((client) => [transfer(client), transfer(client)]));
  const { n } = await table().getEntity<Counter>("p", "counter");
  await proxy.stop();
  return { first: value.n, n };
}

async function lockTables(): Promise<object> {
  const lock = new TableLock(table(), new BlobLocks(container()));
  const row = await lock.withLock(async (held) => (await held.partition("p")).get("counter"));
  return { found: row !== undefined };
}

async function consume(): Promise<object> {
  const queue = new QueueClient(STORAGE, SCENE);
  await queue.createIfNotExists();
  for (let copies = 0; copies < 2; copies++) await enqueue(queue, { amount: 7 }, { idempotencyKey: "order-1" });
  const seen = { handled: 0, duplicates: 0 };
  const consumer = new QueueConsumer<{ amount: number }>(queue, ({ amount }) => void (seen.handled += amount), {
    inbox: new ClaimInbox(table()),
    concurrency: 1,
    minPollIntervalInMs: 20, maxPollIntervalInMs: 100,
  });
  const stop = new AbortController();
  consumer.on("duplicate", () => {
    seen.duplicates += 1;
    stop.abort();
  });
  await consumer.run({ abortSignal: stop.signal });
  return seen;
}

async function useFiles(): Promise<object> {
  const server = await startFileShareServer();
  const share = new ShareServiceClient(server.url, new StorageSharedKeyCredential(server.accountName, server.accountKey)).getShareClient("docs");
  await share.create();
  const { fileClient } = await share.createFile("a.txt", 0);
  const handle = server.smb.open("docs", "a.txt", { shares: [] });
  const attempts = await retryWhileInUse(async ({ attempt, requestOptions }) => {
    if (attempt === 2) handle.close();
    await fileClient.delete(requestOptions);
    return attempt;
  });
  const crashGuard = new BlobLocks(container());
  const increment = (counter: Counter): void => void (counter.n += 1);
  const update = (): Promise<{ value: Counter }> => leasedUpdate(jsonFile<Counter>(fileClient), increment, { initial: { n: 0 }, crashGuard });
  await update();
  const { value } = await update();
  const guarded = [];
  for await (const { name, epoch } of crashGuard.list()) if (name.startsWith("file:")) guarded.push(epoch);
  await server.stop();
  return { attempts, n: value.n, guarded };
}

async function main(): Promise<void> {
  await container().create();
  await table().createTable();
  const report = {
    blobs: await updateBlobs(),
    entities: await updateEntities(),
    locks: await lockTables(),
    queue: await consume(),
    files: await useFiles(),
  };
  console.log(JSON.stringify(report));
}

void main();
