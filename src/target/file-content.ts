import type { FileCreateOptions, FileDownloadLike, FileLike } from "../clients/file.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import { credentialScopeOf } from "../core/call-queue.js";
import { identityOf } from "../core/identity.js";
import { WriteNotSentError } from "../core/resolve-write.js";
import { isNotFound } from "../core/storage-errors.js";
import { redactUrl } from "../core/telemetry.js";
import { checkOptions, isSameETag, requireETag } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { contentCodecOf } from "./codec.js";
import type { Codec } from "./codec.js";
import { bytesCodec, discardBody, readBody, readWhole, sizeLimit, textCodec, unusable, validateDocument } from "./content.js";
import type { ContentCodec } from "./content.js";
import { jsonCodec } from "./json.js";
import type { JsonDocument } from "./json.js";
import {
  checkFile,
  deleteStagingFile,
  fileHeadersOf,
  fileOptions,
  fileStaleETag,
  maxNameLength,
  maxRangeInBytes,
  replaceViaStaging,
  siblingOf,
  stagingSuffix,
} from "./file-requests.js";
import { leasedTargetOf, readOnlyReason } from "./target.js";
import type { LeasedTarget, RequestContext, Snapshot } from "./target.js";
import { putUnleased } from "./unleased-file.js";

/** Options of {@link textFile}, {@link bytesFile} and {@link encodedFile}. */
export interface FileContentOptions {
  /**
   * A larger file is neither read nor written: the call rejects with a {@link ContentTooLargeError}.
   * @defaultValue 67_108_864 (64 MiB): the content is held in memory several times
   */
  maxSizeInBytes?: number | undefined;
}

/** Options of {@link jsonFile}. */
export interface JsonFileOptions<T> extends FileContentOptions {
  /**
   * Validates the document when it is read and before it is written, as for {@link jsonBlob}.
   * @defaultValue none: any JSON value is valid
   */
  schema?: StandardSchemaLike<T> | undefined;
  /**
   * Whether an update may replace an object or a list by a value of another kind: an object by a list, or either by a single value.
   * @defaultValue false: a mutator that returns a number by mistake, such as `(draft) => draft.count`, is a `TypeError`
   */
  allowKindChange?: boolean | undefined;
}

const contentNames: OptionNames<FileContentOptions> = { maxSizeInBytes: 1 };
const jsonNames: OptionNames<JsonFileOptions<unknown>> = { maxSizeInBytes: 1, schema: 1, allowKindChange: 1 };

/**
 * The JSON document in a file. HTTP headers, metadata, attributes, creation time and permissions are kept.
 * Readers never see it half written: new content is written to a staging file beside it, which is then renamed to the file.
 * That needs the permission to create, write and delete in its directory, so a SAS has to cover the directory or share.
 *
 * @example
 * ```ts
 * await leasedUpdate(jsonFile<Settings>(file), (draft) => { draft.level = "debug"; }, { crashGuard: locks });
 * ```
 * @throws `TypeError` if `file` is not a file client, or an option is unknown; `RangeError` if its name is too long.
 */
export function jsonFile<T = unknown>(file: FileLike, options: JsonFileOptions<T> = {}): LeasedTarget<T> {
  checkOptions("jsonFile", options, jsonNames);
  return contentTarget("jsonFile", file, jsonCodec as ContentCodec<T, JsonDocument>, options);
}

/**
 * The text in a file (UTF-8). Otherwise like {@link jsonFile}.
 * @throws `TypeError` if `file` is not a file client, or an option is unknown; `RangeError` if its name is too long.
 */
export function textFile(file: FileLike, options: FileContentOptions = {}): LeasedTarget<string> {
  checkOptions("textFile", options, contentNames);
  return contentTarget("textFile", file, textCodec, options);
}

/**
 * The bytes in a file. Otherwise like {@link jsonFile}.
 * @throws `TypeError` if `file` is not a file client, or an option is unknown; `RangeError` if its name is too long.
 */
export function bytesFile(file: FileLike, options: FileContentOptions = {}): LeasedTarget<Uint8Array> {
  checkOptions("bytesFile", options, contentNames);
  return contentTarget("bytesFile", file, bytesCodec, options);
}

/**
 * The content of a file in any other format. Otherwise like {@link jsonFile}.
 *
 * @example
 * ```ts
 * await leasedUpdate(encodedFile(file, yaml), (draft) => { draft.level = "debug"; }, { crashGuard: locks });
 * ```
 * @throws `TypeError` if `file` is not a file client, `codec` is not a {@link Codec}, or an option is unknown.
 */
export function encodedFile<T>(file: FileLike, codec: Codec<T>, options: FileContentOptions = {}): LeasedTarget<T> {
  checkOptions("encodedFile", options, contentNames);
  return contentTarget("encodedFile", file, contentCodecOf("encodedFile", codec), options, codec);
}

interface Kept {
  readonly properties: FileCreateOptions;
  readonly length: number;
  /** The file has a hash of its content, which a write of the content alone would make incorrect. */
  readonly hashed: boolean;
  readonly readOnly: boolean;
}

function contentTarget<T, Raw>(
  kind: string,
  file: FileLike,
  codec: ContentCodec<T, Raw>,
  options: JsonFileOptions<T>,
  identity: object | undefined = options.schema,
): LeasedTarget<T> {
  checkFile(file);
  const url = redactUrl(file.url);
  const { schema, allowKindChange = false } = options;
  const limit = sizeLimit(url, options.maxSizeInBytes);
  if (file.name.length + stagingSuffix.length > maxNameLength) {
    throw new RangeError(`The name of ${url} is too long: the library writes new content to a file with the suffix ${stagingSuffix} first.`);
  }
  let sibling: FileLike | undefined;
  const staging = (): FileLike => (sibling ??= siblingOf(file, file.name + stagingSuffix));
  const fresh: FileCreateOptions = { fileHttpHeaders: { fileContentType: codec.contentType } };

  async function readOnce(context: RequestContext): Promise<Snapshot<Raw>> {
    // No retries by the SDK: it would resume a broken download, and could join parts of two versions.
    const response = await file.download(0, undefined, { ...fileOptions(context), maxRetryRequests: 0 });
    const length = response.contentLength ?? 0;
    if (length > limit.maxSizeInBytes) {
      discardBody(response);
      throw limit.tooLarge(`${url} has ${length} bytes`, length);
    }
    const bytes = await readBody(response).catch((cause: unknown) => {
      throw new TornReadError(`the response for ${url} was cut off`, { cause });
    });
    if (bytes.length !== length) throw new TornReadError(`${bytes.length} bytes of ${url} arrived of ${length}`);
    const etag = requireETag(response.etag, url);
    return { raw: parse(bytes, etag), etag, journal: undefined, keep: keptOf(response, length) };
  }

  function parse(bytes: Uint8Array, etag: string): Raw {
    try {
      return codec.fromBytes(bytes);
    } catch (error) {
      throw unusable(url, "read", error instanceof Error ? error.message : String(error), { cause: error, etag });
    }
  }

  const read = (context: RequestContext): Promise<Snapshot<Raw> | undefined> =>
    readWhole(() => readOnce(context), isTorn, context.abortSignal);

  function toBytes(raw: Raw): Uint8Array {
    return limit.checkBytes(codec.toBytes(raw));
  }

  async function put(raw: Raw, properties: FileCreateOptions, mode: "replace" | "create", context: RequestContext): Promise<Snapshot<Raw>> {
    const bytes = toBytes(raw);
    const { leaseId } = context;
    const etag =
      leaseId !== undefined && mode === "replace"
        ? await replaceViaStaging({ file, staging: staging(), bytes, properties, leaseId }, context)
        : await putUnleased({ file, bytes, properties, mode }, context);
    return { raw, etag, journal: undefined, keep: { properties, length: bytes.length, hashed: false, readOnly: false } satisfies Kept };
  }

  return leasedTargetOf<T, Raw>({
    kind,
    url,
    credentialScope: credentialScopeOf(file),
    key: JSON.stringify([kind, file.url, limit.maxSizeInBytes, allowKindChange, identity ? identityOf(identity) : 0]),
    leasable: file,
    ...readOnlyReason(file),
    staleETag: fileStaleETag,
    requiresLease: true,
    writeSteps: (raw) => 4 + Math.ceil(codec.toBytes(raw).length / maxRangeInBytes),
    journaled: false,
    decode: codec.decode,
    encode(value, previous) {
      const raw = codec.encode(value, previous);
      if (previous !== undefined && !allowKindChange) codec.checkKind?.(previous, raw);
      return raw;
    },
    equals: codec.equals,
    validate: schema && ((raw, phase) => validateDocument(codec, schema, raw, phase, url)),

    read,

    // A read of a file cannot be conditional: its properties tell whether the content has to be read.
    async readIfChanged(etag, context) {
      try {
        if (isSameETag((await file.getProperties(fileOptions(context))).etag, etag)) return "unchanged";
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
      return read(context);
    },

    async write(base, raw, _journal, context) {
      const keep = (base.keep as Kept | undefined) ?? { properties: fresh, length: 0, hashed: false, readOnly: false };
      if (keep.readOnly) throw new WriteNotSentError(unusable(url, "write", "the file has the attribute ReadOnly"));
      const bytes = toBytes(raw);
      const { length } = bytes;
      // A single range of the same length is written in one request, which keeps all properties.
      if (length > 0 && length === keep.length && length <= maxRangeInBytes && !keep.hashed) {
        const response = await file.uploadRange(bytes, 0, length, fileOptions(context));
        return { ...base, raw, etag: requireETag(response.etag, url) };
      }
      return put(raw, keep.properties, "replace", context);
    },

    create: (raw, _journal, context) => put(raw, fresh, "create", context),

    async delete(_etag, context) {
      await file.delete(fileOptions(context));
    },

    overwrite: (raw, context) =>
      put(raw, fresh, "replace", context).then(
        ({ etag }) => etag,
        (error: unknown) => {
          throw error instanceof WriteNotSentError ? error.cause : error;
        },
      ),

    cleanUp: (context) => deleteStagingFile(staging(), context),
  });
}

/** A response arrived, but its body is incomplete. */
class TornReadError extends Error {
  override readonly name = "TornReadError";
}

function isTorn(error: unknown): boolean {
  return error instanceof TornReadError;
}

/** Responses have `Hidden | Archive`; requests are documented, and sent by the SDK, without spaces. */
function attributesToSend(text: string): string {
  return text.split("|").map((name) => name.trim()).filter(Boolean).join("|");
}

/** As in the response, with 100 ns: the SDK's date has milliseconds only. Undefined: not visible, for example in a browser. */
function creationTimeOf(response: FileDownloadLike): string | undefined {
  const { _response } = response as { _response?: { headers?: { get?(name: string): string | undefined } } };
  return _response?.headers?.get?.("x-ms-file-creation-time");
}

function keptOf(response: FileDownloadLike, length: number): Kept {
  const { metadata, fileAttributes, fileCreatedOn, filePermissionKey } = response;
  return {
    length,
    hashed: response.contentMD5 !== undefined,
    readOnly: /\bReadOnly\b/i.test(fileAttributes ?? ""),
    properties: {
      fileHttpHeaders: fileHeadersOf(response),
      ...(metadata && { metadata }),
      // The SDK declares its own classes for these two, but sends a text as it is.
      ...(fileAttributes && { fileAttributes: attributesToSend(fileAttributes) as never }),
      ...(fileCreatedOn && { creationTime: (creationTimeOf(response) ?? fileCreatedOn) as never }),
      ...(filePermissionKey && { filePermissionKey }),
    },
  };
}
