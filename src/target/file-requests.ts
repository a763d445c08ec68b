import type { FileAnswerLike, FileCallOptions, FileHttpHeadersLike, FileLike } from "../clients/file.js";
import type { RequestContext } from "./target.js";

/** What the adapters of files and shares have in common. */

export const fileStaleETag = '"0x0"';

/** The options of one request, which is counted here. */
export function fileOptions(context: RequestContext): FileCallOptions {
  return {
    ...unleasedOptions(context, context.abortSignal),
    ...(context.leaseId !== undefined && { leaseAccessConditions: { leaseId: context.leaseId } }),
  };
}

/** The same for a request to another file than the one that is leased. */
export function unleasedOptions(context: RequestContext, abortSignal: AbortSignal): FileCallOptions {
  context.onRequest?.();
  return { abortSignal, ...(context.tracingOptions && { tracingOptions: context.tracingOptions }) };
}

/** The headers in the form in which they are written. `Content-MD5` is left out: it belongs to the content. */
export function fileHeadersOf(answer: FileAnswerLike): FileHttpHeadersLike {
  return {
    ...(answer.contentType && { fileContentType: answer.contentType }),
    ...(answer.cacheControl && { fileCacheControl: answer.cacheControl }),
    ...(answer.contentEncoding && { fileContentEncoding: answer.contentEncoding }),
    ...(answer.contentLanguage && { fileContentLanguage: answer.contentLanguage }),
    ...(answer.contentDisposition && { fileContentDisposition: answer.contentDisposition }),
  };
}

export function checkFile(file: FileLike): void {
  const given = file as Partial<FileLike> | null | undefined;
  if (typeof given?.uploadRange !== "function" || typeof given.rename !== "function") {
    throw new TypeError("a ShareFileClient is needed");
  }
}

/** How the file is called in which new content is written, beside the file itself: its name and this. */
export const stagingSuffix = ".asc-new";

/** What the service takes as the name of a file. */
export const maxNameLength = 255;

/** More than this the service does not take in one request. */
export const maxRangeInBytes: number = 4 * 1024 * 1024;

/**
 * Fills a file that was created with this length. One request for each 4 MiB, one after the other; none if it is empty.
 * Returns the ETag of the last one.
 */
export async function putRanges(file: FileLike, bytes: Uint8Array, options: () => FileCallOptions): Promise<string | undefined> {
  let etag: string | undefined;
  for (let offset = 0; offset < bytes.length; offset += maxRangeInBytes) {
    const part = bytes.subarray(offset, offset + maxRangeInBytes);
    ({ etag } = await file.uploadRange(part, offset, part.length, options()));
  }
  return etag;
}

/**
 * A client for another file in the same directory, with the same rights and policies. The SDK offers no way from a
 * file to its directory; so this does what its own `withShareSnapshot` does: the same class, on another URL, with the
 * same pipeline.
 */
export function siblingOf(file: FileLike, name: string): FileLike {
  const { pipeline, shareClientConfig } = file as { pipeline?: unknown; shareClientConfig?: unknown };
  if (typeof pipeline !== "object" || pipeline === null) throw new TypeError("not a ShareFileClient: it has no pipeline");
  const url = new URL(file.url);
  url.pathname = url.pathname.slice(0, url.pathname.lastIndexOf("/") + 1) + encodeURIComponent(name);
  return Reflect.construct(file.constructor, [url.toString(), pipeline, shareClientConfig]) as FileLike;
}
