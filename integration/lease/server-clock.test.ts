/** What takes as long as leases take. The tests wait for the server's clock, all at the same time. */
import type { BlockBlobClient } from "@azure/storage-blob";
import { describe, expect, it, type TestContext } from "vitest";

import { acquireLease, breakLease, inspectLease, isConcurrencyError, type LeaseHandle, tryAcquireLease } from "../../src/index.js";
import { respondWith, type FaultProxy, hang, isLease, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer } from "../support/clients.js";
import { pause } from "../support/pause.js";

interface Scene {
  readonly proxy: FaultProxy;
  /** The holder's way, through the proxy, with the SDK's own retries. */
  readonly blob: BlockBlobClient;
  /** Everybody else's. */
  readonly direct: BlockBlobClient;
}

/** The context of the test tells which one it is: several run at the same time. */
async function scene({ onTestFinished }: TestContext): Promise<Scene> {
  const proxy = await startFaultProxy(azurite().blobUrl);
  onTestFinished(() => proxy.stop());
  const container = await freshContainer({ through: proxy });
  const direct = containerClient(container.containerName).getBlockBlobClient("doc");
  await direct.upload("old", 3);
  return { proxy, blob: container.getBlockBlobClient("doc"), direct };
}

/** When the signal aborted. */
function abortOf(lease: LeaseHandle): Promise<number> {
  return new Promise((resolve) => lease.signal.addEventListener("abort", () => resolve(performance.now())));
}

/**
 * Tries to get the lease until that works: by then it had expired. However slow the requests are on a busy machine,
 * whoever held it must have been told before.
 */
async function pollUntilFree(blob: BlockBlobClient): Promise<{ takenBy: number }> {
  for (;;) {
    const taken = await blob.getBlobLeaseClient().acquireLease(15).then(
      () => true,
      (error: unknown) => {
        expect(error).toMatchObject({ code: "LeaseAlreadyPresent" });
        return false;
      },
    );
    if (taken) return { takenBy: performance.now() };
    await pause(50);
  }
}

describe.concurrent("leases against the clock of the storage", () => {
  it("aborts before the lease can have expired when the network hangs during a renewal", async (test) => {
    const { proxy, blob, direct } = await scene(test);
    const lease = await acquireLease(blob, { durationInSeconds: 15, renewIntervalInMs: 2_000 });
    proxy.rules = [hang()];
    const aborted = abortOf(lease);
    await proxy.waitFor(isLease("renew"));
    const free = pollUntilFree(direct);
    const abortedAt = await aborted;
    expect(isConcurrencyError(lease.signal.reason, "LEASE_LOST") && lease.signal.reason.reason).toBe("unreachable");
    expect(() => lease.assertHeld()).toThrow("could not be reached");
    expect(abortedAt).toBeLessThan((await free).takenBy);
  });

  it("aborts in time when renewals arrive, but their answers never do", async (test) => {
    const { proxy, blob, direct } = await scene(test);
    const start = performance.now();
    const lease = await acquireLease(blob, { durationInSeconds: 15, renewIntervalInMs: 2_000 });
    proxy.rules = [hang({ at: "response" })];
    const abortedAt = await abortOf(lease);
    // Nothing that was not answered may be counted upon.
    expect(abortedAt - start).toBeLessThan(15_000);
    expect(proxy.count((request) => isLease("renew")(request) && request.storageStatus === 200)).toBeGreaterThan(1);
    await expect(tryAcquireLease(direct)).resolves.toBeUndefined();
  });

  it("survives 10 s of 503 within a lease of 30 s", async (test) => {
    const { proxy, blob, direct } = await scene(test);
    const lease = await acquireLease(blob, { durationInSeconds: 30 });
    await pause(8_000);
    proxy.rules = [respondWith(503)];
    await pause(10_000);
    expect(proxy.faultCount()).toBeGreaterThan(1);
    proxy.rules = [];
    await proxy.waitFor((request) => isLease("renew")(request) && request.storageStatus === 200);
    // Past the end that the lease would have had without a renewal.
    await pause(13_000);
    expect(lease.signal.aborted).toBe(false);
    lease.assertHeld();
    await expect(tryAcquireLease(direct)).resolves.toBeUndefined();
    await blob.upload("new", 3, { conditions: lease.conditions });
    await lease.release();
  });

  it("is not renewed if that is up to the caller, and then lost before it expires", async (test) => {
    const { proxy, blob, direct } = await scene(test);
    const lease = await acquireLease(blob, { durationInSeconds: 15, autoRenew: false });
    const acquiredAt = performance.now();
    const aborted = abortOf(lease);
    await pause(2_000);
    await lease.renew();
    expect(lease.remainingInMs).toBeGreaterThan(13_000);
    const free = pollUntilFree(direct);
    const abortedAt = await aborted;
    expect(abortedAt - acquiredAt).toBeGreaterThan(15_000);
    expect(lease.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "expired" });
    await expect(lease.renew()).rejects.toMatchObject({ name: "LeaseLostError", reason: "expired" });
    expect(abortedAt).toBeLessThan((await free).takenBy);
    expect(proxy.count(isLease("renew"))).toBe(1);
  });

  it("gives the holder of a broken lease notice: it is told at its next renewal, and may write until the period ends", async (test) => {
    const { proxy, blob, direct } = await scene(test);
    const lease = await acquireLease(blob, { durationInSeconds: 60, renewIntervalInMs: 1_000 });
    const aborted = abortOf(lease);
    const brokenAt = performance.now();
    await expect(breakLease(direct, { breakPeriodInSeconds: 6 })).resolves.toBe(true);
    await aborted;
    expect(proxy.count((request) => isLease("renew")(request) && request.status === 409)).toBe(1);
    expect(lease.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "broken" });
    expect(await inspectLease(direct)).toMatchObject({ state: "breaking" });
    await blob.upload("tidied up", 9, { conditions: lease.conditions });
    await expect(direct.upload("intruder", 8)).rejects.toMatchObject({ statusCode: 412 });

    await using next = await acquireLease(direct, { waitInMs: 10_000 });
    expect(performance.now() - brokenAt).toBeGreaterThan(6_000 - 50); // the server's clock may be read in milliseconds only
    await expect(blob.upload("too late", 8, { conditions: lease.conditions })).rejects.toMatchObject({ statusCode: 412 });
    await direct.upload("next", 4, { conditions: next.conditions });
  });
});
