import type { BlobCallOptions, BlobConditions, BlobHttpHeadersLike, BlobUploadOptions, BlockBlobLike } from "../clients/blob.js";
import type { LeasableLike } from "../clients/leasable.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { identityOf } from "../core/identity.js";
import { read } from "../core/request.js";
import { WriteNotSentError } from "../core/resolve-write.js";
import { isConflict, isDefinitive, isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { checkOneOf, checkOptions, requireETag } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { blobOptions, blobStaleETag, encryptionObstacle, headersOf, joinMetadata, splitMetadata, tagCondition, unlessUnchanged } from "./blob-requests.js";
import { contentCodecOf } from "./codec.js";
import type { Codec } from "./codec.js";
import { bytesCodec, discardBody, fromPrimary, readBody, readWhole, sizeLimit, textCodec, unusable, validateDocument } from "./content.js";
import type { ContentCodec } from "./content.js";
import { jsonCodec } from "./json.js";
import type { JsonDocument } from "./json.js";
import type { Journal } from "./journal.js";
import { readOnlyReason, requireClient, targetOf, withSignal } from "./target.js";
import type { RequestContext, Snapshot, ServiceAdapter, UpdateTarget } from "./target.js";

/** Options of {@link textBlob}, {@link bytesBlob} and {@link encodedBlob}. */
export interface BlobContentOptions {
  /**
   * Also read the access tier, and write it again. Not needed in Azure (a rewritten blob keeps its tier), but Azurite resets
   * it. Costs one more request for each write.
   * @defaultValue false
   */
  keepTier?: boolean | undefined;
  /**
   * What a delete does if the blob has snapshots, which cannot exist without it. `"include"`: deletes them, too.
   * @defaultValue none: the delete is rejected (409 `SnapshotsPresent`), so that no snapshot is lost by mistake
   */
  deleteSnapshots?: "include" | undefined;
  /**
   * A larger blob is neither read nor written: the call rejects with a {@link ContentTooLargeError}.
   * @defaultValue 67_108_864 (64 MiB): the content is held in memory several times, JSON as up to five times its size
   */
  maxSizeInBytes?: number | undefined;
}

/** Options of {@link jsonBlob}. */
export interface JsonBlobOptions<T> extends BlobContentOptions {
  /**
   * Validates the document when it is read and before it is written: any Standard Schema (zod, valibot, arktype, ...). `T` is its
   * output: defaults and coercions are applied to what is read. Properties that the schema does not know are kept.
   * @defaultValue none: any JSON value is valid
   */
  schema?: StandardSchemaLike<T> | undefined;
  /**
   * Whether an update may replace an object or a list by a value of another kind: an object by a list, or either by a single value.
   * @defaultValue false: a mutator that returns a number by mistake, such as `(draft) => draft.count`, is a `TypeError`
   */
  allowKindChange?: boolean | undefined;
}

const contentNames: OptionNames<BlobContentOptions> = { keepTier: 1, deleteSnapshots: 1, maxSizeInBytes: 1 };
const jsonNames: OptionNames<JsonBlobOptions<unknown>> = { keepTier: 1, deleteSnapshots: 1, maxSizeInBytes: 1, schema: 1, allowKindChange: 1 };

/**
 * The JSON document in a block blob. Headers, metadata, tags and tier are kept.
 *
 * @example
 * ```ts
 * const settings = jsonBlob(container.getBlockBlobClient("settings.json"), { schema });
 * await optimisticUpdate(settings, (draft) => { draft.level = "debug"; });
 * ```
 * @throws `TypeError` if `blob` is not a block blob client, or an option is unknown.
 */
export function jsonBlob<T = unknown>(blob: BlockBlobLike, options: JsonBlobOptions<T> = {}): UpdateTarget<T> {
  checkOptions("jsonBlob", options, jsonNames);
  return contentTarget("jsonBlob", blob, jsonCodec as ContentCodec<T, JsonDocument>, options);
}

/**
 * The text in a block blob (UTF-8). Otherwise like {@link jsonBlob}.
 * @throws `TypeError` if `blob` is not a block blob client, or an option is unknown.
 */
export function textBlob(blob: BlockBlobLike, options: BlobContentOptions = {}): UpdateTarget<string> {
  checkOptions("textBlob", options, contentNames);
  return contentTarget("textBlob", blob, textCodec, options);
}

/**
 * The bytes in a block blob. Otherwise like {@link jsonBlob}.
 * @throws `TypeError` if `blob` is not a block blob client, or an option is unknown.
 */
export function bytesBlob(blob: BlockBlobLike, options: BlobContentOptions = {}): UpdateTarget<Uint8Array> {
  checkOptions("bytesBlob", options, contentNames);
  return contentTarget("bytesBlob", blob, bytesCodec, options);
}

/**
 * The content of a block blob in any other format. Otherwise like {@link jsonBlob}.
 *
 * @example
 * ```ts
 * await optimisticUpdate(encodedBlob(blob, yaml), (draft) => { draft.level = "debug"; });
 * ```
 * @throws `TypeError` if `blob` is not a block blob client, `codec` is not a {@link Codec}, or an option is unknown.
 */
export function encodedBlob<T>(blob: BlockBlobLike, codec: Codec<T>, options: BlobContentOptions = {}): UpdateTarget<T> {
  checkOptions("encodedBlob", options, contentNames);
  return contentTarget("encodedBlob", blob, contentCodecOf("encodedBlob", codec), options, codec);
}

/** What a rewrite of the content has to send again, because Put Blob drops everything that it is not given. */
interface Kept {
  readonly headers: BlobHttpHeadersLike;
  readonly metadata: Record<string, string>;
  readonly journalText: string | undefined;
  /** Their names and values are read when they are written: another client may set them at any time, and the ETag stays the same. */
  readonly hasTags: boolean;
  readonly encryptionScope: string | undefined;
  /** Why the blob cannot be written. */
  readonly obstacle: string | undefined;
}

/** What a write keeps, and what can change without another ETag. */
interface Unversioned {
  readonly tags?: Record<string, string>;
  readonly tier?: string;
}

function contentTarget<T, Raw>(
  kind: string,
  blob: BlockBlobLike,
  codec: ContentCodec<T, Raw>,
  options: JsonBlobOptions<T>,
  identity: object | undefined = options.schema,
): UpdateTarget<T> {
  requireClient(kind, blob, "a BlockBlobClient");
  const url = redactUrl(blob.url);
  const { schema, keepTier = false, deleteSnapshots, allowKindChange = false } = options;
  if (deleteSnapshots !== undefined) checkOneOf("deleteSnapshots", deleteSnapshots, ["include"]);
  const limit = sizeLimit(url, options.maxSizeInBytes);

  const adapter: ServiceAdapter<T, Raw> = {
    kind,
    url,
    credentialScope: credentialScopeOf(blob),
    leasable: blob as BlockBlobLike & LeasableLike,
    key: JSON.stringify([kind, blob.url, keepTier, deleteSnapshots ?? "", limit.maxSizeInBytes, allowKindChange, identity ? identityOf(identity) : 0]),
    ...readOnlyReason(blob),
    staleETag: blobStaleETag,
    journaled: true,
    decode: codec.decode,
    encode(value, previous) {
      const raw = codec.encode(value, previous);
      if (previous !== undefined && !allowKindChange) codec.checkKind?.(previous, raw);
      return raw;
    },
    equals: codec.equals,
    // A client may read the metadata before this write and the content after it: what it makes of them has the old journal, and the change.
    containsChange: (stored, _draft, base) => !codec.equals(stored, base),
    validate: schema && ((raw, phase) => validateDocument(codec, schema, raw, phase, url)),

    read: (context) => readWhole(() => readOnce(context), isTorn, context.abortSignal),
    readIfChanged: (etag, context) => unlessUnchanged(readWhole(() => readOnce(context, { ifNoneMatch: etag }), isTorn, context.abortSignal)),

    async write(base, raw, journal, context) {
      const keep = (base.keep as Kept | undefined) ?? fresh;
      if (keep.obstacle !== undefined) throw new WriteNotSentError(unusable(url, "write", keep.obstacle));
      const unversioned = base.keep === undefined ? {} : await readUnversioned(base, context);
      const { tags }: Unversioned = unversioned;
      const condition = tags && tagCondition(tags);
      const conditions = { ifMatch: base.etag, ...(condition !== undefined && { tagConditions: condition }) };
      const kept = keep.hasTags === (condition !== undefined) ? keep : { ...keep, hasTags: condition !== undefined };
      return upload(raw, journal, kept, Object.assign(blobOptions(context, conditions), unversioned), context);
    },

    create: (raw, journal, context) => upload(raw, journal, fresh, blobOptions(context, { ifNoneMatch: "*" }), context),

    async delete(etag, context) {
      await blob.delete({ ...blobOptions(context, { ifMatch: etag }), ...(deleteSnapshots && { deleteSnapshots }) });
    },

    overwrite: async (raw, context, { ifMatch, journal }) =>
      (await upload(raw, journal, fresh, blobOptions(context, ifMatch === undefined ? {} : { ifMatch }), context)).etag,
  };

  const fresh: Kept = {
    headers: { blobContentType: codec.contentType },
    metadata: {},
    journalText: undefined,
    hasTags: false,
    encryptionScope: undefined,
    obstacle: undefined,
  };

  async function readOnce(context: RequestContext, conditions?: BlobConditions): Promise<Snapshot<Raw>> {
    const response = await fromPrimary(blob, context, blob.download(0, undefined, blobOptions(context, conditions)));
    if (response.contentLength !== undefined && response.contentLength > limit.maxSizeInBytes) {
      discardBody(response);
      throw limit.tooLarge(`${url} has ${response.contentLength} bytes`, response.contentLength);
    }
    const bytes = await readBody(response, (length) => limit.checkLength(length));
    const etag = requireETag(response.etag, url);
    if (response.contentLength !== undefined && bytes.length !== response.contentLength) {
      throw unusable(url, "read", `${bytes.length} of ${response.contentLength} bytes arrived; a proxy may have changed its encoding`);
    }
    const { own, journal, journalText } = splitMetadata(response.metadata, context.journalName);
    const keep: Kept = {
      headers: headersOf(response),
      metadata: own,
      journalText,
      hasTags: Boolean(response.tagCount),
      encryptionScope: response.encryptionScope,
      obstacle: encryptionObstacle(response),
    };
    return { raw: parse(bytes, etag), etag, journal, keep };
  }

  /** Read as late as possible: an update of the tags that was confirmed before this is not undone by the write. */
  async function readUnversioned(base: Snapshot<Raw>, context: RequestContext): Promise<Unversioned> {
    // With a signal of their own: they must not count as sends of the write.
    const prepare = <R extends object>(send: (options: (conditions?: BlobConditions) => BlobCallOptions) => Promise<R>): Promise<R> =>
      read((abortSignal) => fromPrimary(blob, context, send((conditions) => blobOptions(withSignal(context, abortSignal), conditions))), {
        abortSignal: context.preparationSignal,
        timeoutInMs: context.tryLimit.timeoutInMs(0),
      });
    try {
      const properties = keepTier ? await prepare((options) => blob.getProperties(options({ ifMatch: base.etag }))) : undefined;
      const { tags } = hasTags(base) || properties?.tagCount ? await prepare((options) => blob.getTags(options())) : { tags: undefined };
      // A tier inferred from the account must not be pinned.
      const tier = properties?.accessTierInferred ? undefined : properties?.accessTier;
      return { ...(tags && { tags }), ...(tier !== undefined && { tier }) };
    } catch (error) {
      // Otherwise the response was lost, or came from the secondary: the write is tried again from the start.
      if (!isDefinitive(error)) throw error;
      throw new WriteNotSentError(error, isConflict(error) || isNotFound(error));
    }
  }

  async function upload(
    raw: Raw,
    journal: Journal | undefined,
    keep: Kept,
    request: BlobUploadOptions,
    context: RequestContext,
  ): Promise<Snapshot<Raw>> {
    const bytes = limit.checkBytes(codec.toBytes(raw));
    const response = await blob.upload(bytes, bytes.length, {
      blobHTTPHeaders: keep.headers,
      metadata: joinMetadata(keep.metadata, context.journalName, journal, keep.journalText, url),
      ...request,
      ...(keep.encryptionScope !== undefined && { encryptionScope: keep.encryptionScope }),
    });
    return { raw, etag: requireETag(response.etag, url), journal, keep };
  }

  function parse(bytes: Uint8Array, etag: string): Raw {
    try {
      return codec.fromBytes(bytes);
    } catch (error) {
      throw unusable(url, "read", error instanceof Error ? error.message : String(error), { etag, cause: error });
    }
  }

  return targetOf(adapter);
}

/** The connection broke within the body (the SDK reports an abort), or the blob changed between two requests of one read. */
function isTorn(error: unknown): boolean {
  return isConflict(error) || (error instanceof Error && error.name === "AbortError");
}

/** What a recreated blob has is not kept: its `keep` is undefined. */
function hasTags(base: Snapshot<unknown> | undefined): boolean {
  return (base?.keep as Kept | undefined)?.hasTags === true;
}
