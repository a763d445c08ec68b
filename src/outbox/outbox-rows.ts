import type { TableEntityLike } from "../clients/table.js";
import { isLaterRow, laterFormatError } from "../core/format-version.js";
import { createError, SchemaError } from "../errors.js";
import { countIn, textIn } from "../queue/inbox/record.js";
import { outgoingIn, outgoingProperties } from "../queue/inbox/stored-outgoing.js";
import type { StoredMessage } from "../queue/inbox/stored-outgoing.js";
import { ownRowPrefix } from "../target/library-rows.js";

/** The rows of messages, each in the partition of the entities of its transaction. */
const messageRowPrefix: string = `${ownRowPrefix}outbox!`;
/** The partition of the markers. */
export const markerPartition: string = `${ownRowPrefix}outbox`;
const markerRowPrefix: string = `${ownRowPrefix}outmarker!`;

/**
 * Says that a partition may have rows with messages: it is stored before a transaction with a message is committed, and deleted when all
 * of its messages are sent. It belongs to one process, so that no other one can take it away.
 */
export interface Marker {
  /** Part of the keys of its rows: a marker leads to its own rows only. */
  readonly id: string;
  /** The partition of its rows. */
  readonly partition: string;
}

/** A marker as it is stored. */
export interface StoredMarker extends Marker {
  /** How long the relays wait after the last visit, or after its begin if it did not end. 0: there was none since its process has written it. */
  readonly waitInMs: number;
  /** How long its process had not written it when the last relay visited it, by the clock of the service. */
  readonly idleInMs: number;
  /** By the clock of the service. NaN: the row does not tell. */
  readonly writtenAt: number;
  readonly etag: string;
}

/** The row of a transaction that was committed with messages. */
export interface MessageRow {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly messages: readonly StoredMessage[];
  /** When its transaction was committed, by the clock of the service. Undefined: the row was written by this process. */
  readonly addedOn?: string | undefined;
}

export function markerRowKey({ id }: Marker): string {
  return `${markerRowPrefix}${id}`;
}

/** No Int64, which the SDK returns as a bigint: programs that list the table and format it as JSON would fail. */
export function markerEntity(marker: Marker, visited?: Pick<StoredMarker, "waitInMs" | "idleInMs">): TableEntityLike {
  const { partition } = marker;
  return { partitionKey: markerPartition, rowKey: markerRowKey(marker), partition, ...(visited && { waitInMs: Math.round(visited.waitInMs), idleInSeconds: Math.round(visited.idleInMs / 1_000) }) };
}

/** The longest time between two visits of a marker whose rows are sent, or that has none. */
export const maxWaitInMs = 3_600_000;

const idFormat = /^[0-9a-f-]{36}$/;

/** @throws {@link SchemaError} if another program has damaged the row, or put it there. */
export function markerOf(entity: object, url: string): StoredMarker {
  if (isLaterRow(entity)) throw laterFormatError("A marker of the outbox", url);
  const { rowKey, partition, waitInMs, idleInSeconds, timestamp, etag } = entity as Readonly<Record<string, unknown>>;
  const id = textIn(rowKey)?.slice(markerRowPrefix.length) ?? "";
  if (!idFormat.test(id) || typeof partition !== "string" || typeof etag !== "string") throw damaged("A marker", textIn(rowKey) ?? "", url, etag);
  return { id, partition, waitInMs: Math.min(countIn(waitInMs) ?? 0, maxWaitInMs), idleInMs: 1_000 * (countIn(idleInSeconds) ?? 0), writtenAt: Date.parse(textIn(timestamp) ?? ""), etag };
}

/** Rows of one marker are sorted by the order in which their transactions were prepared. */
export function messageRowKey({ id }: Marker, number: number): string {
  return `${messageRowPrefix}${id}!${String(number).padStart(12, "0")}`;
}

/** The keys of all rows of a marker are at least the first, and less than the second. */
export function messageRowRange({ id }: Marker): readonly [string, string] {
  // " is the character after !
  return [`${messageRowPrefix}${id}!`, `${messageRowPrefix}${id}"`];
}

export function messageEntity({ partitionKey, rowKey, messages, addedOn }: MessageRow): TableEntityLike {
  return { partitionKey, rowKey, ...(addedOn !== undefined && { addedOn }), ...outgoingProperties(messages) };
}

/** The row with what could not be sent of it. Its time is that of the write: delays, which count from the commit, are shorter by the age of the row. */
export function restOf(row: MessageRow, unsent: readonly StoredMessage[], ageInMs: number): MessageRow {
  return { ...row, messages: unsent.map((message) => withDelayLeft(message, ageInMs)) };
}

/** A message whose process has ended becomes visible when it would have become visible otherwise. */
export function withDelayLeft(message: StoredMessage, ageInMs: number): StoredMessage {
  const { visibilityTimeout } = message.timing;
  if (visibilityTimeout === undefined) return message;
  return { ...message, timing: { ...message.timing, visibilityTimeout: Math.max(0, visibilityTimeout - Math.floor(ageInMs / 1_000)) } };
}

/** @throws {@link SchemaError} if another program has damaged the row. */
export function messageRowOf(entity: object, url: string): MessageRow {
  const { partitionKey, rowKey, etag, addedOn, timestamp } = entity as Readonly<Record<string, unknown>>;
  if (isLaterRow(entity)) throw laterFormatError("A row of the outbox", url);
  const messages = outgoingIn(entity);
  if (typeof partitionKey !== "string" || typeof rowKey !== "string" || !messages?.length) throw damaged("A row", textIn(rowKey) ?? "", url, etag);
  // Stored only if a part of the messages was sent before.
  return { partitionKey, rowKey, messages, addedOn: [addedOn, timestamp].map(textIn).find((time) => !Number.isNaN(Date.parse(time ?? ""))) };
}

function damaged(what: string, rowKey: string, url: string, etag: unknown): SchemaError {
  const message = `${what} of the outbox in ${url} cannot be read: another program has changed it. Its messages are not sent. Repair or delete the row ${JSON.stringify(rowKey)}.`;
  return createError(SchemaError, message, { url, phase: "read", issues: [{ message: rowKey }], etag: textIn(etag) });
}
