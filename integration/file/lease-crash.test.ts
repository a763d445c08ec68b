/** Holders of files that end, or stand still, without a word. The tests wait for the server's clock, all at the same time. */
import type { ContainerClient } from "@azure/storage-blob";
import type { ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest";

import { acquireLease, BlobLocks, breakLease, inspectLease, tryAcquireLease, withLease } from "../../src/index.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { connectionString, freshContainer } from "../support/clients.js";
import { pause } from "../support/pause.js";
import { startWorker, type Worker } from "../support/workers.js";
import { freshShare, serviceOf } from "./support.js";
import type { FileHolderConfig, FileHolderReport } from "./workers/file-holder.js";

const lockInMs = 15_000;
let server: FileShareServer;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());

async function freshFile(): Promise<ShareFileClient> {
  const file = (await freshShare(server)).rootDirectoryClient.getFileClient("Settings of all.json");
  await file.create(4);
  return file;
}

async function startHolder(file: ShareFileClient, container: ContainerClient | undefined, { onTestFinished }: TestContext): Promise<Worker<FileHolderReport>> {
  const { accountName, accountKey } = server;
  const guard = container && { connectionString: connectionString(), container: container.containerName };
  const config: FileHolderConfig = { file: file.url, accountName, accountKey, guard };
  const holder = startWorker<FileHolderReport>(new URL("./workers/file-holder.ts", import.meta.url), config, { timeoutInMs: 90_000 });
  onTestFinished(() => holder.stop());
  await holder.receive();
  return holder;
}

describe.concurrent("the holder of a file", () => {
  it("that is killed is succeeded within the duration of the lock that guards it and 2 s", async (test) => {
    const [file, container] = await Promise.all([freshFile(), freshContainer()]);
    const holder = await startHolder(file, container, test);
    await holder.stop();
    const killedAt = performance.now();
    expect(await inspectLease(file)).toMatchObject({ state: "leased", duration: "infinite" });
    await withLease(
      file,
      async (lease) => {
        expect(performance.now() - killedAt).toBeLessThan(lockInMs + 2_000);
        await file.uploadRange("next", 0, 4, { leaseAccessConditions: lease.conditions });
      },
      { crashGuard: new BlobLocks(container) },
    );
    expect(await inspectLease(file)).toMatchObject({ state: "available" });
  });

  it("that is killed without a guard blocks it, and the error says who may break the lease, and how", async (test) => {
    const file = await freshFile();
    const holder = await startHolder(file, undefined, test);
    await holder.stop();
    const error: unknown = await acquireLease(file, { waitInMs: 500 }).catch((e: unknown) => e);
    expect(error).toMatchObject({ name: "LeaseUnavailableError", url: file.url, message: expect.stringMatching(/If you are sure that its holder is dead, call breakLease\(file\).*crashGuard/) as string });
    expect(await breakLease(file)).toBe(true);
    await (await acquireLease(file, { waitInMs: 500 })).release();
  });

  it("that is stopped until another has taken the lease over is refused by the server", async (test) => {
    const [file, container] = await Promise.all([freshFile(), freshContainer()]);
    const holder = await startHolder(file, container, test);
    holder.signal("SIGSTOP");
    await using next = await acquireLease(file, { crashGuard: new BlobLocks(container) });
    await file.uploadRange("next", 0, 4, { leaseAccessConditions: next.conditions });
    holder.send("go on");
    holder.signal("SIGCONT");
    expect(await holder.result).toEqual({ held: false, aborted: true, write: "LeaseIdMismatchWithFileOperation" });
    expect((await file.downloadToBuffer()).toString()).toBe("next");
    next.assertHeld();
    await next.renew();
  });

  it("that is stopped while its lease is broken is refused by the server, though nobody has taken it since", async (test) => {
    const file = await freshFile();
    const holder = await startHolder(file, undefined, test);
    holder.signal("SIGSTOP");
    await breakLease(file);
    holder.send("go on");
    holder.signal("SIGCONT");
    expect(await holder.result).toMatchObject({ write: "LeaseLostWithFileOperation" });
  });
});

it.concurrent("the lease of a share renews itself beyond its duration", async () => {
  const share = await freshShare(server);
  await using lease = await acquireLease(share, { durationInSeconds: 15 });
  await pause(17_000);
  lease.assertHeld();
  expect(await inspectLease(share)).toMatchObject({ state: "leased", duration: "fixed" });
  expect(await tryAcquireLease(serviceOf(server).getShareClient(share.name))).toBeUndefined();
});
