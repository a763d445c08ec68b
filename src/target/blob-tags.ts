import type { BlobConditions, BlobLike } from "../clients/blob.js";
import { WriteNotSentError } from "../core/resolve-write.js";
import { isNotFound } from "../core/storage-errors.js";
import { PreconditionError } from "../errors.js";
import { blobOptions, tagCondition } from "./blob-requests.js";
import { fromPrimary } from "./content.js";
import { propertyAdapter, stringValues } from "./property-set.js";
import { targetOf } from "./target.js";
import type { UpdateTarget } from "./target.js";

/**
 * The index tags of an existing blob.
 *
 * Tags have no ETag, and changing them does not change the blob's ETag. An update is conditional on the tags themselves
 * (`x-ms-if-tags`): every tag that was read must still have its value. This detects tags that another client changed or
 * removed, but not a tag that another client added in between, and nothing at all on a blob that had no tags. If that
 * matters, hold a lease and pass it as `conditions: { leaseId }`. Azurite ignores the condition. Tags cannot hold a journal:
 * after a lost response, the write counts as committed if the tags have the intended values. The `etag` of a result is the
 * condition.
 *
 * @example
 * ```ts
 * await optimisticUpdate(blobTags(blob), (tags) => { tags["state"] = "done"; });
 * ```
 * @throws `TypeError` if `blob` is not a blob client.
 */
export function blobTags(blob: BlobLike): UpdateTarget<Record<string, string>> {
  return targetOf<Record<string, string>, Record<string, string>>({
    ...propertyAdapter("blobTags", blob, "blob"),
    staleETag: staleCondition,
    journaled: false,
    encode: (value) => stringValues(value, "tag"),
    async read(context) {
      try {
        const { tags } = await fromPrimary(blob, context, blob.getTags(blobOptions(context)));
        return { raw: { ...tags }, etag: conditionOf(tags), journal: undefined };
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    async write(base, raw, _journal, context) {
      await blob.setTags(raw, blobOptions(context, conditionsFor(base.etag)));
      return { raw, etag: conditionOf(raw), journal: undefined };
    },
    async overwrite(raw, context, { ifMatch }) {
      await blob.setTags(raw, blobOptions(context, conditionsFor(ifMatch)));
      return conditionOf(raw);
    },
  });
}

const noCondition = "no tags";

/** A condition that no tags meet. */
const staleCondition = `"superseded" = '0' AND "superseded" = '1'`;

/** Throws for tags that have been superseded. This needs no request, and Azurite would ignore the condition. */
function conditionsFor(etag: string | undefined): BlobConditions {
  if (etag === staleCondition) throw new WriteNotSentError(new PreconditionError("These tags have been superseded."), true);
  return etag === undefined || etag === noCondition ? {} : { tagConditions: etag };
}

function conditionOf(tags: Record<string, string>): string {
  return tagCondition(tags) ?? noCondition;
}
