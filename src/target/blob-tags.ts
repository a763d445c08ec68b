import type { BlobLike } from "../clients/blob.js";
import { isNotFound } from "../core/storage-errors.js";
import { targetOf } from "./target.js";
import type { UpdateTarget } from "./target.js";
import { blobOptions } from "./blob-requests.js";
import { propertyAdapter, stringValues } from "./property-set.js";

/**
 * The index tags of an existing blob.
 *
 * Tags have no ETag, and changing them does not change the blob's. What guards an update is a condition on the tags
 * themselves (`x-ms-if-tags`): that every tag which was read still has its value. So it notices tags that somebody
 * changed or removed, but not a tag that somebody added in between, and nothing at all on a blob that had no tags;
 * where that matters, hold a lease and pass it as `conditions: { leaseId }`. Azurite ignores the condition. There is
 * no place for a journal: after a lost answer, tags that are as they should be count as written. The `etag` of a
 * result is that condition.
 */
export function blobTags(blob: BlobLike): UpdateTarget<Record<string, string>> {
  return targetOf<Record<string, string>, Record<string, string>>({
    ...propertyAdapter("blobTags", blob, "blob"),
    staleETag: noCondition,
    journaled: false,
    encode: (value) => stringValues(value, "tag"),
    async read(context) {
      try {
        const { tags } = await blob.getTags(blobOptions(context));
        return { raw: { ...tags }, etag: conditionOf(tags), journal: undefined };
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    async write(base, raw, _journal, context) {
      await blob.setTags(raw, blobOptions(context, base.etag === noCondition ? {} : { tagConditions: base.etag }));
      return { raw, etag: conditionOf(raw), journal: undefined };
    },
    async overwrite(raw, context) {
      await blob.setTags(raw, blobOptions(context));
      return conditionOf(raw);
    },
  });
}

const noCondition = "no tags";

/** Quotes are not allowed in tags, so there is nothing to escape. */
function conditionOf(tags: Record<string, string>): string {
  const parts = Object.entries(tags).map(([name, value]) => `"${name}" = '${value}'`);
  return parts.length > 0 ? parts.sort().join(" AND ") : noCondition;
}
