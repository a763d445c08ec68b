import type { BlockBlobClient } from "@azure/storage-blob";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { acquireLease, breakLease, inspectLease, tryAcquireLease, withLease } from "../../src/index.js";
import { dropResponse, type FaultProxy, isLease, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, containerClient, freshContainer } from "../support/clients.js";
import { fastContainer } from "../support/fast-clients.js";

let proxy: FaultProxy;
/** Through the proxy. */
let blob: BlockBlobClient;
/** Past it: another party, with a queue of its own. */
let other: BlockBlobClient;

beforeAll(async () => {
  proxy = await startFaultProxy(azurite().blobUrl);
});
afterAll(() => proxy.stop());

beforeEach(async () => {
  const { containerName } = await freshContainer();
  blob = fastContainer(connectionString({ blobUrl: proxy.url }), containerName).getBlockBlobClient("doc");
  other = containerClient(containerName).getBlockBlobClient("doc");
  await other.upload("old", 3);
  proxy.reset();
});

describe("withLease", () => {
  it("costs two requests on a blob that exists", async () => {
    await expect(withLease(blob, async () => "done")).resolves.toBe("done");
    expect(proxy.requests).toBe(2);
    expect(proxy.count(isLease("acquire"))).toBe(1);
    expect(proxy.count(isLease("release"))).toBe(1);
    expect(await inspectLease(other)).toMatchObject({ state: "available" });
  });

  it("hands the lease on within the process without a request", async () => {
    const order: number[] = [];
    await Promise.all(Array.from({ length: 10 }, (_, n) => withLease(blob, async () => void order.push(n))));
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(proxy.requests).toBe(2);
  });

  it("keeps others from writing, and from acquiring, until it is over", async () => {
    await withLease(blob, async (lease) => {
      await expect(other.upload("theirs", 6)).rejects.toMatchObject({ statusCode: 412 });
      await expect(tryAcquireLease(other)).resolves.toBeUndefined();
      await expect(acquireLease(other, { waitInMs: 200 })).rejects.toMatchObject({ name: "LeaseUnavailableError" });
      await blob.upload("ours", 4, { conditions: lease.conditions });
    });
    await other.upload("theirs", 6);
  });

  it("creates the blob that is to be leased if asked to, and leaves one that exists alone", async () => {
    await withLease(blob, async () => undefined, { createIfNotExists: true });
    expect((await other.downloadToBuffer()).toString()).toBe("old");
    await other.delete();
    await withLease(blob, async () => expect(await inspectLease(other)).toMatchObject({ state: "leased", duration: "fixed" }), {
      createIfNotExists: true,
    });
    expect((await other.getProperties()).contentLength).toBe(0);
  });

  it("creates it once when many want it at the same time", async () => {
    await other.delete();
    const clients = Array.from({ length: 8 }, () => containerClient(blob.containerName).getBlockBlobClient("doc"));
    let inside = 0;
    await Promise.all(
      clients.map((client) =>
        withLease(
          client,
          async () => {
            expect(++inside).toBe(1);
            await inspectLease(client);
            inside--;
          },
          { createIfNotExists: true },
        ),
      ),
    );
  });

  it("has the lease all the same when the answer to the acquisition is lost", async () => {
    proxy.rules = [dropResponse({ when: isLease("acquire"), times: 1 })];
    await withLease(blob, async (lease) => {
      await blob.upload("new", 3, { conditions: lease.conditions });
    });
    expect(proxy.faultCount()).toBe(1);
    expect(await inspectLease(other)).toMatchObject({ state: "available" });
  });

  it("does not take a release whose answer was lost for a loss", async () => {
    proxy.rules = [dropResponse({ when: isLease("release"), times: 1 })];
    await expect(withLease(blob, async () => "done")).resolves.toBe("done");
    expect(proxy.count(isLease("release"))).toBe(2);
    expect(await inspectLease(other)).toMatchObject({ state: "available" });
  });

  it("rejects when the lease was broken while the function ran, even though that has a result", async () => {
    const outcome = withLease(blob, async () => {
      await breakLease(other);
      await acquireLease(other);
      return "done";
    });
    await expect(outcome).rejects.toMatchObject({ name: "LeaseLostError", reason: "stolen" });
  });

  it("passes the function's own error on, and releases", async () => {
    const failure = new Error("my own");
    await expect(withLease(blob, () => Promise.reject(failure))).rejects.toBe(failure);
    expect(await inspectLease(other)).toMatchObject({ state: "available" });
  });

  it("does not mind that the function deletes the blob", async () => {
    await withLease(blob, (lease) => blob.delete({ conditions: lease.conditions }));
    expect(await other.exists()).toBe(false);
  });
});

describe("a guard", () => {
  it("gives an infinite lease back, which never expires by itself", async () => {
    const lease = await acquireLease(blob, { durationInSeconds: Infinity });
    expect(await inspectLease(other)).toMatchObject({ state: "leased", duration: "infinite" });
    expect(lease.remainingInMs).toBe(Infinity);
    await lease.release();
    expect(await inspectLease(other)).toMatchObject({ state: "available" });
  });

  it("notices that an infinite lease was broken", async () => {
    const lease = await acquireLease(blob, { durationInSeconds: Infinity, renewIntervalInMs: 100 });
    await breakLease(other);
    const lost = new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    await lost;
    expect(lease.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "broken" });
    expect(() => lease.assertHeld()).toThrow("broken");
  });

  it("notices at a renewal that the blob was deleted", async () => {
    const lease = await acquireLease(blob, { renewIntervalInMs: 100 });
    const lost = new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    await other.delete({ conditions: lease.conditions });
    await lost;
    expect(lease.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "deleted" });
  });

  it("changes its id, after which the old one is refused and the new one good for writes, renewals and the release", async () => {
    const lease = await acquireLease(blob);
    const before = lease.conditions;
    await lease.change();
    expect(lease.leaseId).not.toBe(before.leaseId);
    await expect(other.upload("old id", 6, { conditions: before })).rejects.toMatchObject({ statusCode: 412 });
    await other.upload("new id", 6, { conditions: lease.conditions });
    await lease.renew();
    lease.assertHeld();
    await lease.release();
    expect(await inspectLease(other)).toMatchObject({ state: "available" });
  });

  it("knows its id even when the answer to the change is lost", async () => {
    proxy.rules = [dropResponse({ when: isLease("change"), times: 1 })];
    const lease = await acquireLease(blob);
    await lease.change();
    expect(proxy.faultCount()).toBe(1);
    await other.upload("new id", 6, { conditions: lease.conditions });
    await lease.release();
    expect(await inspectLease(other)).toMatchObject({ state: "available" });
  });

  it("takes a lease id of the caller's", async () => {
    const leaseId = "8a6bd0f2-6f57-4d5b-9bb6-8f5cbd8a9f33";
    const lease = await acquireLease(blob, { leaseId });
    expect(lease.leaseId).toBe(leaseId);
    await other.upload("with it", 7, { conditions: { leaseId } });
    await lease.release();
  });

  it("is of no use after its release", async () => {
    const lease = await acquireLease(blob);
    await lease.release();
    expect(() => lease.assertHeld()).toThrow("released");
    expect(lease.remainingInMs).toBe(0);
    await expect(lease.renew()).rejects.toMatchObject({ name: "LeaseLostError" });
    await expect(other.upload("late", 4, { conditions: lease.conditions })).rejects.toMatchObject({ statusCode: 412 });
  });
});
