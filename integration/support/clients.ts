import { randomUUID } from "node:crypto";

import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";
import { QueueClient } from "@azure/storage-queue";
import { inject } from "vitest";

import { replaceEndpoints, type StorageEndpoints } from "../../src/testing.js";

export interface ClientOptions {
  /** A fault proxy, or its URL, to go through. */
  through?: { readonly url: string } | string | undefined;

  /**
   * Whether the SDK may retry, as it does by default.
   * @defaultValue true
   */
  retries?: boolean | undefined;
}

/** The endpoints of this run's Azurite, or of the account that the tests run on. */
export function azurite(): StorageEndpoints & { readonly connectionString: string } {
  return inject("azurite");
}

/** Whether the storage is an emulator, whose differences from Azure are expected. */
export function isEmulator(): boolean {
  return azurite().connectionString.includes(`AccountName=${emulatorAccountName};`);
}

const emulatorAccountName = "devstoreaccount1";

/** The connection string of all four services: Azurite has no files, so those are on the file-share server of this run. */
export function withFiles(): string {
  const { connectionString, fileUrl } = inject("azurite");
  return replaceEndpoints(connectionString, { fileUrl });
}

/** The connection string of this run's Azurite, with some endpoints replaced. */
export function connectionString(endpoints: Partial<StorageEndpoints> = {}): string {
  return replaceEndpoints(azurite().connectionString, endpoints);
}

/** A name that no other test has; valid for containers, tables and queues alike. */
export function freshName(): string {
  return `${inject("azurite").namePrefix}${randomUUID().replaceAll("-", "").slice(0, 20)}`;
}

/** A client of an existing container: for instance a direct one, to see what is really there. */
export function containerClient(name: string, options: ClientOptions = {}): ContainerClient {
  const retryOptions = options.retries === false ? { retryOptions: { maxTries: 1 } } : {};
  return new ContainerClient(connectionString(endpoint("blobUrl", options)), name, retryOptions);
}

export function queueClient(name: string, options: ClientOptions = {}): QueueClient {
  const retryOptions = options.retries === false ? { retryOptions: { maxTries: 1 } } : {};
  return new QueueClient(connectionString(endpoint("queueUrl", options)), name, retryOptions);
}

export function tableClient(name: string, options: ClientOptions = {}): TableClient {
  const retryOptions = options.retries === false ? { retryOptions: { maxRetries: 0 } } : {};
  const cs = connectionString(endpoint("tableUrl", options));
  return TableClient.fromConnectionString(cs, name, { allowInsecureConnection: true, ...retryOptions });
}

/** A new, empty container. It is created directly: neither faults nor counts of a proxy are touched. */
export async function freshContainer(options: ClientOptions = {}): Promise<ContainerClient> {
  const name = freshName();
  await containerClient(name).create();
  return containerClient(name, options);
}

export async function freshQueue(options: ClientOptions = {}): Promise<QueueClient> {
  const name = freshName();
  await queueClient(name).create();
  return queueClient(name, options);
}

export async function freshTable(options: ClientOptions = {}): Promise<TableClient> {
  const name = freshName();
  await tableClient(name).createTable();
  return tableClient(name, options);
}

function endpoint(key: keyof StorageEndpoints, { through }: ClientOptions): Partial<StorageEndpoints> {
  if (through === undefined) return {};
  return { [key]: typeof through === "string" ? through : through.url };
}
