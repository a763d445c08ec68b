import type { InboxDelivery } from "./inbox.js";

/** What an inbox stores about a key. */
export interface InboxRecord {
  readonly state: "claimed" | "released" | "done";
  readonly owner: string;
  readonly messageId: string;
  readonly dequeueCount: number;
  /** How many handlers were started on this message. */
  readonly attempts: number;
  /** For how long it is claimed, from when it was written. */
  readonly holdInMs: number;
  /** The group of writes that it was last written with. */
  readonly group?: string | undefined;
  /** By the clock of the service: those of the consumers need not agree. */
  readonly writtenAt: number;
  readonly etag: string;
}

export type Judgement =
  | { readonly kind: "free"; readonly attempts: number }
  | { readonly kind: "ours" }
  | { readonly kind: "done" }
  | { readonly kind: "busy"; readonly forInMs: number }
  | { readonly kind: "outdated" };

/**
 * May this delivery start? Every transition is conditional on the ETag of the record that was judged.
 *
 * | record            | delivery                            | verdict                                              |
 * |-------------------|-------------------------------------|------------------------------------------------------|
 * | none              | any                                 | free: create, claimed                                |
 * | done              | any                                 | done (final; removed by purge only)                  |
 * | released          | any                                 | free: update, claimed                                |
 * | claimed by us     | the same delivery                   | ours: the answer to our own write was lost           |
 * | claimed           | same message, later delivery        | free at once: the queue has ended its predecessor    |
 * | claimed           | same message, earlier delivery      | outdated: the message is somebody else's by now      |
 * | claimed, in time  | another message with the same key   | busy                                                 |
 * | claimed, overdue  | another message with the same key   | free: its handler was told to stop before            |
 *
 * The holder of a claim goes on from claimed to claimed (extended), done or released, if its ETag is still there.
 */
export function judge(record: InboxRecord | undefined, delivery: InboxDelivery, owner: string): Judgement {
  if (!record) return { kind: "free", attempts: 1 };
  if (record.state === "done") return { kind: "done" };
  const sameMessage = record.messageId === delivery.messageId;
  const attempts = sameMessage ? record.attempts + 1 : 1;
  if (record.state === "released") return { kind: "free", attempts };
  if (record.owner === owner) return { kind: "ours" };
  if (sameMessage) return record.dequeueCount < delivery.dequeueCount ? { kind: "free", attempts } : { kind: "outdated" };
  const forInMs = record.writtenAt + record.holdInMs - delivery.serviceTime();
  return forInMs > 0 ? { kind: "busy", forInMs } : { kind: "free", attempts };
}

/** Twice the message's time: extending the claim is then needed half as often, and only for long handlers. */
export function holdOf(delivery: InboxDelivery): number {
  return delivery.visibilityInMs * 2;
}

/** Names one delivery to one consumer. */
export function ownerOf(consumer: string, delivery: InboxDelivery): string {
  return `${consumer}/${delivery.messageId}/${delivery.dequeueCount}`;
}
