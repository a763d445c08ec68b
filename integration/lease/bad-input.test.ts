import { ContainerClient, ContainerSASPermissions } from "@azure/storage-blob";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { acquireLease, breakLease, inspectLease, tryAcquireLease, withLease } from "../../src/index.js";
import { type FaultProxy, isLease, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer, freshName } from "../support/clients.js";

let proxy: FaultProxy;
let container: ContainerClient;
const never = (): never => {
  throw new Error("the function was called");
};

beforeAll(async () => {
  proxy = await startFaultProxy(azurite().blobUrl);
});
afterAll(() => proxy.stop());

beforeEach(async () => {
  container = await freshContainer({ through: proxy });
  await containerClient(container.containerName).getBlockBlobClient("doc").upload("old", 3);
  proxy.reset();
});

describe("misuse is told before anything is sent", () => {
  it.each([14, 61, 0, -1, 15.5, NaN, -Infinity])("a duration of %s seconds", async (durationInSeconds) => {
    const blob = container.getBlockBlobClient("doc");
    await expect(withLease(blob, never, { durationInSeconds })).rejects.toThrow(/15 to 60/);
    await expect(acquireLease(blob, { durationInSeconds })).rejects.toThrow(/15 to 60/);
    await expect(tryAcquireLease(blob, { durationInSeconds })).rejects.toThrow(/15 to 60/);
    expect(proxy.requests).toBe(0);
  });

  it.each(["", "mine", "8a6bd0f2-6f57-4d5b-9bb6", "8a6bd0f2-6f57-4d5b-9bb6-8f5cbd8a9f33 ", "x".repeat(36)])("a lease id %j", async (leaseId) => {
    await expect(withLease(container.getBlockBlobClient("doc"), never, { leaseId })).rejects.toThrow(/GUID/);
    expect(proxy.requests).toBe(0);
  });

  it("a changed lease id that is no GUID, and the lease is kept", async () => {
    await withLease(container.getBlockBlobClient("doc"), async (lease) => {
      await expect(lease.change("mine")).rejects.toThrow(/GUID/);
      lease.assertHeld();
    });
    expect(proxy.count(isLease("change"))).toBe(0);
  });

  it.each([61, -1, 1.5, NaN])("a break period of %s seconds", async (breakPeriodInSeconds) => {
    await expect(breakLease(container.getBlockBlobClient("doc"), { breakPeriodInSeconds })).rejects.toThrow(/breakPeriodInSeconds/);
    expect(proxy.requests).toBe(0);
  });

  it("a wait that is negative, and a target that cannot be leased", async () => {
    await expect(acquireLease(container.getBlockBlobClient("doc"), { waitInMs: -1 })).rejects.toThrow(RangeError);
    await expect(acquireLease({} as ContainerClient)).rejects.toThrow(TypeError);
    expect(proxy.requests).toBe(0);
  });
});

describe("what waiting does not help with is told at once", () => {
  it("a missing blob", async () => {
    const blob = container.getBlockBlobClient("missing");
    await expect(withLease(blob, never)).rejects.toMatchObject({ name: "TargetNotFoundError", url: blob.url });
    expect(proxy.requests).toBe(1);
    await expect(inspectLease(blob)).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(breakLease(blob)).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });

  it.each([false, true])("a missing container, with createIfNotExists %s", async (createIfNotExists) => {
    const missing = containerClient(freshName(), { through: proxy });
    await expect(withLease(missing.getBlockBlobClient("doc"), never, { createIfNotExists })).rejects.toMatchObject({
      name: "TargetNotFoundError",
      message: expect.stringContaining("create it first") as string,
    });
    expect(proxy.requests).toBe(1);
  });

  it("a missing container that is to be leased itself", async () => {
    await expect(withLease(containerClient(freshName(), { through: proxy }), never)).rejects.toMatchObject({ name: "TargetNotFoundError" });
    expect(proxy.requests).toBe(1);
  });

  it("a signature that may read but not write", async () => {
    const blob = (await readOnly()).getBlockBlobClient("doc");
    expect(await inspectLease(blob)).toMatchObject({ state: "available" });
    proxy.reset();
    await expect(withLease(blob, never)).rejects.toMatchObject({ statusCode: 403 });
    await expect(tryAcquireLease(blob)).rejects.toMatchObject({ statusCode: 403 });
    // It looks at the lease first: a broken one is not broken by this call.
    await expect(breakLease(blob)).rejects.toMatchObject({ statusCode: 403 });
    expect(proxy.requests).toBe(4);
  });

  it("a signature that may not create, where creating is called for", async () => {
    const blob = (await readOnly()).getBlockBlobClient("missing");
    await expect(withLease(blob, never, { createIfNotExists: true })).rejects.toMatchObject({ statusCode: 403 });
  });
});

async function readOnly(): Promise<ContainerClient> {
  const expiresOn = new Date(Date.now() + 3_600_000);
  return new ContainerClient(await container.generateSasUrl({ permissions: ContainerSASPermissions.parse("r"), expiresOn }));
}
