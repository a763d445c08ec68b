import type { BlockBlobClient, ContainerClient } from "@azure/storage-blob";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { blobHttpHeaders, blobMetadata, BlobLocks, blobTags, breakLease, containerAccessPolicy, type ContainerAccessPolicy, containerMetadata, createIfNotExists, isConcurrencyError, jsonBlob, leasedUpdate, optimisticUpdate, overwrite, queueMetadata, readTarget, DELETE, tableEntity, textBlob } from "../../src/index.js";
import { delay, type FaultProxy, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer, freshQueue, freshTable } from "../support/clients.js";

let container: ContainerClient;
let blob: BlockBlobClient;

beforeEach(async () => {
  container = await freshContainer();
  blob = container.getBlockBlobClient("blob");
});

async function proxied(): Promise<FaultProxy> {
  const proxy = await startFaultProxy(azurite().blobUrl);
  onTestFinished(() => proxy.stop());
  return proxy;
}

async function put(text: string): Promise<void> {
  await blob.upload(text, text.length, { blobHTTPHeaders: { blobContentType: "text/x" }, metadata: { owner: "me" } });
}

async function contentOf(): Promise<string> {
  return (await blob.downloadToBuffer()).toString();
}

const count = (m: Record<string, string>): void => void (m["n"] = String(Number(m["n"] ?? 0) + 1));

describe("a blob", () => {
  it("is updated under its lease, and keeps what it has", async () => {
    await put('{"n":1}');
    const result = await leasedUpdate(jsonBlob<{ n: number }>(blob), (d) => { d.n++; });
    expect(result).toMatchObject({ value: { n: 2 }, outcome: "updated", attempts: 1 });
    const properties = await blob.getProperties();
    expect(properties).toMatchObject({ etag: result.etag, contentType: "text/x", leaseState: "available" });
    expect(properties.metadata?.["owner"]).toBe("me");
    expect(await leasedUpdate(blob, () => undefined)).toMatchObject({ outcome: "unchanged", etag: result.etag });
  });

  it("has one journal for optimistic and pessimistic writers", async () => {
    await put('{"n":0}');
    const target = jsonBlob<{ n: number }>(blob);
    for (let i = 0; i < 4; i++) await (i % 2 ? leasedUpdate : optimisticUpdate)(target, (d: { n: number }) => { d.n++; });
    await leasedUpdate(blobMetadata(blob), (m) => void (m["x"] = "y"));
    const journal = (await blob.getProperties()).metadata?.["asc_journal"]?.split("~");
    expect(journal?.[2]).toBe("5");
    expect(journal?.[3]?.split(".")).toHaveLength(5);
  });

  it("has metadata, headers and tags that can be updated under the lease", async () => {
    await put("x");
    await leasedUpdate(blobMetadata(blob), (m) => void (m["color"] = "red"));
    await leasedUpdate(blobHttpHeaders(blob), (h) => void (h.cacheControl = "no-cache"));
    await leasedUpdate(blobTags(blob), (t) => void (t["a"] = "b"));
    const properties = await blob.getProperties();
    expect(properties).toMatchObject({ cacheControl: "no-cache", contentType: "text/x", leaseState: "available" });
    expect(properties.metadata).toMatchObject({ owner: "me", color: "red" });
    expect((await blob.getTags()).tags).toEqual({ a: "b" });
  });

  it("is created once by many, deleted, and created again", async () => {
    const target = jsonBlob<{ n: number }>(blob);
    await expect(leasedUpdate(target, () => undefined)).rejects.toMatchObject({ name: "TargetNotFoundError" });
    const all = await Promise.all(Array.from({ length: 12 }, () => leasedUpdate(target, (d) => { d.n++; }, { initial: { n: 0 } })));
    expect(all.filter(({ outcome }) => outcome === "created")).toHaveLength(1);
    expect(await contentOf()).toBe('{"n":12}');
    expect(await leasedUpdate(target, () => DELETE)).toMatchObject({ outcome: "deleted", value: { n: 12 } });
    expect(await leasedUpdate(target, (d) => { d.n++; }, { initial: { n: 5 } })).toMatchObject({ outcome: "created", value: { n: 6 } });
  });

  it("is not written once its lease is broken while the mutator runs", async () => {
    await put("old");
    const error = await leasedUpdate(textBlob(blob), async () => {
      await breakLease(blob);
      return "new";
    }).catch((e: unknown) => e);
    expect(isConcurrencyError(error, "LEASE_LOST")).toBe(true);
    expect(await contentOf()).toBe("old");
  });

  it("is not written by a mutator that took so long that its lease ran out", async () => {
    await put("old");
    let aborted = false;
    const call = leasedUpdate(
      textBlob(blob),
      async (_, { signal }) => {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        aborted = true;
        return "new";
      },
      { autoRenew: false, durationInSeconds: 15, safetyMarginInMs: 7_500 },
    );
    await expect(call).rejects.toMatchObject({ name: "LeaseLostError", reason: "expired" });
    expect([aborted, await contentOf()]).toEqual([true, "old"]);
  }, 20_000);

  it("is left alone when the caller cancels, and its lease is released", async () => {
    await put("old");
    const controller = new AbortController();
    const reason = new Error("enough");
    const call = leasedUpdate(textBlob(blob), () => { controller.abort(reason); return new Promise<never>(() => undefined); }, { abortSignal: controller.signal }); // prettier-ignore
    await expect(call).rejects.toBe(reason);
    expect(await contentOf()).toBe("old");
    expect((await blob.getProperties()).leaseState).toBe("available");
  });

  it("is left alone when the time is over, and its lease is released", async () => {
    await put("old");
    const call = leasedUpdate(textBlob(blob), () => new Promise<never>(() => undefined), { timeoutInMs: 200 });
    await expect(call).rejects.toMatchObject({ name: "OperationTimeoutError" });
    expect(await contentOf()).toBe("old");
    expect((await blob.getProperties()).leaseState).toBe("available");
  });

  it("is of unknown fate when the time is over while it is written", async () => {
    await put("old");
    const proxy = await proxied();
    proxy.reset([delay(1_500, { when: (r) => r.method === "PUT" && !r.query.has("comp") })]);
    const slow = containerClient(container.containerName, { through: proxy }).getBlockBlobClient("blob");
    const call = leasedUpdate(textBlob(slow), () => "new", { timeoutInMs: 700 });
    await expect(call).rejects.toMatchObject({ name: "CommitUnknownError" });
  });
});

describe("a container", () => {
  it("counts exactly in its metadata, and others that ask for a lease wait", async () => {
    const target = containerMetadata(container);
    await Promise.all(Array.from({ length: 20 }, () => leasedUpdate(target, count)));
    expect((await container.getProperties()).metadata).toEqual({ n: "20" });
    expect((await container.getProperties()).leaseState).toBe("available");
    await overwrite(target, { Fresh: "start" });
    expect((await readTarget(target)).value).toEqual({ fresh: "start" });
  });

  it("keeps its other policies when one is added, and its public access", async () => {
    const target = containerAccessPolicy(container);
    const expiresOn = new Date("2031-02-03T04:05:06.000Z");
    await leasedUpdate(target, (p) => void p.policies.push({ id: "one", permissions: "r", expiresOn }));
    await leasedUpdate(target, (p) => {
      p.publicAccess = "blob";
      p.policies.push({ id: "two", permissions: "rl", startsOn: expiresOn });
    });
    const expected: ContainerAccessPolicy = {
      publicAccess: "blob",
      policies: [{ id: "one", permissions: "r", expiresOn }, { id: "two", permissions: "rl", startsOn: expiresOn }],
    };
    expect((await readTarget(target)).value).toEqual(expected);
    const six = Array.from({ length: 6 }, (_, i) => ({ id: String(i) }));
    await expect(leasedUpdate(target, () => ({ policies: six }))).rejects.toThrow(RangeError);
    await expect(leasedUpdate(target, () => ({ policies: [{ id: "" }] }))).rejects.toThrow(RangeError);
    expect(await leasedUpdate(target, (p) => ({ policies: [...p.policies], publicAccess: p.publicAccess }))).toMatchObject({ outcome: "unchanged" });
    await overwrite(target, { policies: [] });
    expect((await readTarget(target)).value).toEqual({ policies: [] });
  });

  it("is not written once its lease is broken while the mutator runs", async () => {
    const call = leasedUpdate(containerMetadata(container), async () => {
      await breakLease(container);
      return { a: "b" };
    });
    await expect(call).rejects.toMatchObject({ name: "LeaseLostError" });
    expect((await container.getProperties()).metadata).toEqual({});
  });

  it("that is missing is named, and cannot be created by an update", async () => {
    await container.delete();
    await expect(leasedUpdate(containerMetadata(container), () => ({}))).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(createIfNotExists(containerMetadata(container), {})).rejects.toThrow(/Create the container first/);
  });
});

describe("a queue", () => {
  it("counts exactly in its metadata under a lock that all take", async () => {
    const queue = await freshQueue();
    const lock = { locks: new BlobLocks(container), name: "queue" };
    const target = queueMetadata(queue);
    await Promise.all(Array.from({ length: 10 }, () => leasedUpdate(target, count, { lock })));
    expect((await queue.getProperties()).metadata).toEqual({ n: "10" });
    expect(await leasedUpdate(target, () => undefined, { lock })).toMatchObject({ outcome: "unchanged", value: { n: "10" } });
    expect((await lock.locks.inspect("queue")).state).toBe("available");
    await overwrite(target, { a: "b" });
    expect((await readTarget(target)).value).toEqual({ a: "b" });
  });

  it("needs a lock, and has no lease to be named", async () => {
    const queue = await freshQueue();
    await expect(leasedUpdate(queueMetadata(queue), count)).rejects.toThrow(/pass lock: \{ locks, name \}/);
    await expect(readTarget(queueMetadata(queue), { conditions: { leaseId: "x" } })).rejects.toThrow(/queueMetadata has no lease/);
    expect(() => queueMetadata(container as never)).toThrow(/QueueClient/);
  });

  it("that is missing is named", async () => {
    const queue = await freshQueue();
    await queue.delete();
    const lock = { locks: new BlobLocks(container), name: "queue" };
    await expect(leasedUpdate(queueMetadata(queue), count, { lock })).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });
});

it("refuses a table entity, which has no lease", async () => {
  const table = await freshTable();
  await expect(leasedUpdate(tableEntity(table, "p", "r"), () => undefined)).rejects.toThrow(/optimisticUpdate, or a TableLock/);
});

describe("costs", () => {
  it.each(["blob", "container"] as const)("for a %s what acquire, read, write and release by hand cost", async (kind) => {
    const proxy = await proxied();
    const through = containerClient(container.containerName, { through: proxy });
    const blobThrough = through.getBlockBlobClient("blob");
    const target = kind === "blob" ? blobThrough : through;
    await put("x");
    const requestsOf = async (call: () => Promise<unknown>): Promise<string[]> => {
      proxy.reset();
      await call();
      return proxy.log.map(({ method, query }) => `${method} ${query.get("comp") ?? ""}`.trim());
    };
    const byHand = await requestsOf(async () => {
      const lease = target.getBlobLeaseClient();
      const { leaseId = "" } = await lease.acquireLease(30);
      const { metadata } = await target.getProperties();
      await target.setMetadata({ ...metadata, hand: "1" }, { conditions: { leaseId } });
      await lease.releaseLease();
    });
    const byLibrary = await requestsOf(() => leasedUpdate(kind === "blob" ? blobMetadata(blobThrough) : containerMetadata(through), count));
    expect(byLibrary).toEqual(byHand);
    expect(byLibrary).toHaveLength(4);
  });
});
