/** What a lease does, on everything that has one. */
import { ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { acquireLease, breakLease, inspectLease, type LeasableLike, type LeaseHandle, tryAcquireLease, withLease } from "../../src/index.js";
import { dropResponse, type FaultProxy, type FileShareServer, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { azurite, containerClient, freshContainer, freshName } from "../support/clients.js";

let files: FileShareServer;
let blobProxy: FaultProxy;
let fileProxy: FaultProxy;

beforeAll(async () => {
  files = await startFileShareServer();
  [blobProxy, fileProxy] = await Promise.all([startFaultProxy(azurite().blobUrl), startFaultProxy(files.url)]);
});
afterAll(() => Promise.all([files.stop(), blobProxy.stop(), fileProxy.stop()]));

/** The SDK's own retries, within milliseconds. */
const retryOptions = { retryDelayInMs: 5, maxRetryDelayInMs: 20 };

interface Resource {
  /** Through the proxy, with the SDK's retries. */
  readonly ours: LeasableLike;
  /** As another process has it. */
  readonly theirs: LeasableLike;
}

async function blobResource(): Promise<Resource> {
  const { containerName } = await freshContainer();
  const [ours, theirs] = [containerClient(containerName, { through: blobProxy }), containerClient(containerName)];
  await theirs.getBlockBlobClient("b").upload("", 0);
  return { ours: ours.getBlockBlobClient("b"), theirs: theirs.getBlockBlobClient("b") };
}

async function containerResource(): Promise<Resource> {
  const { containerName } = await freshContainer();
  return { ours: containerClient(containerName, { through: blobProxy }), theirs: containerClient(containerName) };
}

async function shareResource(kind: "share" | "file"): Promise<Resource> {
  const credential = new StorageSharedKeyCredential(files.accountName, files.accountKey);
  const name = freshName();
  const [ours, theirs] = [fileProxy.url, files.url].map((url) => new ShareServiceClient(url, credential, { retryOptions }).getShareClient(name));
  await theirs!.create();
  if (kind === "share") return { ours: ours!, theirs: theirs! };
  await theirs!.rootDirectoryClient.getFileClient("f").create(4);
  return { ours: ours!.rootDirectoryClient.getFileClient("f"), theirs: theirs!.rootDirectoryClient.getFileClient("f") };
}

interface Kind {
  readonly kind: string;
  readonly make: () => Promise<Resource>;
  readonly proxy: () => FaultProxy;
  /** Requests of a renewal. */
  readonly renewal: number;
}

describe.each<Kind>([
  { kind: "blob", make: blobResource, proxy: () => blobProxy, renewal: 1 },
  { kind: "container", make: containerResource, proxy: () => blobProxy, renewal: 1 },
  { kind: "share", make: () => shareResource("share"), proxy: () => fileProxy, renewal: 2 },
  { kind: "file", make: () => shareResource("file"), proxy: () => fileProxy, renewal: 1 },
])("the lease of a $kind", ({ kind, make, proxy, renewal }) => {
  let ours: LeasableLike;
  let theirs: LeasableLike;

  beforeEach(async () => {
    ({ ours, theirs } = await make());
    proxy().rules = [];
  });

  async function requestsOf<R>(run: () => Promise<R>): Promise<number> {
    const before = proxy().requests;
    await run();
    return proxy().requests - before;
  }

  it("is exclusive, can be seen, and is free again afterwards", async () => {
    await withLease(ours, async () => {
      expect(await tryAcquireLease(theirs)).toBeUndefined();
      expect(await inspectLease(theirs)).toMatchObject({ state: "leased", duration: kind === "file" ? "infinite" : "fixed" });
      await expect(acquireLease(theirs, { waitInMs: 50 })).rejects.toMatchObject({ name: "LeaseUnavailableError" });
    });
    expect(await inspectLease(theirs)).toMatchObject({ state: "available" });
    await (await acquireLease(theirs, { waitInMs: 0 })).release();
  });

  it("costs 2 requests, and each renewal what it says", async () => {
    expect(await requestsOf(() => withLease(ours, () => undefined))).toBe(2);
    const lease = await acquireLease(ours);
    expect(await requestsOf(() => lease.renew())).toBe(renewal);
    expect(await requestsOf(() => inspectLease(ours))).toBe(1);
    expect(await requestsOf(() => breakLease(ours))).toBe(2);
    await lease.release().catch(() => undefined);
  });

  it("passes to the one who waits for it elsewhere", async () => {
    const first = await acquireLease(ours);
    const second = acquireLease(theirs, { waitInMs: 5_000 });
    await first.release();
    await (await second).release();
  });

  it("is handed on within a process without a request", async () => {
    const first = await acquireLease(ours);
    const second = acquireLease(ours);
    expect(await requestsOf(() => first.release().then(() => second))).toBe(0);
    await (await second).release();
  });

  it("that was broken is lost, and comes back by no renewal", async () => {
    const lease = await acquireLease(ours);
    expect(await breakLease(theirs)).toBe(true);
    await expect(lease.renew()).rejects.toMatchObject({ name: "LeaseLostError", reason: "broken" });
    expect(await inspectLease(theirs)).toMatchObject({ state: "broken" });
    expect(await breakLease(theirs)).toBe(false);
    await lease.release();
    const next = await acquireLease(theirs, { waitInMs: 0 });
    await next.release();
  });

  it("that another has since is stolen, and left alone by a release", async () => {
    const lease = await acquireLease(ours);
    await breakLease(theirs);
    const next = await acquireLease(theirs, { waitInMs: 0 });
    await expect(lease.renew()).rejects.toMatchObject({ name: "LeaseLostError" });
    await lease.release();
    await next.renew();
    await next.release();
  });

  it("is acquired, renewed, changed and released though each first answer is lost", async () => {
    let lease!: LeaseHandle;
    const steps: (() => Promise<unknown>)[] = [
      async () => (lease = await acquireLease(ours)),
      () => lease.renew(),
      () => lease.change(),
      () => lease.renew(),
      () => lease.release(),
    ];
    for (const step of steps) {
      proxy().rules = [dropResponse({ times: 1 })];
      await step();
      if (step !== steps.at(-1)) lease.assertHeld();
    }
    proxy().rules = [];
    expect(await inspectLease(theirs)).toMatchObject({ state: "available" });
  });
});
