import { QueueClient } from "@azure/storage-queue";

/** A queue client whose retries come within milliseconds. See `fast-clients.ts`. */
export function fastQueue(connectionString: string, name: string): QueueClient {
  return new QueueClient(connectionString, name, { retryOptions: { maxTries: 12, retryDelayInMs: 5, maxRetryDelayInMs: 50 } });
}
