import { randomUUID } from "node:crypto";
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import type { ContainerClient } from "@azure/storage-blob";
import { QueueClient } from "@azure/storage-queue";
import { ShareServiceClient } from "@azure/storage-file-share";
import type { ShareClient } from "@azure/storage-file-share";
import { startAzurite, startFileShareServer } from "azure-storage-concurrency/testing";

/** Where the samples keep their things: a real account, or an Azurite of their own. All of it is removed at the end. */
export interface SampleStorage {
  readonly connectionString: string;
  readonly isEmulator: boolean;
  container(): Promise<ContainerClient>;
  table(): Promise<TableClient>;
  queue(): Promise<QueueClient>;
  /** Azurite has no files: without a real account, it is on the file-share server of this library. */
  share(): Promise<ShareClient>;
  close(): Promise<void>;
}

export async function openStorage(): Promise<SampleStorage> {
  const given = process.env["AZURE_STORAGE_CONNECTION_STRING"];
  const azurite = given ? undefined : await startAzurite();
  const connectionString = given ?? azurite?.connectionString ?? "";
  const cleanups: (() => Promise<unknown>)[] = [];
  let fileServer: ReturnType<typeof startFileShareServer> | undefined;
  return {
    connectionString,
    isEmulator: azurite !== undefined,
    async container() {
      const container = BlobServiceClient.fromConnectionString(connectionString).getContainerClient(`sample-${randomUUID()}`);
      await container.create();
      cleanups.push(() => container.delete());
      return container;
    },
    async table() {
      const name = `sample${randomUUID().replaceAll("-", "")}`;
      const table = TableClient.fromConnectionString(connectionString, name, { allowInsecureConnection: azurite !== undefined });
      await table.createTable();
      cleanups.push(() => table.deleteTable());
      return table;
    },
    async queue() {
      const queue = new QueueClient(connectionString, `sample-${randomUUID()}`);
      await queue.create();
      cleanups.push(() => queue.delete());
      return queue;
    },
    async share() {
      fileServer ??= azurite && startFileShareServer();
      const service = ShareServiceClient.fromConnectionString((await fileServer)?.connectionString ?? connectionString);
      const share = service.getShareClient(`sample-${randomUUID()}`);
      await share.create();
      cleanups.push(() => share.delete());
      return share;
    },
    async close() {
      await (await fileServer)?.stop();
      if (azurite) await azurite.stop();
      else await Promise.all(cleanups.map((cleanup) => cleanup()));
    },
  };
}
