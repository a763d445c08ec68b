import type { AppendBlobLike, BlobHttpHeadersLike } from "../clients/blob.js";
import { isAlreadyExists, isDefinitive, isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { blobOptions } from "../target/blob-requests.js";
import type { RequestContext } from "../target/target.js";

/** What is known of an append blob. */
export interface AppendBlobState {
  readonly etag: string;
  /** The position of the next block. */
  readonly length: number;
  readonly blockCount: number;
  /** The metadata without the claims. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly claims: readonly Claim[];
}

/** How {@link appendExactlyOnce} creates a missing blob. */
export interface CreateAppendBlobOptions {
  /** The content type of the new blob. @defaultValue that of the service, `application/octet-stream` */
  readonly contentType?: string | undefined;
  /** The metadata of the new blob. @defaultValue none */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** Undefined: the blob does not exist. */
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
  if (blobType !== undefined && blobType !== "AppendBlob") throw new TypeError(`${url} is a ${blobType}, not an append blob.`);
  if (contentLength === undefined) throw new TypeError(`The response for ${url} has no Content-Length, so the position to append at is unknown.`);
  // Metadata names are case-insensitive.
  const isClaims = (name: string): boolean => name.toLowerCase() === claimsName;
  return {
    etag: requireETag(properties.etag, url),
    length: contentLength,
    blockCount: blobCommittedBlockCount ?? 0,
    metadata: Object.fromEntries(Object.entries(metadata).filter(([name]) => !isClaims(name))),
    claims: parseClaims(Object.entries(metadata).find(([name]) => isClaims(name))?.[1]),
  };
}

/** Creates the blob unless it exists. Undefined: it exists, or may exist; the caller has to read it. */
export async function createAppendBlob(blob: AppendBlobLike, options: CreateAppendBlobOptions, context: RequestContext): Promise<AppendBlobState | undefined> {
  const headers: BlobHttpHeadersLike = options.contentType === undefined ? {} : { blobContentType: options.contentType };
  const metadata = { ...options.metadata };
  try {
    // Without the caller's lease id: with it, the service would let If-None-Match truncate an existing blob.
    const request = blobOptions({ ...context, leaseId: undefined }, { ifNoneMatch: "*" });
    const { etag } = await blob.create({ ...request, blobHTTPHeaders: headers, metadata });
    return { etag: requireETag(etag, redactUrl(blob.url)), length: 0, blockCount: 0, metadata, claims: [] };
  } catch (error) {
    // Without a response the blob may exist. It does not matter which client created it: it is empty.
    if (isAlreadyExists(error) || (!isDefinitive(error) && !context.abortSignal.aborted)) return undefined;
    throw error;
  }
}

/**
 * Records which appender appends at which position. Stored in the metadata of the blob, and written before the append itself.
 *
 * An append carries nothing but the bytes, and two appenders may append the same bytes: what is stored at a position does not
 * tell which appender wrote it. So an appender first claims the position, and then appends on the condition that the blob has
 * not changed since. Another appender has to claim the same position first, and that invalidates the earlier appender's
 * append. Of the claims to one position, the last one identifies the appender.
 */
export interface Claim {
  readonly position: number;
  readonly id: string;
}

/**
 * The number of claims that are kept: an appender recognises its block under up to 63 later ones. They take about 1.5 of the
 * 8 KiB that metadata may have.
 */
const claimsKept = 64;

/** The maximum size of all metadata of a blob, names and values. */
const maxMetadataInBytes = 8 * 1024;

/** The name of the metadata entry that contains the claims. */
export const claimsName = "asc_appends";

/** Newest first. Claims to this position or a later one were not used: the blob ends at the position of the new claim. */
export function withClaim(claims: readonly Claim[], claim: Claim): readonly Claim[] {
  return [claim, ...claims.filter(({ position }) => position < claim.position)].slice(0, claimsKept);
}

/** The id of the claim that was last made to this position; undefined: too long ago, or appended without a claim. */
export function claimantOf(claims: readonly Claim[], position: number): string | undefined {
  return claims.find((claim) => claim.position === position)?.id;
}

/** The metadata with the claims. If they exceed the size limit, the oldest claims are dropped, but never the newest: it is ours. */
export function metadataWithClaims(metadata: Readonly<Record<string, string>>, claims: readonly Claim[]): Record<string, string> {
  const encoder = new TextEncoder();
  const others = Object.entries(metadata).reduce((sum, [name, value]) => sum + name.length + encoder.encode(value).length, 0);
  const available = maxMetadataInBytes - others - claimsName.length;
  let text = formatClaims(claims);
  while (text.length > available && text.split("~").length > 2) text = text.slice(0, text.lastIndexOf("~"));
  return { ...metadata, [claimsName]: text };
}

function formatClaims(claims: readonly Claim[]): string {
  return ["1", ...claims.map(({ position, id }) => `${position.toString(36)}.${id}`)].join("~");
}

/** Any text that is not a list of claims counts as no claims: nothing can be concluded from it. */
function parseClaims(text: string | undefined): readonly Claim[] {
  const [version, ...entries] = text?.split("~") ?? [];
  if (version !== "1") return [];
  const claims = entries.map((entry) => {
    const dot = entry.indexOf(".");
    return { position: Number.parseInt(entry.slice(0, dot), 36), id: entry.slice(dot + 1) };
  });
  return claims.every(({ position, id }) => Number.isSafeInteger(position) && position >= 0 && id !== "") ? claims : [];
}
