import type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult } from "./inbox.js";

interface MemoryRecord {
  readonly state: "claimed" | "released" | "completed";
  readonly messageId: string;
  readonly dequeueCount: number;
  readonly failures: number;
  readonly payloadHash: string;
  readonly expiresAt: number;
}

/**
 * An inbox in the memory of one process: for tests and local runs. It loses its records when the process ends, and never removes
 * any before, so it is not for production.
 * @example
 * ```ts
 * const consumer = new QueueConsumer(queue, handler, { inbox: new MemoryInbox() });
 * ```
 */
export class MemoryInbox implements Inbox {
  readonly #records = new Map<string, MemoryRecord>();

  /**
   * Does nothing: memory needs no preparation.
   * @throws nothing: it always resolves.
   */
  prepare(): Promise<void> {
    return Promise.resolve();
  }

  /**
   * Called by the consumer. Decides from the records of this process.
   * @throws nothing: it always resolves.
   */
  claim(deliveries: readonly InboxDelivery[]): Promise<readonly InboxClaimResult[]> {
    return Promise.resolve(deliveries.map((delivery) => this.#claim(delivery)));
  }

  /** As {@link ClaimInbox} decides it; all times are those of this process. */
  #claim(delivery: InboxDelivery): InboxClaimResult {
    const { queueUrl, idempotencyKey, messageId, dequeueCount, payloadHash, claimDurationInMs } = delivery;
    const id = JSON.stringify([queueUrl, idempotencyKey]);
    const found = this.#records.get(id);
    const isSameMessage = found?.messageId === messageId;
    if (found?.state === "completed") return { kind: found.payloadHash === payloadHash ? "completed" : "payloadMismatch" };
    if (found?.state === "claimed" && isSameMessage) {
      if (found.dequeueCount === dequeueCount) return { kind: "claimed", claim: this.#claimOf(id, found, delivery) };
      if (found.dequeueCount > dequeueCount) return { kind: "superseded" };
    } else if (found?.state === "claimed") {
      const retryAfterInMs = found.expiresAt - Date.now();
      if (retryAfterInMs > 0) return { kind: "busy", retryAfterInMs };
    }
    const failures = found?.failures ?? 0;
    const record: MemoryRecord = { state: "claimed", messageId, dequeueCount, failures, payloadHash, expiresAt: Date.now() + claimDurationInMs };
    this.#records.set(id, record);
    return { kind: "claimed", claim: this.#claimOf(id, record, delivery) };
  }

  #claimOf(id: string, claimed: MemoryRecord, { claimDurationInMs }: InboxDelivery): InboxClaim {
    let current = claimed;
    const change = (next: Partial<MemoryRecord>): boolean => {
      if (this.#records.get(id) !== current) return false;
      this.#records.set(id, (current = { ...current, ...next }));
      return true;
    };
    return {
      failures: claimed.failures,
      renew: () => Promise.resolve(change({ expiresAt: Date.now() + claimDurationInMs }) ? "renewed" : "lost"),
      complete: () => Promise.resolve(change({ state: "completed" }) ? "completed" : "lost"),
      release: (failed) => {
        change({ state: "released", ...(failed && { failures: claimed.failures + 1 }) });
        return Promise.resolve();
      },
    };
  }
}
