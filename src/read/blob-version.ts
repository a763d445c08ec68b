import type { BlobDownloadLike } from "../clients.js";
import { ContentTooLargeError, TargetNotFoundError } from "../errors.js";
import { isBehindEnd, isMissing } from "../internal/storage-errors.js";
import { requireETag } from "../update/target.js";
import { requestOptions, timedRequest } from "./range-source.js";
import type { RangeSource } from "./range-source.js";
import { maxFruitlessTries, TryTimeout } from "./timed-request.js";
import type { TimedRequest } from "./timed-request.js";

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
  readonly answer: BlobDownloadLike;
  readonly request: TimedRequest;
}

/** Asks for the first range. Its answer tells which version that is of, and how large, so a small blob costs 1 request. */
export async function openVersion(source: RangeSource): Promise<OpenedVersion> {
  for (let tries = 1; ; tries++) {
    try {
      return await open(source, source.settings.blockSizeInBytes);
    } catch (error) {
      if (isMissing(error)) throw new TargetNotFoundError(`${source.url} does not exist`, { url: source.url, cause: error });
      if (!(isBehindEnd(error) || error instanceof TryTimeout) || tries >= maxFruitlessTries) throw error;
      if (error instanceof TryTimeout) continue;
    }
    // Empty content has no range, and that answer no ETag. If it was filled meanwhile, there is a range.
    const whole = await open(source, undefined);
    if (whole.version.sizeInBytes === 0) return whole;
    whole.request.end("broken");
  }
}

async function open(source: RangeSource, count: number | undefined): Promise<OpenedVersion> {
  const request = timedRequest(source);
  try {
    const answer = await request.during(source.blob.download(0, count, requestOptions(source, request.signal)));
    const version: BlobVersion = {
      etag: requireETag(answer.etag, source.url),
      sizeInBytes: sizeOf(answer, count, source.url),
      contentType: answer.contentType,
      metadata: { ...answer.metadata },
    };
    checkSize(version, source);
    return { version, answer, request };
  } catch (error) {
    request.end("broken");
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
