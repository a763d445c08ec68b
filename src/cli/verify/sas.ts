import type { TableClient, TableSasPermissions } from "@azure/data-tables";
import type { ContainerClient } from "@azure/storage-blob";
import type { ShareClient } from "@azure/storage-file-share";
import type { QueueClient } from "@azure/storage-queue";
import { emulatorAccount } from "../../testing/connection-string.js";
import type { Account } from "../connect.js";

const anHourInMs = 3_600_000;
const expiresOn = (): Date => new Date(Date.now() + anHourInMs);
const retryOptions = { maxTries: 1 };

/** A SAS for one table: by the account key, or the one that the user gave. */
export async function tableSas(account: Account, tableName: string, permissions: TableSasPermissions): Promise<string> {
  const given = account.settings.setting("SharedAccessSignature");
  if (given !== undefined) return given.replace(/^\?/, "");
  const { AzureNamedKeyCredential, generateTableSas } = await import("@azure/data-tables");
  const { name, key } = keyOf(account);
  return generateTableSas(tableName, new AzureNamedKeyCredential(name, key), { permissions, expiresOn: expiresOn() });
}

const words: Readonly<Record<string, keyof TableSasPermissions>> = { r: "query", a: "add", u: "update", d: "delete" };

/** The same table, with nothing but these permissions: by a SAS of the table, or by one of the account. */
export async function tableWith(account: Account, table: TableClient, letters: string, kind: "table" | "account"): Promise<TableClient> {
  const { AzureSASCredential, TableClient } = await import("@azure/data-tables");
  const permissions: TableSasPermissions = Object.fromEntries(Object.entries(words).map(([letter, word]) => [word, letters.includes(letter)]));
  const sas = kind === "table" ? await tableSas(account, table.tableName, permissions) : await entitiesSas(account, permissions);
  return new TableClient(table.url, table.tableName, new AzureSASCredential(sas), { allowInsecureConnection: table.url.startsWith("http:"), retryOptions: { maxRetries: 0 } });
}

// Of tables, too: Azurite regards a query of entities as one of the table.
async function entitiesSas(account: Account, permissions: TableSasPermissions): Promise<string> {
  const { AzureNamedKeyCredential, generateAccountSas } = await import("@azure/data-tables");
  const { name, key } = keyOf(account);
  return generateAccountSas(new AzureNamedKeyCredential(name, key), { permissions, services: { table: true }, resourceTypes: "co", expiresOn: expiresOn() });
}

// Without a key in the connection string, it is UseDevelopmentStorage=true: the account of the emulator, whose key is published.
function keyOf(account: Account): { name: string; key: string } {
  return { name: account.settings.setting("AccountName") ?? emulatorAccount.name, key: account.settings.setting("AccountKey") ?? emulatorAccount.key };
}

/** The same container, with nothing but these permissions: by a SAS of the container, or by one of the account. */
export async function containerWith(account: Account, container: ContainerClient, permissions: string, kind: "container" | "account"): Promise<ContainerClient> {
  const { AccountSASPermissions, AccountSASResourceTypes, AccountSASServices, ContainerClient, ContainerSASPermissions, generateAccountSASQueryParameters, StorageSharedKeyCredential } = await import("@azure/storage-blob");
  if (kind === "container") {
    const url = await container.generateSasUrl({ permissions: ContainerSASPermissions.parse(permissions), expiresOn: expiresOn() });
    return new ContainerClient(url, undefined, { retryOptions });
  }
  const { name, key } = keyOf(account);
  const of = { permissions: AccountSASPermissions.parse(permissions), services: AccountSASServices.parse("b").toString(), resourceTypes: AccountSASResourceTypes.parse("c").toString(), expiresOn: expiresOn() };
  return new ContainerClient(`${container.url}?${generateAccountSASQueryParameters(of, new StorageSharedKeyCredential(name, key)).toString()}`, undefined, { retryOptions });
}

/** The same queue, with nothing but these permissions: by a SAS of the queue, or by one of the account. */
export async function queueWith(account: Account, queue: QueueClient, permissions: string, kind: "queue" | "account"): Promise<QueueClient> {
  const { AccountSASPermissions, AccountSASResourceTypes, AccountSASServices, generateAccountSASQueryParameters, QueueClient, QueueSASPermissions, StorageSharedKeyCredential } = await import("@azure/storage-queue");
  if (kind === "queue") return new QueueClient(queue.generateSasUrl({ permissions: QueueSASPermissions.parse(permissions), expiresOn: expiresOn() }), undefined, { retryOptions });
  const { name, key } = keyOf(account);
  const of = { permissions: AccountSASPermissions.parse(permissions), services: AccountSASServices.parse("q").toString(), resourceTypes: AccountSASResourceTypes.parse("c").toString(), expiresOn: expiresOn() };
  return new QueueClient(`${queue.url}?${generateAccountSASQueryParameters(of, new StorageSharedKeyCredential(name, key)).toString()}`, undefined, { retryOptions });
}

/** The same share, with nothing but these permissions: by a SAS of the share, or by one of the account. */
export async function shareWith(account: Account, share: ShareClient, permissions: string, kind: "share" | "account"): Promise<ShareClient> {
  const { AccountSASPermissions, AccountSASResourceTypes, AccountSASServices, generateAccountSASQueryParameters, ShareClient, ShareSASPermissions, StorageSharedKeyCredential } = await import("@azure/storage-file-share");
  if (kind === "share") return new ShareClient(share.generateSasUrl({ permissions: ShareSASPermissions.parse(permissions), expiresOn: expiresOn() }), undefined, { retryOptions });
  const { name, key } = keyOf(account);
  const of = { permissions: AccountSASPermissions.parse(permissions), services: AccountSASServices.parse("f").toString(), resourceTypes: AccountSASResourceTypes.parse("c").toString(), expiresOn: expiresOn() };
  return new ShareClient(`${share.url}?${generateAccountSASQueryParameters(of, new StorageSharedKeyCredential(name, key)).toString()}`, undefined, { retryOptions });
}
