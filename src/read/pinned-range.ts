import type { BlobDownloadLike } from "../clients/blob.js";
import { RequestTimeoutError, startStopwatch } from "../core/deadline.js";
import type { Deadline } from "../core/deadline.js";
import { fullJitter, retry } from "../core/retry.js";
import { isConflict, isConnectionBroken, isIncompleteText, isNotFound, isRangeNotSatisfiable } from "../core/storage-errors.js";
import { requireETag } from "../core/validate.js";
import { createError, ContentTooLargeError, TargetNotFoundError } from "../errors.js";
import { discardBody, eachChunk } from "../target/content.js";
import { maxAttemptsWithoutProgress, NoProgressError, rangeDeadline, requestRange, VersionChangedError } from "./range-source.js";
import type { RangeSource } from "./range-source.js";

/** One version of a blob, identified by its ETag. */
export interface BlobVersion {
  readonly etag: string;
  readonly sizeInBytes: number;
  readonly contentType: string | undefined;
  readonly metadata: Record<string, string>;
  /** With `stablePrefix`: recognises other responses of the same append blob. Otherwise the ETag does. */
  readonly isSameBlob?: (response: BlobDownloadLike) => boolean;
}

/** A version, and the response to the request for its first range, whose body has not been read yet. */
export interface OpenedVersion {
  readonly version: BlobVersion;
  readonly response: BlobDownloadLike;
  readonly deadline: Deadline;
}

/** Requests the first range. Its response contains the version and the size, so a small blob costs 1 request. */
export async function openVersion(source: RangeSource): Promise<OpenedVersion> {
  const elapsedInMs = startStopwatch();
  try {
    return await retry(() => openOnce(source), {
      maxAttempts: maxAttemptsWithoutProgress,
      shouldRetry: (error) => isRangeNotSatisfiable(error) || isWithoutResponse(error),
      abortSignal: source.stop.signal,
    });
  } catch (error) {
    if (isNotFound(error)) throw createError(TargetNotFoundError, `${source.url} does not exist.`, { url: source.url, cause: error });
    throw isWithoutResponse(error) ? new NoProgressError(maxAttemptsWithoutProgress, elapsedInMs(), error) : error;
  }
}

async function openOnce(source: RangeSource): Promise<OpenedVersion> {
  try {
    return await open(source, source.settings.blockSizeInBytes);
  } catch (error) {
    if (!isRangeNotSatisfiable(error)) throw error;
    // Empty content has no range, and this response has no ETag. If the blob was filled meanwhile, it has a range.
    const whole = await open(source, undefined);
    if (whole.version.sizeInBytes === 0) return whole;
    discardVersion(whole);
    throw error;
  }
}

/** For a version that is not read: ends its request. */
export function discardVersion({ response, deadline }: OpenedVersion, reason?: unknown): void {
  discardBody(response);
  deadline.abort(reason);
}

async function open(source: RangeSource, count: number | undefined): Promise<OpenedVersion> {
  const deadline = rangeDeadline(source);
  let response: BlobDownloadLike | undefined;
  try {
    response = await requestRange(source, deadline, 0, count);
    const version: BlobVersion = {
      etag: requireETag(response.etag, source.url),
      sizeInBytes: sizeOf(response, count, source.url),
      contentType: response.contentType,
      metadata: { ...response.metadata },
      ...(source.settings.stablePrefix && { isSameBlob: appendBlobOf(response, source.url) }),
    };
    checkSize(version, source);
    return { version, response, deadline };
  } catch (error) {
    if (response) discardBody(response);
    deadline.abort();
    throw error;
  }
}

function sizeOf({ contentRange, contentLength }: BlobDownloadLike, count: number | undefined, url: string): number {
  const size = contentRange === undefined ? contentLength : Number(/\/(\d+)$/.exec(contentRange)?.[1] ?? NaN);
  // Without Content-Range, a length equal to the requested count does not tell the size of the blob.
  const isKnown = contentRange !== undefined || count === undefined || (size ?? NaN) < count;
  if (size === undefined || Number.isNaN(size) || !isKnown) {
    throw new TypeError(`The response for ${url} does not contain the size of the blob. In a browser, expose the header Content-Range by CORS.`);
  }
  return size;
}

/**
 * Recognises an append blob, whose existing bytes do not change. Deleted and created again, it has another creation time. That has
 * a resolution of one second, and the service may keep it if the blob is overwritten: so the blob must not have become smaller
 * either.
 */
function appendBlobOf(first: BlobDownloadLike, url: string): (response: BlobDownloadLike) => boolean {
  const { blobType, createdOn, blobCommittedBlockCount: blocks } = first;
  if (blobType !== undefined && blobType !== "AppendBlob") throw new TypeError(`stablePrefix: ${url} is a ${blobType}, not an append blob.`);
  if (createdOn === undefined || blocks === undefined) {
    throw new TypeError(
      `stablePrefix: the response for ${url} does not contain the creation time and the number of blocks. In a browser, expose the headers x-ms-creation-time and x-ms-blob-committed-block-count by CORS.`,
    );
  }
  const size = sizeOf(first, undefined, url);
  return (response) =>
    response.createdOn?.getTime() === createdOn.getTime() &&
    (response.blobCommittedBlockCount ?? -1) >= blocks &&
    sizeOf(response, undefined, url) >= size;
}

function checkSize({ sizeInBytes }: BlobVersion, { url, settings: { maxSizeInBytes } }: RangeSource): void {
  if (sizeInBytes <= maxSizeInBytes) return;
  throw createError(ContentTooLargeError, `${url} has ${sizeInBytes} bytes, more than maxSizeInBytes (${maxSizeInBytes}).`, { url, sizeInBytes, maxSizeInBytes });
}

/** A range of one version, and the buffer for its bytes. */
export class PinnedRange {
  readonly #source: RangeSource;
  readonly #version: BlobVersion;
  readonly #offset: number;
  readonly #into: Uint8Array;
  readonly #onBytes: (count: number) => void;
  #filled = 0;

  constructor(source: RangeSource, version: BlobVersion, offset: number, into: Uint8Array, onBytes: (count: number) => void) {
    this.#source = source;
    this.#version = version;
    this.#offset = offset;
    this.#into = into;
    this.#onBytes = onBytes;
  }

  /**
   * Fetches the range, or rejects with {@link VersionChangedError}. If a body breaks off or takes too long, the missing part is
   * requested again, from the same version: until several attempts in a row, over at least `tryTimeoutInMs`, have brought nothing.
   *
   * @param opened - For the first range: its response has already arrived.
   */
  async fetch(opened?: OpenedVersion): Promise<void> {
    const { stop: { signal }, settings: { tryTimeoutInMs } } = this.#source;
    let withoutProgress = 0;
    let before = 0;
    let sinceProgress = startStopwatch();
    const mayContinue = (error: unknown): boolean => {
      if (signal.aborted || !isIncomplete(error)) return false;
      if (this.#filled > before) {
        withoutProgress = 0;
        sinceProgress = startStopwatch();
        return true;
      }
      withoutProgress++;
      if (withoutProgress < maxAttemptsWithoutProgress) return true;
      // A network that cuts every connection may do so for seconds. A cache that sends another range goes on doing so.
      return sinceProgress() < tryTimeoutInMs && !(error instanceof WrongRangeError);
    };
    try {
      await retry(
        (attempt) => {
          before = this.#filled;
          return attempt === 1 && opened
            ? this.#fetchRest(opened.deadline, opened.response)
            : this.#fetchRest(rangeDeadline(this.#source), undefined);
        },
        { maxAttempts: Infinity, shouldRetry: mayContinue, backoff: () => fullJitter(withoutProgress, 50, 1_000), abortSignal: signal },
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!isIncomplete(error)) throw error;
      throw new NoProgressError(withoutProgress, sinceProgress(), error instanceof IncompleteBodyError ? (error.cause ?? error) : error);
    }
  }

  async #fetchRest(deadline: Deadline, opened: BlobDownloadLike | undefined): Promise<void> {
    let response = opened;
    try {
      response ??= await this.#requestRest(deadline);
      this.#requireRange(response);
      await deadline.race(this.#take(response, deadline.signal));
      deadline.dispose();
    } catch (error) {
      // The body, or the rest of it, is not needed.
      if (response) discardBody(response);
      deadline.abort();
      const failure = isVersionGone(error) ? new VersionChangedError(this.#version.etag, error) : error;
      // Immediately: no further range must be requested.
      if (!isIncomplete(failure)) this.#source.stop.abort(failure);
      throw failure;
    }
  }

  #requestRest(deadline: Deadline): Promise<BlobDownloadLike> {
    const count = this.#into.length - this.#filled;
    const { etag, isSameBlob } = this.#version;
    return requestRange(this.#source, deadline, this.#offset + this.#filled, count, isSameBlob ? undefined : etag);
  }

  /**
   * A cache or proxy in between may ignore conditions. One that ignores ranges sends the whole blob, or the range of another
   * client's request, with the same ETag.
   */
  #requireRange(response: BlobDownloadLike): void {
    const { etag, isSameBlob } = this.#version;
    if (isSameBlob ? !isSameBlob(response) : response.etag !== etag) throw new VersionChangedError(etag);
    const { contentRange, contentLength } = response;
    const from = this.#offset + this.#filled;
    const count = this.#into.length - this.#filled;
    const start = /^bytes (\d+)-/.exec(contentRange ?? "")?.[1];
    const matches = start === undefined ? contentLength === count : Number(start) === from && (contentLength ?? count) === count;
    if (!matches) throw new WrongRangeError(`the response has another range than the ${count} bytes from ${from} that were requested`);
  }

  async #take(response: BlobDownloadLike, signal: AbortSignal): Promise<void> {
    const into = this.#into;
    try {
      await eachChunk(response, (chunk) => {
        // Aborted, but the client ignores the signal: another attempt may already be filling this range.
        signal.throwIfAborted();
        if (chunk.length > into.length - this.#filled) throw new UnexpectedBodyError(`the body of ${this.#source.url} goes on behind the end of its range`);
        into.set(chunk, this.#filled);
        this.#filled += chunk.length;
        this.#onBytes(chunk.length);
        // Like the SDK: the next range is requested without waiting for the end of this body.
        return this.#filled === into.length ? "complete" : undefined;
      });
    } catch (error) {
      // The bytes before it cannot be trusted either.
      if (error instanceof UnexpectedBodyError) throw error;
      // The connection broke after the last byte: the range is complete.
      if (this.#filled === into.length && !signal.aborted) return;
      // The SDK itself resumes a body that ends early, and may find another version.
      throw isVersionGone(error) && !this.#version.isSameBlob ? error : new IncompleteBodyError(`the body broke off at ${this.#filled} of ${into.length} bytes`, { cause: error });
    }
    if (this.#filled < into.length) throw new IncompleteBodyError(`the body ended at ${this.#filled} of ${into.length} bytes`);
  }
}

/** Whether the missing part can be requested again. */
function isIncomplete(error: unknown): boolean {
  return error instanceof IncompleteBodyError || isWithoutResponse(error);
}

/** No complete response arrived: it took too long, the connection broke, or it was that of an error, and its text was cut. */
function isWithoutResponse(error: unknown): boolean {
  return error instanceof RequestTimeoutError || isConnectionBroken(error) || isIncompleteText(error);
}

/** For a request that is pinned to a version, these responses mean that another version is stored, or none. */
function isVersionGone(error: unknown): boolean {
  return error instanceof VersionChangedError || isConflict(error) || isNotFound(error) || isRangeNotSatisfiable(error);
}

/** The body is incomplete, or of another range. (A request without a response is left to the SDK's own retries.) */
class IncompleteBodyError extends Error {}

/** The response is for another range. */
class WrongRangeError extends IncompleteBodyError {}

/** The body has more bytes than the requested range; another request would not help. */
class UnexpectedBodyError extends TypeError {}
