import type { FileResponseLike, FileLike } from "../clients/file.js";
import { isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { checkFile, fileHeadersOf, fileOptions } from "./file-requests.js";
import { httpHeadersOf, metadataOf, pickHttpHeaders, propertyAdapter } from "./property-set.js";
import type { HttpHeaders, StringMap } from "./property-set.js";
import { leasedTargetOf } from "./target.js";
import type { LeasedTarget, RequestContext, Snapshot } from "./target.js";

/**
 * The metadata of an existing file. Names are returned in lower case. The service enforces the lease of a file.
 *
 * @example
 * ```ts
 * await leasedUpdate(fileMetadata(file), (metadata) => { metadata["state"] = "done"; }, { crashGuard: locks });
 * ```
 * @throws `TypeError` if `file` is not a file client.
 */
export function fileMetadata(file: FileLike): LeasedTarget<Record<string, string>> {
  checkFile(file);
  const url = redactUrl(file.url);
  const set = async (raw: StringMap, context: RequestContext): Promise<string> =>
    requireETag((await file.setMetadata(raw, fileOptions(context))).etag, url);
  return leasedTargetOf<StringMap, StringMap>({
    ...propertyAdapter("fileMetadata", file, "file"),
    requiresLease: true,
    journaled: false,
    encode: metadataOf,
    read: (context) =>
      readProperties(file, context, (response, etag) => ({ raw: { ...response.metadata }, etag, journal: undefined })),
    write: async (_base, raw, _journal, context) => ({ raw, etag: await set(raw, context), journal: undefined }),
    overwrite: set,
  });
}

/**
 * The HTTP headers of an existing file. The service enforces the lease of a file.
 *
 * @example
 * ```ts
 * await leasedUpdate(fileHttpHeaders(file), (headers) => { headers.contentType = "text/csv"; }, { crashGuard: locks });
 * ```
 * @throws `TypeError` if `file` is not a file client.
 */
export function fileHttpHeaders(file: FileLike): LeasedTarget<HttpHeaders> {
  checkFile(file);
  const url = redactUrl(file.url);
  const set = async (raw: StringMap, contentMD5: Uint8Array | undefined, context: RequestContext): Promise<string> => {
    // The content is unchanged, so its hash must be kept. The service clears every header that the request omits.
    const headers = { ...fileHeadersOf(raw), ...(contentMD5 && { fileContentMD5: contentMD5 }) };
    return requireETag((await file.setHttpHeaders(headers, fileOptions(context))).etag, url);
  };
  return leasedTargetOf<HttpHeaders, StringMap>({
    ...propertyAdapter("fileHttpHeaders", file, "file"),
    requiresLease: true,
    journaled: false,
    encode: httpHeadersOf,
    read: (context) =>
      readProperties(file, context, (response, etag) => ({
        raw: pickHttpHeaders(response),
        etag,
        journal: undefined,
        keep: response.contentMD5,
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
  snapshot: (response: FileResponseLike, etag: string) => Snapshot<StringMap>,
): Promise<Snapshot<StringMap> | undefined> {
  try {
    const response = await file.getProperties(fileOptions(context));
    return snapshot(response, requireETag(response.etag, redactUrl(file.url)));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
