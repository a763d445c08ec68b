import * as asc from "azure-storage-concurrency";
import type { BlobLocks, LeaseHandle, LeaseInfo, LockHandleLike } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { anyBlob, appendBlob, blob, container, directory, file, pageBlob, queue, share, table } from "./storage.js";

export async function runUnderALease(abortSignal: AbortSignal): Promise<void> {
  typeOf(await asc.withLease(blob, (lease) => lease.leaseId)).is<string>();
  typeOf(await asc.withLease(blob, async () => 1)).is<number>();
  typeOf(await asc.withLease(blob, () => {})).is<void>();
  for (const client of [anyBlob, appendBlob, pageBlob, container, share, file]) await asc.withLease(client, () => 1);
  await asc.withLease(blob, () => 1, {
    abortSignal,
    waitInMs: 10,
    durationInSeconds: 15,
    autoRenew: true,
    renewIntervalInMs: 100,
    safetyMarginInMs: 10,
    createIfNotExists: true,
  });

  // @ts-expect-error A table has no leases.
  await asc.withLease(table, () => 1);
  // @ts-expect-error A queue has no leases.
  await asc.withLease(queue, () => 1);
  // @ts-expect-error A directory has no leases.
  await asc.withLease(directory, () => 1);
  // @ts-expect-error The function is needed.
  await asc.withLease(blob);
  // @ts-expect-error The service stores seconds.
  await asc.withLease(blob, () => 1, { durationInMs: 15_000 });
  // @ts-expect-error How long to wait is called waitInMs; the work itself has no limit.
  await asc.withLease(blob, () => 1, { timeoutInMs: 10 });
}

export async function holdALease(locks: BlobLocks): Promise<void> {
  const lease = await asc.acquireLease(blob, { waitInMs: 0 });
  typeOf(lease).is<LeaseHandle>();
  lease satisfies LockHandleLike & AsyncDisposable;
  typeOf(lease.url).is<string>();
  typeOf(lease.remainingInMs).is<number>();
  typeOf(lease.signal).is<AbortSignal>();
  typeOf(lease.assertHeld()).is<void>();
  await lease.renew();
  await lease.change("11111111-1111-1111-1111-111111111111");
  await lease.release();

  await using tried = await asc.tryAcquireLease(blob);
  typeOf(tried).is<LeaseHandle | undefined>();
  await using guarded = await asc.tryAcquireLease(file, { crashGuard: locks, leaseId: "x" });
  void guarded;

  // @ts-expect-error The lease may be taken.
  tried.leaseId;
  // @ts-expect-error One attempt does not wait.
  await asc.tryAcquireLease(blob, { waitInMs: 1 });
  // @ts-expect-error Handles are readonly.
  lease.leaseId = "x";
  // @ts-expect-error Handles are readonly.
  lease.conditions.leaseId = "x";
  // @ts-expect-error An interface: only the library makes handles.
  new asc.LeaseHandle();
}

/** `requestOptions` fits every call of the SDKs, as it is. */
export async function passItToTheSdk(lease: LeaseHandle): Promise<void> {
  const { requestOptions } = lease;
  typeOf(requestOptions.abortSignal).is<AbortSignal>();
  await blob.setMetadata({ a: "b" }, requestOptions);
  await blob.upload("x", 1, requestOptions);
  await blob.setHTTPHeaders({ blobContentType: "text/plain" }, requestOptions);
  await blob.delete({ ...requestOptions, deleteSnapshots: "include" });
  await appendBlob.appendBlock("x", 1, requestOptions);
  await pageBlob.uploadPages(new Uint8Array(512), 0, 512, requestOptions);
  await container.delete(requestOptions);
  await file.setMetadata({ a: "b" }, requestOptions);
  await file.uploadRange("x", 0, 1, requestOptions);
  await file.delete(requestOptions);
  await share.setMetadata({ a: "b" }, requestOptions);
  await asc.readTarget(blob, { conditions: lease.conditions });
  // @ts-expect-error Readonly.
  lease.requestOptions.conditions = { leaseId: "x" };
}

export async function lookAtLeases(): Promise<void> {
  const info = await asc.inspectLease(blob);
  typeOf(info).is<LeaseInfo>();
  typeOf(info.state).is<"available" | "leased" | "expired" | "breaking" | "broken">();
  typeOf(info.duration).is<"fixed" | "infinite" | undefined>();
  typeOf(info.holder).is<string | undefined>();
  typeOf(info.acquiredOn).is<Date | undefined>();
  typeOf(info.epoch).is<number | undefined>();
  typeOf(await asc.breakLease(share, { breakPeriodInSeconds: 1, expectedEpoch: 3 })).is<boolean>();
  // @ts-expect-error Results are readonly.
  info.state = "available";
  // @ts-expect-error The service counts in seconds.
  await asc.breakLease(blob, { breakPeriodInMs: 1 });
}

export async function useFilesOfSmbClients(): Promise<void> {
  const deleted = await asc.retryWhileInUse(
    ({ attempt, signal, requestOptions }) => {
      typeOf(attempt).is<number>();
      typeOf(signal).is<AbortSignal>();
      return file.delete(requestOptions);
    },
    { maxAttempts: 3, retryDelayInMs: 1, timeoutInMs: 10 },
  );
  typeOf(deleted.requestId).is<string | undefined>();
  // @ts-expect-error Misspelt option.
  await asc.retryWhileInUse(() => 1, { maxAttempt: 3 });
  for (const client of [share, directory]) typeOf(await asc.purgeStagingFiles(client, { olderThanInMs: 3_600_000, recursive: true })).is<asc.PurgeResult>();
  // @ts-expect-error A file has no other files.
  await asc.purgeStagingFiles(file);
}

export async function writeOnceOrFenced(): Promise<void> {
  const appended = await asc.appendExactlyOnce(appendBlob, "line\n", {
    createIfNotExists: { contentType: "text/plain", metadata: { a: "b" } },
    uniqueRecords: true,
    maxBatchSizeInBytes: 10,
    maxSizeInBytes: 100,
    coalesce: false,
    onUnknown: "retry",
  });
  typeOf(appended).is<asc.AppendResult>();
  await asc.appendExactlyOnce(appendBlob, new Uint8Array(), { createIfNotExists: true });
  const pages = await asc.claimPages(pageBlob, { timeoutInMs: 10, conditions: { leaseId: "x" } });
  typeOf(pages).is<asc.PageWriter>();
  await pages.write(0, new Uint8Array(512), { timeoutInMs: 1 });
  await pages.clear(0, 512);

  // @ts-expect-error A block blob has no appends.
  await asc.appendExactlyOnce(blob, "x");
  // @ts-expect-error A record is text or bytes.
  await asc.appendExactlyOnce(appendBlob, { a: 1 });
  // @ts-expect-error Results are readonly.
  appended.offset = 0;
  // @ts-expect-error A block blob has no pages.
  await asc.claimPages(blob);
  // @ts-expect-error An interface.
  new asc.PageWriter();
}

export async function allocateIds(): Promise<void> {
  using ids = new asc.IdAllocator(blob, { blockSize: 10, prefetch: 1, start: 5, timeoutInMs: 10 });
  typeOf(await ids.next()).is<number>();
  typeOf(await ids.nextMany(3)).is<number[]>();
  new asc.IdAllocator(asc.jsonBlob<asc.IdCounter>(blob)).close();
  // @ts-expect-error A file has no ETag conditions.
  new asc.IdAllocator(asc.jsonFile<asc.IdCounter>(file));
  // @ts-expect-error A counter has `next`.
  new asc.IdAllocator(asc.jsonBlob<{ count: number }>(blob));
}
