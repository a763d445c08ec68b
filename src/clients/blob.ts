import type { OperationTracingOptions } from "@azure/core-tracing";

/** Conditions of one blob request. */
export interface BlobConditions {
  ifMatch?: string;
  ifNoneMatch?: string;
  leaseId?: string;
  tagConditions?: string;
}

/** Options of one blob request, as the SDK accepts them. */
export interface BlobCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
  conditions?: BlobConditions;
}

/** HTTP headers of a blob, as the SDK accepts them. */
export interface BlobHttpHeadersLike {
  blobContentType?: string;
  blobCacheControl?: string;
  blobContentEncoding?: string;
  blobContentLanguage?: string;
  blobContentDisposition?: string;
  blobContentMD5?: Uint8Array;
}

/** The properties that the responses to GET and HEAD of a blob have in common. */
export interface BlobResponseLike {
  etag?: string | undefined;
  metadata?: Record<string, string> | undefined;
  contentLength?: number | undefined;
  contentType?: string | undefined;
  cacheControl?: string | undefined;
  contentEncoding?: string | undefined;
  contentLanguage?: string | undefined;
  contentDisposition?: string | undefined;
  contentMD5?: Uint8Array | undefined;
  tagCount?: number | undefined;
  /** The encryption scope of the blob. */
  encryptionScope?: string | undefined;
  /** The hash of the customer-provided key with which the blob is encrypted. */
  encryptionKeySha256?: string | undefined;
}

/** The response of `download()`: with a stream in Node, with a `Blob` in browsers. */
export interface BlobDownloadLike extends BlobResponseLike {
  /** For a range: `bytes 0-4194303/268435456`. */
  contentRange?: string | undefined;
  blobType?: string | undefined;
  createdOn?: Date | undefined;
  /** Of an append blob: how many blocks it has. */
  blobCommittedBlockCount?: number | undefined;
  readableStreamBody?: unknown;
  blobBody?: Promise<Blob> | undefined;
}

/** The response of `getProperties()`. */
export interface BlobPropertiesLike extends BlobResponseLike {
  accessTier?: string | undefined;
  accessTierInferred?: boolean | undefined;
}

/** Any blob client: `BlobClient`, `BlockBlobClient`, `AppendBlobClient`, `PageBlobClient`. */
export interface BlobLike {
  readonly url: string;
  getProperties(options?: BlobCallOptions): Promise<BlobPropertiesLike>;
  setMetadata(
    metadata?: Record<string, string>,
    options?: BlobCallOptions & { encryptionScope?: string },
  ): Promise<{ etag?: string | undefined }>;
  setHTTPHeaders(headers?: BlobHttpHeadersLike, options?: BlobCallOptions): Promise<{ etag?: string | undefined }>;
  getTags(options?: BlobCallOptions): Promise<{ tags: Record<string, string> }>;
  setTags(tags: Record<string, string>, options?: BlobCallOptions): Promise<unknown>;
  delete(options?: BlobCallOptions & { deleteSnapshots?: "include" }): Promise<unknown>;
}

/** Any blob client, including one for a snapshot or a version. */
export interface DownloadableLike {
  readonly url: string;
  download(offset?: number, count?: number, options?: BlobCallOptions): Promise<BlobDownloadLike>;
}

/** Options of `upload()`, as the SDK accepts them. */
export interface BlobUploadOptions extends BlobCallOptions {
  blobHTTPHeaders?: BlobHttpHeadersLike;
  metadata?: Record<string, string>;
  tags?: Record<string, string>;
  tier?: string;
  encryptionScope?: string;
}

/**
 * A `BlockBlobClient`. Calls that need a target, `optimisticUpdate` for example, take it for a JSON document.
 * @example
 * ```ts
 * const settings: BlockBlobLike = container.getBlockBlobClient("settings.json");
 * await optimisticUpdate<Settings>(settings, (draft) => { draft.level = "debug"; });
 * ```
 */
export interface BlockBlobLike extends BlobLike, DownloadableLike {
  upload(body: Uint8Array, contentLength: number, options?: BlobUploadOptions): Promise<{ etag?: string | undefined }>;
}

/** The response of `getProperties()` for an append blob. */
export interface AppendBlobPropertiesLike extends BlobResponseLike {
  createdOn?: Date | undefined;
  blobType?: string | undefined;
  blobCommittedBlockCount?: number | undefined;
}

/** Options of `appendBlock()`, as the SDK accepts them. */
export interface AppendBlockOptions extends BlobCallOptions {
  conditions?: BlobConditions & { appendPosition?: number };
}

/**
 * An `AppendBlobClient`, for `appendExactlyOnce`.
 * @example
 * ```ts
 * const log: AppendBlobLike = container.getAppendBlobClient("audit.log");
 * await appendExactlyOnce(log, "started\n", { createIfNotExists: true });
 * ```
 */
export interface AppendBlobLike {
  readonly url: string;
  getProperties(options?: BlobCallOptions): Promise<AppendBlobPropertiesLike>;
  setMetadata(metadata?: Record<string, string>, options?: BlobCallOptions): Promise<{ etag?: string | undefined }>;
  download(offset?: number, count?: number, options?: BlobCallOptions): Promise<BlobDownloadLike>;
  create(
    options?: BlobCallOptions & { blobHTTPHeaders?: BlobHttpHeadersLike; metadata?: Record<string, string> },
  ): Promise<{ etag?: string | undefined }>;
  appendBlock(
    body: Uint8Array,
    contentLength: number,
    options?: AppendBlockOptions,
  ): Promise<{ etag?: string | undefined; blobCommittedBlockCount?: number | undefined }>;
}

/** Options of one request that writes pages, as the SDK accepts them. */
export interface PageWriteOptions extends BlobCallOptions {
  conditions?: BlobConditions & { ifSequenceNumberEqualTo?: number };
}

/**
 * A `PageBlobClient`, for `claimPages`.
 * @example
 * ```ts
 * const disk: PageBlobLike = container.getPageBlobClient("disk.vhd");
 * const writer = await claimPages(disk);
 * ```
 */
export interface PageBlobLike {
  readonly url: string;
  getProperties(
    options?: BlobCallOptions,
  ): Promise<{ etag?: string | undefined; blobType?: string | undefined; blobSequenceNumber?: number | undefined }>;
  updateSequenceNumber(
    action: "increment" | "max" | "update",
    sequenceNumber?: number,
    options?: BlobCallOptions,
  ): Promise<{ etag?: string | undefined; blobSequenceNumber?: number | undefined }>;
  uploadPages(body: Uint8Array, offset: number, count: number, options?: PageWriteOptions): Promise<{ etag?: string | undefined }>;
  clearPages(offset?: number, count?: number, options?: PageWriteOptions): Promise<{ etag?: string | undefined }>;
}

/** Options of one lease request, as the SDKs accept them. */
export interface LeaseCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
  conditions?: { ifMatch?: string; ifNoneMatch?: string };
}

/** The response to a lease operation. */
export interface LeaseResponseLike {
  /** Of the leased resource: leasing does not change it. */
  etag?: string | undefined;
  leaseId?: string | undefined;
  leaseTime?: number | undefined;
  /** The state of the lease, if it was confirmed by a read. */
  leaseState?: string | undefined;
}

/** A `BlobLeaseClient`. */
export interface LeaseClientLike {
  acquireLease(duration: number, options?: LeaseCallOptions): Promise<LeaseResponseLike>;
  renewLease(options?: LeaseCallOptions): Promise<LeaseResponseLike>;
  changeLease(proposedLeaseId: string, options?: LeaseCallOptions): Promise<LeaseResponseLike>;
  releaseLease(options?: LeaseCallOptions): Promise<LeaseResponseLike>;
  breakLease(breakPeriod: number, options?: LeaseCallOptions): Promise<LeaseResponseLike>;
}

/** The lease properties in the response of `getProperties()`. */
export interface LeasePropertiesLike {
  etag?: string | undefined;
  lastModified?: Date | undefined;
  leaseState?: string | undefined;
  leaseStatus?: string | undefined;
  leaseDuration?: string | undefined;
  metadata?: Record<string, string> | undefined;
}

/**
 * Any blob client, or a `ContainerClient`: what `withLease` can lease in the blob service.
 * @example
 * ```ts
 * const leasable: LeasableBlobLike = container.getBlobClient("report.pdf");
 * await withLease(leasable, (lease) => work(lease.signal));
 * ```
 */
export interface LeasableBlobLike {
  readonly url: string;
  getBlobLeaseClient(proposeLeaseId?: string): LeaseClientLike;
  getProperties(options?: { abortSignal?: AbortSignal; tracingOptions?: OperationTracingOptions }): Promise<LeasePropertiesLike>;
}

/** One stored access policy of a container, as the SDK represents it. */
export interface SignedIdentifierLike {
  id: string;
  accessPolicy: { startsOn?: Date; expiresOn?: Date; permissions?: string };
}

/** One blob of a listing. */
export interface BlobItemLike {
  name: string;
  metadata?: Record<string, string> | undefined;
  properties: {
    leaseState?: string | undefined;
    leaseStatus?: string | undefined;
    leaseDuration?: string | undefined;
    etag?: string | undefined;
    lastModified?: Date | undefined;
    contentLength?: number | undefined;
  };
}

/**
 * A `ContainerClient`, for `BlobLocks`, `containerMetadata` and `containerAccessPolicy`.
 * @example
 * ```ts
 * const container: ContainerLike = blobService.getContainerClient("locks");
 * const locks = new BlobLocks(container);
 * ```
 */
export interface ContainerLike extends LeasableBlobLike {
  getBlockBlobClient(blobName: string): LeasableBlobLike & BlockBlobLike;
  /** Locks that several processes wait for need it: the waiters draw tickets from an append blob. */
  getAppendBlobClient?(blobName: string): AppendBlobLike;
  listBlobsFlat(options?: {
    prefix?: string;
    includeMetadata?: boolean;
    abortSignal?: AbortSignal;
    tracingOptions?: OperationTracingOptions;
  }): AsyncIterable<BlobItemLike>;
  setMetadata(metadata?: Record<string, string>, options?: BlobCallOptions): Promise<{ etag?: string | undefined }>;
  getAccessPolicy(options?: BlobCallOptions): Promise<{
    etag?: string | undefined;
    blobPublicAccess?: string | undefined;
    signedIdentifiers: readonly {
      id: string;
      accessPolicy?: { startsOn?: Date | undefined; expiresOn?: Date | undefined; permissions?: string | undefined } | undefined;
    }[];
  }>;
  setAccessPolicy(
    access?: "container" | "blob",
    containerAcl?: SignedIdentifierLike[],
    options?: BlobCallOptions,
  ): Promise<{ etag?: string | undefined }>;
}
