import type { FileAnswerLike, FileLike } from "../clients/file.js";
import { isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { guardedTargetOf } from "./target.js";
import type { GuardedTarget, RequestContext, Snapshot } from "./target.js";
import { httpHeadersOf, metadataOf, pickHttpHeaders, propertyAdapter } from "./property-set.js";
import type { HttpHeadersValue, StringMap } from "./property-set.js";
import { checkFile, fileHeadersOf, fileOptions } from "./file-requests.js";

/** The metadata of an existing file. Names come back in lower case. */
export function fileMetadata(file: FileLike): GuardedTarget<Record<string, string>> {
  checkFile(file);
  const url = redactUrl(file.url);
  const set = async (raw: StringMap, context: RequestContext): Promise<string> =>
    requireETag((await file.setMetadata(raw, fileOptions(context))).etag, url);
  return guardedTargetOf<StringMap, StringMap>({
    ...propertyAdapter("fileMetadata", file, "file"),
    requiresLease: true,
    journaled: false,
    encode: metadataOf,
    read: (context) =>
      readProperties(file, context, (answer, etag) => ({ raw: { ...answer.metadata }, etag, journal: undefined })),
    write: async (_base, raw, _journal, context) => ({ raw, etag: await set(raw, context), journal: undefined }),
    overwrite: set,
  });
}

/** The HTTP headers of an existing file. */
export function fileHttpHeaders(file: FileLike): GuardedTarget<HttpHeadersValue> {
  checkFile(file);
  const url = redactUrl(file.url);
  const set = async (raw: StringMap, contentMD5: Uint8Array | undefined, context: RequestContext): Promise<string> => {
    // The content stays, so its hash does too; what is not named would be cleared.
    const headers = { ...fileHeadersOf(raw), ...(contentMD5 && { fileContentMD5: contentMD5 }) };
    return requireETag((await file.setHttpHeaders(headers, fileOptions(context))).etag, url);
  };
  return guardedTargetOf<HttpHeadersValue, StringMap>({
    ...propertyAdapter("fileHttpHeaders", file, "file"),
    requiresLease: true,
    journaled: false,
    encode: httpHeadersOf,
    read: (context) =>
      readProperties(file, context, (answer, etag) => ({
        raw: pickHttpHeaders(answer),
        etag,
        journal: undefined,
        keep: answer.contentMD5,
      })),
    write: async (base, raw, _journal, context) => ({
      raw,
      etag: await set(raw, base.keep as Uint8Array | undefined, context),
      journal: undefined,
      keep: base.keep,
    }),
    overwrite: (raw, context) => set(raw, undefined, context),
  });
}

async function readProperties(
  file: FileLike,
  context: RequestContext,
  snapshot: (answer: FileAnswerLike, etag: string) => Snapshot<StringMap>,
): Promise<Snapshot<StringMap> | undefined> {
  try {
    const answer = await file.getProperties(fileOptions(context));
    return snapshot(answer, requireETag(answer.etag, redactUrl(file.url)));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
