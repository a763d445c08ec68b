import type { TableEntityLike } from "../../clients/table.js";
import { ownRowPrefix } from "../../target/library-rows.js";
import type { InboxDelivery } from "./inbox.js";
import { countIn, durationIn, rowKeyOf, textIn } from "./record.js";

/**
 * The row keys of all groups begin with this. A prefix of its own, so that no purge of records deletes the row of a group: the holder of
 * a claim relies on it, and it may contain the last sequence.
 */
export const groupRowPrefix: string = `${ownRowPrefix}group!`;

/**
 * What an inbox stores about a group, beside the record of the message that holds it, in the same partition.
 *
 * A group that is free has no row, so that a claim of new keys in free groups is one transaction that only creates rows. Only a group
 * with a sequence keeps its row when it is free, for the last sequence.
 */
export interface GroupRow {
  readonly state: "claimed" | "released";
  readonly owner: string;
  readonly messageId: string;
  readonly dequeueCount: number;
  /** The row key of the record that was claimed together with the group. */
  readonly recordRowKey: string;
  readonly claimDurationInMs: number;
  /** The sequence of the message that was completed last. Undefined: its messages have none. */
  readonly lastSequence: number | undefined;
  /** By the clock of the service. */
  readonly writtenAt: number;
  readonly etag: string;
}

export type GroupDecision =
  | { readonly kind: "free" }
  | { readonly kind: "own" }
  | { readonly kind: "busy"; readonly retryAfterInMs: number }
  | { readonly kind: "superseded" }
  | { readonly kind: "gap"; readonly lastSequence: number; readonly retryAfterInMs: number }
  | { readonly kind: "sequenceUsed" };

/** The predecessor may be in the poison queue, for days: the delays of those that wait for it grow up to this. */
export const maxGapDelayInMs = 600_000;
/** The delay while the group makes progress. */
export const minGapDelayInMs = 2_000;

/** A delay is this share of the time in which nothing has happened: a group goes on soon after an outage, compared with its length. */
export const gapShare: number = 1 / 8;

/** If the group makes progress, its messages come back soon. */
function gapDelayInMs(row: GroupRow | undefined, { insertedOn }: InboxDelivery, serviceTime: number): number {
  const idleInMs = serviceTime - (row?.writtenAt ?? insertedOn.getTime());
  return Math.min(maxGapDelayInMs, Math.max(minGapDelayInMs, idleInMs * gapShare));
}

/**
 * Decides whether a delivery may have the group. L is the last sequence, and 0 without a row.
 *
 * | row                      | delivery                          | decision                                               |
 * |--------------------------|-----------------------------------|--------------------------------------------------------|
 * | with a last sequence     | no sequence                       | gap: its consumer does not keep the order of the others |
 * | any                      | sequence ≤ L                      | sequence used: a duplicate, if its key is completed    |
 * | any                      | sequence > L + 1                  | gap: its predecessor is not completed                  |
 * | none, or released        | any other                         | free                                                   |
 * | claimed by this owner    | the same delivery                 | own: the response to the claim was lost                |
 * | claimed                  | same message, later delivery      | free at once: the queue has ended the earlier delivery |
 * | claimed                  | same message, earlier delivery    | superseded                                             |
 * | claimed, not expired     | another message                   | busy                                                   |
 * | claimed, expired         | another message                   | free: the signal of its handler was aborted before     |
 */
export function decideGroup(row: GroupRow | undefined, delivery: InboxDelivery, owner: string, serviceTime: number): GroupDecision {
  const { sequence } = delivery;
  if (sequence !== undefined) {
    const lastSequence = row?.lastSequence ?? 0;
    if (sequence <= lastSequence) return { kind: "sequenceUsed" };
    if (sequence > lastSequence + 1) return { kind: "gap", lastSequence, retryAfterInMs: gapDelayInMs(row, delivery, serviceTime) };
  } else if (row?.lastSequence !== undefined) {
    // Handled here, it would run out of order, and its sequence would stay open: the consumers with the order would wait for it for ever.
    // It comes back soon, however long nothing has happened: it should reach one of those.
    return { kind: "gap", lastSequence: row.lastSequence, retryAfterInMs: minGapDelayInMs };
  }
  if (!row || row.state === "released") return { kind: "free" };
  if (row.owner === owner) return { kind: "own" };
  if (row.messageId === delivery.messageId) return row.dequeueCount < delivery.dequeueCount ? { kind: "free" } : { kind: "superseded" };
  const retryAfterInMs = row.writtenAt + row.claimDurationInMs - serviceTime;
  return retryAfterInMs > 0 ? { kind: "busy", retryAfterInMs } : { kind: "free" };
}

export function groupRowKeyOf(queue: string, group: string): Promise<string> {
  return rowKeyOf(queue, group, groupRowPrefix);
}

export function groupEntityOf(partitionKey: string, rowKey: string, row: Partial<GroupRow>): TableEntityLike {
  const { state, owner, messageId, dequeueCount, recordRowKey, claimDurationInMs, lastSequence } = row;
  const properties = Object.entries({ state, owner, messageId, dequeueCount, recordRowKey, holdInMs: claimDurationInMs, lastSequence });
  return { partitionKey, rowKey, ...Object.fromEntries(properties.filter(([, value]) => value !== undefined)) };
}

/** As for a record: what is not of its type counts as absent, and a claim lasts for a week at most. */
export function groupRowOf(entity: object): GroupRow {
  const e = entity as Readonly<Record<string, unknown>>;
  if (typeof e["etag"] !== "string" || e["etag"] === "") throw new Error("the table returned the row of a group without its ETag");
  return {
    state: e["state"] === "released" ? "released" : "claimed",
    owner: textIn(e["owner"]) ?? "",
    messageId: textIn(e["messageId"]) ?? "",
    dequeueCount: countIn(e["dequeueCount"]) ?? 0,
    recordRowKey: textIn(e["recordRowKey"]) ?? "",
    claimDurationInMs: durationIn(e["holdInMs"]),
    lastSequence: countIn(e["lastSequence"]),
    writtenAt: Date.parse(textIn(e["timestamp"]) ?? ""),
    etag: e["etag"],
  };
}
