import type { FileAnswerLike, FileCallOptions, FileHttpHeadersLike, FileLike } from "../clients/file.js";
import type { RequestContext } from "./target.js";

/** Shared by the adapters of files and shares. */

export const fileStaleETag = '"0x0"';

/** The options of one request. Counts the request. */
export function fileOptions(context: RequestContext): FileCallOptions {
  return {
    ...unleasedOptions(context, context.abortSignal),
    ...(context.leaseId !== undefined && { leaseAccessConditions: { leaseId: context.leaseId } }),
  };
}

/** The same for a request to a file other than the leased one. */
export function unleasedOptions(context: RequestContext, abortSignal: AbortSignal): FileCallOptions {
  context.onRequest?.();
  return { abortSignal, ...(context.tracingOptions && { tracingOptions: context.tracingOptions }) };
}

/** The headers in the form in which they are written. `Content-MD5` is omitted: it belongs to the content. */
export function fileHeadersOf(response: FileAnswerLike): FileHttpHeadersLike {
  return {
    ...(response.contentType && { fileContentType: response.contentType }),
    ...(response.cacheControl && { fileCacheControl: response.cacheControl }),
    ...(response.contentEncoding && { fileContentEncoding: response.contentEncoding }),
    ...(response.contentLanguage && { fileContentLanguage: response.contentLanguage }),
    ...(response.contentDisposition && { fileContentDisposition: response.contentDisposition }),
  };
}

export function checkFile(file: FileLike): void {
  const given = file as Partial<FileLike> | null | undefined;
  if (typeof given?.uploadRange !== "function" || typeof given.rename !== "function") {
    throw new TypeError("a ShareFileClient is needed");
  }
}

/** Suffix of the staging file: new content is written to a file with the target's name and this suffix, beside the target. */
export const stagingSuffix = ".asc-new";

/** The maximum length of a file name that the service accepts. */
export const maxNameLength = 255;

/** The maximum that the service accepts in one request. */
export const maxRangeInBytes: number = 4 * 1024 * 1024;

/**
 * Fills a file that was created with this length. Sends one request for each 4 MiB, one after the other, and none if the file
 * is empty. Returns the ETag from the last response.
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
 * A client for another file in the same directory, with the same credentials and policies. The SDK offers no way from a file
 * to its directory, so this does what the SDK's `withShareSnapshot` does: it constructs the same class with another URL and
 * the same pipeline.
 */
export function siblingOf(file: FileLike, name: string): FileLike {
  const { pipeline, shareClientConfig } = file as { pipeline?: unknown; shareClientConfig?: unknown };
  if (typeof pipeline !== "object" || pipeline === null) throw new TypeError("not a ShareFileClient: it has no pipeline");
  const url = new URL(file.url);
  url.pathname = url.pathname.slice(0, url.pathname.lastIndexOf("/") + 1) + encodeURIComponent(name);
  return Reflect.construct(file.constructor, [url.toString(), pipeline, shareClientConfig]) as FileLike;
}
