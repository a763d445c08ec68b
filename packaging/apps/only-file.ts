/** With no other SDK than the one for files. */
import { ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { isFileInUseError, retryWhileInUse } from "azure-storage-concurrency/file";
import { startFileShareServer } from "azure-storage-concurrency/testing";

const server = await startFileShareServer();
const service = new ShareServiceClient(server.url, new StorageSharedKeyCredential(server.accountName, server.accountKey));
const share = service.getShareClient("docs");
await share.create();
const { fileClient } = await share.createFile("a.txt", 0);

const handle = server.smb.open("docs", "a.txt", { shares: [] });
const remove = (maxAttempts: number): Promise<unknown> => retryWhileInUse((options) => fileClient.delete(options), { maxAttempts });
const refused = await remove(1).catch(isFileInUseError);
handle.close();
await remove(1);
const exists = await fileClient.exists();
await server.stop();
console.log(JSON.stringify({ refused, exists }));
