import { TableClient } from "@azure/data-tables";
import { BlobServiceClient, type BlockBlobClient, type ContainerClient } from "@azure/storage-blob";
import { ShareServiceClient, type ShareClient, type ShareFileClient } from "@azure/storage-file-share";
import { QueueServiceClient, type QueueClient } from "@azure/storage-queue";

/** What the examples take for granted: clients, and functions that stand for somebody's work. */
export interface Given {
  connectionString: string;
  container: ContainerClient;
  blob: BlockBlobClient;
  table: TableClient;
  queue: QueueClient;
  poisonQueue: QueueClient;
  share: ShareClient;
  file: ShareFileClient;
  doTheWork: (options: { conditions: { leaseId: string }; abortSignal: AbortSignal }) => Promise<void>;
  runDueJobs: (epoch: number, signal: AbortSignal) => Promise<void>;
}

export const givenNames: readonly (keyof Given)[] = [
  "connectionString",
  "container",
  "blob",
  "table",
  "queue",
  "poisonQueue",
  "share",
  "file",
  "doTheWork",
  "runDueJobs",
];

/** For one example, with storage of its own. */
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
    share,
    file: share.rootDirectoryClient.getFileClient("example.json"),
    doTheWork: async (options) => {
      await blob.getProperties(options);
    },
    runDueJobs: (_epoch, signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve())),
  };
}
