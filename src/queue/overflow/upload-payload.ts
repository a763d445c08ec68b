import type { ContainerLike } from "../../clients/blob.js";
import type { CallOptions } from "../../clients/call.js";
import type { QueueLike } from "../../clients/queue.js";
import { throwIfAborted } from "../../core/deadline.js";
import { toConcurrencyError } from "../../core/storage-errors.js";
import { redactUrl } from "../../core/telemetry.js";
import { referenceTo, uploadText } from "../../overflow/stored-text.js";
import { fingerprint, sealEnvelope } from "../envelope.js";
import type { Envelope, QueueEncoding } from "../envelope.js";
import { overflowBlobOf, referenceBody } from "./reference.js";

/** A message whose payload is to be stored in a blob. */
export interface LargeMessage {
  readonly container: ContainerLike;
  readonly key: string;
  /** The payload as JSON. */
  readonly content: string;
  /** All but the payload. */
  readonly envelope: Envelope;
  readonly encoding: QueueEncoding;
}

/**
 * With the option `overflow`, a message that leaves less room than this goes to a blob as well: the counts of a consumer and a small
 * checkpoint are written into the message.
 */
export const roomInBytes = 1_024;

/**
 * Stores the payload, and returns the text of the message that refers to it. If the process ends before it sends the message, the blob stays
 * until the purge.
 */
export async function uploadPayload(queue: QueueLike, large: LargeMessage, call: CallOptions): Promise<string> {
  const { container, key, content, envelope, encoding } = large;
  const text = await referenceTo(content);
  const blob = await overflowBlobOf(redactUrl(queue.url), key, text.sha256);
  const client = container.getBlockBlobClient(blob);
  try {
    await uploadText(client, content, undefined, call);
  } catch (error) {
    throwIfAborted(call.abortSignal);
    throw toConcurrencyError(error, redactUrl(client.url));
  }
  const reference = { key, blob, ...text, fingerprint: fingerprint(content) };
  return sealEnvelope({ ...envelope, key: "", body: referenceBody(reference) }, encoding);
}
