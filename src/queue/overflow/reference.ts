import { sha256 } from "../../core/identity.js";
import { isTextReference } from "../../overflow/stored-text.js";
import type { TextReference } from "../../overflow/stored-text.js";
import { checkKey } from "../envelope.js";
import { queueIdentityOf } from "../inbox/record.js";

/** The names of all blobs with payloads of messages begin with this. */
export const overflowPrefix = "asc-overflow/";

/**
 * What a message has instead of its payload, if that is in a blob:
 *
 * ```json
 * { "asc": 1, "key": "", "body": { "ascOverflow": { "key": "order-17", "blob": "…", "sha256": "…", "sizeInBytes": 70000, "fingerprint": "…" } } }
 * ```
 *
 * The key of the envelope is empty, which no other envelope has: a consumer that does not know references rejects the key, moves the
 * message to the poison queue, and keeps the reference, because it is the body. No consumer takes the reference for a payload.
 */
export interface OverflowReference extends TextReference {
  /** The idempotency key. */
  readonly key: string;
  /** For operators. The consumer derives the name itself, and rejects any other. */
  readonly blob: string;
  /** For the inbox, if the blob does not exist any more. */
  readonly fingerprint: string;
}

/** The payload of a message cannot be used, and another attempt would find the same. The message is moved to the poison queue. */
export class UnusablePayloadError extends Error {
  override readonly name = "UnusablePayloadError";
}

/** The payload cannot be read now. This says nothing about the message. */
export class PayloadUnavailableError extends Error {
  override readonly name = "PayloadUnavailableError";
}

/**
 * The same for every message with the same key and payload: a call of `enqueue` that is repeated writes the same blob. The prefix of a
 * queue contains its blobs alone, so that a message of one queue cannot name a payload of another.
 */
export async function overflowBlobOf(queueUrl: string, key: string, contentSha256: string): Promise<string> {
  const queue = queueIdentityOf(queueUrl).replace(":", "/");
  return `${overflowPrefix}${queue}/${(await sha256(key)).slice(0, 32)}-${contentSha256}`;
}

/** The body of an envelope that refers to a blob. */
export function referenceBody(reference: OverflowReference): object {
  return { ascOverflow: reference };
}

/** @throws {@link UnusablePayloadError} if it is damaged or forged: any program may have sent it. */
export function parseReference({ ascOverflow }: { readonly ascOverflow: unknown }): OverflowReference {
  const { key, blob, sha256: hash, sizeInBytes, fingerprint } = (ascOverflow ?? {}) as Partial<Record<keyof OverflowReference, unknown>>;
  if (typeof blob !== "string" || typeof fingerprint !== "string" || !isTextReference({ sha256: hash, sizeInBytes })) {
    throw new UnusablePayloadError("its reference to a payload in a blob is damaged");
  }
  return { key: checkKey("the key of the message", key), blob, sha256: String(hash), sizeInBytes: Number(sizeInBytes), fingerprint };
}
