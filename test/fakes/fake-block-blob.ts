import { createHash } from "node:crypto";
import type { BlobCallOptions, BlobConditions, BlobDownloadLike, BlobHttpHeadersLike, BlobPropertiesLike, BlobResponseLike, BlobUploadOptions, LeaseClientLike } from "../../src/clients.js";
import type { BlockBlobLike } from "../../src/index.js";
import type { FakeService } from "./fake-service.js";
import { blobError, headError } from "./rest-errors.js";

export interface StoredBlob {
  content: Uint8Array;
  etag: string;
  lastModified: Date;
  metadata: Record<string, string>;
  headers: BlobHttpHeadersLike;
  tags: Record<string, string>;
  /** Undefined: the account's. */
  tier: string | undefined;
  leaseId: string | undefined;
  encryptionScope?: string | undefined;
  /** The hash of a customer-provided key. The real service rejects reads without the key; a policy of the caller may add it. */
  encryptionKeySha256?: string | undefined;
}

/** A block blob in memory, behind a client as the SDK's. Several clients of one URL see the same blob. */
export class FakeBlockBlob implements BlockBlobLike {
  readonly url: string;
  readonly pipeline: object;
  readonly service: FakeService;
  /** Larger content is refused with a 413. */
  maxSizeInBytes = Number.POSITIVE_INFINITY;
  /** Whether answers carry an ETag; a proxy may strip it. */
  withETag = true;

  constructor(service: FakeService, options: { url?: string; pipeline?: object } = {}) {
    this.service = service;
    this.url = options.url ?? "https://account.blob.core.windows.net/docs/doc.json";
    this.pipeline = options.pipeline ?? service.pipeline;
  }

  /** What is stored, as a test looks at it or a foreign writer changes it: no request, no log. */
  get stored(): StoredBlob | undefined {
    return this.service.resources.get(this.url) as StoredBlob | undefined;
  }

  get json(): unknown {
    return this.stored && (JSON.parse(Buffer.from(this.stored.content).toString()) as unknown);
  }

  get metadata(): Record<string, string> {
    return this.stored?.metadata ?? {};
  }

  /** A foreign writer's unconditional Put Blob. */
  put(content: unknown, rest: Partial<Omit<StoredBlob, "content" | "etag" | "lastModified">> = {}): void {
    const bytes = content instanceof Uint8Array ? content : Buffer.from(JSON.stringify(content));
    this.#store({ content: bytes, metadata: {}, headers: {}, tags: {}, tier: undefined, leaseId: undefined, ...rest });
  }

  /** A foreign writer that changes the content and keeps the metadata. */
  putKeeping(content: unknown): void {
    const { metadata = {}, headers = {}, tags = {}, tier, leaseId } = this.stored ?? {};
    this.put(content, { metadata, headers, tags, tier, leaseId });
  }

  /** A foreign writer's unconditional Set Blob Metadata. */
  putMetadata(metadata: Record<string, string>): void {
    if (this.stored) this.#store({ ...this.stored, metadata });
  }

  /** A foreign writer's delete. */
  drop(): void {
    this.service.resources.delete(this.url);
  }

  download(offset = 0, count?: number, options: BlobCallOptions = {}): Promise<BlobDownloadLike> {
    return this.#request("download", "read", options, blobError, () => {
      const blob = this.#checkedForRead(options.conditions, blobError);
      if (offset === 0 && count === undefined) return { ...this.#properties(blob), readableStreamBody: chunksOf(blob.content) };
      const { length } = blob.content;
      if (offset >= length) throw blobError(416, "InvalidRange");
      const content = blob.content.subarray(offset, count === undefined ? length : offset + count);
      const contentRange = `bytes ${offset}-${offset + content.length - 1}/${length}`;
      return { ...this.#properties(blob), contentLength: content.length, contentRange, readableStreamBody: chunksOf(content) };
    });
  }

  getProperties(options: BlobCallOptions = {}): Promise<BlobPropertiesLike> {
    return this.#request("getProperties", "read", options, headError, () => {
      const blob = this.#checkedForRead(options.conditions, headError);
      return { ...this.#properties(blob), accessTier: blob.tier ?? "Hot", accessTierInferred: blob.tier === undefined, ...this.leaseProperties() };
    });
  }

  /** At the moment when the request is served. */
  protected leaseProperties(): object {
    return {};
  }

  upload(body: Uint8Array, contentLength: number, options: BlobUploadOptions = {}): Promise<{ etag?: string }> {
    return this.#request("upload", "write", options, blobError, () => {
      const before = this.#checkedForWrite(options.conditions);
      if (contentLength > this.maxSizeInBytes) throw blobError(413, "RequestBodyTooLarge");
      const { blobHTTPHeaders = {}, metadata = {}, tags = {}, tier, encryptionScope } = options;
      // Without a tier it falls back to the account's, as on Azurite.
      return this.#store({ content: new Uint8Array(body), metadata, headers: blobHTTPHeaders, tags, tier, leaseId: before?.leaseId, encryptionScope });
    });
  }

  setMetadata(metadata: Record<string, string> = {}, options: BlobCallOptions & { encryptionScope?: string } = {}): Promise<{ etag?: string }> {
    return this.#request("setMetadata", "write", options, blobError, () => {
      const blob = this.#checked(options.conditions, blobError);
      if (blob.encryptionScope !== options.encryptionScope) throw blobError(409, "BlobCustomerSpecifiedEncryptionMismatch");
      return this.#store({ ...blob, metadata });
    });
  }

  setHTTPHeaders(headers: BlobHttpHeadersLike = {}, options: BlobCallOptions = {}): Promise<{ etag?: string }> {
    return this.#request("setHTTPHeaders", "write", options, blobError, () =>
      // What is not given is cleared, the hash too.
      this.#store({ ...this.#checked(options.conditions, blobError), headers: { ...headers } }, "keep the hash as given"),
    );
  }

  getTags(options: BlobCallOptions = {}): Promise<{ tags: Record<string, string> }> {
    return this.#request("getTags", "read", options, blobError, () => ({
      tags: { ...this.#checked(options.conditions, blobError).tags },
    }));
  }

  getBlobLeaseClient(): LeaseClientLike {
    throw new Error("leases have a fake of their own");
  }

  setTags(tags: Record<string, string>, options: BlobCallOptions = {}): Promise<unknown> {
    return this.#request("setTags", "write", options, blobError, () => {
      // The ETag stays as it is.
      this.#checked(options.conditions, blobError).tags = { ...tags };
      return {};
    });
  }

  delete(options: BlobCallOptions = {}): Promise<unknown> {
    return this.#request("delete", "write", options, blobError, () => {
      const blob = this.#checked(options.conditions, blobError);
      if (blob.leaseId !== undefined && options.conditions?.leaseId === undefined) throw blobError(412, "LeaseIdMissing");
      this.drop();
      return {};
    });
  }

  #request<R>(
    operation: string,
    kind: "read" | "write",
    options: BlobCallOptions,
    error: (status: number, code: string) => Error,
    serve: () => R,
  ): Promise<R> {
    return this.service.request({ operation, kind, resource: this.url, client: this }, options.abortSignal, error, serve);
  }

  #checked(conditions: BlobConditions | undefined, error: typeof blobError): StoredBlob {
    const blob = this.stored;
    if (!blob) throw error(404, "BlobNotFound");
    const { ifMatch, tagConditions, leaseId } = conditions ?? {};
    if (ifMatch !== undefined && ifMatch !== "*" && ifMatch !== blob.etag) throw error(412, "ConditionNotMet");
    if (tagConditions !== undefined && !tagsFit(tagConditions, blob.tags)) throw error(412, "ConditionNotMet");
    if (leaseId !== undefined && blob.leaseId === undefined) throw error(412, "LeaseNotPresentWithBlobOperation");
    if (leaseId !== undefined && leaseId !== blob.leaseId) throw error(412, "LeaseIdMismatchWithBlobOperation");
    return blob;
  }

  #checkedForRead(conditions: BlobConditions | undefined, error: typeof blobError): StoredBlob {
    const blob = this.#checked(conditions, error);
    if (conditions?.ifNoneMatch === blob.etag) throw error(304, "ConditionNotMet");
    return blob;
  }

  #checkedForWrite(conditions: BlobConditions = {}): StoredBlob | undefined {
    const blob = this.stored;
    if (!blob) {
      if (conditions.ifMatch !== undefined) throw blobError(412, "ConditionNotMet");
      return undefined;
    }
    if (blob.leaseId !== undefined && conditions.leaseId === undefined) throw blobError(412, "LeaseIdMissing");
    // With the id of the lease the service lets this overwrite what is there.
    if (conditions.ifNoneMatch === "*" && blob.leaseId === undefined) throw blobError(409, "BlobAlreadyExists");
    return this.#checked(conditions, blobError);
  }

  #store(blob: Omit<StoredBlob, "etag" | "lastModified">, hash?: "keep the hash as given"): { etag?: string } {
    const etag = `"0x8D${this.service.newETag().toString(16).toUpperCase().padStart(12, "0")}"`;
    const metadata = Object.fromEntries(Object.entries(blob.metadata).map(([name, value]) => [name.toLowerCase(), value]));
    const headers = hash ? blob.headers : { ...blob.headers, blobContentMD5: md5(blob.content) };
    this.service.resources.set(this.url, { ...blob, metadata, headers, etag, lastModified: new Date(this.service.timestamp()) });
    return this.withETag ? { etag } : {};
  }

  #properties(blob: StoredBlob): BlobResponseLike {
    const { headers } = blob;
    return {
      etag: this.withETag ? blob.etag : undefined,
      metadata: { ...blob.metadata },
      contentLength: blob.content.length,
      contentType: headers.blobContentType ?? "application/octet-stream",
      cacheControl: headers.blobCacheControl,
      contentEncoding: headers.blobContentEncoding,
      contentLanguage: headers.blobContentLanguage,
      contentDisposition: headers.blobContentDisposition,
      contentMD5: headers.blobContentMD5,
      tagCount: Object.keys(blob.tags).length || undefined,
      encryptionScope: blob.encryptionScope,
      encryptionKeySha256: blob.encryptionKeySha256,
    };
  }
}

function md5(content: Uint8Array): Uint8Array {
  return new Uint8Array(createHash("md5").update(content).digest());
}

async function* chunksOf(content: Uint8Array): AsyncGenerator<Uint8Array> {
  const half = Math.ceil(content.length / 2);
  if (half > 0) yield content.slice(0, half);
  if (content.length > half) yield content.slice(half);
}

/** `"name" = 'value' AND ...`: that is all that is asked for here. */
function tagsFit(condition: string, tags: Record<string, string>): boolean {
  return condition.split(" AND ").every((part) => {
    const [, name, value] = /^"(.*)" = '(.*)'$/.exec(part) ?? [];
    return name !== undefined && tags[name] === value;
  });
}
