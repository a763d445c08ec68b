import type { AbortSignalLike } from "../../clients/call.js";
import type { InboxTableLike, TableEntityLike } from "../../clients/table.js";
import { sha256 } from "../../core/identity.js";
import { read } from "../../core/request.js";
import { isNotFound } from "../../core/storage-errors.js";
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
export function ownerIdOf(consumer: string, delivery: InboxDelivery): string {
  return `${consumer}/${delivery.messageId}/${delivery.dequeueCount}`;
}

/** All records of all inboxes, wherever they stand, have row keys that begin like this. */
export const rowKeyPrefix: string = "inbox!";

/** What may stand in a row key as it is: the service forbids some characters, and some ways there mangle others. */
const plain = /[^A-Za-z0-9._:@$-]/gu;

/** The row key of a key: readable if it is short, and never the same for two keys. */
export async function rowKeyOf(queue: string, key: string): Promise<string> {
  const escaped = key.replace(plain, (char) => [...new TextEncoder().encode(char)].map((byte) => `=${hex(byte)}`).join(""));
  // 512 characters is what a row key may have. An escaped key has two digits after each =, so it is never a "sha256=".
  return `${rowKeyPrefix}${queue}!${escaped.length <= 400 ? escaped : `sha256=${await sha256(key)}`}`;
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0").toUpperCase();
}

export function entityOf(partitionKey: string, rowKey: string, record: Partial<InboxRecord>): TableEntityLike {
  const { state, owner, messageId, dequeueCount, attempts, holdInMs, group } = record;
  const properties = Object.entries({ state, owner, messageId, dequeueCount, attempts, holdInMs, group });
  return { partitionKey, rowKey, ...Object.fromEntries(properties.filter(([, value]) => value !== undefined)) };
}

export function recordOf(entity: object): InboxRecord {
  const e = entity as Partial<InboxRecord> & { timestamp?: string };
  if (!e.etag) throw new Error("the table returned an inbox record without its ETag");
  return {
    state: e.state ?? "claimed",
    owner: e.owner ?? "",
    messageId: e.messageId ?? "",
    dequeueCount: e.dequeueCount ?? 0,
    attempts: e.attempts ?? 0,
    holdInMs: e.holdInMs ?? 0,
    group: e.group,
    writtenAt: Date.parse(e.timestamp ?? ""),
    etag: e.etag,
  };
}

export async function readRecord(
  table: InboxTableLike,
  partitionKey: string,
  rowKey: string,
  timeoutInMs: number,
  abortSignal?: AbortSignalLike,
): Promise<InboxRecord | undefined> {
  try {
    const entity = await read((signal) => table.getEntity(partitionKey, rowKey, { abortSignal: signal }), { timeoutInMs, abortSignal });
    return recordOf(entity);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
