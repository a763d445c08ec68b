import type { BlobConditions, BlobLike, BlobPropertiesLike } from "../clients/blob.js";
import { WriteNotSentError } from "../core/resolve-write.js";
import { isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { requireETag, withMembers } from "../core/validate.js";
import { claimsName, joinClaims, requireNoClaims, separateClaims, splitClaims } from "./append-claims.js";
import { blobOptions, encryptionObstacle, headersOf, joinMetadata, roomIn, splitMetadata, unlessUnchanged } from "./blob-requests.js";
import { fromPrimary, unusable } from "./content.js";
import { httpHeadersOf, metadataOf, pickHttpHeaders, propertyAdapter } from "./property-set.js";
import type { HttpHeaders, StringMap } from "./property-set.js";
import { targetOf } from "./target.js";
import type { RequestContext, Snapshot, ServiceAdapter, UpdateTarget } from "./target.js";

/**
 * The metadata of an existing blob, of any type. Names are returned in lower case. Shares its journal with the content of
 * the blob.
 *
 * @example
 * ```ts
 * await optimisticUpdate(blobMetadata(blob), (metadata) => { metadata["state"] = "done"; });
 * ```
 * @throws `TypeError` if `blob` is not a blob client.
 */
export function blobMetadata(blob: BlobLike): UpdateTarget<Record<string, string>> {
  interface Kept {
    journalText: string | undefined;
    /** Those of the appenders of an append blob. */
    claimsText: string | undefined;
    encryptionScope: string | undefined;
    /** Why it cannot be written. */
    obstacle: string | undefined;
  }
  const adapter = propertyAdapter("blobMetadata", blob, "blob");
  const { url } = adapter;
  return targetOf<Record<string, string>, Record<string, string>>({
    ...adapter,
    journaled: true,
    journalScope: "metadata",
    encode(value) {
      const metadata = metadataOf(value);
      requireNoClaims(metadata);
      return metadata;
    },
    ...propertyReads(blob, (properties, etag, { journalName }) => {
      const { own: others, journal, journalText } = splitMetadata(properties.metadata, journalName);
      const { own, claimsText } = separateClaims(others);
      const { encryptionScope } = properties;
      return { raw: own, etag, journal, keep: { journalText, claimsText, encryptionScope, obstacle: encryptionObstacle(properties) } satisfies Kept };
    }),
    async write(base, raw, journal, context) {
      const keep = base.keep as Kept;
      if (keep.obstacle !== undefined) throw new WriteNotSentError(unusable(url, "write", keep.obstacle));
      const metadata = joinMetadata(withClaims(raw, keep.claimsText), context.journalName, journal, keep.journalText, url);
      const response = await blob.setMetadata(metadata, {
        ...blobOptions(context, { ifMatch: base.etag }),
        ...(keep.encryptionScope !== undefined && { encryptionScope: keep.encryptionScope }),
      });
      return { raw, etag: requireETag(response.etag, url), journal: journal ?? base.journal, keep };
    },
    // Set Blob Metadata replaces the journal, too, which is that of the content: it has to be read.
    overwrite: undefined,
  });
}

/**
 * With the claims of the appenders, as far as they fit in half of the room, so that the journal has some, too. What is not a list of claims
 * (a later version may store them in another way) is kept as it is.
 */
function withClaims(metadata: StringMap, claimsText: string | undefined): StringMap {
  if (claimsText === undefined) return metadata;
  const claims = splitClaims(claimsText);
  return withMembers(metadata, { [claimsName]: claims ? joinClaims(claims, roomIn(metadata, claimsName) / 2) : claimsText });
}

/**
 * The HTTP headers of an existing blob. They cannot hold a journal: after a lost response, the write counts as committed if
 * the headers have the intended values.
 *
 * @example
 * ```ts
 * await optimisticUpdate(blobHttpHeaders(blob), (headers) => { headers.cacheControl = "no-store"; });
 * ```
 * @throws `TypeError` if `blob` is not a blob client.
 */
export function blobHttpHeaders(blob: BlobLike): UpdateTarget<HttpHeaders> {
  interface Kept {
    contentMD5: Uint8Array | undefined;
  }
  return targetOf<HttpHeaders, Record<string, string>>({
    ...propertyAdapter("blobHttpHeaders", blob, "blob"),
    journaled: false,
    encode: httpHeadersOf,
    ...propertyReads(blob, (properties, etag) => ({
      raw: pickHttpHeaders(properties),
      etag,
      journal: undefined,
      keep: { contentMD5: properties.contentMD5 } satisfies Kept,
    })),
    async write(base, raw, _journal, context) {
      const { contentMD5 } = base.keep as Kept;
      // The content is unchanged, so its hash must be kept. Set Blob Properties would clear it.
      const headers = { ...headersOf(raw), ...(contentMD5 && { blobContentMD5: contentMD5 }) };
      const response = await blob.setHTTPHeaders(headers, blobOptions(context, { ifMatch: base.etag }));
      return { raw, etag: requireETag(response.etag, redactUrl(blob.url)), journal: undefined, keep: base.keep };
    },
    overwrite: async (raw, context, { ifMatch }) =>
      requireETag((await blob.setHTTPHeaders(headersOf(raw), blobOptions(context, ifMatch === undefined ? {} : { ifMatch }))).etag, redactUrl(blob.url)),
  });
}

/** Both reads of an adapter whose value is in the response to one HEAD. */
function propertyReads(
  blob: BlobLike,
  snapshot: (properties: BlobPropertiesLike, etag: string, context: RequestContext) => Snapshot<StringMap>,
): Required<Pick<ServiceAdapter<StringMap, StringMap>, "read" | "readIfChanged">> {
  async function read(context: RequestContext, conditions?: BlobConditions): Promise<Snapshot<StringMap> | undefined> {
    try {
      const properties = await fromPrimary(blob, context, blob.getProperties(blobOptions(context, conditions)));
      return snapshot(properties, requireETag(properties.etag, redactUrl(blob.url)), context);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }
  return {
    read: (context) => read(context),
    readIfChanged: (etag, context) => unlessUnchanged(read(context, { ifNoneMatch: etag })),
  };
}
