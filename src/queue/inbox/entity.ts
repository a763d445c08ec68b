import type { AbortSignalLike, InboxTableLike, TableEntityLike } from "../../clients.js";
import { isMissing } from "../../internal/storage-errors.js";
import { boundedRead } from "../bounded-call.js";
import type { InboxRecord } from "./record.js";

/** All records of all inboxes, wherever they stand, have row keys that begin like this. */
export const rowKeyPrefix: string = "inbox!";

/** What may stand in a row key as it is: the service forbids some characters, and some ways there mangle others. */
const plain = /[^A-Za-z0-9._:@$-]/gu;

/** The row key of a key: readable if it is short, and never the same for two keys. */
export async function rowKeyOf(queue: string, key: string): Promise<string> {
  const escaped = key.replace(plain, (char) => [...new TextEncoder().encode(char)].map((byte) => `=${hex(byte)}`).join(""));
  // 512 characters is what a row key may have. An escaped key has two digits after each =, so it is never a "sha256=".
  return `${rowKeyPrefix}${queue}!${escaped.length <= 400 ? escaped : `sha256=${await digest(key)}`}`;
}

async function digest(text: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(bytes)].map(hex).join("").toLowerCase();
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
  boundInMs: number,
  abortSignal?: AbortSignalLike,
): Promise<InboxRecord | undefined> {
  try {
    const entity = await boundedRead(boundInMs, (options) => table.getEntity(partitionKey, rowKey, options), { abortSignal });
    return recordOf(entity);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
