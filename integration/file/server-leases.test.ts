import { randomUUID } from "node:crypto";

import { FileSASPermissions, type ShareClient, ShareLeaseClient } from "@azure/storage-file-share";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { answerOf, freshShare } from "./support.js";

let server: FileShareServer;
let share: ShareClient;

beforeEach(async () => {
  server = await startFileShareServer();
  server.clock.pause();
  share = await freshShare(server);
});
afterEach(() => server.stop());

async function stateOf(): Promise<string> {
  const { leaseState = "", leaseStatus = "", leaseDuration = "" } = await share.getProperties();
  return `${leaseState} ${leaseStatus} ${leaseDuration}`.trim();
}

describe("a share lease", () => {
  it("expires by the server's clock", async () => {
    const lease = new ShareLeaseClient(share);
    await lease.acquireLease(15);
    expect(await stateOf()).toBe("leased locked fixed");
    server.clock.advance(14_999);
    expect(await answerOf(new ShareLeaseClient(share).acquireLease(15))).toBe("409 LeaseAlreadyPresent");
    server.clock.advance(1);
    expect(await stateOf()).toBe("expired unlocked");
    expect(await answerOf(share.setMetadata({ a: "1" }, { leaseAccessConditions: { leaseId: lease.leaseId } }))).toBe("412 LeaseLost");
    expect(await answerOf(new ShareLeaseClient(share).acquireLease(15))).toBe("201");
  });

  it("is renewed by acquiring it again with the same id", async () => {
    const lease = new ShareLeaseClient(share);
    await lease.acquireLease(15);
    for (let i = 0; i < 3; i++) {
      server.clock.advance(10_000);
      await lease.acquireLease(15);
    }
    expect(await stateOf()).toBe("leased locked fixed");
    await lease.acquireLease(-1);
    expect(await stateOf()).toBe("leased locked infinite");
  });

  it("breaks over the time that is left, during which the holder may still write", async () => {
    const lease = new ShareLeaseClient(share);
    await lease.acquireLease(30);
    server.clock.advance(10_000);
    expect((await new ShareLeaseClient(share).breakLease()).leaseTimeInSeconds).toBe(20);
    expect(await stateOf()).toBe("breaking locked");
    expect(await answerOf(new ShareLeaseClient(share).acquireLease(15))).toBe("409 LeaseAlreadyPresent");
    expect(await answerOf(lease.acquireLease(15))).toBe("409 LeaseIsBreakingAndCannotBeAcquired");
    expect(await answerOf(share.setMetadata({}))).toBe("412 LeaseIdMissing");
    expect(await answerOf(share.setMetadata({}, { leaseAccessConditions: { leaseId: lease.leaseId } }))).toBe("200");
    server.clock.advance(20_000);
    expect(await stateOf()).toBe("broken unlocked");
    expect(await answerOf(share.setMetadata({}, { leaseAccessConditions: { leaseId: lease.leaseId } }))).toBe("412 LeaseLost");
  });

  it("does not protect the files of the share", async () => {
    await new ShareLeaseClient(share).acquireLease(-1);
    expect(await answerOf(share.rootDirectoryClient.getFileClient("f").create(1))).toBe("201");
  });
});

describe("a file lease", () => {
  it("outlives any time", async () => {
    const file = share.rootDirectoryClient.getFileClient("f");
    await file.create(1);
    await file.getShareLeaseClient().acquireLease(-1);
    server.clock.advance(10 * 365 * 86_400_000);
    expect(await answerOf(file.getShareLeaseClient().acquireLease(-1))).toBe("409 LeaseAlreadyPresent");
  });

  it("goes with the file: a new one of the same name is free", async () => {
    const file = share.rootDirectoryClient.getFileClient("f");
    await file.create(1);
    const lease = file.getShareLeaseClient();
    await lease.acquireLease(-1);
    await file.delete({ leaseAccessConditions: { leaseId: lease.leaseId } });
    await file.create(1);
    expect((await file.getProperties()).leaseState).toBe("available");
    expect(await answerOf(file.delete({ leaseAccessConditions: { leaseId: lease.leaseId } }))).toBe("412 LeaseNotPresentWithFileOperation");
  });

  it("of a zombie does not write any more when it was broken and taken by another", async () => {
    const file = share.rootDirectoryClient.getFileClient("f");
    await file.create(1);
    const [old, next] = [file.getShareLeaseClient(), file.getShareLeaseClient()];
    await old.acquireLease(-1);
    await next.breakLease();
    const zombie = { leaseAccessConditions: { leaseId: old.leaseId } };
    expect(await answerOf(file.uploadRange("x", 0, 1, zombie))).toBe("412 LeaseLostWithFileOperation");
    await next.acquireLease(-1);
    expect(await answerOf(file.uploadRange("x", 0, 1, zombie))).toBe("412 LeaseIdMismatchWithFileOperation");
    expect(await answerOf(old.releaseLease())).toBe("409 LeaseIdMismatchWithLeaseOperation");
  });

  it("that was broken stays broken when a write is refused", async () => {
    const file = share.rootDirectoryClient.getFileClient("f");
    await file.create(1);
    await file.getShareLeaseClient().acquireLease(-1);
    await file.getShareLeaseClient().breakLease();
    expect(await answerOf(file.uploadRange("x", 5, 1))).toBe("416 InvalidRange");
    expect((await file.getProperties()).leaseState).toBe("broken");
  });

  it("is not renewed: the action is unknown for files", async () => {
    const file = share.rootDirectoryClient.getFileClient("f");
    await file.create(1);
    const url = file.generateSasUrl({ permissions: FileSASPermissions.parse("rw"), expiresOn: new Date(server.clock.now() + 60_000) });
    const headers = { "x-ms-lease-action": "renew", "x-ms-lease-id": randomUUID(), "x-ms-version": "2021-10-04" };
    const answer = await fetch(`${url}&comp=lease`, { method: "PUT", headers });
    expect([answer.status, answer.headers.get("x-ms-error-code")]).toEqual([400, "InvalidHeaderValue"]);
  });

  it("has exactly one winner among many who want it", async () => {
    const file = share.rootDirectoryClient.getFileClient("f");
    await file.create(1);
    for (let round = 0; round < 5; round++) {
      const leases = Array.from({ length: 20 }, () => file.getShareLeaseClient());
      const answers = await Promise.all(leases.map((lease) => answerOf(lease.acquireLease(-1))));
      expect(answers.filter((answer) => answer === "201")).toHaveLength(1);
      await leases[answers.indexOf("201")]?.releaseLease();
    }
  });
});
