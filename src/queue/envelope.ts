import type { QueueMessageLike } from "../clients/queue.js";
import { checkNumber, checkOneOf } from "../core/validate.js";

/**
 * Why and when a message was moved to the poison queue.
 * @example
 * ```ts
 * await redrive(poisonQueue, queue, { filter: (details) => details?.reason === "no such customer" });
 * ```
 */
export interface PoisonDetails {
  /** The name of the queue that the message came from. */
  readonly queue: string;
  /** The id of the message in that queue. */
  readonly messageId: string;
  /** When the message was sent to that queue. */
  readonly insertedOn: Date;
  /** When the message was moved to the poison queue. */
  readonly poisonedOn: Date;
  /** How often a handler was started for it. */
  readonly attempts: number;
  /** What the handler passed to `context.poison`, or why the consumer gave up. */
  readonly reason: string;
  /** Name and message of the last error, if there was one. */
  readonly error: string | undefined;
}

/** {@link PoisonDetails} as stored in the poison queue. */
export interface StoredPoisonDetails {
  readonly reason: string;
  readonly error?: string | undefined;
  readonly attempts: number;
  readonly queue: string;
  readonly messageId: string;
  /** ISO 8601, as `poisonedOn`. */
  readonly insertedOn: string;
  readonly poisonedOn: string;
  /** How the message was encoded in its queue. */
  readonly encoding: QueueEncoding;
  /** The content is the original text of the message, as it could not be decoded. */
  readonly raw?: true | undefined;
  /** How long the message was to live in its queue; -1: it never expired. Undefined: not known. */
  readonly timeToLiveInSeconds?: number | undefined;
}

/**
 * The stored details of a message in a poison queue, which anybody may have sent: each has its type, whatever is stored. Dates that
 * are none are replaced by the time at which the message came to the poison queue. Undefined: it has no details.
 */
export function storedPoisonDetailsOf(poison: unknown, receivedOn: Date): StoredPoisonDetails | undefined {
  if (typeof poison !== "object" || poison === null || Array.isArray(poison)) return undefined;
  const stored = poison as Readonly<Record<string, unknown>>;
  const textOf = (name: keyof StoredPoisonDetails): string => (typeof stored[name] === "string" ? stored[name] : "");
  const dateOf = (name: keyof StoredPoisonDetails): string => (Number.isNaN(Date.parse(textOf(name))) ? receivedOn.toISOString() : textOf(name));
  const { attempts, timeToLiveInSeconds: lifetime } = stored;
  return {
    reason: textOf("reason"),
    ...(typeof stored["error"] === "string" && { error: stored["error"] }),
    attempts: isWhole(attempts, 0) ? attempts : 0,
    queue: textOf("queue"),
    messageId: textOf("messageId"),
    insertedOn: dateOf("insertedOn"),
    poisonedOn: dateOf("poisonedOn"),
    encoding: stored["encoding"] === "base64" ? "base64" : "text",
    ...(stored["raw"] === true && { raw: true }),
    ...((lifetime === -1 || (isWhole(lifetime, 1) && lifetime <= maxLifetimeInSeconds)) && { timeToLiveInSeconds: lifetime }),
  };
}

function isWhole(value: unknown, min: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= min;
}

export function poisonDetailsOf(stored: StoredPoisonDetails): PoisonDetails {
  const { queue, messageId, attempts, reason, error } = stored;
  return { queue, messageId, insertedOn: new Date(stored.insertedOn), poisonedOn: new Date(stored.poisonedOn), attempts, reason, error };
}

/** 68 years. A message that never expires has an expiry time in the year 9999. */
const maxLifetimeInSeconds = 2 ** 31 - 1;

/** How long a message lives from its insertion, in seconds; -1: for ever. Undefined if its times do not tell. */
export function lifetimeOf({ insertedOn, expiresOn }: Pick<QueueMessageLike, "insertedOn" | "expiresOn">): number | undefined {
  const seconds = Math.round((expiresOn.getTime() - insertedOn.getTime()) / 1_000);
  if (seconds > maxLifetimeInSeconds) return -1;
  return seconds >= 1 ? seconds : undefined;
}

/**
 * The JSON envelope that this library writes around a payload. The content is either `body` (a payload as JSON) or `text` (the
 * text of a message that another producer sent without an envelope, once there is something to store with it).
 */
export interface Envelope {
  /** Marks an envelope, and its version. */
  readonly asc: 1;
  readonly key?: string | undefined;
  /** Handlers of one group run one at a time. */
  readonly group?: string | undefined;
  /** The position in the group, from 1 on. */
  readonly sequence?: number | undefined;
  readonly body?: unknown;
  readonly text?: string | undefined;
  /**
   * The id of the message for which a consumer has written the bookkeeping below. The service chooses it when the message is sent, so no
   * producer can know it: see {@link withoutForgedBookkeeping}.
   */
  readonly of?: string | undefined;
  /** How often a handler has failed at it. */
  readonly failures?: number | undefined;
  /** How many of the deliveries that the queue has counted were given back: no handler was started, or its end says nothing about the message. */
  readonly uncharged?: number | undefined;
  readonly checkpoint?: unknown;
  /** The span that sent it, as W3C Trace Context: the handler's span continues its trace. Any text, as any program may have written it. */
  readonly traceparent?: string | undefined;
  /** It is to be moved to the poison queue, which could not be reached. */
  readonly poisonPending?: { readonly reason: string; readonly error?: string | undefined } | undefined;
  readonly poison?: StoredPoisonDetails | undefined;
}

/**
 * The envelope of a message. A message without an envelope becomes `text`.
 * @throws `Error` if the encoding is wrong.
 */
export function openEnvelope(messageText: string, encoding: QueueEncoding): Envelope {
  const text = decodeText(messageText, encoding);
  return parseEnvelope(text) ?? { asc: 1, text };
}

/** The envelope of a message in either encoding. Undefined: another producer sent it without one. */
export function findEnvelope(messageText: string): { readonly envelope: Envelope; readonly encoding: QueueEncoding } | undefined {
  for (const encoding of ["text", "base64"] as const) {
    try {
      const envelope = parseEnvelope(decodeText(messageText, encoding));
      if (envelope) return { envelope, encoding };
    } catch {
      // Not base64, or not of a text.
    }
  }
  return undefined;
}

export function sealEnvelope(envelope: Envelope, encoding: QueueEncoding): string {
  // Messages are sent as XML, which cannot represent these two characters; JSON can escape them.
  const json = JSON.stringify(envelope).replace(/[\uFFFE\uFFFF]/g, (char) => `\\u${char.charCodeAt(0).toString(16)}`);
  return encodeText(json, encoding);
}

/** Undefined: the text of a message that another producer sent without an envelope. */
export function parseEnvelope(text: string): Envelope | undefined {
  if (!text.startsWith("{")) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const envelope = value as Partial<Envelope>;
  if (envelope.asc !== 1 || !("body" in envelope || typeof envelope.text === "string")) return undefined;
  if (envelope.key !== undefined && typeof envelope.key !== "string") return undefined;
  return envelope as Envelope;
}

/**
 * Whether a later version of the library has sent the text: its envelope has a larger number in `asc`. It is not a payload, and its
 * handler must not get it.
 */
export function isLaterEnvelope(text: string): boolean {
  if (!text.startsWith("{")) return false;
  try {
    const { asc, ...content } = JSON.parse(text) as { readonly asc?: unknown };
    return Number.isSafeInteger(asc) && Number(asc) > 1 && ("body" in content || "text" in content);
  } catch {
    return false;
  }
}

const bookkeeping: readonly (keyof Envelope)[] = ["of", "failures", "uncharged", "checkpoint", "poisonPending"];

/** The envelope as its producer should have sent it: without counts, checkpoint and whatever else a consumer writes. */
export function withoutBookkeeping(envelope: Envelope): Envelope {
  return Object.fromEntries(Object.entries(envelope).filter(([name]) => !bookkeeping.includes(name as keyof Envelope))) as unknown as Envelope;
}

/**
 * Without what a producer has written as the bookkeeping of a consumer. Whether it is the first delivery does not tell: a consumer that
 * crashed during the first one has not rewritten the message.
 */
export function withoutForgedBookkeeping(envelope: Envelope, messageId: string): Envelope {
  return envelope.of === messageId ? envelope : withoutBookkeeping(envelope);
}

/** Whether a body is a reference to a payload in a blob, valid or not. No payload that `enqueue` sends is one. */
export function isReferenceBody(body: unknown): body is { readonly ascOverflow: unknown } {
  return typeof body === "object" && body !== null && "ascOverflow" in body && Object.keys(body).length === 1;
}

/** How {@link enqueue} and {@link QueueConsumer} encode the text of a message. Azure Functions and older SDKs expect `"base64"`. */
export type QueueEncoding = "text" | "base64";

/** The longest time for which the service hides a message. */
export const maxDelayInMs: number = 7 * 86_400_000;

/** The maximum size of a message. */
export const maxMessageBytes: number = 64 * 1024;

export function checkEncoding(encoding: QueueEncoding | undefined): QueueEncoding {
  return checkOneOf("encoding", encoding ?? "text", ["text", "base64"]);
}

export function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}

export function encodeText(text: string, encoding: QueueEncoding): string {
  if (encoding === "text") return text;
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/** @throws `Error` if it is not base64, or does not contain UTF-8. */
export function decodeText(text: string, encoding: QueueEncoding): string {
  if (encoding === "text") return text;
  const binary = atob(text);
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (char) => char.charCodeAt(0)));
}

/** An idempotency key: any well-formed text of limited length, as it is stored in the message. */
export function checkKey(name: string, key: unknown): string {
  if (typeof key !== "string") throw new TypeError(`${name} must be a string`);
  if (key.length === 0 || key.length > 1_024) throw new RangeError(`${name} must have 1 to 1024 characters; got ${key.length}`);
  // UTF-8 has no lone surrogates: different keys would become the same row key, and share a record of the inbox.
  if (/\p{Cs}/u.test(key)) throw new RangeError(`${name} must be well-formed Unicode; it has a lone surrogate`);
  return key;
}

/** A position in a group. */
export function checkSequence(name: string, sequence: unknown): number {
  return checkNumber(name, sequence as number, { min: 1, max: Number.MAX_SAFE_INTEGER, integer: true });
}

/**
 * 64 bits in hexadecimal, at once and without a thread: two runs of FNV-1a over the UTF-16 code units, each with a final mix. Different
 * texts that a sender confuses have different fingerprints; it does not resist one who looks for two texts with the same.
 */
export function fingerprint(text: string): string {
  let [a, b] = [0x811c9dc5, 0x9747b28c];
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x5bd1e995) ^ (b >>> 15);
  }
  return [a ^ text.length, b].map((half) => mix(half).toString(16).padStart(8, "0")).join("");
}

function mix(value: number): number {
  const first = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
  return (second ^ (second >>> 16)) >>> 0;
}

/** Of a count that another program may have written. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}
