import type { TableServiceClient } from "@azure/data-tables";
import type { BlobServiceClient } from "@azure/storage-blob";
import type { ShareServiceClient } from "@azure/storage-file-share";
import type { QueueServiceClient } from "@azure/storage-queue";
import { iterate } from "../../core/iterate.js";
import { read } from "../../core/request.js";
import { fullJitter, retry } from "../../core/retry.js";
import { isLeaseConflict, isNotFound, isParentNotFound, isRejectedForNow, isTransient } from "../../core/storage-errors.js";
import type { Account } from "../connect.js";
import { namePrefix } from "./names.js";
import type { Service } from "./service.js";

/** What a service keeps data in (containers, tables, queues or shares), as far as a run creates, finds and removes it. */
export interface Resources {
  /** `container`, `table`, `queue` or `share`. */
  readonly kind: string;
  /** The names of those that runs have created. */
  list(abortSignal?: AbortSignal): AsyncIterable<string>;
  create(name: string, abortSignal: AbortSignal): Promise<unknown>;
  breakLease?(name: string, abortSignal: AbortSignal): Promise<unknown>;
  delete(name: string, abortSignal: AbortSignal): Promise<unknown>;
}

const requestTimeoutInMs = 15_000;

/** Also what is not there any more, or never was, is removed. A lease of its own is broken first. */
export async function removeResource(resources: Resources, name: string, leased: boolean): Promise<void> {
  const limits = { timeoutInMs: requestTimeoutInMs };
  // Not all that may be leased is: the response does not matter, as the delete will tell.
  if (leased) await read((signal) => resources.breakLease?.(name, signal) ?? Promise.resolve(), limits).catch(() => undefined);
  try {
    // What is being deleted already is not waited for.
    const shouldRetry = (error: unknown): boolean => isTransient(error) && !isRejectedForNow(error);
    const policy = { maxAttempts: 4, shouldRetry, backoff: (failed: number) => fullJitter(failed, 500, 5_000) };
    await retry(() => read((signal) => resources.delete(name, signal), limits), policy);
  } catch (error) {
    if (isNotFound(error) || isParentNotFound(error) || isRejectedForNow(error)) return;
    if (leased || !isLeaseConflict(error)) throw error;
    await removeResource(resources, name, true);
  }
}

/** Loads the SDK of the service. */
export const openResources: Readonly<Record<Service, (account: Account) => Promise<Resources>>> = {
  blob: async (account) => containersOf(await account.blobService()),
  table: async (account) => tablesOf(await account.tableService()),
  queue: async (account) => queuesOf(await account.queueService()),
  file: async (account) => sharesOf(await account.shareService()),
};

async function* namesOf(open: (abortSignal: AbortSignal) => AsyncIterable<{ name?: string }>, abortSignal?: AbortSignal): AsyncIterable<string> {
  for await (const { name } of iterate(open, { abortSignal, timeoutInMs: requestTimeoutInMs })) if (name !== undefined) yield name;
}

function containersOf(service: BlobServiceClient): Resources {
  const container = (name: string): ReturnType<BlobServiceClient["getContainerClient"]> => service.getContainerClient(name);
  return {
    kind: "container",
    list: (signal) => namesOf((abortSignal) => service.listContainers({ prefix: namePrefix, abortSignal }), signal),
    create: (name, abortSignal) => container(name).create({ abortSignal }),
    breakLease: (name, abortSignal) => container(name).getBlobLeaseClient().breakLease(0, { abortSignal }),
    delete: (name, abortSignal) => container(name).delete({ abortSignal }),
  };
}

function sharesOf(service: ShareServiceClient): Resources {
  const share = (name: string): ReturnType<ShareServiceClient["getShareClient"]> => service.getShareClient(name);
  return {
    kind: "share",
    list: (signal) => namesOf((abortSignal) => service.listShares({ prefix: namePrefix, abortSignal }), signal),
    create: (name, abortSignal) => share(name).create({ abortSignal }),
    // The types of the SDK do not have the period, without which the lease would continue for its remaining time.
    breakLease: (name, abortSignal) => share(name).getShareLeaseClient().breakLease({ abortSignal, breakPeriod: 0 } as object),
    delete: (name, abortSignal) => share(name).delete({ abortSignal }),
  };
}

function queuesOf(service: QueueServiceClient): Resources {
  return {
    kind: "queue",
    list: (signal) => namesOf((abortSignal) => service.listQueues({ prefix: namePrefix, abortSignal }), signal),
    create: (name, abortSignal) => service.createQueue(name, { abortSignal }),
    delete: (name, abortSignal) => service.deleteQueue(name, { abortSignal }),
  };
}

function tablesOf(service: TableServiceClient): Resources {
  // Tables are listed by a range: there is no prefix.
  const filter = `TableName ge '${namePrefix}' and TableName lt '${namePrefix}~'`;
  return {
    kind: "table",
    list: (signal) => namesOf((abortSignal) => service.listTables({ queryOptions: { filter }, abortSignal }), signal),
    create: (name, abortSignal) => service.createTable(name, { abortSignal }),
    delete: (name, abortSignal) => service.deleteTable(name, { abortSignal }),
  };
}
