import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { acquireLease, breakLease, inspectLease, isConcurrencyError, type LeaseHandle, tryAcquireLease, withLease } from "../../src/index.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { answerOf, freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let file: ShareFileClient;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  file = share.rootDirectoryClient.getFileClient("f");
  await file.create(4);
});

async function requestsOf(run: () => Promise<unknown>): Promise<number> {
  const before = server.requests;
  await run();
  return server.requests - before;
}

/** A client as another process has it: nothing is shared with the one given. */
function ofAnother({ name }: ShareFileClient): ShareFileClient {
  return serviceOf(server).getShareClient(share.name).rootDirectoryClient.getFileClient(name);
}

/** What a holder finds when it asks the service. */
async function lossOf(lease: LeaseHandle): Promise<string> {
  const error: unknown = await lease.renew().catch((e: unknown) => e);
  if (!isConcurrencyError(error, "LEASE_LOST")) throw new Error("nothing was lost", { cause: error });
  expect(lease.signal.aborted).toBe(true);
  return error.reason;
}

describe("the lease of a file", () => {
  it("is infinite, keeps others from writing, and costs 2 requests", async () => {
    const cost = await requestsOf(() => withLease(file, async () => Promise.resolve()));
    expect(cost).toBe(2);
    await withLease(file, async (lease) => {
      expect(await inspectLease(file)).toMatchObject({ state: "leased", duration: "infinite" });
      expect(lease.remainingInMs).toBe(Infinity);
      expect(await answerOf(file.uploadRange("x", 0, 1))).toBe("412 LeaseIdMissing");
      expect(await answerOf(file.uploadRange("x", 0, 1, { leaseAccessConditions: lease.conditions }))).toBe("201");
      expect(await tryAcquireLease(ofAnother(file))).toBeUndefined();
    });
    expect(await inspectLease(file)).toMatchObject({ state: "available", duration: undefined });
  });

  it("is confirmed by a read, which brings back nothing that was broken", async () => {
    const lease = await acquireLease(file);
    expect(await requestsOf(() => lease.renew())).toBe(1);
    expect(await breakLease(file)).toBe(true);
    expect(await lossOf(lease)).toBe("broken");
    expect(await inspectLease(file)).toMatchObject({ state: "broken" });
    await lease.release();
    expect(await inspectLease(file)).toMatchObject({ state: "broken" });
  });

  it("that another has by now is stolen, and one on a file that is gone is deleted", async () => {
    const first = await acquireLease(file);
    await breakLease(file);
    const second = await acquireLease(ofAnother(file));
    expect(await lossOf(first)).toBe("stolen");
    second.assertHeld();
    await file.delete({ leaseAccessConditions: second.conditions });
    expect(await lossOf(second)).toBe("deleted");
  });

  it("gets another id, with which alone one can write", async () => {
    const lease = await acquireLease(file);
    const before = lease.conditions;
    await lease.change();
    expect(await answerOf(file.uploadRange("x", 0, 1, { leaseAccessConditions: before }))).toBe("412 LeaseIdMismatchWithFileOperation");
    expect(await answerOf(file.uploadRange("x", 0, 1, { leaseAccessConditions: lease.conditions }))).toBe("201");
    await lease.release();
  });

  it("is not there to be broken when nobody has it", async () => {
    expect(await breakLease(file)).toBe(false);
  });
});

describe("the lease of a share", () => {
  it("is renewed for longer than it lasts, for 2 requests each time", async () => {
    server.clock.pause();
    const lease = await acquireLease(share, { durationInSeconds: 15, autoRenew: false });
    for (let i = 0; i < 3; i++) {
      server.clock.advance(10_000);
      expect(await requestsOf(() => lease.renew())).toBe(2);
    }
    expect(await inspectLease(share)).toMatchObject({ state: "leased", duration: "fixed" });
    // It protects the share, not the files in it.
    await (await acquireLease(file)).release();
    await lease.release();
    expect(await inspectLease(share)).toMatchObject({ state: "available" });
    server.clock.resume();
  });

  it("that was broken at once is not brought back by a renewal", async () => {
    const lease = await acquireLease(share, { durationInSeconds: 60 });
    expect(await breakLease(share)).toBe(true);
    expect(await inspectLease(share)).toMatchObject({ state: "broken" });
    expect(await lossOf(lease)).toBe("broken");
    expect(await inspectLease(share)).toMatchObject({ state: "broken" });
  });

  it("that is being broken is lost at the next renewal, while writes pass until the end", async () => {
    const lease = await acquireLease(share, { durationInSeconds: 60 });
    expect(await breakLease(share, { breakPeriodInSeconds: 30 })).toBe(true);
    expect(await inspectLease(share)).toMatchObject({ state: "breaking" });
    expect(await lossOf(lease)).toBe("broken");
    expect(await answerOf(share.setMetadata({ a: "b" }, { leaseAccessConditions: lease.conditions }))).toBe("200");
  });
});
