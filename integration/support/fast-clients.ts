import { TableClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";

/**
 * Clients whose retries come within milliseconds. The SDKs wait for seconds, which says nothing about the library and
 * would be most of the time of a test that loses every fifth answer. They take a connection string, so that
 * processes without a test around them can use them.
 */
const waits = { retryDelayInMs: 5, maxRetryDelayInMs: 50 };

/** So many that no request of a test fails only because the faults struck each try. */
const tries = 12;

export function fastContainer(connectionString: string, name: string): ContainerClient {
  return new ContainerClient(connectionString, name, { retryOptions: { ...waits, maxTries: tries } });
}

export function fastTable(connectionString: string, name: string): TableClient {
  return TableClient.fromConnectionString(connectionString, name, {
    allowInsecureConnection: true,
    retryOptions: { ...waits, maxRetries: tries - 1 },
  });
}
