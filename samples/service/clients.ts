/* The clients of the Azure SDK, made once for each process: helpers that share a client share requests. */
import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";
import { QueueClient } from "@azure/storage-queue";
import type { ServiceSettings } from "./settings.js";

export interface Clients {
  /** Orders, totals, and what the library stores beside them. */
  readonly table: TableClient;
  /** From the API to the payment worker, and from there to the receipts. */
  readonly payments: QueueClient;
  readonly paymentsPoison: QueueClient;
  readonly receipts: QueueClient;
  readonly receiptsPoison: QueueClient;
  /** Locks, and the log of receipts. */
  readonly container: ContainerClient;
}

/** With Entra ID: `new QueueClient(url, new DefaultAzureCredential())`, and so on. The rest of the service stays as it is. */
export function openClients({ connectionString, prefix }: Pick<ServiceSettings, "connectionString" | "prefix">): Clients {
  const queue = (name: string): QueueClient => new QueueClient(connectionString, `${prefix}-${name}`);
  return {
    table: TableClient.fromConnectionString(connectionString, `${prefix}orders`, { allowInsecureConnection: /http:\/\/127\.0\.0\.1/.test(connectionString) }),
    payments: queue("payments"),
    paymentsPoison: queue("payments-poison"),
    receipts: queue("receipts"),
    receiptsPoison: queue("receipts-poison"),
    container: new ContainerClient(connectionString, prefix),
  };
}

/** Any number of instances may do that at the same time. On a real account it belongs to the deployment. */
export async function createResources({ table, container, ...queues }: Clients): Promise<void> {
  await Promise.all([table.createTable(), container.createIfNotExists(), ...Object.values(queues).map((queue) => queue.createIfNotExists())]);
}
