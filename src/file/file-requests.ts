import type { FileAnswerLike, FileCallOptions, FileHttpHeadersLike, FileLike } from "../clients.js";
import type { RequestContext } from "../update/target.js";

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
