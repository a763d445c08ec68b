import type { OperationTracingOptions } from "@azure/core-tracing";
import type { BlobAnswerLike, LeasePropertiesLike } from "./blob.js";

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
