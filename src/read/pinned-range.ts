import type { BlobDownloadLike } from "../clients/blob.js";
import type { Deadline } from "../core/deadline.js";
import { RequestTimeoutError } from "../core/request.js";
import { fullJitter, retry } from "../core/retry.js";
import { isConflict, isNotFound, isRangeNotSatisfiable } from "../core/storage-errors.js";
import { ContentTooLargeError, TargetNotFoundError } from "../errors.js";
import { eachChunk } from "../target/content.js";
import { requireETag } from "../core/validate.js";
import { maxAttemptsWithoutProgress, rangeDeadline, requestOptions, VersionChangedError } from "./range-source.js";
import type { RangeSource } from "./range-source.js";

/** What arrived is not what was asked for. (That a request gets no answer is for the SDK's own retries.) */
class BodyBroken extends Error {
  override readonly name = "BodyBroken";
}

/** What arrives is no answer to what was asked for; asking again is of no use. */
class UnexpectedBodyError extends TypeError {}

/** A range of one version, and where its bytes go. */
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
   * Fetches it, or rejects with {@link VersionChangedError}. A body that breaks off, or takes too long, is asked for again
   * from where it ended, still of the same version.
   *
   * @param opened - For the first range: its answer is there already.
   */
  async fetch(opened?: OpenedVersion): Promise<void> {
    const { signal } = this.#source.stop;
    let withoutProgress = 0;
    let before = 0;
    const mayContinue = (error: unknown): boolean => {
      if (signal.aborted || !isIncomplete(error)) return false;
      withoutProgress = this.#filled > before ? 0 : withoutProgress + 1;
      return withoutProgress < maxAttemptsWithoutProgress;
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
      throw error instanceof BodyBroken ? (error.cause ?? error) : error;
    }
  }

  async #fetchRest(deadline: Deadline, opened: BlobDownloadLike | undefined): Promise<void> {
    try {
      const response = opened ?? (await deadline.race(this.#requestRest(deadline.signal)));
      this.#requireRange(response);
      await deadline.race(this.#take(response, deadline.signal));
      deadline.dispose();
    } catch (error) {
      // The rest of the body is of no use.
      deadline.abort();
      const failure = isGone(error) ? new VersionChangedError(this.#version.etag, error) : error;
      // At once: no further range must be requested.
      if (!isIncomplete(failure)) this.#source.stop.abort(failure);
      throw failure;
    }
  }

  async #requestRest(abortSignal: AbortSignal): Promise<BlobDownloadLike> {
    const { etag } = this.#version;
    const count = this.#into.length - this.#filled;
    const answer = await this.#source.blob.download(this.#offset + this.#filled, count, requestOptions(this.#source, abortSignal, etag));
    // A cache or a proxy on the way may know nothing of conditions.
    if (answer.etag !== etag) throw new VersionChangedError(etag);
    return answer;
  }

  /** A cache that knows nothing of ranges sends all, or what somebody else has asked for, under the same ETag. */
  #requireRange({ contentRange, contentLength }: BlobDownloadLike): void {
    const from = this.#offset + this.#filled;
    const count = this.#into.length - this.#filled;
    const start = /^bytes (\d+)-/.exec(contentRange ?? "")?.[1];
    const isOurs = start === undefined ? contentLength === count : Number(start) === from && (contentLength ?? count) === count;
    if (!isOurs) throw new BodyBroken(`the answer has another range than the ${count} bytes from ${from} on that were asked for`);
  }

  async #take(answer: BlobDownloadLike, signal: AbortSignal): Promise<void> {
    const into = this.#into;
    try {
      await eachChunk(answer, (chunk) => {
        // Called off, but the client takes no notice: another try may be filling this range.
        signal.throwIfAborted();
        if (chunk.length > into.length - this.#filled) throw new UnexpectedBodyError(`the body of ${this.#source.url} goes on behind the end of its range`);
        into.set(chunk, this.#filled);
        this.#filled += chunk.length;
        this.#onBytes(chunk.length);
        // As the SDK does it: the next range is asked for without waiting for the end of this body.
        return this.#filled === into.length ? "complete" : undefined;
      });
    } catch (error) {
      // So what came before it may be anything too.
      if (error instanceof UnexpectedBodyError) throw error;
      // Cut off after its last byte: all is there.
      if (this.#filled === into.length && !signal.aborted) return;
      // The SDK resumes a body that ends early by itself, and may find another version.
      throw isGone(error) ? error : new BodyBroken(`the body broke off at ${this.#filled} of ${into.length} bytes`, { cause: error });
    }
    if (this.#filled < into.length) throw new BodyBroken(`the body ended at ${this.#filled} of ${into.length} bytes`);
  }
}

/** The rest can be requested from where it ended. */
function isIncomplete(error: unknown): boolean {
  return error instanceof BodyBroken || error instanceof RequestTimeoutError;
}

/** To a request that is pinned to a version, these answers say that there is another one, or none. */
function isGone(error: unknown): boolean {
  return error instanceof VersionChangedError || isConflict(error) || isNotFound(error) || isRangeNotSatisfiable(error);
}

/** One version of a blob: what its ETag stands for. */
export interface BlobVersion {
  readonly etag: string;
  readonly sizeInBytes: number;
  readonly contentType: string | undefined;
  readonly metadata: Record<string, string>;
}

/** A version, and the answer to the request for its first range, whose body is still to be read. */
export interface OpenedVersion {
  readonly version: BlobVersion;
  readonly response: BlobDownloadLike;
  readonly deadline: Deadline;
}

/** Requests the first range. Its response tells which version that is of, and how large, so a small blob costs 1 request. */
export async function openVersion(source: RangeSource): Promise<OpenedVersion> {
  try {
    return await retry(() => openOnce(source), {
      maxAttempts: maxAttemptsWithoutProgress,
      shouldRetry: (error) => isRangeNotSatisfiable(error) || error instanceof RequestTimeoutError,
      abortSignal: source.stop.signal,
    });
  } catch (error) {
    if (isNotFound(error)) throw new TargetNotFoundError(`${source.url} does not exist`, { url: source.url, cause: error });
    throw error;
  }
}

async function openOnce(source: RangeSource): Promise<OpenedVersion> {
  try {
    return await open(source, source.settings.blockSizeInBytes);
  } catch (error) {
    if (!isRangeNotSatisfiable(error)) throw error;
    // Empty content has no range, and that response no ETag. If it was filled meanwhile, there is a range.
    const whole = await open(source, undefined);
    if (whole.version.sizeInBytes === 0) return whole;
    whole.deadline.abort();
    throw error;
  }
}

async function open(source: RangeSource, count: number | undefined): Promise<OpenedVersion> {
  const deadline = rangeDeadline(source);
  try {
    const response = await deadline.race(source.blob.download(0, count, requestOptions(source, deadline.signal)));
    const version: BlobVersion = {
      etag: requireETag(response.etag, source.url),
      sizeInBytes: sizeOf(response, count, source.url),
      contentType: response.contentType,
      metadata: { ...response.metadata },
    };
    checkSize(version, source);
    return { version, response, deadline };
  } catch (error) {
    deadline.abort();
    throw error;
  }
}

function sizeOf({ contentRange, contentLength }: BlobDownloadLike, count: number | undefined, url: string): number {
  const size = contentRange === undefined ? contentLength : Number(/\/(\d+)$/.exec(contentRange)?.[1] ?? NaN);
  // Without Content-Range, a length of as much as was asked for says nothing about what there is.
  const isTold = contentRange !== undefined || count === undefined || (size ?? NaN) < count;
  if (size === undefined || Number.isNaN(size) || !isTold) {
    throw new TypeError(`the answer for ${url} does not tell the size of the blob: in a browser, expose Content-Range by CORS`);
  }
  return size;
}

function checkSize({ sizeInBytes }: BlobVersion, { url, settings: { maxBytes } }: RangeSource): void {
  if (sizeInBytes <= maxBytes) return;
  throw new ContentTooLargeError(`${url} has ${sizeInBytes} bytes, more than maxBytes: ${maxBytes}`, { url, sizeInBytes, maxBytes });
}
