import type { LeasableBlobLike, BlockBlobLike } from "../clients/blob.js";
import type { CallOptions } from "../clients/call.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import type { LeaseHandle } from "../lease/lease-handle.js";
import type { AcquireLeaseOptions } from "../lease/lease-options.js";
import { withLease } from "../lease/with-lease.js";
import { inspectLease } from "../lock/inspect-lease.js";
import type { LeaseInfo } from "../lock/inspect-lease.js";
import { downloadConsistent } from "../read/download-consistent.js";
import type { ConsistentDownload } from "../read/download-consistent.js";
import { downloadConsistentStream } from "../read/download-consistent-stream.js";
import type { ConsistentStream } from "../read/download-consistent-stream.js";
import type { DownloadOptions, DownloadStreamOptions } from "../read/download-options.js";
import type { WatchOptions } from "../read/poller.js";
import { watch } from "../read/watch.js";
import type { Watch } from "../read/watch.js";
import { jsonBlob } from "../target/blob-content.js";
import { blobHttpHeaders, blobMetadata } from "../target/blob-properties.js";
import type { HttpHeaders } from "../target/property-set.js";
import { blobTags } from "../target/blob-tags.js";
import type { ReadResult, UpdateTarget } from "../target/target.js";
import type { Mutator, UpdateResult } from "../update/batch.js";
import { createIfNotExists } from "../update/create-if-not-exists.js";
import { optimisticUpdate } from "../update/optimistic-update.js";
import type { OptimisticUpdateOptions, TargetOptions } from "../update/options.js";
import { readTarget } from "../update/read-target.js";
import type { ReadTargetOptions } from "../update/read-target.js";
import { overwrite, deleteIfUnchanged } from "../update/single-call.js";
import type { WriteTargetOptions } from "../update/single-call.js";

/** Options of {@link ConcurrentBlob}. */
export interface ConcurrentBlobOptions<T> {
  /** Checks the document when it is read and before it is written. */
  schema?: StandardSchemaLike<T> | undefined;
  /** How the content is read and written. @defaultValue a JSON document */
  target?: UpdateTarget<T> | undefined;
  /** Options of every call, unless the call has its own. */
  defaults?: OptimisticUpdateOptions<T> | undefined;
}

/** All helpers for one block blob. */
export class ConcurrentBlob<T = unknown> {
  readonly client: BlockBlobLike & LeasableBlobLike;
  readonly #target: UpdateTarget<T>;
  readonly #defaults: OptimisticUpdateOptions<T>;

  constructor(client: BlockBlobLike & LeasableBlobLike, options: ConcurrentBlobOptions<T> = {}) {
    this.client = client;
    this.#target = options.target ?? jsonBlob<T>(client, { schema: options.schema });
    this.#defaults = { ...options.defaults };
  }

  /** See {@link optimisticUpdate}. */
  update(mutator: Mutator<T>, options?: OptimisticUpdateOptions<T>): Promise<UpdateResult<T>> {
    return optimisticUpdate(this.#target, mutator, { ...this.#defaults, ...options });
  }

  /** See {@link readTarget}. */
  read(options?: ReadTargetOptions & { ifChangedSince?: undefined }): Promise<ReadResult<T>>;
  read(options: ReadTargetOptions): Promise<ReadResult<T> | "unchanged">;
  read(options: ReadTargetOptions = {}): Promise<ReadResult<T> | "unchanged"> {
    return readTarget(this.#target, { ...this.#defaults, ...options });
  }

  /** See {@link watch}. */
  watch(options?: WatchOptions): Watch<T> {
    return watch(this.#target, { ...this.#defaults, ...options });
  }

  /** See {@link downloadConsistent}. */
  downloadConsistent(options?: DownloadOptions): Promise<ConsistentDownload> {
    return downloadConsistent(this.client, { ...this.#defaults, ...options });
  }

  /** See {@link downloadConsistentStream}. */
  downloadConsistentStream(options?: DownloadStreamOptions): Promise<ConsistentStream> {
    return downloadConsistentStream(this.client, { ...this.#defaults, ...options });
  }

  /** See {@link createIfNotExists}. */
  createIfNotExists(value: T, options?: TargetOptions): Promise<UpdateResult<T>> {
    return createIfNotExists(this.#target, value, { ...this.#defaults, ...options });
  }

  /** See {@link overwrite}. */
  overwrite(value: T, options?: WriteTargetOptions): Promise<{ etag: string }> {
    return overwrite(this.#target, value, { ...this.#defaults, ...options });
  }

  /** See {@link deleteIfUnchanged}. */
  deleteIfUnchanged(etag: string, options?: WriteTargetOptions): Promise<void> {
    return deleteIfUnchanged(this.#target, etag, { ...this.#defaults, ...options });
  }

  /** See {@link withLease}. */
  withLease<R>(fn: (lease: LeaseHandle) => Promise<R> | R, options?: AcquireLeaseOptions): Promise<R> {
    return withLease(this.client, fn, options);
  }

  /** See {@link inspectLease}. */
  inspectLease(options?: CallOptions): Promise<LeaseInfo> {
    return inspectLease(this.client, options);
  }

  /** Updates the metadata. See {@link blobMetadata}. */
  updateMetadata(
    mutator: Mutator<Record<string, string>>,
    options?: OptimisticUpdateOptions<Record<string, string>>,
  ): Promise<UpdateResult<Record<string, string>>> {
    return optimisticUpdate(blobMetadata(this.client), mutator, { ...withoutValues(this.#defaults), ...options });
  }

  /** Updates the HTTP headers. See {@link blobHttpHeaders}. */
  updateHttpHeaders(
    mutator: Mutator<HttpHeaders>,
    options?: OptimisticUpdateOptions<HttpHeaders>,
  ): Promise<UpdateResult<HttpHeaders>> {
    return optimisticUpdate(blobHttpHeaders(this.client), mutator, { ...withoutValues(this.#defaults), ...options });
  }

  /** Updates the index tags. See {@link blobTags}. */
  updateTags(
    mutator: Mutator<Record<string, string>>,
    options?: OptimisticUpdateOptions<Record<string, string>>,
  ): Promise<UpdateResult<Record<string, string>>> {
    return optimisticUpdate(blobTags(this.client), mutator, { ...withoutValues(this.#defaults), ...options });
  }
}

/** The defaults that do not contain a value of the document. */
function withoutValues<T>(defaults: OptimisticUpdateOptions<T>): Omit<OptimisticUpdateOptions<T>, "initial" | "startFrom"> {
  const rest = { ...defaults };
  delete rest.initial;
  delete rest.startFrom;
  return rest;
}
