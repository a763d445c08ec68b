import type { ContainerClient } from "@azure/storage-blob";
import { beforeAll, describe, expect, it } from "vitest";

import { freshContainer } from "../support/clients.js";
import { type BlobLeaseRow, blobLeaseRows, leaseAnswers } from "./blob-lease.rows.js";
import { blobLeaseId as own, type BlobSubject } from "./blob.rows.js";
import { blobSubject } from "./blob-subject.js";
import { exchange } from "./exchange.js";
import { untilExpired } from "./until-expired.js";

/** Each row of blob operations under a lease. */
export function testBlobLeases(): void {
  const another = "9c1f9f0a-0b0d-4a39-8d13-52b4c1bb1c33";

  interface Expired {
    readonly withId: BlobSubject;
    readonly withoutId: BlobSubject;
  }

  let container: ContainerClient;
  const expired = new Map<BlobLeaseRow, Expired>();

  // Leased before everything else: they run out while the other tests run.
  beforeAll(async () => {
    container = await freshContainer();
    for (const row of blobLeaseRows) expired.set(row, { withId: await subject(row, 15), withoutId: await subject(row, 15) });
  });

  async function subject({ row }: BlobLeaseRow, leaseInSeconds?: number): Promise<BlobSubject> {
    const fresh = await blobSubject(container, row);
    await row.before?.(fresh);
    if (leaseInSeconds !== undefined) await fresh.block.getBlobLeaseClient(own).acquireLease(leaseInSeconds);
    return fresh;
  }

  async function answerOf({ row }: BlobLeaseRow, to: BlobSubject, leaseId?: string): Promise<string> {
    const { answer, sent } = await exchange(() => row.call(to, leaseId === undefined ? {} : { leaseId }));
    expect(sent("x-ms-lease-id")).toBe(leaseId);
    return answer === row.azuritePasses || /^2\d\d$/.test(answer) ? "passes" : answer;
  }

  describe.each(blobLeaseRows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
    const lease = row.azuriteLease ?? row.lease;

    it(lease === "required" ? "is refused on a leased blob without the id" : "needs no id on a leased blob", async () => {
      expect(await answerOf(row, await subject(row, -1))).toBe(lease === "required" ? leaseAnswers.missing : "passes");
    });

    it("goes through on a leased blob with its id", async () => {
      expect(await answerOf(row, await subject(row, -1), own)).toBe("passes");
    });

    it("is refused on a leased blob with another id", async () => {
      expect(await answerOf(row, await subject(row, -1), another)).toBe(leaseAnswers.mismatch);
    });

    it("is refused with an id on a blob that was never leased", async () => {
      expect(await answerOf(row, await subject(row), own)).toBe(leaseAnswers.neverLeased);
    });
  });

  describe("when the lease has run out", () => {
    beforeAll(async () => {
      for (const { withoutId } of expired.values()) await untilExpired(withoutId.block);
    });

    describe.each(blobLeaseRows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
      it("is refused with the id", async () => {
        expect(await answerOf(row, expired.get(row)!.withId, own)).toBe(leaseAnswers.expired.azurite);
      });

      it("goes through without one", async () => {
        expect(await answerOf(row, expired.get(row)!.withoutId)).toBe("passes");
      });
    });
  });
}
