/** What locks are compared with: a lease that is acquired, polled for while another client has it, and released. */
import { setTimeout as pause } from "node:timers/promises";

import type { BlobLeaseClient, BlockBlobClient } from "@azure/storage-blob";

/** Polls after a random time within the limits: one blob, or another one at each attempt. */
export async function acquireBaseline(blob: BlockBlobClient | (() => BlockBlobClient), minInMs: number, maxInMs: number): Promise<BlobLeaseClient> {
  for (;;) {
    const lease = (typeof blob === "function" ? blob() : blob).getBlobLeaseClient();
    try {
      await lease.acquireLease(30);
      return lease;
    } catch (error) {
      if ((error as { statusCode?: number }).statusCode !== 409) throw error;
    }
    await pause(minInMs + Math.random() * (maxInMs - minInMs));
  }
}
