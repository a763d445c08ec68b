import type { CallOptions, TimedCallOptions } from "../clients/call.js";
import type { FileLike } from "../clients/file.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import { checkOptions, mergeDefined, omitOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { LeaseHandle } from "../lease/lease-handle.js";
import type { AcquireLeaseOptions, TryAcquireLeaseOptions } from "../lease/lease-options.js";
import { acquireLease, tryAcquireLease, withLease } from "../lease/with-lease.js";
import { breakLease, inspectLease } from "../lock/inspect-lease.js";
import type { BreakLeaseOptions, LeaseInfo } from "../lock/inspect-lease.js";
import type { WatchOptions } from "../read/poller.js";
import { watch } from "../read/watch.js";
import type { Watch } from "../read/watch.js";
import { jsonFile } from "../target/file-content.js";
import type { JsonFileOptions } from "../target/file-content.js";
import { fileHttpHeaders, fileMetadata } from "../target/file-properties.js";
import type { HttpHeaders } from "../target/property-set.js";
import { requireClient } from "../target/target.js";
import type { LeasedTarget, ReadResult } from "../target/target.js";
import type { Mutator, UpdateResult } from "../update/mutator.js";
import { createIfNotExists } from "../update/create-if-not-exists.js";
import { leaseOptionsOf } from "../update/exclusive-access.js";
import type { LeasedUpdateOptions } from "../update/exclusive-access.js";
import { leasedUpdate } from "../update/leased-update.js";
import type { TargetOptions } from "../update/options.js";
import { readIfChanged, readTarget, tryReadTarget } from "../update/read-target.js";
import type { ReadIfChangedResult } from "../update/read-target.js";
import { overwrite } from "../update/overwrite.js";
import type { WriteTargetOptions } from "../update/overwrite.js";
import { checkDefaults } from "./concurrent-target.js";
import type { ConcurrentLeasable, ConcurrentTarget } from "./concurrent-target.js";

/** Options of {@link ConcurrentFile}. */
export interface ConcurrentFileOptions<T> extends JsonFileOptions<T> {
  /** Validates the document, as for {@link jsonFile}. Excludes `target`. @defaultValue none: any JSON value is valid */
  schema?: StandardSchemaLike<T> | undefined;
  /** How the content is read and written. Excludes `schema` and `maxSizeInBytes`. @defaultValue a JSON document */
  target?: LeasedTarget<T> | undefined;
  /**
   * A {@link BlobLocks}, the same for all users of the file: takes over the lease of a holder that crashed. Strongly recommended.
   * @defaultValue none: the lease of a holder that crashed has to be broken by an operator
   */
  crashGuard?: AcquireLeaseOptions["crashGuard"];
  /** Options of every call that knows them, unless the call has its own. `initial` is for the content only. @defaultValue none */
  defaults?: Omit<LeasedUpdateOptions<T>, "lease" | "operationId" | keyof CallOptions> | undefined;
}

const optionNames: OptionNames<ConcurrentFileOptions<unknown>> = { maxSizeInBytes: 1, schema: 1, allowKindChange: 1, target: 1, crashGuard: 1, defaults: 1 };

/**
 * All helpers for one file of a share in one class. Files have no ETag conditions: `update` is a {@link leasedUpdate}, and there is
 * no `deleteIfUnchanged`.
 *
 * @example
 * ```ts
 * const settings = new ConcurrentFile<Settings>(directory.getFileClient("settings.json"), { crashGuard: locks });
 * await settings.update((draft) => { draft.level = "debug"; }, { initial: { level: "info" } });
 * ```
 */
export class ConcurrentFile<T = unknown> implements Omit<ConcurrentTarget<T>, "update" | "deleteIfUnchanged">, ConcurrentLeasable {
  readonly #client: FileLike;
  readonly #target: LeasedTarget<T>;
  readonly #defaults: LeasedUpdateOptions<T>;

  /**
   * Checks the client and the options. Sends no request.
   * @throws `TypeError` if `client` is not a file client, an option is unknown, or options exclude each other.
   * @throws `RangeError` if the name of the file is too long for its staging file.
   */
  constructor(client: FileLike, options: ConcurrentFileOptions<T> = {}) {
    requireClient("ConcurrentFile", client, "a ShareFileClient", ["uploadRange", "getShareLeaseClient"]);
    checkOptions("ConcurrentFile", options, optionNames);
    const { schema, maxSizeInBytes, target, crashGuard, defaults } = options;
    if (target && (schema ?? maxSizeInBytes) !== undefined) throw new TypeError("ConcurrentFile: pass schema and maxSizeInBytes to the target, not beside it.");
    this.#client = client;
    this.#target = target ?? jsonFile<T>(client, { schema, maxSizeInBytes });
    this.#defaults = checkDefaults("ConcurrentFile", mergeDefined<LeasedUpdateOptions<T>>({ crashGuard }, defaults));
  }

  /** The client that was passed in. Not enumerable: it holds credentials, which must not be printed with the facade. */
  get client(): FileLike {
    return this.#client;
  }

  /** {@inheritDoc ConcurrentTarget.read} */
  read(options?: TargetOptions): Promise<ReadResult<T>> {
    return readTarget(this.#target, this.#mergeTime(options));
  }

  /** {@inheritDoc ConcurrentTarget.tryRead} */
  tryRead(options?: TargetOptions): Promise<ReadResult<T> | undefined> {
    return tryReadTarget(this.#target, this.#mergeTime(options));
  }

  /** {@inheritDoc ConcurrentTarget.readIfChanged} */
  readIfChanged(etag: string, options?: TargetOptions): Promise<ReadIfChangedResult<T>> {
    return readIfChanged(this.#target, etag, this.#mergeTime(options));
  }

  /**
   * Changes the content under the lease. See {@link leasedUpdate}.
   * @throws {@link LeaseUnavailableError} if another client still holds the lease after `waitInMs`: nothing was written.
   * @throws {@link LeaseLostError} if the lease was lost before the write: nothing was written.
   * @throws {@link CommitUnknownError} if a write was sent and its outcome cannot be determined.
   */
  update(mutator: Mutator<T>, options?: LeasedUpdateOptions<T>): Promise<UpdateResult<T>> {
    return leasedUpdate(this.#target, mutator, this.#merge(options));
  }

  /**
   * Changes the metadata under the lease. See {@link fileMetadata}.
   * @throws {@link LeaseUnavailableError} if another client still holds the lease after `waitInMs`: nothing was written.
   * @throws {@link LeaseLostError} if the lease was lost before the write: nothing was written.
   * @throws {@link CommitUnknownError} if a write was sent and its outcome cannot be determined.
   */
  updateMetadata(
    mutator: Mutator<Record<string, string>>,
    options?: LeasedUpdateOptions<Record<string, string>>,
  ): Promise<UpdateResult<Record<string, string>>> {
    return leasedUpdate(fileMetadata(this.#client), mutator, this.#mergeWithoutValue(options));
  }

  /**
   * Changes the HTTP headers under the lease. See {@link fileHttpHeaders}.
   * @throws {@link LeaseUnavailableError} if another client still holds the lease after `waitInMs`: nothing was written.
   * @throws {@link LeaseLostError} if the lease was lost before the write: nothing was written.
   * @throws {@link CommitUnknownError} if a write was sent and its outcome cannot be determined.
   */
  updateHttpHeaders(mutator: Mutator<HttpHeaders>, options?: LeasedUpdateOptions<HttpHeaders>): Promise<UpdateResult<HttpHeaders>> {
    return leasedUpdate(fileHttpHeaders(this.#client), mutator, this.#mergeWithoutValue(options));
  }

  /** {@inheritDoc ConcurrentTarget.createIfNotExists} */
  createIfNotExists(value: T, options?: TargetOptions): Promise<UpdateResult<T>> {
    return createIfNotExists(this.#target, value, this.#mergeTime(options));
  }

  /** {@inheritDoc ConcurrentTarget.overwrite} */
  overwrite(value: T, options?: WriteTargetOptions): Promise<{ readonly etag: string }> {
    return overwrite(this.#target, value, this.#mergeTime(options));
  }

  /** {@inheritDoc ConcurrentTarget.watch} */
  watch(options?: WatchOptions): Watch<T> {
    return watch(this.#target, options);
  }

  /** {@inheritDoc ConcurrentLeasable.withLease} */
  withLease<R>(fn: (lease: LeaseHandle) => Promise<R> | R, options?: AcquireLeaseOptions): Promise<R> {
    return withLease(this.#client, fn, mergeDefined(leaseOptionsOf(this.#defaults), options));
  }

  /** {@inheritDoc ConcurrentLeasable.acquireLease} */
  acquireLease(options?: AcquireLeaseOptions): Promise<LeaseHandle> {
    return acquireLease(this.#client, mergeDefined(leaseOptionsOf(this.#defaults), options));
  }

  /** {@inheritDoc ConcurrentLeasable.tryAcquireLease} */
  async tryAcquireLease(options?: TryAcquireLeaseOptions): Promise<LeaseHandle | undefined> {
    const defaults = omitOptions(leaseOptionsOf(this.#defaults), "waitInMs");
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

  /** A lease that the caller holds replaces the options that acquire one. */
  #merge(options: LeasedUpdateOptions<T> | undefined): LeasedUpdateOptions<T> {
    return mergeDefined(this.#defaults, options);
  }

  /** Of the defaults, calls that acquire no lease know only the time limit. */
  #mergeTime(options: TargetOptions | undefined): TargetOptions {
    return mergeDefined<TargetOptions>({ timeoutInMs: this.#defaults.timeoutInMs }, options);
  }

  #mergeWithoutValue<V>(options: LeasedUpdateOptions<V> | undefined): LeasedUpdateOptions<V> {
    return mergeDefined<LeasedUpdateOptions<V>>(omitOptions(this.#defaults, "initial"), options);
  }
}
