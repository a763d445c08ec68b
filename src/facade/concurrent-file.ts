import type { CallOptions } from "../clients/call.js";
import type { FileLike } from "../clients/file.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import type { LeaseHandle } from "../lease/lease-handle.js";
import type { AcquireLeaseOptions, LockProviderLike } from "../lease/lease-options.js";
import { withLease } from "../lease/with-lease.js";
import { inspectLease } from "../lock/inspect-lease.js";
import type { LeaseInfo } from "../lock/inspect-lease.js";
import type { WatchOptions } from "../read/poller.js";
import { watch } from "../read/watch.js";
import type { Watch } from "../read/watch.js";
import { jsonFile } from "../target/file-content.js";
import { fileHttpHeaders, fileMetadata } from "../target/file-properties.js";
import type { HttpHeaders } from "../target/property-set.js";
import type { LeasedTarget, ReadResult } from "../target/target.js";
import type { Mutator, UpdateResult } from "../update/batch.js";
import { createIfNotExists } from "../update/create-if-not-exists.js";
import { leaseOptionsOf } from "../update/exclusive-access.js";
import type { LeasedUpdateOptions } from "../update/exclusive-access.js";
import { leasedUpdate } from "../update/leased-update.js";
import type { TargetOptions } from "../update/options.js";
import { readTarget } from "../update/read-target.js";
import type { ReadTargetOptions } from "../update/read-target.js";
import { overwrite } from "../update/single-call.js";
import type { WriteTargetOptions } from "../update/single-call.js";

/** Options of {@link ConcurrentFile}. */
export interface ConcurrentFileOptions<T> {
  /** Checks the document when it is read and before it is written. */
  schema?: StandardSchemaLike<T> | undefined;
  /** How the content is read and written. @defaultValue a JSON document */
  target?: LeasedTarget<T> | undefined;
  /** A `BlobLocks`, the same for all users of the file: takes over the lease of a holder that crashed. Strongly recommended. */
  crashGuard?: LockProviderLike | undefined;
  /** Options of every call that acquires the lease, unless the call has its own. */
  defaults?: LeasedUpdateOptions<T> | undefined;
}

/** All helpers for one file of a share. */
export class ConcurrentFile<T = unknown> {
  readonly client: FileLike;
  readonly #target: LeasedTarget<T>;
  readonly #defaults: LeasedUpdateOptions<T>;

  constructor(client: FileLike, options: ConcurrentFileOptions<T> = {}) {
    this.client = client;
    this.#target = options.target ?? jsonFile<T>(client, { schema: options.schema });
    this.#defaults = { ...(options.crashGuard && { crashGuard: options.crashGuard }), ...options.defaults };
  }

  /** See {@link leasedUpdate}. */
  update(mutator: Mutator<T>, options?: LeasedUpdateOptions<T>): Promise<UpdateResult<T>> {
    return leasedUpdate(this.#target, mutator, { ...this.#defaults, ...options });
  }

  /** See {@link readTarget}. */
  read(options?: ReadTargetOptions & { ifChangedSince?: undefined }): Promise<ReadResult<T>>;
  read(options: ReadTargetOptions): Promise<ReadResult<T> | "unchanged">;
  read(options?: ReadTargetOptions): Promise<ReadResult<T> | "unchanged"> {
    return readTarget(this.#target, { ...options });
  }

  /** See {@link watch}. */
  watch(options?: WatchOptions): Watch<T> {
    return watch(this.#target, options);
  }

  /** See {@link createIfNotExists}. */
  createIfNotExists(value: T, options?: TargetOptions): Promise<UpdateResult<T>> {
    return createIfNotExists(this.#target, value, options);
  }

  /** See {@link overwrite}. */
  overwrite(value: T, options?: WriteTargetOptions): Promise<{ etag: string }> {
    return overwrite(this.#target, value, options);
  }

  /** See {@link withLease}. */
  withLease<R>(fn: (lease: LeaseHandle) => Promise<R> | R, options?: AcquireLeaseOptions): Promise<R> {
    return withLease(this.client, fn, { ...leaseOptionsOf(this.#defaults), ...options });
  }

  /** See {@link inspectLease}. */
  inspectLease(options?: CallOptions): Promise<LeaseInfo> {
    return inspectLease(this.client, options);
  }

  /** Updates the metadata. See {@link fileMetadata}. */
  updateMetadata(
    mutator: Mutator<Record<string, string>>,
    options?: LeasedUpdateOptions<Record<string, string>>,
  ): Promise<UpdateResult<Record<string, string>>> {
    return leasedUpdate(fileMetadata(this.client), mutator, { ...withoutValues(this.#defaults), ...options });
  }

  /** Updates the HTTP headers. See {@link fileHttpHeaders}. */
  updateHttpHeaders(
    mutator: Mutator<HttpHeaders>,
    options?: LeasedUpdateOptions<HttpHeaders>,
  ): Promise<UpdateResult<HttpHeaders>> {
    return leasedUpdate(fileHttpHeaders(this.client), mutator, { ...withoutValues(this.#defaults), ...options });
  }
}

/** The defaults that do not contain a value of the document. */
function withoutValues<T>(defaults: LeasedUpdateOptions<T>): LeasedUpdateOptions<never> {
  const rest = { ...defaults };
  delete rest.initial;
  return rest as LeasedUpdateOptions<never>;
}
