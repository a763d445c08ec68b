import { BlobServiceClient } from "@azure/storage-blob";
import { ShareServiceClient } from "@azure/storage-file-share";
import { QueueServiceClient } from "@azure/storage-queue";
import { TableServiceClient } from "@azure/data-tables";
import type { ProvidedContext } from "vitest";

import { Account } from "../../src/cli/connect.js";
import { services } from "../../src/cli/verify/service.js";
import { RunNames } from "../../src/cli/verify/names.js";
import { openResources, removeResource } from "../../src/cli/verify/resources.js";
import { processTerminal } from "../../src/cli/terminal.js";

export interface OpenedAccount {
  readonly provided: ProvidedContext["azurite"];
  /** Removes everything that tests have created. */
  readonly removeAll: () => Promise<void>;
}

/** The account of AZURE_STORAGE_CONNECTION_STRING, the variable of the command line; nothing if there is none. */
export async function openAccount(): Promise<OpenedAccount | undefined> {
  const connectionString = process.env["AZURE_STORAGE_CONNECTION_STRING"];
  if (!connectionString) return undefined;
  const names = new RunNames();
  const urlOf = ({ url }: { url: string }): string => url.split("?", 1)[0]!.replace(/\/$/, "");
  const provided = {
    connectionString,
    namePrefix: names.prefix,
    blobUrl: urlOf(BlobServiceClient.fromConnectionString(connectionString)),
    queueUrl: urlOf(QueueServiceClient.fromConnectionString(connectionString)),
    tableUrl: urlOf(TableServiceClient.fromConnectionString(connectionString, { allowInsecureConnection: true })),
    fileUrl: urlOf(ShareServiceClient.fromConnectionString(connectionString)),
  };
  console.log(`The integration tests use the account at ${provided.blobUrl}. What they create begins with ${names.prefix}, and is removed at the end.`);
  return { provided, removeAll: () => removeAll(connectionString, names) };
}

async function removeAll(connectionString: string, names: RunNames): Promise<void> {
  const account = new Account({ connectionString }, processTerminal());
  for (const service of services) {
    const resources = await openResources[service](account);
    for await (const name of resources.list()) if (names.isOwn(name)) await removeResource(resources, name, false);
  }
}
