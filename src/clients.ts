/**
 * The parts of the Azure SDK clients that this library calls, written down by hand.
 *
 * Signatures take these instead of the SDK's classes: a class with private members is only compatible with
 * itself, and an application may well hold another copy of the SDK (CommonJS beside ESM, or another version).
 * Every optional member says `| undefined`, so that they fit callers with `exactOptionalPropertyTypes` too.
 */
import type { OperationTracingOptions } from "@azure/core-tracing";

/** An `AbortSignal`, or the SDK's look-alike of it. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason?: unknown;
  addEventListener(type: "abort", listener: () => void, options?: unknown): void;
  removeEventListener(type: "abort", listener: () => void, options?: unknown): void;
}

/** What every call of the SDKs, and every call of this library, accepts. */
export interface CallOptions {
  /** Cancels the call. The promise rejects with the signal's reason. */
  abortSignal?: AbortSignalLike | undefined;
  /** Parent of the spans that the call creates. */
  tracingOptions?: OperationTracingOptions | undefined;
}

/** Conditions of one blob request. */
export interface BlobConditions {
  ifMatch?: string;
  ifNoneMatch?: string;
  leaseId?: string;
  tagConditions?: string;
}

/** Options of one blob request, as the SDK takes them. */
export interface BlobCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
  conditions?: BlobConditions;
}

/** HTTP headers of a blob, as the SDK takes them. */
export interface BlobHttpHeadersLike {
  blobContentType?: string;
  blobCacheControl?: string;
  blobContentEncoding?: string;
  blobContentLanguage?: string;
  blobContentDisposition?: string;
  blobContentMD5?: Uint8Array;
}

/** The properties that answers to GET and HEAD of a blob have in common. */
export interface BlobAnswerLike {
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
}

/** The answer to `download()`. Node gives a stream, browsers a `Blob`. */
export interface BlobDownloadLike extends BlobAnswerLike {
  /** Of a range: `bytes 0-4194303/268435456`. */
  contentRange?: string | undefined;
  readableStreamBody?: unknown;
  blobBody?: Promise<Blob> | undefined;
}

/** The answer to `getProperties()`. */
export interface BlobPropertiesLike extends BlobAnswerLike {
  accessTier?: string | undefined;
  accessTierInferred?: boolean | undefined;
}

/** Any blob client: `BlobClient`, `BlockBlobClient`, `AppendBlobClient`, `PageBlobClient`. */
export interface BlobLike {
  readonly url: string;
  getProperties(options?: BlobCallOptions): Promise<BlobPropertiesLike>;
  setMetadata(metadata?: Record<string, string>, options?: BlobCallOptions): Promise<{ etag?: string | undefined }>;
  setHTTPHeaders(headers?: BlobHttpHeadersLike, options?: BlobCallOptions): Promise<{ etag?: string | undefined }>;
  getTags(options?: BlobCallOptions): Promise<{ tags: Record<string, string> }>;
  setTags(tags: Record<string, string>, options?: BlobCallOptions): Promise<unknown>;
  delete(options?: BlobCallOptions): Promise<unknown>;
}

/** What can be downloaded: any blob client, also one of a snapshot or a version. */
export interface DownloadableLike {
  readonly url: string;
  download(offset?: number, count?: number, options?: BlobCallOptions): Promise<BlobDownloadLike>;
}

/** Options of `upload()`, as the SDK takes them. */
export interface BlobUploadOptions extends BlobCallOptions {
  blobHTTPHeaders?: BlobHttpHeadersLike;
  metadata?: Record<string, string>;
  tags?: Record<string, string>;
  tier?: string;
}

/** A `BlockBlobClient`. */
export interface BlockBlobLike extends BlobLike, DownloadableLike {
  upload(body: Uint8Array, contentLength: number, options?: BlobUploadOptions): Promise<{ etag?: string | undefined }>;
}

/** What `getProperties()` says about an append blob. */
export interface AppendBlobPropertiesLike extends BlobAnswerLike {
  blobType?: string | undefined;
  blobCommittedBlockCount?: number | undefined;
}

/** Options of `appendBlock()`, as the SDK takes them. */
export interface AppendBlockOptions extends BlobCallOptions {
  conditions?: BlobConditions & { appendPosition?: number };
}

/** An `AppendBlobClient`. */
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

/** Options of one request that writes pages, as the SDK takes them. */
export interface PageWriteOptions extends BlobCallOptions {
  conditions?: BlobConditions & { ifSequenceNumberEqualTo?: number };
}

/** A `PageBlobClient`. */
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

/** Options of one table request, as the SDK takes them. */
export interface TableCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
}

/** An entity as the table client takes it. */
export interface TableEntityLike {
  partitionKey: string;
  rowKey: string;
  [property: string]: unknown;
}

/** A `TableClient`. */
export interface TableLike {
  readonly url: string;
  readonly tableName: string;
  getEntity(
    partitionKey: string,
    rowKey: string,
    options?: TableCallOptions & {
      disableTypeConversion?: boolean;
      onResponse?: (rawResponse: { bodyAsText?: string | null | undefined }) => void;
    },
  ): Promise<object>;
  createEntity(entity: TableEntityLike, options?: TableCallOptions): Promise<{ etag?: string | undefined }>;
  updateEntity(
    entity: TableEntityLike,
    mode?: "Merge" | "Replace",
    options?: TableCallOptions & { etag?: string },
  ): Promise<{ etag?: string | undefined }>;
  upsertEntity(
    entity: TableEntityLike,
    mode?: "Merge" | "Replace",
    options?: TableCallOptions,
  ): Promise<{ etag?: string | undefined }>;
  deleteEntity(partitionKey: string, rowKey: string, options?: TableCallOptions & { etag?: string }): Promise<unknown>;
}

/**
 * Any Standard Schema (https://standardschema.dev: zod, valibot, arktype, ...) whose input is `T`.
 * The library only checks with it: what is handed over and what is stored is the value itself, so that properties
 * which a schema would strip survive an update.
 */
export interface StandardSchemaLike<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaOutcome | Promise<SchemaOutcome>;
    readonly types?: { readonly input: T; readonly output: unknown } | undefined;
  };
}

/** What a Standard Schema answers: `issues` if the value does not fit. */
export interface SchemaOutcome {
  readonly issues?: readonly SchemaIssue[] | undefined;
}

/** One thing that is wrong with a value. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Options of one lease request, as the SDKs take them. */
export interface LeaseCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
  conditions?: { ifMatch?: string };
}

/** The answer to an operation on a lease. */
export interface LeaseAnswerLike {
  leaseId?: string | undefined;
  leaseTime?: number | undefined;
  /** Where a lease is confirmed by a read: what the read says of it. */
  leaseState?: string | undefined;
}

/** A `BlobLeaseClient`. */
export interface LeaseClientLike {
  acquireLease(duration: number, options?: LeaseCallOptions): Promise<LeaseAnswerLike>;
  renewLease(options?: LeaseCallOptions): Promise<LeaseAnswerLike>;
  changeLease(proposedLeaseId: string, options?: LeaseCallOptions): Promise<LeaseAnswerLike>;
  releaseLease(options?: LeaseCallOptions): Promise<LeaseAnswerLike>;
  breakLease(breakPeriod: number, options?: LeaseCallOptions): Promise<LeaseAnswerLike>;
}

/** What `getProperties()` says about a lease. */
export interface LeasePropertiesLike {
  etag?: string | undefined;
  leaseState?: string | undefined;
  leaseStatus?: string | undefined;
  leaseDuration?: string | undefined;
  metadata?: Record<string, string> | undefined;
}

/** Any blob client, or a `ContainerClient`. */
export interface BlobLeasableLike {
  readonly url: string;
  getBlobLeaseClient(proposeLeaseId?: string): LeaseClientLike;
  getProperties(options?: { abortSignal?: AbortSignal; tracingOptions?: OperationTracingOptions }): Promise<LeasePropertiesLike>;
}

/** Options of one lease request of Azure Files, as the SDK takes them. */
export interface ShareLeaseCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
}

/** A `ShareLeaseClient`. Its `renewLease` is left out: it throws without sending anything. */
export interface ShareLeaseClientLike {
  acquireLease(duration?: number, options?: ShareLeaseCallOptions): Promise<{ leaseId?: string | undefined; etag?: string | undefined }>;
  changeLease(proposedLeaseId: string, options?: ShareLeaseCallOptions): Promise<{ leaseId?: string | undefined }>;
  releaseLease(options?: ShareLeaseCallOptions): Promise<object>;
  breakLease(options?: ShareLeaseCallOptions): Promise<object>;
}

/** A `ShareFileClient`, as far as leases need it. */
export interface FileLeasableLike {
  readonly url: string;
  getShareLeaseClient(proposeLeaseId?: string): ShareLeaseClientLike;
  getProperties(options?: ShareLeaseCallOptions & { leaseAccessConditions?: { leaseId?: string } }): Promise<LeasePropertiesLike>;
}

/** A `ShareClient`, as far as leases need it. */
export interface ShareLeasableLike extends FileLeasableLike {
  getDirectoryClient(directoryName: string): object;
}

/** What can be leased: any blob client, a `ContainerClient`, a `ShareClient` or a `ShareFileClient`. */
export type LeasableLike = BlobLeasableLike | ShareLeasableLike | FileLeasableLike;

/** A `ContainerClient`, as far as named locks need it. */
export interface LockContainerLike {
  readonly url: string;
  getBlockBlobClient(name: string): BlobLeasableLike & BlockBlobLike;
  listBlobsFlat(options?: {
    prefix?: string;
    includeMetadata?: boolean;
    abortSignal?: AbortSignal;
    tracingOptions?: OperationTracingOptions;
  }): AsyncIterable<{
    name: string;
    metadata?: Record<string, string> | undefined;
    properties: { leaseState?: string | undefined; leaseStatus?: string | undefined; leaseDuration?: string | undefined; etag?: string | undefined };
  }>;
}

/** One operation of an entity group transaction, as the SDK takes it. */
export type TransactionActionLike =
  | ["create" | "delete", TableEntityLike]
  | ["update", TableEntityLike, "Merge" | "Replace", { etag: string }]
  | ["update" | "upsert", TableEntityLike, "Merge" | "Replace"];

/** A `TableClient`, with what transactions need. */
export interface TransactionTableLike extends TableLike {
  listEntities(
    options?: TableCallOptions & {
      disableTypeConversion?: boolean;
      queryOptions?: { filter?: string };
      onResponse?: (rawResponse: { bodyAsText?: string | null | undefined }) => void;
    },
  ): { byPage(settings?: { maxPageSize?: number }): AsyncIterable<readonly object[]> };
  submitTransaction(
    actions: never[],
    options?: TableCallOptions,
  ): Promise<{ subResponses: readonly { status: number; etag?: string | undefined }[] }>;
}

/** Options of one queue request, as the SDK takes them. */
export interface QueueCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
}

/** A message as `receiveMessages()` returns it. */
export interface QueueMessageLike {
  readonly messageId: string;
  readonly popReceipt: string;
  readonly messageText: string;
  readonly insertedOn: Date;
  readonly expiresOn: Date;
  readonly dequeueCount: number;
}

/** A `QueueClient`. */
export interface QueueLike {
  readonly url: string;
  readonly name: string;
  getProperties(options?: QueueCallOptions): Promise<object>;
  createIfNotExists(options?: QueueCallOptions): Promise<object>;
  sendMessage(
    messageText: string,
    options?: QueueCallOptions & { messageTimeToLive?: number; visibilityTimeout?: number },
  ): Promise<{ messageId: string }>;
  receiveMessages(
    options?: QueueCallOptions & { numberOfMessages?: number; visibilityTimeout?: number },
  ): Promise<{ date?: Date | undefined; receivedMessageItems: readonly QueueMessageLike[] }>;
  updateMessage(
    messageId: string,
    popReceipt: string,
    message?: string,
    visibilityTimeout?: number,
    options?: QueueCallOptions,
  ): Promise<{ popReceipt?: string | undefined }>;
  deleteMessage(messageId: string, popReceipt: string, options?: QueueCallOptions): Promise<object>;
}

/** One operation of an entity group transaction, as `submitTransaction()` takes it. */
export type InboxTableAction =
  | ["create" | "delete", TableEntityLike]
  | ["update" | "upsert", TableEntityLike]
  | ["update" | "upsert", TableEntityLike, "Merge" | "Replace"]
  | ["update" | "upsert", TableEntityLike, "Merge" | "Replace", { etag?: string }];

/** What an inbox needs of a `TableClient`. */
export interface InboxTableLike {
  readonly url: string;
  createTable(options?: TableCallOptions): Promise<void>;
  getEntity(partitionKey: string, rowKey: string, options?: TableCallOptions): Promise<object>;
  deleteEntity(partitionKey: string, rowKey: string, options?: TableCallOptions & { etag?: string }): Promise<unknown>;
  submitTransaction(
    actions: InboxTableAction[],
    options?: TableCallOptions,
  ): Promise<{ subResponses: readonly { etag?: string | undefined }[] }>;
  listEntities(
    options?: TableCallOptions & { queryOptions?: { filter?: string; select?: string[] } },
  ): { byPage(settings?: { maxPageSize?: number }): AsyncIterable<readonly object[]> };
}

/** Options of one request of Azure Files, as the SDK takes them. */
export interface FileCallOptions extends ShareLeaseCallOptions {
  leaseAccessConditions?: { leaseId?: string };
}

/** HTTP headers of a file, as the SDK takes them. */
export interface FileHttpHeadersLike {
  fileContentType?: string;
  fileCacheControl?: string;
  fileContentEncoding?: string;
  fileContentLanguage?: string;
  fileContentDisposition?: string;
  fileContentMD5?: Uint8Array;
}

/** What the answers to GET and HEAD of a file have in common. */
export interface FileAnswerLike extends BlobAnswerLike {
  fileAttributes?: string | undefined;
  fileCreatedOn?: Date | undefined;
  filePermissionKey?: string | undefined;
}

/** The answer to `download()`. Node gives a stream, browsers a `Blob`. */
export interface FileDownloadLike extends FileAnswerLike {
  readableStreamBody?: unknown;
  blobBody?: Promise<Blob> | undefined;
}

/** Options of `create()`, as the SDK takes them. */
export interface FileCreateOptions extends FileCallOptions {
  fileHttpHeaders?: FileHttpHeadersLike;
  metadata?: Record<string, string>;
  fileAttributes?: never;
  creationTime?: Date;
  filePermissionKey?: string;
}

/** Options of `rename()`, as the SDK takes them. */
export interface FileRenameOptions extends ShareLeaseCallOptions {
  replaceIfExists?: boolean;
  sourceLeaseAccessConditions?: { leaseId?: string };
  destinationLeaseAccessConditions?: { leaseId?: string };
}

/** A `ShareFileClient`. */
export interface FileLike extends FileLeasableLike {
  readonly name: string;
  /** Below the share. */
  readonly path: string;
  getProperties(options?: FileCallOptions): Promise<FileAnswerLike & LeasePropertiesLike>;
  download(offset?: number, count?: number, options?: FileCallOptions & { maxRetryRequests?: number }): Promise<FileDownloadLike>;
  create(size: number, options?: FileCreateOptions): Promise<{ etag?: string | undefined }>;
  uploadRange(body: Uint8Array, offset: number, contentLength: number, options?: FileCallOptions): Promise<{ etag?: string | undefined }>;
  setMetadata(metadata?: Record<string, string>, options?: FileCallOptions): Promise<{ etag?: string | undefined }>;
  setHttpHeaders(headers?: FileHttpHeadersLike, options?: FileCallOptions): Promise<{ etag?: string | undefined }>;
  rename(destinationPath: string, options?: FileRenameOptions): Promise<{ fileRenameResponse: { etag?: string | undefined } }>;
  delete(options?: FileCallOptions): Promise<unknown>;
}

/** A `ShareClient`, as far as its metadata need it. */
export interface ShareLike extends ShareLeasableLike {
  setMetadata(metadata?: Record<string, string>, options?: FileCallOptions): Promise<{ etag?: string | undefined }>;
}

/** One stored access policy of a container, as the SDK has it. */
export interface SignedIdentifierLike {
  id: string;
  accessPolicy: { startsOn?: Date; expiresOn?: Date; permissions?: string };
}

/** A `ContainerClient`, as far as its own properties need it. */
export interface ContainerLike extends BlobLeasableLike {
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

/** A `QueueClient`, as far as its metadata need it. */
export interface QueueMetadataLike {
  readonly url: string;
  getProperties(options?: QueueCallOptions): Promise<{ metadata?: Record<string, string> | undefined }>;
  setMetadata(metadata?: Record<string, string>, options?: QueueCallOptions): Promise<object>;
}
