import { maxGapDelayInMs } from "./group-row.js";
import type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult } from "./inbox.js";

interface MemoryRecord {
  readonly state: "claimed" | "released" | "completed";
  readonly messageId: string;
  readonly dequeueCount: number;
  readonly failures: number;
  readonly claims: number;
  readonly payloadHash: string;
  readonly expiresAt: number;
}

/** A group; its sequence stays when it is free. */
interface MemoryGroup {
  readonly holder: MemoryRecord | undefined;
  readonly lastSequence: number;
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
  readonly #groups = new Map<string, MemoryGroup>();

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
    const blocked = this.#decideGroup(delivery);
    if (blocked) return blocked;
    const { failures = 0, claims = 0 } = found ?? {};
    const record: MemoryRecord = { state: "claimed", messageId, dequeueCount, failures, claims: claims + 1, payloadHash, expiresAt: Date.now() + claimDurationInMs };
    this.#records.set(id, record);
    const group = groupIdOf(delivery);
    if (group !== undefined) this.#groups.set(group, { holder: record, lastSequence: this.#groups.get(group)?.lastSequence ?? 0 });
    return { kind: "claimed", claim: this.#claimOf(id, record, delivery) };
  }

  /** Undefined: the delivery may have its group. */
  #decideGroup(delivery: InboxDelivery): InboxClaimResult | undefined {
    const group = groupIdOf(delivery);
    if (group === undefined) return undefined;
    const { holder, lastSequence } = this.#groups.get(group) ?? { holder: undefined, lastSequence: 0 };
    const { sequence } = delivery;
    if (sequence !== undefined && sequence <= lastSequence) return { kind: "sequenceUsed" };
    if (sequence === undefined ? lastSequence > 0 : sequence > lastSequence + 1) return { kind: "gap", lastSequence, retryAfterInMs: maxGapDelayInMs };
    if (!holder) return undefined;
    if (holder.messageId === delivery.messageId) return holder.dequeueCount > delivery.dequeueCount ? { kind: "superseded" } : undefined;
    const retryAfterInMs = holder.expiresAt - Date.now();
    return retryAfterInMs > 0 ? { kind: "busy", retryAfterInMs } : undefined;
  }

  #claimOf(id: string, claimed: MemoryRecord, delivery: InboxDelivery): InboxClaim {
    const { claimDurationInMs, sequence } = delivery;
    const group = groupIdOf(delivery);
    let current = claimed;
    const change = (next: Partial<MemoryRecord>): boolean => {
      const held = group === undefined ? undefined : this.#groups.get(group);
      if (this.#records.get(id) !== current || (held && held.holder !== current)) return false;
      this.#records.set(id, (current = { ...current, ...next }));
      if (group === undefined || !held) return true;
      const lastSequence = current.state === "completed" && sequence !== undefined ? sequence : held.lastSequence;
      this.#groups.set(group, { holder: current.state === "claimed" ? current : undefined, lastSequence });
      return true;
    };
    return {
      failures: claimed.failures,
      claims: claimed.claims,
      renew: () => Promise.resolve(change({ expiresAt: Date.now() + claimDurationInMs }) ? "renewed" : "lost"),
      complete: () => Promise.resolve(change({ state: "completed" }) ? "completed" : "lost"),
      completeAndClaim: (next) => Promise.resolve(change({ state: "completed" }) ? { next: this.#claim(next) } : "lost"),
      release: (failed) => {
        change({ state: "released", ...(failed && { failures: claimed.failures + 1 }) });
        return Promise.resolve();
      },
    };
  }
}

function groupIdOf({ queueUrl, group }: InboxDelivery): string | undefined {
  return group === undefined ? undefined : JSON.stringify([queueUrl, group]);
}
