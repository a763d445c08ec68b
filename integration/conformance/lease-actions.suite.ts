import type { BlobClient, ContainerClient } from "@azure/storage-blob";
import { beforeAll, describe, expect, it } from "vitest";

import { freshContainer, freshName } from "../support/clients.js";
import { exchange } from "./exchange.js";
import { leaseActionRows, type LeaseActionRow, type LeaseState, otherId, ownId } from "./lease-actions.rows.js";
import { untilExpired } from "./until-expired.js";

/** Each lease operation, on blobs and on containers, in each state of the lease. */
export function testLeaseActions(): void {
  type Leasable = BlobClient | ContainerClient;

  const kinds: Record<string, () => Promise<Leasable>> = {
    Blob: async () => {
      const blob = (await freshContainer()).getBlockBlobClient(freshName());
      await blob.upload("x", 1);
      return blob;
    },
    Container: () => freshContainer(),
  };

  // Sorted so that what must run out has been leased before everything else, and is asked last.
  const rows = [...leaseActionRows].sort((a, b) => Number(a.given === "expired") - Number(b.given === "expired"));
  const leasedEarly = new Map<string, Leasable>();

  beforeAll(async () => {
    for (const [kind, create] of Object.entries(kinds)) {
      for (const row of rows.filter(({ given }) => given === "expired")) leasedEarly.set(keyOf(kind, row), await lease(await create(), 15));
    }
  });

  function keyOf(kind: string, { operation }: LeaseActionRow): string {
    return `${kind} ${operation}`;
  }

  async function lease(leasable: Leasable, seconds: number): Promise<Leasable> {
    await leasable.getBlobLeaseClient(ownId).acquireLease(seconds);
    return leasable;
  }

  async function inState(state: LeaseState, create: () => Promise<Leasable>): Promise<Leasable> {
    const leasable = await create();
    if (state !== "available") await lease(leasable, 60);
    if (state === "breaking") await leasable.getBlobLeaseClient().breakLease(60);
    if (state === "broken") await leasable.getBlobLeaseClient().breakLease(0);
    return leasable;
  }

  for (const [kind, create] of Object.entries(kinds)) {
    describe(`Lease ${kind}`, () => {
      it.each(rows.map((row) => [row.given, row.operation, row] as const))("%s: %s", async (given, _operation, row) => {
        const early = leasedEarly.get(keyOf(kind, row));
        const leasable = given === "expired" ? early! : await inState(given, create);
        if (given === "expired") await untilExpired(leasable);
        expect((await leasable.getProperties()).leaseState).toBe(given);
        const { answer } = await exchange(() => row.call(leasable.getBlobLeaseClient(ownId), leasable.getBlobLeaseClient(otherId)));
        expect(answer).toBe(row.azuriteAnswer ?? row.answer);
      });
    });
  }
}
