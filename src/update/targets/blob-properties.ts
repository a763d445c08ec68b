import { deepEqual } from "fast-equals";
import type { BlobConditions, BlobLike, BlobPropertiesLike } from "../../clients.js";
import { isMissing } from "../../internal/storage-errors.js";
import { ownerOf } from "../../internal/owner.js";
import { displayUrl } from "../../internal/url.js";
import { requireClient, requireETag, targetOf } from "../target.js";
import type { RequestContext, Snapshot, TargetAdapter, UpdateTarget } from "../target.js";
import { blobOptions, blobStaleETag, headersOf, joinMetadata, splitMetadata, unlessUnchanged } from "./blob-requests.js";

/** The HTTP headers of a blob that can be set. */
export interface BlobHttpHeadersValue {
  contentType?: string | undefined;
  cacheControl?: string | undefined;
  contentEncoding?: string | undefined;
  contentLanguage?: string | undefined;
  contentDisposition?: string | undefined;
}

/**
 * The metadata of an existing blob, of any kind. Names come back in lower case. Shares its journal with the content
 * of the blob.
 */
export function blobMetadata(blob: BlobLike): UpdateTarget<Record<string, string>> {
  interface Kept {
    journalText: string | undefined;
  }
  return targetOf<Record<string, string>, Record<string, string>>({
    ...propertyAdapter("blobMetadata", blob),
    journaled: true,
    encode: (value) => lowerCaseNames(checkMetadata(stringValues(value, "metadata"))),
    ...propertyReads(blob, ({ metadata }, etag, { journalName }) => {
      const { own, journal, journalText } = splitMetadata(metadata, journalName);
      return { raw: own, etag, journal, keep: { journalText } satisfies Kept };
    }),
    async write(base, raw, journal, context) {
      const keep = base.keep as Kept;
      const metadata = joinMetadata(raw, context.journalName, journal, keep.journalText);
      const answer = await blob.setMetadata(metadata, blobOptions(context, { ifMatch: base.etag }));
      return { raw, etag: requireETag(answer.etag, displayUrl(blob.url)), journal: journal ?? base.journal, keep };
    },
    overwrite: async (raw, context) => requireETag((await blob.setMetadata(raw, blobOptions(context))).etag, displayUrl(blob.url)),
  });
}

/**
 * The HTTP headers of an existing blob. They have no place for a journal: after a lost answer, headers that are as
 * they should be count as written.
 */
export function blobHttpHeaders(blob: BlobLike): UpdateTarget<BlobHttpHeadersValue> {
  interface Kept {
    contentMD5: Uint8Array | undefined;
  }
  return targetOf<BlobHttpHeadersValue, Record<string, string>>({
    ...propertyAdapter("blobHttpHeaders", blob),
    journaled: false,
    encode: (value) => checkHeaderNames(headerValues(stringValues(value, "HTTP header"), "HTTP header")),
    ...propertyReads(blob, (properties, etag) => ({
      raw: Object.fromEntries(headerNames.flatMap((name) => (properties[name] ? [[name, properties[name]]] : []))),
      etag,
      journal: undefined,
      keep: { contentMD5: properties.contentMD5 } satisfies Kept,
    })),
    async write(base, raw, _journal, context) {
      const { contentMD5 } = base.keep as Kept;
      // The content stays, so its hash does too; Set Blob Properties would clear it.
      const headers = { ...headersOf(raw), ...(contentMD5 && { blobContentMD5: contentMD5 }) };
      const answer = await blob.setHTTPHeaders(headers, blobOptions(context, { ifMatch: base.etag }));
      return { raw, etag: requireETag(answer.etag, displayUrl(blob.url)), journal: undefined, keep: base.keep };
    },
    overwrite: async (raw, context) =>
      requireETag((await blob.setHTTPHeaders(headersOf(raw), blobOptions(context))).etag, displayUrl(blob.url)),
  });
}

const headerNames = ["contentType", "cacheControl", "contentEncoding", "contentLanguage", "contentDisposition"] as const;

function checkHeaderNames(headers: Record<string, string>): Record<string, string> {
  for (const name of Object.keys(headers)) {
    if (!(headerNames as readonly string[]).includes(name)) {
      throw new TypeError(`${name} is no header that can be set: ${headerNames.join(", ")}`);
    }
  }
  return headers;
}

type StringMap = Record<string, string>;

interface PropertyAdapter
  extends Pick<
    TargetAdapter<StringMap, StringMap>,
    "kind" | "url" | "owner" | "key" | "staleETag" | "whenMissing" | "decode" | "same" | "create" | "remove"
  > {
  readonly check: undefined;
}

/** What targets that are a set of strings on an existing blob share: they cannot be created or removed. */
export function propertyAdapter(kind: string, blob: BlobLike): PropertyAdapter {
  requireClient(kind, blob, "a blob client");
  const url = displayUrl(blob.url);
  return {
    kind,
    url,
    owner: ownerOf(blob),
    key: JSON.stringify([kind, blob.url]),
    staleETag: blobStaleETag,
    whenMissing: `${kind} cannot create it: create the blob first`,
    decode: (raw) => ({ ...raw }),
    same: deepEqual,
    check: undefined,
    create: () => Promise.reject(new TypeError(`${kind}: ${url} does not exist, and cannot be created by this; create the blob first`)),
    remove: () => Promise.reject(new TypeError(`${kind} cannot be removed: set an empty value, or delete the blob`)),
  };
}

/** Sent as headers: what HTTP cannot carry would be cut, changed or never sent. */
function headerValues(values: StringMap, what: string): StringMap {
  for (const [name, value] of Object.entries(values)) {
    if (!/^[\x20-\x7e]*$/.test(value) || value.trim() !== value) {
      throw new TypeError(`${what} ${JSON.stringify(name)} must be printable ASCII without spaces around it: encode it, for example with encodeURIComponent`);
    }
  }
  return values;
}

const metadataName = /^[A-Za-z_][A-Za-z0-9_]*$/;

function checkMetadata(metadata: StringMap): StringMap {
  for (const name of Object.keys(metadata)) {
    if (!metadataName.test(name)) throw new TypeError(`${JSON.stringify(name)} is no name for metadata: letters, digits and _`);
  }
  return headerValues(metadata, "metadata");
}

/** As a reader gets them: else the next mutator of a group would see a name twice that is one to the service. */
function lowerCaseNames(metadata: StringMap): StringMap {
  return Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name.toLowerCase(), value]));
}

/** A private copy that holds strings only; what is set to undefined is left out. */
export function stringValues(value: unknown, what: string): StringMap {
  if (typeof value !== "object" || value === null) throw new TypeError(`${what}: an object of strings is needed`);
  const entries: [string, string][] = [];
  for (const [name, v] of Object.entries(value)) {
    if (v === undefined) continue;
    if (typeof v !== "string") throw new TypeError(`${what} ${JSON.stringify(name)} must be a string, not ${typeof v}`);
    entries.push([name, v]);
  }
  return Object.fromEntries(entries);
}

/** Both ways to read what one HEAD tells. */
function propertyReads(
  blob: BlobLike,
  snapshot: (properties: BlobPropertiesLike, etag: string, context: RequestContext) => Snapshot<StringMap>,
): Required<Pick<TargetAdapter<StringMap, StringMap>, "read" | "readIfChanged">> {
  async function read(context: RequestContext, conditions?: BlobConditions): Promise<Snapshot<StringMap> | undefined> {
    try {
      const properties = await blob.getProperties(blobOptions(context, conditions));
      return snapshot(properties, requireETag(properties.etag, displayUrl(blob.url)), context);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }
  return {
    read: (context) => read(context),
    readIfChanged: (etag, context) => unlessUnchanged(read(context, { ifNoneMatch: etag })),
  };
}
