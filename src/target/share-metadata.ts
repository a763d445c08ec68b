import type { ShareLike } from "../clients/file.js";
import { isNotFound, isParentNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag } from "../core/validate.js";
import { fileOptions } from "./file-requests.js";
import { metadataOf, propertyAdapter } from "./property-set.js";
import type { StringMap } from "./property-set.js";
import { leasedTargetOf } from "./target.js";
import type { LeasedTarget, RequestContext } from "./target.js";

/**
 * The metadata of an existing share. Names are returned in lower case. The service enforces the lease of a share.
 *
 * @example
 * ```ts
 * await leasedUpdate(shareMetadata(share), (metadata) => { metadata["owner"] = "billing"; });
 * ```
 * @throws `TypeError` if `share` is not a share client.
 */
export function shareMetadata(share: ShareLike): LeasedTarget<Record<string, string>> {
  if (typeof (share as Partial<ShareLike> | null | undefined)?.getDirectoryClient !== "function") {
    throw new TypeError("shareMetadata needs a ShareClient.");
  }
  const url = redactUrl(share.url);
  const set = async (raw: StringMap, context: RequestContext): Promise<string> =>
    requireETag((await share.setMetadata(raw, fileOptions(context))).etag, url);
  return leasedTargetOf<StringMap, StringMap>({
    ...propertyAdapter("shareMetadata", share, "share"),
    requiresLease: true,
    journaled: false,
    encode: metadataOf,
    async read(context) {
      try {
        const response = await share.getProperties(fileOptions(context));
        return { raw: { ...response.metadata }, etag: requireETag(response.etag, url), journal: undefined };
      } catch (error) {
        if (isNotFound(error) || isParentNotFound(error)) return undefined;
        throw error;
      }
    },
    write: async (_base, raw, _journal, context) => ({ raw, etag: await set(raw, context), journal: undefined }),
    overwrite: set,
  });
}
