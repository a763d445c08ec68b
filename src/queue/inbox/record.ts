import type { AbortSignalLike } from "../../clients/call.js";
import type { TableLike, TableEntityLike } from "../../clients/table.js";
import { sha256 } from "../../core/identity.js";
import { read } from "../../core/request.js";
import { isNotFound } from "../../core/storage-errors.js";
import { ownRowPrefix } from "../../target/library-rows.js";
import { getOwnRow } from "../../target/own-rows.js";
import type { InboxDelivery } from "./inbox.js";
import { outgoingIn, outgoingProperties } from "./stored-outgoing.js";
import type { StoredMessage } from "./stored-outgoing.js";

/** What an inbox stores about a key. */
export interface InboxRecord {
  readonly state: "claimed" | "released" | "done";
  readonly owner: string;
  readonly messageId: string;
  readonly dequeueCount: number;
  /** How many claims of the key were released as failed. */
  readonly failures: number;
  /** How often the key was claimed: how many handlers may have started. */
  readonly claims: number;
  /** Of the payload with which the key was claimed or committed last. Undefined: written by a version that did not store it. */
  readonly payloadHash: string | undefined;
  /** How long the claim lasts, counted from `writtenAt`. */
  readonly claimDurationInMs: number;
  /** Identifies the batch of writes with which it was last written. */
  readonly batch?: string | undefined;
  /** What the commit of the key has to send. Undefined: another program has damaged it. */
  readonly outgoing: readonly StoredMessage[] | undefined;
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

/** A host name of the service or the emulator, in any cloud: the account, and the endpoint of its queues or tables. */
const accountHost = /^([a-z0-9]+?)(?:-secondary)?\.(?:[^.]+\.)*?(?:queue|table)\./;

/**
 * Identifies a queue across accounts, in a form that is allowed in the keys of an entity: `account:queue`. Queues of one name in two
 * accounts may share a table. The account is a part of the host name, or of the path (Azurite); port and protocol do not count, so that
 * a queue is the same through a proxy. Behind a domain of one's own, the account is not known: the whole host name stands for it.
 * @throws `TypeError` if it is not the URL of a queue.
 */
export function queueIdentityOf(queueUrl: string): string {
  return identityOf(queueUrl, "queue");
}

/** The same for a table. */
export function tableIdentityOf(tableUrl: string): string {
  return identityOf(tableUrl, "table");
}

function identityOf(url: string, kind: string): string {
  const { hostname, pathname } = URL.canParse(url) ? new URL(url) : { hostname: "", pathname: "" };
  try {
    const [name, inPath] = pathname.split("/").filter((part) => part !== "").map(decodeURIComponent).reverse();
    if (name !== undefined) return `${partOf(inPath?.replace(/-secondary$/, "") ?? accountHost.exec(hostname)?.[1] ?? hostname)}:${partOf(name)}`;
  } catch {
    // A path that cannot be decoded.
  }
  throw new TypeError(`${url} is not the URL of a ${kind}`);
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

/** The row key of an idempotency key, or of another name: readable if it is short, and different for different keys. */
export async function rowKeyOf(queue: string, key: string, kind: string = rowKeyPrefix): Promise<string> {
  const prefix = `${kind}${queue}!`;
  const text = escaped(key);
  // A row key has at most 512 characters. An escaped key has two digits after each =, so it never begins with "sha256=".
  return `${prefix}${text.length <= Math.min(400, 512 - prefix.length) ? text : `sha256=${await sha256(key)}`}`;
}

/** Whether it can be the row key of an idempotency key of the queue. */
export function isRowKeyOf(queue: string, rowKey: string): boolean {
  const prefix = `${rowKeyPrefix}${queue}!`;
  return rowKey.length <= 512 && rowKey.startsWith(prefix) && /^[A-Za-z0-9._:@$=-]*$/.test(rowKey.slice(prefix.length));
}

function escaped(text: string): string {
  return text.replace(special, (char) => [...new TextEncoder().encode(char)].map((byte) => `=${hex(byte)}`).join(""));
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0").toUpperCase();
}

export function entityOf(partitionKey: string, rowKey: string, record: Partial<InboxRecord>): TableEntityLike {
  const { state, owner, messageId, dequeueCount, failures, claims, payloadHash, claimDurationInMs, batch, outgoing } = record;
  // Stored as holdInMs and group, as in the tables that exist: processes of two versions must see each other's claims.
  const properties = Object.entries({ state, owner, messageId, dequeueCount, failures, claims, payloadHash, holdInMs: claimDurationInMs, group: batch });
  return { partitionKey, rowKey, ...Object.fromEntries(properties.filter(([, value]) => value !== undefined)), ...(outgoing && outgoingProperties(outgoing)) };
}

/**
 * Another program may have written or changed the row. What is not of its type counts as absent, and a claim lasts for a week at most:
 * such a row delays its own key, and no other key of its batch. A state that is none is taken for a claim, which expires.
 */
export function recordOf(entity: object): InboxRecord {
  const e = entity as Readonly<Record<string, unknown>>;
  if (typeof e["etag"] !== "string" || e["etag"] === "") throw new Error("the table returned an inbox record without its ETag");
  const state = e["state"];
  return {
    state: state === "released" || state === "done" ? state : "claimed",
    owner: textIn(e["owner"]) ?? "",
    messageId: textIn(e["messageId"]) ?? "",
    dequeueCount: countIn(e["dequeueCount"]) ?? 0,
    failures: countIn(e["failures"]) ?? 0,
    claims: countIn(e["claims"]) ?? 0,
    payloadHash: textIn(e["payloadHash"]),
    claimDurationInMs: durationIn(e["holdInMs"]),
    batch: textIn(e["group"]),
    outgoing: "outgoing0" in entity ? outgoingIn(entity) : [],
    writtenAt: Date.parse(textIn(e["timestamp"]) ?? ""),
    etag: e["etag"],
  };
}

export function textIn(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The SDK returns an Int64, as another program may have written it, as a bigint. */
export function countIn(value: unknown): number | undefined {
  const number = typeof value === "bigint" ? Number(value) : value;
  return Number.isSafeInteger(number) && (number as number) >= 0 ? (number as number) : undefined;
}

/** No message is hidden for longer than a week, so no claim lasts longer. */
const maxClaimInMs = 7 * 86_400_000;

/** One that cannot be read is the longest: the handler may be running. */
export function durationIn(value: unknown): number {
  if (value === undefined || value === null) return 0;
  const number = typeof value === "bigint" ? Number(value) : value;
  return typeof number === "number" && number >= 0 ? Math.min(number, maxClaimInMs) : maxClaimInMs;
}

export async function readRecord(
  table: TableLike,
  partitionKey: string,
  rowKey: string,
  timeoutInMs: number,
  abortSignal?: AbortSignalLike,
): Promise<InboxRecord | undefined> {
  const entity = await readRow(table, partitionKey, rowKey, timeoutInMs, abortSignal);
  return entity && recordOf(entity);
}

/** Undefined: it does not exist. */
export async function readRow(
  table: TableLike,
  partitionKey: string,
  rowKey: string,
  timeoutInMs: number,
  abortSignal?: AbortSignalLike,
): Promise<object | undefined> {
  try {
    return await read((signal) => getOwnRow(table, partitionKey, rowKey, { abortSignal: signal }), { timeoutInMs, abortSignal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
