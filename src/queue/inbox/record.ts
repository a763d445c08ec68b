import type { AbortSignalLike } from "../../clients/call.js";
import type { TableLike, TableEntityLike } from "../../clients/table.js";
import { sha256 } from "../../core/identity.js";
import { read } from "../../core/request.js";
import { isNotFound } from "../../core/storage-errors.js";
import { ownRowPrefix } from "../../target/library-rows.js";
import type { InboxDelivery } from "./inbox.js";

/** What an inbox stores about a key. */
export interface InboxRecord {
  readonly state: "claimed" | "released" | "done";
  readonly owner: string;
  readonly messageId: string;
  readonly dequeueCount: number;
  /** How many claims of the key were released as failed. */
  readonly failures: number;
  /** Of the payload with which the key was claimed or committed last. Undefined: written by a version that did not store it. */
  readonly payloadHash: string | undefined;
  /** How long the claim lasts, counted from `writtenAt`. */
  readonly claimDurationInMs: number;
  /** Identifies the group of writes with which it was last written. */
  readonly group?: string | undefined;
  /** By the clock of the service: the clocks of the consumers may differ. */
  readonly writtenAt: number;
  readonly etag: string;
}

export type ClaimDecision =
  | { readonly kind: "free"; readonly failures: number }
  | { readonly kind: "own" }
  | { readonly kind: "completed" }
  | { readonly kind: "busy"; readonly retryAfterInMs: number }
  | { readonly kind: "superseded" }
  | { readonly kind: "payloadMismatch" };

/**
 * Decides whether this delivery may start. Every transition is conditional on the ETag of the record on which the decision is
 * based. `serviceTime` is a time that the service's clock has certainly reached.
 *
 * | record                 | delivery                            | decision                                                    |
 * |------------------------|-------------------------------------|-------------------------------------------------------------|
 * | none                   | any                                 | free: create, claimed                                       |
 * | done                   | the same payload                    | completed (final; removed by purge only)                    |
 * | done                   | another payload                     | payload mismatch: the sender uses a key for two things      |
 * | released               | any                                 | free: update, claimed                                       |
 * | claimed by this owner  | the same delivery                   | own: the response to the claim was lost                     |
 * | claimed                | same message, later delivery        | free at once: the queue has ended the earlier delivery      |
 * | claimed                | same message, earlier delivery      | superseded: another consumer has the message by now         |
 * | claimed, not expired   | another message with the same key   | busy                                                        |
 * | claimed, expired       | another message with the same key   | free: the signal of its handler was aborted before          |
 *
 * The holder of a claim changes it from claimed to claimed (renewed), done or released, if the ETag is unchanged.
 */
export function decideClaim(record: InboxRecord | undefined, delivery: InboxDelivery, owner: string, serviceTime: number): ClaimDecision {
  if (!record) return { kind: "free", failures: 0 };
  if (record.state === "done") return { kind: isSamePayload(record, delivery) ? "completed" : "payloadMismatch" };
  const { failures } = record;
  if (record.state === "released") return { kind: "free", failures };
  if (record.owner === owner) return { kind: "own" };
  if (record.messageId === delivery.messageId) return record.dequeueCount < delivery.dequeueCount ? { kind: "free", failures } : { kind: "superseded" };
  const retryAfterInMs = record.writtenAt + record.claimDurationInMs - serviceTime;
  return retryAfterInMs > 0 ? { kind: "busy", retryAfterInMs } : { kind: "free", failures };
}

/** Whether a key was used for the payload of this delivery, as far as the record says so. */
export function isSamePayload({ payloadHash }: Pick<InboxRecord, "payloadHash">, delivery: Pick<InboxDelivery, "payloadHash">): boolean {
  return payloadHash === undefined || payloadHash === delivery.payloadHash;
}

/** A host name of the service or the emulator, in any cloud: the account, and the endpoint of its queues. */
const accountHost = /^([a-z0-9]+?)(?:-secondary)?\.(?:[^.]+\.)*?queue\./;

/**
 * Identifies a queue across accounts, in a form that is allowed in the keys of an entity: `account:queue`. Queues of one name in two
 * accounts may share a table. The account is a part of the host name, or of the path (Azurite); port and protocol do not count, so that
 * a queue is the same through a proxy. Behind a domain of one's own, the account is not known: the whole host name stands for it.
 * @throws `TypeError` if it is not the URL of a queue.
 */
export function queueIdentityOf(queueUrl: string): string {
  const { hostname, pathname } = URL.canParse(queueUrl) ? new URL(queueUrl) : { hostname: "", pathname: "" };
  try {
    const [name, inPath] = pathname.split("/").filter((part) => part !== "").map(decodeURIComponent).reverse();
    if (name !== undefined) return `${partOf(inPath?.replace(/-secondary$/, "") ?? accountHost.exec(hostname)?.[1] ?? hostname)}:${partOf(name)}`;
  } catch {
    // A path that cannot be decoded.
  }
  throw new TypeError(`${queueUrl} is not the URL of a queue`);
}

function partOf(name: string): string {
  return escaped(name).replaceAll(":", "=3A");
}

/** Identifies one delivery to one consumer. */
export function ownerIdOf(consumer: string, delivery: InboxDelivery): string {
  return `${consumer}/${delivery.messageId}/${delivery.dequeueCount}`;
}

/** The row keys of all records of all inboxes, in all partitions, begin with this. */
export const rowKeyPrefix: string = `${ownRowPrefix}inbox!`;

/** Characters to escape in a row key: the service forbids some, and some clients and proxies change others. */
const special = /[^A-Za-z0-9._:@$-]/gu;

/** The row key of an idempotency key: readable if it is short, and different for different keys. */
export async function rowKeyOf(queue: string, key: string): Promise<string> {
  const prefix = `${rowKeyPrefix}${queue}!`;
  const text = escaped(key);
  // A row key has at most 512 characters. An escaped key has two digits after each =, so it never begins with "sha256=".
  return `${prefix}${text.length <= Math.min(400, 512 - prefix.length) ? text : `sha256=${await sha256(key)}`}`;
}

function escaped(text: string): string {
  return text.replace(special, (char) => [...new TextEncoder().encode(char)].map((byte) => `=${hex(byte)}`).join(""));
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0").toUpperCase();
}

export function entityOf(partitionKey: string, rowKey: string, record: Partial<InboxRecord>): TableEntityLike {
  const { state, owner, messageId, dequeueCount, failures, payloadHash, claimDurationInMs, group } = record;
  // Stored as holdInMs, as in the tables that exist: processes of two versions must see each other's claims.
  const properties = Object.entries({ state, owner, messageId, dequeueCount, failures, payloadHash, holdInMs: claimDurationInMs, group });
  return { partitionKey, rowKey, ...Object.fromEntries(properties.filter(([, value]) => value !== undefined)) };
}

export function recordOf(entity: object): InboxRecord {
  const e = entity as Partial<InboxRecord> & { timestamp?: string; holdInMs?: number };
  if (!e.etag) throw new Error("the table returned an inbox record without its ETag");
  return {
    state: e.state ?? "claimed",
    owner: e.owner ?? "",
    messageId: e.messageId ?? "",
    dequeueCount: e.dequeueCount ?? 0,
    failures: e.failures ?? 0,
    payloadHash: e.payloadHash,
    claimDurationInMs: e.holdInMs ?? 0,
    group: e.group,
    writtenAt: Date.parse(e.timestamp ?? ""),
    etag: e.etag,
  };
}

export async function readRecord(
  table: TableLike,
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
