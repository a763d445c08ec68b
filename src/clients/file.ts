import type { OperationTracingOptions } from "@azure/core-tracing";
import type { BlobResponseLike, LeasePropertiesLike } from "./blob.js";

/** Options of one lease request of Azure Files, as the SDK accepts them. */
export interface ShareLeaseCallOptions {
  abortSignal?: AbortSignal;
  tracingOptions?: OperationTracingOptions;
}

/** A `ShareLeaseClient`. Without `renewLease`, which throws without sending a request. */
export interface ShareLeaseClientLike {
  acquireLease(duration?: number, options?: ShareLeaseCallOptions): Promise<{ leaseId?: string | undefined; etag?: string | undefined }>;
  changeLease(proposedLeaseId: string, options?: ShareLeaseCallOptions): Promise<{ leaseId?: string | undefined }>;
  releaseLease(options?: ShareLeaseCallOptions): Promise<object>;
  breakLease(options?: ShareLeaseCallOptions): Promise<object>;
}

/**
 * A `ShareClient` or a `ShareFileClient`: what `withLease` can lease in Azure Files.
 * @example
 * ```ts
 * const leasable: LeasableShareLike = shareService.getShareClient("documents");
 * await withLease(leasable, (lease) => work(lease.signal));
 * ```
 */
export interface LeasableShareLike {
  readonly url: string;
  getShareLeaseClient(proposeLeaseId?: string): ShareLeaseClientLike;
  getProperties(options?: ShareLeaseCallOptions & { leaseAccessConditions?: { leaseId?: string } }): Promise<LeasePropertiesLike>;
}

/** Options of one request of Azure Files, as the SDK accepts them. */
export interface FileCallOptions extends ShareLeaseCallOptions {
  leaseAccessConditions?: { leaseId?: string };
}

/** HTTP headers of a file, as the SDK accepts them. */
export interface FileHttpHeadersLike {
  fileContentType?: string;
  fileCacheControl?: string;
  fileContentEncoding?: string;
  fileContentLanguage?: string;
  fileContentDisposition?: string;
  fileContentMD5?: Uint8Array;
}

/** The properties that the responses to GET and HEAD of a file have in common. */
export interface FileResponseLike extends BlobResponseLike {
  fileAttributes?: string | undefined;
  fileCreatedOn?: Date | undefined;
  filePermissionKey?: string | undefined;
  lastModified?: Date | undefined;
  /** When the service sent the response, by its own clock. */
  date?: Date | undefined;
}

/** The response of `download()`: with a stream in Node, with a `Blob` in browsers. */
export interface FileDownloadLike extends FileResponseLike {
  readableStreamBody?: unknown;
  blobBody?: Promise<Blob> | undefined;
}

/** Options of `create()`, as the SDK accepts them. */
export interface FileCreateOptions extends FileCallOptions {
  fileHttpHeaders?: FileHttpHeadersLike;
  metadata?: Record<string, string>;
  fileAttributes?: never;
  creationTime?: Date;
  filePermissionKey?: string;
}

/** Options of `rename()`, as the SDK accepts them. */
export interface FileRenameOptions extends ShareLeaseCallOptions {
  replaceIfExists?: boolean;
  copyFileSmbInfo?: { fileAttributes?: string };
  sourceLeaseAccessConditions?: { leaseId?: string };
  destinationLeaseAccessConditions?: { leaseId?: string };
}

/**
 * A `ShareFileClient`, for `jsonFile` and other targets in files.
 * @example
 * ```ts
 * const file: FileLike = share.getDirectoryClient("config").getFileClient("settings.json");
 * const { value } = await readTarget(jsonFile<Settings>(file));
 * ```
 */
export interface FileLike extends LeasableShareLike {
  readonly name: string;
  /** The path within the share. */
  readonly path: string;
  getProperties(options?: FileCallOptions): Promise<FileResponseLike & LeasePropertiesLike>;
  download(offset?: number, count?: number, options?: FileCallOptions & { maxRetryRequests?: number }): Promise<FileDownloadLike>;
  create(size: number, options?: FileCreateOptions): Promise<{ etag?: string | undefined }>;
  uploadRange(body: Uint8Array, offset: number, contentLength: number, options?: FileCallOptions): Promise<{ etag?: string | undefined }>;
  setMetadata(metadata?: Record<string, string>, options?: FileCallOptions): Promise<{ etag?: string | undefined }>;
  setHttpHeaders(headers?: FileHttpHeadersLike, options?: FileCallOptions): Promise<{ etag?: string | undefined }>;
  rename(destinationPath: string, options?: FileRenameOptions): Promise<{ fileRenameResponse: { etag?: string | undefined } }>;
  delete(options?: FileCallOptions): Promise<unknown>;
}

/**
 * A `ShareClient`, for `shareMetadata`.
 * @example
 * ```ts
 * const share: ShareLike = shareService.getShareClient("documents");
 * const { value } = await readTarget(shareMetadata(share));
 * ```
 */
export interface ShareLike extends LeasableShareLike {
  getDirectoryClient(directoryName: string): object;
  setMetadata(metadata?: Record<string, string>, options?: FileCallOptions): Promise<{ etag?: string | undefined }>;
}

/** One entry of a {@link DirectoryLike}. */
export interface DirectoryEntryLike {
  readonly kind: "file" | "directory";
  readonly name: string;
}

/**
 * A `ShareDirectoryClient`, for `purgeStagingFiles`.
 * @example
 * ```ts
 * const directory: DirectoryLike = share.getDirectoryClient("config");
 * await purgeStagingFiles(directory);
 * ```
 */
export interface DirectoryLike {
  readonly url: string;
  listFilesAndDirectories(options?: ShareLeaseCallOptions): AsyncIterable<DirectoryEntryLike>;
  getFileClient(fileName: string): FileLike;
  getDirectoryClient(subDirectoryName: string): DirectoryLike;
}
