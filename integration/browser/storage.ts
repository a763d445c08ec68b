import {
  AzureNamedKeyCredential,
  generateAccountSas,
  TableClient,
  TableServiceClient,
} from "@azure/data-tables";
import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  AccountSASServices,
  BlobServiceClient,
  generateAccountSASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";

import { type Azurite, emulatorAccount } from "../../src/testing.js";
import type { Scene } from "./page.js";

/** What a page of this origin needs: without the exposed headers it could not see an ETag. */
function corsFor(origin: string): { allowedOrigins: string; allowedMethods: string; allowedHeaders: string; exposedHeaders: string; maxAgeInSeconds: number } {
  const methods = "GET,HEAD,POST,PUT,PATCH,MERGE,DELETE,OPTIONS";
  return { allowedOrigins: origin, allowedMethods: methods, allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 3_600 };
}

/** Lets pages of an origin in, and makes the container, table and queue that they work with. */
export async function prepareStorage(azurite: Azurite, origin: string): Promise<Scene> {
  const name = "browser";
  const cors = [corsFor(origin)];
  const blobs = BlobServiceClient.fromConnectionString(azurite.connectionString);
  const queues = QueueServiceClient.fromConnectionString(azurite.connectionString);
  const insecure = { allowInsecureConnection: true };
  const tables = TableServiceClient.fromConnectionString(azurite.connectionString, insecure);
  await Promise.all([blobs.setProperties({ cors }), queues.setProperties({ cors }), tables.setProperties({ cors })]);
  await Promise.all([
    blobs.createContainer(name),
    queues.createQueue(name),
    TableClient.fromConnectionString(azurite.connectionString, name, insecure).createTable(),
  ]);
  const { blobUrl, queueUrl, tableUrl } = azurite;
  return { name, blobUrl, queueUrl, tableUrl, ...signatures() };
}

function signatures(): Pick<Scene, "sas" | "tableSas"> {
  const { name, key } = emulatorAccount;
  const expiresOn = new Date(Date.now() + 3_600_000);
  const sas = generateAccountSASQueryParameters(
    {
      expiresOn,
      permissions: AccountSASPermissions.parse("rwdlacup"),
      resourceTypes: AccountSASResourceTypes.parse("sco").toString(),
      services: AccountSASServices.parse("bq").toString(),
    },
    new StorageSharedKeyCredential(name, key),
  ).toString();
  const permissions = { query: true, add: true, update: true, delete: true, write: true, list: true };
  return { sas, tableSas: generateAccountSas(new AzureNamedKeyCredential(name, key), { expiresOn, permissions }) };
}
