import type { BlockBlobLike, ContainerLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import { throwIfAborted } from "../core/deadline.js";
import { sha256 } from "../core/identity.js";
import { IncompleteBodyError, readInTime, request } from "../core/request.js";
import { isConflict, isNotFound, isRangeNotSatisfiable } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { fromPrimary, readBody } from "../target/content.js";
import { requireClient } from "../target/target.js";

/**
 * The maximum size of a text in a blob: it is sent in one request, and is in memory as a whole. It is also what a forged reference can make
 * a process read.
 */
export const maxTextBytes: number = 64 * 1024 * 1024;

/** What a message or a record says of its text, which is in a blob. Its name is derived by the reader, and is not part of it. */
export interface TextReference {
  /** Of the text in UTF-8. */
  readonly sha256: string;
  readonly sizeInBytes: number;
}

/** The blob of a text, as it was read or written. */
export interface StoredText {
  readonly blob: BlockBlobLike;
  /** Undefined: a proxy has removed it. Then the blob is not deleted. */
  readonly etag: string | undefined;
}

/** What a read has found. */
export type FoundText =
  | { readonly kind: "found"; readonly content: string; readonly stored: StoredText }
  /** 404 of the blob, by the primary: it was deleted. */
  | { readonly kind: "missing" }
  /** Another program has written it, or the reference is forged. */
  | { readonly kind: "damaged"; readonly issue: "empty" | "size or hash differ" }
  /** 404 of the container, 403, 5xx, silence, an abort by the caller: this says nothing about the text. */
  | { readonly kind: "unavailable"; readonly error: unknown };

/** Enough for the largest text on a slow network, and for one read that gets no response. */
const readTimeouts = { timeoutInMs: 60_000, tryTimeoutInMs: 30_000 };
/** Longer than the SDK's own retries, which take 16 s. */
const writeTimeoutInMs = 30_000;
/** The work is done: its caller should not wait long. */
const deleteTimeoutInMs = 5_000;

/** How a text is read. */
export interface ReadTextOptions extends CallOptions {
  /** How long the first try may take. @defaultValue 30_000 */
  readonly tryTimeoutInMs?: number | undefined;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @throws `TypeError` if it is not a client. */
export function checkOverflow(call: string, container: ContainerLike): ContainerLike {
  requireClient(call, container, "a ContainerClient as the option overflow", ["getBlockBlobClient", "getProperties"]);
  return container;
}

export function isTextReference({ sha256: hash, sizeInBytes }: { readonly sha256: unknown; readonly sizeInBytes: unknown }): boolean {
  return typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash) && Number.isSafeInteger(sizeInBytes) && Number(sizeInBytes) >= 1 && Number(sizeInBytes) <= maxTextBytes;
}

/** What refers to a text. */
export async function referenceTo(content: string): Promise<TextReference> {
  return { sha256: await sha256(content), sizeInBytes: new TextEncoder().encode(content).byteLength };
}

/**
 * Writes a JSON text. Not conditional: if the blob exists, its name says that it has the same content, and the write makes it new. That
 * matters to a process that is about to delete it (its delete is conditional on the ETag), and to a purge of old blobs. For the same reason
 * a lost response, or a second send by the SDK, does no harm.
 */
export async function uploadText(blob: BlockBlobLike, content: string, metadata: Record<string, string> | undefined, { abortSignal, tracingOptions }: CallOptions): Promise<StoredText> {
  const bytes = new TextEncoder().encode(content);
  const options = { blobHTTPHeaders: { blobContentType: "application/json" }, ...(metadata && { metadata }), ...(tracingOptions && { tracingOptions }) };
  const sent = await request((signal) => blob.upload(bytes, bytes.byteLength, { ...options, abortSignal: signal }), { timeoutInMs: writeTimeoutInMs, abortSignal });
  if (sent.kind === "ok") return { blob, etag: sent.value.etag };
  throwIfAborted(abortSignal);
  throw sent.error;
}

/**
 * Reads a text. Any program may have written the reference and the blob: no more bytes are read than the reference says, and size and hash
 * must be right. Never rejects.
 */
export async function readText(blob: BlockBlobLike, { sha256: hash, sizeInBytes }: TextReference, { abortSignal, tracingOptions, tryTimeoutInMs = readTimeouts.tryTimeoutInMs }: ReadTextOptions): Promise<FoundText> {
  let found: { readonly bytes: Uint8Array; readonly etag: string | undefined };
  try {
    found = await readInTime(async (signal) => {
      // One byte more than expected: enough to see that it is larger, however large it is.
      const response = await fromPrimary(blob, { primaryOnly: true }, blob.download(0, sizeInBytes + 1, { abortSignal: signal, ...(tracingOptions && { tracingOptions }) }));
      const bytes = await readBody(response);
      if (response.contentLength !== undefined && bytes.byteLength < response.contentLength) throw new IncompleteBodyError("the body ended too early");
      return { bytes, etag: response.etag };
    }, redactUrl(blob.url), { ...readTimeouts, tryTimeoutInMs, abortSignal });
  } catch (error) {
    if (isNotFound(error)) return { kind: "missing" };
    if (isRangeNotSatisfiable(error)) return { kind: "damaged", issue: "empty" };
    return { kind: "unavailable", error };
  }
  const content = found.bytes.byteLength === sizeInBytes ? tryDecode(found.bytes) : undefined;
  if (content === undefined || (await sha256(content)) !== hash) return { kind: "damaged", issue: "size or hash differ" };
  return { kind: "found", content, stored: { blob, etag: found.etag } };
}

function tryDecode(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Deletes the blob of a text that nothing refers to any more. A process that has written the same text since has made the blob new, and needs
 * it: the ETag differs, and the blob stays. Returns the error if the blob could not be deleted: it stays until the purge.
 */
export async function deleteText({ blob, etag }: StoredText, abortSignal: AbortSignal): Promise<unknown> {
  if (etag === undefined) return undefined;
  const sent = await request((signal) => blob.delete({ abortSignal: signal, conditions: { ifMatch: etag } }), { timeoutInMs: deleteTimeoutInMs, abortSignal });
  if (sent.kind === "ok" || isConflict(sent.error) || isNotFound(sent.error)) return undefined;
  return sent.error;
}
