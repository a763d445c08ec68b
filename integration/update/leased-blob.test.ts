import type { BlobLeaseClient, BlockBlobClient } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { blobHttpHeaders, blobMetadata, createIfNotExists, jsonBlob, LeaseUnavailableError, optimisticUpdate, overwrite, readTarget, DELETE, deleteIfUnchanged, type UpdateTarget } from "../../src/index.js";
import { respondWith, type FaultProxy, isWrite, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer } from "../support/clients.js";

interface Doc {
  n: number;
}

describe("a blob that somebody else has leased", () => {
  let proxy: FaultProxy;
  let truth: BlockBlobClient;
  let blob: BlockBlobClient;
  let target: UpdateTarget<Doc>;
  let lease: BlobLeaseClient;
  let conditions: { leaseId: string };

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().blobUrl);
    const { containerName } = await freshContainer();
    truth = containerClient(containerName).getBlockBlobClient("doc");
    await truth.upload('{"n":1}', 7);
    blob = containerClient(containerName, { through: proxy }).getBlockBlobClient("doc");
    target = jsonBlob<Doc>(blob);
    lease = truth.getBlobLeaseClient();
    await lease.acquireLease(-1);
    conditions = { leaseId: lease.leaseId };
  });

  afterEach(() => proxy.stop());

  const stored = async (): Promise<string> => (await truth.downloadToBuffer()).toString();

  async function expectUnavailable(call: Promise<unknown>, requests: number): Promise<void> {
    await expect(call).rejects.toThrow(LeaseUnavailableError);
    await expect(call).rejects.toMatchObject({ code: "LEASE_UNAVAILABLE", url: blob.url });
    expect(proxy.requests).toBe(requests);
    expect(await stored()).toBe('{"n":1}');
  }

  it("can be read", async () => {
    expect((await readTarget(target)).value).toEqual({ n: 1 });
  });

  it("refuses an update at once, after 2 requests", async () => {
    await expectUnavailable(optimisticUpdate(target, (doc) => { doc.n++; }), 2);
  });

  it("refuses a delete at once, after 2 requests", async () => {
    await expectUnavailable(optimisticUpdate(target, () => DELETE), 2);
  });

  it("refuses all of a group at once, after 2 requests", async () => {
    const calls = Array.from({ length: 10 }, () => optimisticUpdate(target, (doc) => { doc.n++; }));
    const results = await Promise.allSettled(calls);
    expect(results.every((result) => result.status === "rejected" && result.reason instanceof LeaseUnavailableError)).toBe(true);
    expect(proxy.requests).toBe(2);
  });

  it("refuses updates of metadata and headers at once, after 2 requests", async () => {
    await expectUnavailable(optimisticUpdate(blobMetadata(blob), (metadata) => { metadata["a"] = "b"; }), 2);
    proxy.reset();
    await expectUnavailable(optimisticUpdate(blobHttpHeaders(blob), (headers) => { headers.cacheControl = "no-store"; }), 2);
  });

  it("refuses overwrite and deleteIfUnchanged at once, after 1 request", async () => {
    await expectUnavailable(overwrite(target, { n: 9 }), 1);
    const { etag } = await readTarget(target);
    proxy.reset();
    await expectUnavailable(deleteIfUnchanged(target, etag), 1);
  });

  it("refuses the id of another lease", async () => {
    const other = { leaseId: "11111111-2222-4333-8444-555555555555" };
    await expect(optimisticUpdate(target, (doc) => { doc.n++; }, { conditions: other })).rejects.toThrow(LeaseUnavailableError);
    expect(proxy.count(isWrite)).toBe(0);
    expect(await stored()).toBe('{"n":1}');
  });

  it("is updated under the id of its lease, by 2 requests", async () => {
    expect(await optimisticUpdate(target, (doc) => { doc.n++; }, { conditions })).toMatchObject({ outcome: "updated", value: { n: 2 } });
    expect(proxy.requests).toBe(2);
    expect(await stored()).toBe('{"n":2}');
  });

  it("keeps updates with and without the id apart", async () => {
    const add = (options: object) => optimisticUpdate(target, (doc) => { doc.n++; }, options);
    const [without, under] = await Promise.allSettled([add({}), add({ conditions })]);
    expect(without).toMatchObject({ status: "rejected", reason: { name: "LeaseUnavailableError" } });
    expect(under).toMatchObject({ status: "fulfilled", value: { value: { n: 2 } } });
    expect(await stored()).toBe('{"n":2}');
  });

  it("is overwritten, described and deleted under the id of its lease", async () => {
    await overwrite(target, { n: 9 }, { conditions });
    await optimisticUpdate(blobMetadata(blob), (metadata) => { metadata["owner"] = "me"; }, { conditions });
    expect((await truth.getProperties()).metadata).toMatchObject({ owner: "me" });
    const { etag } = await readTarget(target, { conditions });
    await deleteIfUnchanged(target, etag, { conditions });
    expect(await truth.exists()).toBe(false);
  });

  it("is found by createIfNotExists", async () => {
    expect(await createIfNotExists(target, { n: 5 })).toMatchObject({ outcome: "unchanged", value: { n: 1 } });
    expect(proxy.requests).toBe(2);
  });

  it("is found by createIfNotExists also where the lease is what the service objects to, as Azure does", async () => {
    proxy.rules = [respondWith(412, { when: isWrite, errorCode: "LeaseIdMissing" })];
    expect(await createIfNotExists(target, { n: 5 })).toMatchObject({ outcome: "unchanged", value: { n: 1 } });
    expect(proxy.requests).toBe(2);
  });

  it("is not written by createIfNotExists under the id of its lease, which Azure would allow", async () => {
    expect(await createIfNotExists(target, { n: 5 }, { conditions })).toMatchObject({ outcome: "unchanged", value: { n: 1 } });
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("can be updated again when it is released", async () => {
    await lease.releaseLease();
    expect(await optimisticUpdate(target, (doc) => { doc.n++; })).toMatchObject({ value: { n: 2 } });
  });
});
