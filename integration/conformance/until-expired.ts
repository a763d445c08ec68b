import type { BlobClient, ContainerClient } from "@azure/storage-blob";
import { vi } from "vitest";

/** Resolves when the lease, of 15 seconds, has run out on the clock of the service. */
export async function untilExpired(leased: BlobClient | ContainerClient): Promise<void> {
  await vi.waitFor(
    async () => {
      const { leaseState } = await leased.getProperties();
      if (leaseState !== "expired") throw new Error(`the lease is ${leaseState ?? "unknown"}`);
    },
    { timeout: 30_000, interval: 250 },
  );
}
