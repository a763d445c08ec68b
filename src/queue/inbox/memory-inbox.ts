import type { Renewal } from "../../core/renewal.js";
import { startStopwatch } from "../../core/stopwatch.js";
import type { Inbox, InboxClaim, InboxDelivery, InboxClaimResult } from "./inbox.js";
import { claimDurationOf, decideClaim, ownerIdOf } from "./record.js";
import type { InboxRecord } from "./record.js";

/**
 * An inbox in the memory of one process: for tests and local runs. It loses its records when the process ends, and never removes
 * any before, so it is not for production.
 */
export class MemoryInbox implements Inbox {
  readonly mode = "claim";
  readonly #consumer = crypto.randomUUID();
  readonly #records = new Map<string, InboxRecord>();
  #writes = 0;

  prepare(): Promise<void> {
    return Promise.resolve();
  }

  claim(deliveries: readonly InboxDelivery[]): Promise<InboxClaimResult[]> {
    return Promise.resolve(deliveries.map((delivery) => this.#claim(delivery)));
  }

  #claim(delivery: InboxDelivery): InboxClaimResult {
    const id = JSON.stringify([delivery.queue, delivery.key]);
    const owner = ownerIdOf(this.#consumer, delivery);
    const found = this.#records.get(id);
    const decision = decideClaim(found, delivery, owner);
    if (decision.kind === "own" && found) return { kind: "claimed", claim: this.#claimOf(id, found, delivery) };
    if (decision.kind === "free") {
      const { messageId, dequeueCount } = delivery;
      const record = this.#write(id, {
        state: "claimed",
        owner,
        messageId,
        dequeueCount,
        attempts: decision.attempts,
        claimDurationInMs: claimDurationOf(delivery),
      });
      return { kind: "claimed", claim: this.#claimOf(id, record, delivery) };
    }
    return decision as InboxClaimResult;
  }

  #claimOf(id: string, claimed: InboxRecord, delivery: InboxDelivery): InboxClaim {
    let current = claimed;
    const transition = (change: Partial<InboxRecord>): boolean => {
      if (this.#records.get(id)?.etag !== current.etag) return false;
      current = this.#write(id, { ...current, ...change });
      return true;
    };
    return {
      attempts: claimed.attempts,
      clock: delivery.clock,
      claimDurationInMs: claimed.claimDurationInMs,
      extend: (): Promise<Renewal> => {
        const clock = startStopwatch();
        const extended = transition({});
        return Promise.resolve(extended ? { kind: "renewed", clock, claimDurationInMs: claimed.claimDurationInMs } : { kind: "lost", error: undefined });
      },
      complete: () => Promise.resolve(transition({ state: "done" })),
      release: () => {
        transition({ state: "released" });
        return Promise.resolve();
      },
      abandon: () => undefined,
    };
  }

  #write(id: string, record: Omit<InboxRecord, "etag" | "writtenAt">): InboxRecord {
    const written = { ...record, etag: String(++this.#writes), writtenAt: Date.now() };
    this.#records.set(id, written);
    return written;
  }
}
