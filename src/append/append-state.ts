import type { AppendBlobLike, BlobHttpHeadersLike } from "../clients/blob.js";
import { read, readWithTries, whileRejectedForNow } from "../core/request.js";
import { isAlreadyExists, isConflict, isDefinitive, isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { separateClaims } from "../target/append-claims.js";
import { blobOptions } from "../target/blob-requests.js";
import { fromPrimary } from "../target/content.js";
import { withSignal } from "../target/target.js";
import type { CallContext } from "../target/target.js";
import { parseClaims } from "./claims.js";
import type { Claim } from "./claims.js";

/** What is known of an append blob. */
export interface AppendBlobState {
  readonly etag: string;
  /** The position of the next block. */
  readonly length: number;
  readonly blockCount: number;
  /** The metadata without the claims. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly claims: readonly Claim[];
  /** The claims to the end of the blob that the last claim has replaced: their appenders did not append. */
  readonly replacedClaims?: readonly string[] | undefined;
  /** Undefined: not read yet, or a proxy has removed it. */
  readonly createdOn?: Date | undefined;
}

/** Whether it is another blob of the same name. */
export function isRecreated(before: AppendBlobState, found: AppendBlobState): boolean {
  return before.createdOn !== undefined && found.createdOn !== undefined && before.createdOn.getTime() !== found.createdOn.getTime();
}

/** How {@link appendExactlyOnce} creates a missing blob. */
export interface CreateAppendBlobOptions {
  /** The content type of the new blob. @defaultValue that of the service, `application/octet-stream` */
  readonly contentType?: string | undefined;
  /** The metadata of the new blob. @defaultValue none */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** Undefined: the blob does not exist. */
export async function readAppendBlob(blob: AppendBlobLike, context: CallContext): Promise<AppendBlobState | undefined> {
  let properties;
  try {
    properties = await readWithTries((abortSignal) => fromPrimary(blob, context, blob.getProperties(blobOptions(withSignal(context, abortSignal)))), context);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
  const url = redactUrl(blob.url);
  const { blobType, contentLength, blobCommittedBlockCount, createdOn, metadata = {} } = properties;
  if (blobType !== undefined && blobType !== "AppendBlob") throw new TypeError(`${url} is a ${blobType}, not an append blob.`);
  if (contentLength === undefined) throw new TypeError(`The response for ${url} has no Content-Length, so the position to append at is unknown.`);
  const { own, claimsText } = separateClaims(metadata);
  return {
    etag: requireETag(properties.etag, url),
    length: contentLength,
    blockCount: blobCommittedBlockCount ?? 0,
    metadata: own,
    createdOn,
    claims: parseClaims(claimsText),
  };
}

/**
 * Creates the blob unless it exists. No state: it exists, or may exist; the caller has to read it. If it does not, the service has a reason to
 * reject the create that is not known.
 */
export async function createAppendBlob(
  blob: AppendBlobLike,
  options: CreateAppendBlobOptions,
  context: CallContext,
): Promise<{ readonly state?: AppendBlobState; readonly rejection?: Error }> {
  const headers: BlobHttpHeadersLike = options.contentType === undefined ? {} : { blobContentType: options.contentType };
  const metadata = { ...options.metadata };
  try {
    // Without the caller's lease id: with it, the service would let If-None-Match truncate an existing blob.
    const create = (abortSignal: AbortSignal): ReturnType<AppendBlobLike["create"]> =>
      blob.create({ ...blobOptions({ ...context, abortSignal, leaseId: undefined }, { ifNoneMatch: "*" }), blobHTTPHeaders: headers, metadata });
    const { abortSignal, tryLimit } = context;
    const send = (): ReturnType<AppendBlobLike["create"]> => read(create, { abortSignal, timeoutInMs: tryLimit.timeoutInMs(0), onTry: tryLimit.onTry });
    const { etag } = await whileRejectedForNow(send, abortSignal);
    return { state: { etag: requireETag(etag, redactUrl(blob.url)), length: 0, blockCount: 0, metadata, claims: [] } };
  } catch (error) {
    // Without a response the blob may exist. It does not matter which client created it: it is empty.
    if (isAlreadyExists(error) || (!isDefinitive(error) && !context.abortSignal.aborted)) return {};
    if (isConflict(error)) return { rejection: error as Error };
    throw error;
  }
}
