import type { BlobConditions, BlobHttpHeadersLike, BlockBlobLike } from "../clients/blob.js";
import type { LeasableLike } from "../clients/leasable.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { identityOf } from "../core/identity.js";
import { isConflict } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { checkOneOf, checkOptions, requireETag } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, SchemaError } from "../errors.js";
import { blobOptions, blobStaleETag, headersOf, joinMetadata, splitMetadata, unlessUnchanged } from "./blob-requests.js";
import { contentCodecOf } from "./codec.js";
import type { Codec } from "./codec.js";
import { bytesCodec, jsonCodec, readBody, readWhole, textCodec, validateDocument } from "./content.js";
import type { ContentCodec } from "./content.js";
import type { Journal } from "./journal.js";
import { requireClient, targetOf } from "./target.js";
import type { RequestContext, Snapshot, ServiceAdapter, UpdateTarget } from "./target.js";

/** Options of {@link textBlob}, {@link bytesBlob} and {@link encodedBlob}. */
export interface BlobContentOptions {
  /**
   * Also read the access tier, and write it again. Not needed in Azure (a rewritten blob keeps its tier), but Azurite resets
   * it. Costs one more request for each read.
   * @defaultValue false
   */
  keepTier?: boolean | undefined;
  /**
   * What a delete does if the blob has snapshots, which cannot exist without it. `"include"`: deletes them, too.
   * @defaultValue none: the delete is rejected (409 `SnapshotsPresent`), so that no snapshot is lost by mistake
   */
  deleteSnapshots?: "include" | undefined;
}

/** Options of {@link jsonBlob}. */
export interface JsonBlobOptions<T> extends BlobContentOptions {
  /**
   * Validates the document when it is read and before it is written: any Standard Schema (zod, valibot, arktype, ...). `T` is its
   * output: defaults and coercions are applied to what is read. Properties that the schema does not know are kept.
   * @defaultValue none: any JSON value is valid
   */
  schema?: StandardSchemaLike<T> | undefined;
}

const contentNames: OptionNames<BlobContentOptions> = { keepTier: 1, deleteSnapshots: 1 };
const jsonNames: OptionNames<JsonBlobOptions<unknown>> = { keepTier: 1, deleteSnapshots: 1, schema: 1 };

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
  return contentTarget("jsonBlob", blob, jsonCodec as ContentCodec<T, string>, options);
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
  headers: BlobHttpHeadersLike;
  metadata: Record<string, string>;
  journalText: string | undefined;
  tags: Record<string, string> | undefined;
  tier: string | undefined;
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
  const { schema, keepTier = false, deleteSnapshots } = options;
  if (deleteSnapshots !== undefined) checkOneOf("deleteSnapshots", deleteSnapshots, ["include"]);

  const adapter: ServiceAdapter<T, Raw> = {
    kind,
    url,
    credentialScope: credentialScopeOf(blob),
    leasable: blob as BlockBlobLike & LeasableLike,
    key: JSON.stringify([kind, blob.url, keepTier, deleteSnapshots ?? "", identity ? identityOf(identity) : 0]),
    staleETag: blobStaleETag,
    journaled: true,
    decode: codec.decode,
    encode: codec.encode,
    equals: codec.equals,
    validate: schema && ((raw, phase) => validateDocument(codec, schema, raw, phase, url)),

    read: (context) => readWhole(() => readOnce(context), isTorn, context.abortSignal),
    readIfChanged: (etag, context) => unlessUnchanged(readWhole(() => readOnce(context, { ifNoneMatch: etag }), isTorn, context.abortSignal)),

    write: (base, raw, journal, context) =>
      upload(raw, journal, base.keep as Kept, blobOptions(context, { ifMatch: base.etag }), context),

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
    tags: undefined,
    tier: undefined,
  };

  async function readOnce(context: RequestContext, conditions?: BlobConditions): Promise<Snapshot<Raw>> {
    const response = await blob.download(0, undefined, blobOptions(context, conditions));
    const bytes = await readBody(response);
    const etag = requireETag(response.etag, url);
    if (response.contentLength !== undefined && bytes.length !== response.contentLength) {
      throw unusable(url, `${bytes.length} of ${response.contentLength} bytes arrived; a proxy may have changed its encoding`);
    }
    const { own, journal, journalText } = splitMetadata(response.metadata, context.journalName);
    const keep: Kept = { headers: headersOf(response), metadata: own, journalText, tags: undefined, tier: undefined };
    if (response.tagCount) keep.tags = (await blob.getTags(blobOptions(context))).tags;
    if (keepTier) keep.tier = await explicitTier(blob, etag, context);
    return { raw: parse(bytes, etag), etag, journal, keep };
  }

  async function upload(
    raw: Raw,
    journal: Journal | undefined,
    keep: Kept,
    request: ReturnType<typeof blobOptions>,
    context: RequestContext,
  ): Promise<Snapshot<Raw>> {
    const bytes = codec.toBytes(raw);
    const response = await blob.upload(bytes, bytes.length, {
      ...request,
      blobHTTPHeaders: keep.headers,
      metadata: joinMetadata(keep.metadata, context.journalName, journal, keep.journalText),
      ...(keep.tags && { tags: keep.tags }),
      ...(keep.tier !== undefined && { tier: keep.tier }),
    });
    return { raw, etag: requireETag(response.etag, url), journal, keep };
  }

  function parse(bytes: Uint8Array, etag: string): Raw {
    try {
      return codec.fromBytes(bytes);
    } catch (error) {
      throw unusable(url, error instanceof Error ? error.message : String(error), { etag, cause: error });
    }
  }

  return targetOf(adapter);
}

/** The connection broke within the body (the SDK reports an abort), or the blob changed between two requests of one read. */
function isTorn(error: unknown): boolean {
  return isConflict(error) || (error instanceof Error && error.name === "AbortError");
}

/** The tier, if it was set for this blob. A tier inferred from the account must not be pinned. */
async function explicitTier(blob: BlockBlobLike, etag: string, context: RequestContext): Promise<string | undefined> {
  const properties = await blob.getProperties(blobOptions(context, { ifMatch: etag }));
  return properties.accessTierInferred ? undefined : properties.accessTier;
}

function unusable(url: string, message: string, details: { etag?: string; cause?: unknown } = {}): SchemaError {
  return createError(SchemaError, `The content of ${url} cannot be used: ${message}. Nothing was written.`, {
    url,
    phase: "read",
    issues: [{ message }],
    etag: undefined,
    ...details,
  });
}
