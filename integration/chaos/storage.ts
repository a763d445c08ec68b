import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";
import { ShareClient } from "@azure/storage-file-share";
import { QueueClient } from "@azure/storage-queue";

import type { StorageNames } from "./messages.js";
import type { Storage } from "./scenario.js";

// The SDKs wait for seconds before they try again, which would be most of a run that loses every tenth answer.
const retryOptions = { maxTries: 5, retryDelayInMs: 10, maxRetryDelayInMs: 100 };

/** Clients of the run's storage, directly or through fault proxies, as the connection string says. */
export function openStorage(connectionString: string, names: StorageNames): Storage {
  return {
    container: new ContainerClient(connectionString, names.container, { retryOptions }),
    leased: new ContainerClient(connectionString, names.leased, { retryOptions }),
    table: TableClient.fromConnectionString(connectionString, names.table, {
      allowInsecureConnection: true,
      retryOptions: { maxRetries: 4, retryDelayInMs: 10, maxRetryDelayInMs: 100 },
    }),
    claims: new QueueClient(connectionString, names.claims, { retryOptions }),
    commits: new QueueClient(connectionString, names.commits, { retryOptions }),
    orders: new QueueClient(connectionString, names.orders, { retryOptions }),
    invoices: new QueueClient(connectionString, names.invoices, { retryOptions }),
    groups: new QueueClient(connectionString, names.groups, { retryOptions }),
    placed: new QueueClient(connectionString, names.placed, { retryOptions }),
    share: new ShareClient(connectionString, names.share, { retryOptions }),
  };
}
