import { randomUUID } from "node:crypto";
import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";
import { ShareServiceClient } from "@azure/storage-file-share";
import type { ShareClient } from "@azure/storage-file-share";
import { QueueClient } from "@azure/storage-queue";
import { startAzurite, startFileShareServer } from "azure-storage-concurrency/testing";
import type { Azurite } from "azure-storage-concurrency/testing";

/**
 * Where the samples keep their things: a real account, or an Azurite of their own. All of it is removed at the end.
 *
 * Without a name something new is made. With the name of something that was made before, there is a further client
 * for it: it shares nothing with the first one, as if it belonged to another process.
 */
export interface SampleStorage {
  readonly connectionString: string;
  readonly isEmulator: boolean;
  container(existing?: string): Promise<ContainerClient>;
  table(existing?: string): Promise<TableClient>;
  queue(): Promise<QueueClient>;
  /** Azurite has no files: without a real account, it is on the file-share server of this library. */
  share(existing?: string): Promise<ShareClient>;
  /** Always an emulator, for what must not be done to a real account. */
  emulator(): Promise<Azurite>;
  close(): Promise<void>;
}

export async function openStorage(): Promise<SampleStorage> {
  const given = process.env["AZURE_STORAGE_CONNECTION_STRING"] || undefined;
  let emulator = given ? undefined : startAzurite();
  const connectionString = given ?? (await emulator)?.connectionString ?? "";
  const cleanups: (() => Promise<unknown>)[] = [];
  let fileServer: ReturnType<typeof startFileShareServer> | undefined;
  return {
    connectionString,
    isEmulator: given === undefined,
    async container(existing) {
      const container = new ContainerClient(connectionString, existing ?? `sample-${randomUUID()}`);
      if (existing !== undefined) return container;
      await container.create();
      cleanups.push(() => container.delete());
      return container;
    },
    async table(existing) {
      const name = existing ?? `sample${randomUUID().replaceAll("-", "")}`;
      const table = TableClient.fromConnectionString(connectionString, name, { allowInsecureConnection: given === undefined });
      if (existing !== undefined) return table;
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
    async share(existing) {
      if (given === undefined) fileServer ??= startFileShareServer();
      const service = ShareServiceClient.fromConnectionString((await fileServer)?.connectionString ?? connectionString);
      const share = service.getShareClient(existing ?? `sample-${randomUUID()}`);
      if (existing !== undefined) return share;
      await share.create();
      cleanups.push(() => share.delete());
      return share;
    },
    emulator() {
      return (emulator ??= startAzurite());
    },
    async close() {
      // What an emulator keeps in memory goes with it.
      if (given !== undefined) await Promise.allSettled(cleanups.map((cleanup) => cleanup()));
      await (await fileServer)?.stop();
      await (await emulator)?.stop();
    },
  };
}
