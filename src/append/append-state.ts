import type { AppendBlobLike, BlobHttpHeadersLike } from "../clients/blob.js";
import { isAlreadyExists, isDefinitive, isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { blobOptions } from "../target/blob-requests.js";
import { requireETag } from "../core/validate.js";
import type { RequestContext } from "../target/target.js";

/** What is known of an append blob. */
export interface AppendBlobState {
  readonly etag: string;
  /** Where the next block goes. */
  readonly length: number;
  readonly blockCount: number;
  /** Without the claims. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly claims: readonly Claim[];
}

/** How a blob is made that is not there. */
export interface NewLog {
  readonly contentType?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** Undefined: the blob is not there. */
export async function readAppendBlob(blob: AppendBlobLike, context: RequestContext): Promise<AppendBlobState | undefined> {
  let properties;
  try {
    properties = await blob.getProperties(blobOptions(context));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
  const url = redactUrl(blob.url);
  const { blobType, contentLength, blobCommittedBlockCount, metadata = {} } = properties;
  if (blobType !== undefined && blobType !== "AppendBlob") throw new TypeError(`${url} is not an append blob but a ${blobType}`);
  if (contentLength === undefined) throw new TypeError(`the answer for ${url} has no Content-Length: where to append is not known`);
  // Names of metadata are case-insensitive.
  const isClaims = (name: string): boolean => name.toLowerCase() === claimsName;
  return {
    etag: requireETag(properties.etag, url),
    length: contentLength,
    blockCount: blobCommittedBlockCount ?? 0,
    metadata: Object.fromEntries(Object.entries(metadata).filter(([name]) => !isClaims(name))),
    claims: parseClaims(Object.entries(metadata).find(([name]) => isClaims(name))?.[1]),
  };
}

/** Makes the blob unless it is there. Undefined: it is, or may be; look. */
export async function createAppendBlob(blob: AppendBlobLike, log: NewLog, context: RequestContext): Promise<AppendBlobState | undefined> {
  const headers: BlobHttpHeadersLike = log.contentType === undefined ? {} : { blobContentType: log.contentType };
  const metadata = { ...log.metadata };
  try {
    // Without the caller's lease id: with it, the service would let If-None-Match empty a blob that is there.
    const request = blobOptions({ ...context, leaseId: undefined }, { ifNoneMatch: "*" });
    const { etag } = await blob.create({ ...request, blobHTTPHeaders: headers, metadata });
    return { etag: requireETag(etag, redactUrl(blob.url)), length: 0, blockCount: 0, metadata, claims: [] };
  } catch (error) {
    // No answer at all: an empty blob is as good as none, whoever made it.
    if (isAlreadyExists(error) || (!isDefinitive(error) && !context.abortSignal.aborted)) return undefined;
    throw error;
  }
}

/**
 * Who appends at which position, kept in the metadata of the blob and written before the append itself.
 *
 * An append carries nothing but the bytes, and two appenders may well append the same ones: what stands at a position
 * does not tell whose it is. So an appender first writes its claim to the position, and then appends on the condition
 * that nothing changed since. Whoever wants the same position has to write a claim of its own before, and so calls off
 * the append of the one before it. Of the claims to one position, the last one names the appender.
 */
export interface Claim {
  readonly position: number;
  readonly id: string;
}

/** How many blocks back an appender still finds its own; about 1.5 of the 8 KiB that metadata may have. */
export const claimsKept = 64;

/** The most that all metadata of a blob may have, names and values. */
const maxMetadataInBytes = 8 * 1024;

/** The name of the metadata entry. */
export const claimsName = "asc_appends";

/** Newest first. A claim to this position or one behind it came to nothing: the blob ends at ours. */
export function withClaim(claims: readonly Claim[], claim: Claim): readonly Claim[] {
  return [claim, ...claims.filter(({ position }) => position < claim.position)].slice(0, claimsKept);
}

/** Whose append stands at this position; undefined: too long ago, or appended without a claim. */
export function claimantOf(claims: readonly Claim[], position: number): string | undefined {
  return claims.find((claim) => claim.position === position)?.id;
}

function formatClaims(claims: readonly Claim[]): string {
  return ["1", ...claims.map(({ position, id }) => `${position.toString(36)}.${id}`)].join("~");
}

/** The metadata with the claims, the oldest of which give way where there is no room; not the newest, which is ours. */
export function metadataWithClaims(metadata: Readonly<Record<string, string>>, claims: readonly Claim[]): Record<string, string> {
  const encoder = new TextEncoder();
  const others = Object.entries(metadata).reduce((sum, [name, value]) => sum + name.length + encoder.encode(value).length, 0);
  const room = maxMetadataInBytes - others - claimsName.length;
  let text = formatClaims(claims);
  while (text.length > room && text.split("~").length > 2) text = text.slice(0, text.lastIndexOf("~"));
  return { ...metadata, [claimsName]: text };
}

/** Anything that is not a list of ours counts as none: then nothing can be concluded from it. */
export function parseClaims(text: string | undefined): readonly Claim[] {
  const [version, ...entries] = text?.split("~") ?? [];
  if (version !== "1") return [];
  const claims = entries.map((entry) => {
    const dot = entry.indexOf(".");
    return { position: Number.parseInt(entry.slice(0, dot), 36), id: entry.slice(dot + 1) };
  });
  return claims.every(({ position, id }) => Number.isSafeInteger(position) && position >= 0 && id !== "") ? claims : [];
}
