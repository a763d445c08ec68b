import type { ContainerLike } from "../../clients/blob.js";
import { redactUrl } from "../../core/telemetry.js";
import { readText } from "../../overflow/stored-text.js";
import type { StoredText } from "../../overflow/stored-text.js";
import { overflowBlobOf, PayloadUnavailableError, UnusablePayloadError } from "./reference.js";
import type { OverflowReference } from "./reference.js";

/** The blob of a payload, as it was read. */
export interface StoredPayload extends StoredText {
  readonly sizeInBytes: number;
}

/**
 * Reads the payload that a message refers to. Any program may have sent the message, so nothing of the reference is trusted: the name of
 * the blob is derived from the queue, the key and the hash. The message is renewed meanwhile.
 *
 * | the service says                         | result                                                             |
 * |------------------------------------------|--------------------------------------------------------------------|
 * | the blob, with this size and hash        | the payload                                                        |
 * | the blob, with another size or hash      | {@link UnusablePayloadError}: poison                               |
 * | 404 of the blob, by the primary          | `undefined`: another message has completed, or the blob was deleted |
 * | 404 of the container, 403, 5xx, silence  | {@link PayloadUnavailableError}: given back, not a failure         |
 */
export async function readPayload(queueUrl: string, container: ContainerLike, reference: OverflowReference, abortSignal: AbortSignal): Promise<{ readonly content: string; readonly stored: StoredPayload } | undefined> {
  const name = await overflowBlobOf(queueUrl, reference.key, reference.sha256);
  if (name !== reference.blob) throw new UnusablePayloadError("its reference is to a blob of another queue or message");
  const blob = container.getBlockBlobClient(name);
  const found = await readText(blob, reference, { abortSignal });
  switch (found.kind) {
    case "found":
      return { content: found.content, stored: { ...found.stored, sizeInBytes: reference.sizeInBytes } };
    case "missing":
      return undefined;
    case "damaged":
      throw new UnusablePayloadError(found.issue === "empty" ? "its payload in the overflow container is empty" : `its payload in the overflow container is not the one that was sent: ${found.issue}`);
    case "unavailable":
      throw new PayloadUnavailableError(`The payload of a message cannot be read from ${redactUrl(blob.url)} now`, { cause: found.error });
  }
}
