/** With no other SDK than the one for files. */
import { ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { isConcurrencyError, jsonFile, leasedUpdate, retryWhileInUse, tryAcquireLease, withLease } from "azure-storage-concurrency";
import { startFileShareServer } from "azure-storage-concurrency/testing";

const server = await startFileShareServer();
const service = new ShareServiceClient(server.url, new StorageSharedKeyCredential(server.accountName, server.accountKey));
const share = service.getShareClient("docs");
await share.create();

const settings = share.rootDirectoryClient.getFileClient("settings.json");
const add = (counter: { n: number }): void => void (counter.n += 1);
await Promise.all([1, 2, 3].map(() => leasedUpdate(jsonFile<{ n: number }>(settings), add, { initial: { n: 0 } })));
const text = (await settings.downloadToBuffer()).toString();
const second = await withLease(settings, async (lease) => {
  await settings.setMetadata({ by: "holder" }, lease.requestOptions);
  return tryAcquireLease(settings);
});

const { fileClient } = await share.createFile("a.txt", 0);

const handle = server.smb.open("docs", "a.txt", { shares: [] });
const remove = (maxAttempts: number): Promise<unknown> => retryWhileInUse(({ requestOptions }) => fileClient.delete(requestOptions), { maxAttempts });
const refused = await remove(1).catch((error: unknown) => isConcurrencyError(error, "FILE_IN_USE"));
handle.close();
await remove(1);
const exists = await fileClient.exists();
await server.stop();
console.log(JSON.stringify({ text, second: second === undefined, refused, exists }));
