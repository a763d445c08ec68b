import type { BlockBlobLike, LeasableBlobLike } from "../clients/blob.js";
import type { CallOptions, TimedCallOptions } from "../clients/call.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import { checkOptions, mergeDefined, omitOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { LeaseHandle } from "../lease/lease-handle.js";
import type { AcquireLeaseOptions, TryAcquireLeaseOptions } from "../lease/lease-options.js";
import { acquireLease, tryAcquireLease, withLease } from "../lease/with-lease.js";
import { breakLease, inspectLease } from "../lock/inspect-lease.js";
import type { BreakLeaseOptions, LeaseInfo } from "../lock/inspect-lease.js";
import { downloadConsistent } from "../read/download-consistent.js";
import type { ConsistentDownload } from "../read/download-consistent.js";
import { downloadConsistentStream } from "../read/download-consistent-stream.js";
import type { DownloadOptions, DownloadStreamOptions } from "../read/download-options.js";
import type { WatchOptions } from "../read/poller.js";
import type { Watch } from "../read/watch.js";
import { jsonBlob } from "../target/blob-content.js";
import type { JsonBlobOptions } from "../target/blob-content.js";
import { blobHttpHeaders, blobMetadata } from "../target/blob-properties.js";
import { blobTags } from "../target/blob-tags.js";
import type { HttpHeaders } from "../target/property-set.js";
import { requireClient } from "../target/target.js";
import type { ReadResult, UpdateTarget } from "../target/target.js";
import type { Mutator, UpdateResult } from "../update/mutator.js";
import type { LeasedUpdateOptions } from "../update/exclusive-access.js";
import { leasedUpdate } from "../update/leased-update.js";
import type { OptimisticUpdateOptions, TargetOptions } from "../update/options.js";
import type { ReadIfChangedResult } from "../update/read-target.js";
import type { WriteTargetOptions } from "../update/overwrite.js";
import { checkDefaults, TargetFacade } from "./concurrent-target.js";
import type { ConcurrentLeasable, ConcurrentTarget, TargetDefaults } from "./concurrent-target.js";

/** Options of {@link ConcurrentBlob}. */
export interface ConcurrentBlobOptions<T> extends JsonBlobOptions<T> {
  /** Validates the document, as for {@link jsonBlob}. Excludes `target`. @defaultValue none: any JSON value is valid */
  schema?: StandardSchemaLike<T> | undefined;
  /** How the content is read and written. Excludes the options of {@link jsonBlob}. @defaultValue a JSON document */
  target?: UpdateTarget<T> | undefined;
  /** Options of every call that knows them, unless the call has its own. `initial` is for the content only. @defaultValue none */
  defaults?: TargetDefaults<T> | undefined;
  /** Options of every call that acquires the lease, unless the call has its own. @defaultValue none */
  leaseDefaults?: Omit<AcquireLeaseOptions, "leaseId" | keyof CallOptions> | undefined;
}

const optionNames: OptionNames<ConcurrentBlobOptions<unknown>> = { keepTier: 1, deleteSnapshots: 1, maxSizeInBytes: 1, schema: 1, allowKindChange: 1, target: 1, defaults: 1, leaseDefaults: 1 };

/**
 * All helpers for one block blob in one class: its content (JSON unless `target` says otherwise), metadata, tags, headers and lease.
 *
 * @example
 * ```ts
 * const settings = new ConcurrentBlob(container.getBlockBlobClient("settings.json"), { schema });
 * await settings.update((draft) => { draft.level = "debug"; });
 * await settings.tags.update((tags) => { tags["level"] = "debug"; });
 * ```
 */
export class ConcurrentBlob<T = unknown> implements ConcurrentTarget<T>, ConcurrentLeasable {
  /** The metadata of the blob. See {@link blobMetadata}. */
  readonly metadata: ConcurrentTarget<Record<string, string>>;
  /** The index tags of the blob. See {@link blobTags}. */
  readonly tags: ConcurrentTarget<Record<string, string>>;
  /** The HTTP headers of the blob. See {@link blobHttpHeaders}. */
  readonly httpHeaders: ConcurrentTarget<HttpHeaders>;
  readonly #client: BlockBlobLike & LeasableBlobLike;
  readonly #target: UpdateTarget<T>;
  readonly #content: TargetFacade<T>;
  readonly #defaults: TargetDefaults<T>;
  readonly #leaseDefaults: AcquireLeaseOptions;

  /**
   * Checks the client and the options. Sends no request.
   * @throws `TypeError` if `client` is not a block blob client, an option is unknown, or options exclude each other.
   */
  constructor(client: BlockBlobLike & LeasableBlobLike, options: ConcurrentBlobOptions<T> = {}) {
    requireClient("ConcurrentBlob", client, "a BlockBlobClient", ["upload", "download", "getBlobLeaseClient"]);
    checkOptions("ConcurrentBlob", options, optionNames);
    const { schema, keepTier, deleteSnapshots, maxSizeInBytes, allowKindChange, target, defaults, leaseDefaults } = options;
    if (target && (schema ?? keepTier ?? deleteSnapshots ?? maxSizeInBytes ?? allowKindChange) !== undefined) {
      throw new TypeError("ConcurrentBlob: pass schema, keepTier, deleteSnapshots, maxSizeInBytes and allowKindChange to the target, not beside it.");
    }
    this.#client = client;
    this.#target = target ?? jsonBlob<T>(client, { schema, keepTier, deleteSnapshots, maxSizeInBytes, allowKindChange });
    this.#defaults = checkDefaults("ConcurrentBlob", { ...defaults });
    this.#leaseDefaults = { ...leaseDefaults };
    this.#content = new TargetFacade(this.#target, this.#defaults);
    const propertyDefaults: TargetDefaults<never> = { ...(defaults as TargetDefaults<never> | undefined), initial: undefined };
    this.metadata = new TargetFacade(blobMetadata(client), propertyDefaults);
    this.tags = new TargetFacade(blobTags(client), propertyDefaults);
    this.httpHeaders = new TargetFacade(blobHttpHeaders(client), propertyDefaults);
  }

  /** The client that was passed in. Not enumerable: it holds credentials, which must not be printed with the facade. */
  get client(): BlockBlobLike & LeasableBlobLike {
    return this.#client;
  }

  /** {@inheritDoc ConcurrentTarget.read} */
  read(options?: TargetOptions): Promise<ReadResult<T>> {
    return this.#content.read(options);
  }

  /** {@inheritDoc ConcurrentTarget.tryRead} */
  tryRead(options?: TargetOptions): Promise<ReadResult<T> | undefined> {
    return this.#content.tryRead(options);
  }

  /** {@inheritDoc ConcurrentTarget.readIfChanged} */
  readIfChanged(etag: string, options?: TargetOptions): Promise<ReadIfChangedResult<T>> {
    return this.#content.readIfChanged(etag, options);
  }

  /** {@inheritDoc ConcurrentTarget.update} */
  update(mutator: Mutator<T>, options?: OptimisticUpdateOptions<T>): Promise<UpdateResult<T>> {
    return this.#content.update(mutator, options);
  }

  /** {@inheritDoc ConcurrentTarget.createIfNotExists} */
  createIfNotExists(value: T, options?: TargetOptions): Promise<UpdateResult<T>> {
    return this.#content.createIfNotExists(value, options);
  }

  /** {@inheritDoc ConcurrentTarget.overwrite} */
  overwrite(value: T, options?: WriteTargetOptions): Promise<{ readonly etag: string }> {
    return this.#content.overwrite(value, options);
  }

  /** {@inheritDoc ConcurrentTarget.deleteIfUnchanged} */
  deleteIfUnchanged(etag: string, options?: TargetOptions): Promise<void> {
    return this.#content.deleteIfUnchanged(etag, options);
  }

  /** {@inheritDoc ConcurrentTarget.watch} */
  watch(options?: WatchOptions): Watch<T> {
    return this.#content.watch(options);
  }

  /**
   * Changes the content under the lease. See {@link leasedUpdate}.
   * @throws {@link LeaseUnavailableError} if another client still holds the lease after `waitInMs`: nothing was written.
   * @throws {@link LeaseLostError} if the lease was lost before the write: nothing was written.
   * @throws {@link CommitUnknownError} if a write was sent and its outcome cannot be determined.
   */
  leasedUpdate(mutator: Mutator<T>, options?: LeasedUpdateOptions<T>): Promise<UpdateResult<T>> {
    const { initial, onUnknown, journal } = this.#defaults;
    const lease = omitOptions(this.#leaseDefaults, "createIfNotExists");
    return leasedUpdate(this.#target, mutator, mergeDefined<LeasedUpdateOptions<T>>({ ...lease, initial, onUnknown, journal }, options));
  }

  /**
   * Downloads one version of the blob. See {@link downloadConsistent}.
   * @throws {@link ContentChangedError} if the blob was rewritten too often.
   */
  downloadConsistent(options?: DownloadOptions): Promise<ConsistentDownload> {
    return downloadConsistent(this.#client, mergeDefined<DownloadOptions>({ conditions: this.#defaults.conditions }, options));
  }

  /**
   * Downloads one version of the blob as a stream. See {@link downloadConsistentStream}.
   * @throws {@link TargetNotFoundError} if it does not exist.
   */
  downloadConsistentStream(options?: DownloadStreamOptions): Promise<ConsistentDownload<ReadableStream<Uint8Array>>> {
    return downloadConsistentStream(this.#client, mergeDefined<DownloadStreamOptions>({ conditions: this.#defaults.conditions }, options));
  }

  /** {@inheritDoc ConcurrentLeasable.withLease} */
  withLease<R>(fn: (lease: LeaseHandle) => Promise<R> | R, options?: AcquireLeaseOptions): Promise<R> {
    return withLease(this.#client, fn, mergeDefined(this.#leaseDefaults, options));
  }

  /** {@inheritDoc ConcurrentLeasable.acquireLease} */
  acquireLease(options?: AcquireLeaseOptions): Promise<LeaseHandle> {
    return acquireLease(this.#client, mergeDefined(this.#leaseDefaults, options));
  }

  /** {@inheritDoc ConcurrentLeasable.tryAcquireLease} */
  async tryAcquireLease(options?: TryAcquireLeaseOptions): Promise<LeaseHandle | undefined> {
    const defaults = omitOptions(this.#leaseDefaults, "waitInMs");
    return (await tryAcquireLease(this.#client, mergeDefined<TryAcquireLeaseOptions>(defaults, options))) ?? undefined;
  }

  /** {@inheritDoc ConcurrentLeasable.inspectLease} */
  inspectLease(options?: TimedCallOptions): Promise<LeaseInfo> {
    return inspectLease(this.#client, options);
  }

  /** {@inheritDoc ConcurrentLeasable.breakLease} */
  breakLease(options?: BreakLeaseOptions): Promise<boolean> {
    return breakLease(this.#client, options);
  }
}
