import type { AppendBlobLike, BlobHttpHeadersLike } from "../clients.js";
import { isAlreadyThere, isDefinitive, isMissing } from "../internal/storage-errors.js";
import { displayUrl } from "../internal/url.js";
import { requireETag } from "../update/target.js";
import type { RequestContext } from "../update/target.js";
import { blobOptions } from "../update/targets/blob-requests.js";
import { claimsName, parseClaims } from "./claims.js";
import type { Claim } from "./claims.js";

/** What is known of an append blob. */
export interface LogState {
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
export async function readLog(blob: AppendBlobLike, context: RequestContext): Promise<LogState | undefined> {
  let properties;
  try {
    properties = await blob.getProperties(blobOptions(context));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  const url = displayUrl(blob.url);
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
export async function createLog(blob: AppendBlobLike, log: NewLog, context: RequestContext): Promise<LogState | undefined> {
  const headers: BlobHttpHeadersLike = log.contentType === undefined ? {} : { blobContentType: log.contentType };
  const metadata = { ...log.metadata };
  try {
    // Without the caller's lease id: with it, the service would let If-None-Match empty a blob that is there.
    const request = blobOptions({ ...context, leaseId: undefined }, { ifNoneMatch: "*" });
    const { etag } = await blob.create({ ...request, blobHTTPHeaders: headers, metadata });
    return { etag: requireETag(etag, displayUrl(blob.url)), length: 0, blockCount: 0, metadata, claims: [] };
  } catch (error) {
    // No answer at all: an empty blob is as good as none, whoever made it.
    if (isAlreadyThere(error) || (!isDefinitive(error) && !context.abortSignal.aborted)) return undefined;
    throw error;
  }
}
