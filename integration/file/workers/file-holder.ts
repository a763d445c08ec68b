import { ShareFileClient, StorageSharedKeyCredential } from "@azure/storage-file-share";

import { acquireLease, BlobLocks } from "../../../src/index.js";
import { fastContainer } from "../../support/fast-clients.js";
import { nextTurn } from "../../support/pause.js";
import { runWorker } from "../../support/worker-process.js";

export interface FileHolderConfig {
  readonly file: string;
  readonly accountName: string;
  readonly accountKey: string;
  /** Where the locks of the crash guard are; without, the lease is taken alone. */
  readonly guard?: { readonly connectionString: string; readonly container: string } | undefined;
}

/** What the holder finds when it goes on after it was told to. */
export interface FileHolderReport {
  readonly held: boolean;
  readonly aborted: boolean;
  readonly write: string;
}

/** Holds the lease of a file until it is told to go on, or killed. */
runWorker(async ({ file: url, accountName, accountKey, guard }: FileHolderConfig, parent) => {
  const file = new ShareFileClient(url, new StorageSharedKeyCredential(accountName, accountKey), { retryOptions: { maxTries: 1 } });
  const crashGuard = guard && new BlobLocks(fastContainer(guard.connectionString, guard.container), { defaults: { durationInSeconds: 15 } });
  const lease = await acquireLease(file, { crashGuard });
  parent.send(lease.leaseId);
  await parent.receive();
  // As a program would that has been about to write: it does not ask whether it still holds the lease.
  const write = await file.uploadRange("late", 0, 4, { leaseAccessConditions: lease.conditions }).then(
    () => "passed",
    (error: unknown) => (error as { details: { errorCode: string } }).details.errorCode,
  );
  await nextTurn();
  const report: FileHolderReport = { held: lease.remainingInMs > 0, aborted: lease.signal.aborted, write };
  return report;
});
