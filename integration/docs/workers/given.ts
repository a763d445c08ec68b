import { TableClient } from "@azure/data-tables";
import { BlobServiceClient, type BlockBlobClient, type ContainerClient } from "@azure/storage-blob";
import { ShareServiceClient, type ShareClient, type ShareFileClient } from "@azure/storage-file-share";
import { QueueServiceClient, type QueueClient } from "@azure/storage-queue";

/** What the examples use without creating it: clients, and a function that stands for the caller's own work. */
export interface Given {
  connectionString: string;
  container: ContainerClient;
  blob: BlockBlobClient;
  table: TableClient;
  queue: QueueClient;
  poisonQueue: QueueClient;
  invoices: QueueClient;
  share: ShareClient;
  file: ShareFileClient;
  runDueJobs: (epoch: number, signal: AbortSignal) => Promise<void>;
}

export const givenNames: readonly (keyof Given)[] = [
  "connectionString",
  "container",
  "blob",
  "table",
  "queue",
  "poisonQueue",
  "invoices",
  "share",
  "file",
  "runDueJobs",
];

/** The clients for one example, each with its own storage. */
export async function given(example: number): Promise<Given> {
  const connectionString = process.env["EXAMPLES_STORAGE"] ?? "";
  const files = process.env["EXAMPLES_FILES"] ?? "";
  const name = `docs-${example}`;
  const container = BlobServiceClient.fromConnectionString(connectionString).getContainerClient(name);
  const table = TableClient.fromConnectionString(connectionString, `docs${example}`, { allowInsecureConnection: true });
  const queues = QueueServiceClient.fromConnectionString(connectionString);
  const queue = queues.getQueueClient(name);
  const share = ShareServiceClient.fromConnectionString(files).getShareClient(name);
  await Promise.all([container.create(), table.createTable(), queue.create(), share.create()]);
  const blob = container.getBlockBlobClient("example.json");
  return {
    connectionString,
    container,
    blob,
    table,
    queue,
    poisonQueue: queues.getQueueClient(`${name}-poison`),
    invoices: queues.getQueueClient(`${name}-invoices`),
    share,
    file: share.rootDirectoryClient.getFileClient("example.json"),
    runDueJobs: (_epoch, signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve())),
  };
}
