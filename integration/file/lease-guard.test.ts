import type { ContainerClient } from "@azure/storage-blob";
import type { ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { acquireLease, BlobLocks, inspectLease, isConcurrencyError, tryAcquireLease, withLease } from "../../src/index.js";
import { type FaultProxy, type FileShareServer, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { azurite, containerClient, freshContainer } from "../support/clients.js";
import { answerOf, freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let proxy: FaultProxy;
let file: ShareFileClient;
let container: ContainerClient;
let locks: BlobLocks;

beforeAll(async () => {
  server = await startFileShareServer();
  proxy = await startFaultProxy(azurite().blobUrl);
});
afterAll(() => Promise.all([server.stop(), proxy.stop()]));
beforeEach(async () => {
  const share = await freshShare(server);
  file = share.rootDirectoryClient.getFileClient("f.json");
  await file.create(4);
  container = await freshContainer({ through: proxy });
  locks = new BlobLocks(container);
});

function lockName(): string {
  return `file:${file.url.replace("http://", "")}`;
}

/** As another process has it, under the same URLs. */
function another(): { file: ShareFileClient; crashGuard: BlobLocks } {
  const share = serviceOf(server).getShareClient(file.shareName);
  return { file: share.rootDirectoryClient.getFileClient("f.json"), crashGuard: new BlobLocks(containerClient(container.containerName, { through: proxy })) };
}

describe("crashGuard", () => {
  it("is a lock with the name of the file, held as long as the lease, for 6 requests at most", async () => {
    await withLease(file, () => undefined, { crashGuard: locks }); // makes the blob of the lock
    const { epoch } = await locks.inspect(lockName());
    const [toBlobs, toFiles] = [proxy.requests, server.requests];
    await withLease(file, () => undefined, { crashGuard: locks });
    // Acquire, record and release; and, soon after the last one, a look for others.
    expect([proxy.requests - toBlobs, server.requests - toFiles]).toEqual([4, 2]);
    await withLease(file, async (lease) => {
      expect(await locks.inspect(lockName())).toMatchObject({ state: "leased", epoch: epoch! + 2 });
      expect(lease.remainingInMs).toBeLessThanOrEqual(30_000);
      expect(lease.remainingInMs).toBeGreaterThan(20_000);
      const other = another();
      expect(await tryAcquireLease(other.file, { crashGuard: other.crashGuard })).toBeUndefined();
    }, { crashGuard: locks });
    expect(await locks.inspect(lockName())).toMatchObject({ state: "available" });
    expect(await inspectLease(file)).toMatchObject({ state: "available" });
  });

  it("lets them in one after the other, in one process and in several", async () => {
    let inside = 0;
    const turn = async (lease: { conditions: { leaseId: string } }): Promise<void> => {
      expect(++inside).toBe(1);
      await file.uploadRange("abcd", 0, 4, { leaseAccessConditions: lease.conditions });
      inside--;
    };
    const other = another();
    await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 ? withLease(file, turn, { crashGuard: locks }) : withLease(other.file, turn, { crashGuard: other.crashGuard }))),
    );
    expect(await inspectLease(file)).toMatchObject({ state: "available" });
  });

  it("loses the lease when the lock is lost, and the next one takes over what is left of it", async () => {
    const lease = await acquireLease(file, { crashGuard: locks });
    await locks.break(lockName());
    const other = another();
    const next = await acquireLease(other.file, { crashGuard: other.crashGuard });
    // The lock was taken away, but its holder has not noticed yet: the service has.
    expect(await answerOf(file.uploadRange("late", 0, 4, { leaseAccessConditions: lease.conditions }))).toBe("412 LeaseIdMismatchWithFileOperation");
    await expect(lease.renew()).rejects.toMatchObject({ name: "LeaseLostError", reason: "stolen" });
    await lease.release().catch((error: unknown) => expect(isConcurrencyError(error, "LEASE_LOST")).toBe(true));
    next.assertHeld();
    await next.renew();
    await next.release();
  });

  it("finds what was left by one who died before others did that never came to the lease", async () => {
    // As a crash leaves it: the lease is there, the lock is free.
    const dead = await acquireLease(file, { crashGuard: locks });
    await locks.break(lockName());
    // They die between the lock and the lease.
    const { crashGuard, file: theirs } = another();
    for (let i = 0; i < 3; i++) await (await crashGuard.acquire(lockName())).release();
    const next = await acquireLease(theirs, { crashGuard });
    expect(await answerOf(file.uploadRange("late", 0, 4, { leaseAccessConditions: dead.conditions }))).toBe("412 LeaseIdMismatchWithFileOperation");
    await next.release();
    await dead.release().catch((error: unknown) => expect(isConcurrencyError(error, "LEASE_LOST")).toBe(true));
  });

  it("never takes the lease away from somebody who does not use it, and says so", async () => {
    const stranger = await acquireLease(another().file);
    const failure: unknown = await acquireLease(file, { crashGuard: locks, waitInMs: 300 }).catch((e: unknown) => e);
    expect(failure).toMatchObject({ name: "LeaseUnavailableError", message: expect.stringContaining("not acquired with this crashGuard") as string });
    expect(await locks.inspect(lockName())).toMatchObject({ state: "available" });
    await stranger.renew();
    const waiting = acquireLease(file, { crashGuard: locks, waitInMs: 10_000 });
    await stranger.release();
    await (await waiting).release();
  });

  it("lets go of the lock when the lease cannot be had", async () => {
    const missing = file.url.replace("f.json", "missing.json");
    const gone = serviceOf(server).getShareClient(file.shareName).rootDirectoryClient.getFileClient("missing.json");
    await expect(acquireLease(gone, { crashGuard: locks })).rejects.toMatchObject({ name: "TargetNotFoundError", url: missing });
    expect(await locks.inspect(`file:${missing.replace("http://", "")}`)).toMatchObject({ state: "available" });
  });
});
