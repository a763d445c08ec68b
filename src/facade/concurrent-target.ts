import type { CallOptions, TimedCallOptions } from "../clients/call.js";
import type { LeaseHandle } from "../lease/lease-handle.js";
import type { AcquireLeaseOptions, TryAcquireLeaseOptions } from "../lease/lease-options.js";
import type { BreakLeaseOptions, LeaseInfo } from "../lock/inspect-lease.js";
import { mergeDefined } from "../core/validate.js";
import type { WatchOptions } from "../read/poller.js";
import { watch } from "../read/watch.js";
import type { Watch } from "../read/watch.js";
import type { ReadResult, UpdateTarget } from "../target/target.js";
import type { Mutator, UpdateResult } from "../update/mutator.js";
import { createIfNotExists } from "../update/create-if-not-exists.js";
import { optimisticUpdate } from "../update/optimistic-update.js";
import type { OptimisticUpdateOptions, TargetOptions } from "../update/options.js";
import { readIfChanged, readTarget, tryReadTarget } from "../update/read-target.js";
import type { ReadIfChangedResult } from "../update/read-target.js";
import { deleteIfUnchanged } from "../update/delete-if-unchanged.js";
import { overwrite } from "../update/overwrite.js";
import type { WriteTargetOptions } from "../update/overwrite.js";

/**
 * All calls on one target, under one set of names: see {@link ConcurrentBlob} and {@link ConcurrentTable}. An option that is not
 * given, or `undefined`, has the default of the facade.
 */
export interface ConcurrentTarget<T, I = T> {
  /**
   * Reads the target. See {@link readTarget}.
   * @throws {@link TargetNotFoundError} if it does not exist.
   */
  read(options?: TargetOptions): Promise<ReadResult<T>>;
  /**
   * Reads the target; undefined if it does not exist. See {@link tryReadTarget}.
   * @throws {@link SchemaError} if what is stored does not match the schema.
   */
  tryRead(options?: TargetOptions): Promise<ReadResult<T> | undefined>;
  /**
   * Reads the target unless it still has this ETag. See {@link readIfChanged}.
   * @throws {@link TargetNotFoundError} if it does not exist.
   */
  readIfChanged(etag: string, options?: TargetOptions): Promise<ReadIfChangedResult<T>>;
  /**
   * Changes the target. See {@link optimisticUpdate}.
   * @throws {@link ConflictError} if other writers kept changing it: nothing was written.
   * @throws {@link TargetNotFoundError} if it does not exist and there is no `initial`: nothing was written.
   * @throws {@link CommitUnknownError} if a write was sent and its outcome cannot be determined.
   */
  update(mutator: Mutator<T>, options?: OptimisticUpdateOptions<T, I>): Promise<UpdateResult<T>>;
  /**
   * Creates the target unless it exists. See {@link createIfNotExists}.
   * @throws {@link CommitUnknownError} if it cannot be known whether this call created it.
   */
  createIfNotExists(value: I, options?: TargetOptions): Promise<UpdateResult<T>>;
  /**
   * Writes the target, whatever is stored. See {@link overwrite}.
   * @throws {@link CommitUnknownError} if the time was over while the write was in flight.
   */
  overwrite(value: I, options?: WriteTargetOptions): Promise<{ readonly etag: string }>;
  /**
   * Deletes the target if it still has this ETag. See {@link deleteIfUnchanged}.
   * @throws {@link ConflictError} if it was changed.
   */
  deleteIfUnchanged(etag: string, options?: TargetOptions): Promise<void>;
  /**
   * Yields the current state, then each new one. See {@link watch}.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  watch(options?: WatchOptions): Watch<T>;
}

/** The lease of the resource itself: see {@link ConcurrentBlob} and {@link ConcurrentFile}. */
export interface ConcurrentLeasable {
  /**
   * Runs a function under the lease. See {@link withLease}.
   * @throws {@link LeaseUnavailableError} if another client still holds it after `waitInMs`.
   * @throws {@link LeaseLostError} if it was lost while the function ran.
   */
  withLease<R>(fn: (lease: LeaseHandle) => Promise<R> | R, options?: AcquireLeaseOptions): Promise<R>;
  /**
   * Waits for the lease. The caller releases it. See {@link acquireLease}.
   * @throws {@link LeaseUnavailableError} if another client still holds it after `waitInMs`.
   */
  acquireLease(options?: AcquireLeaseOptions): Promise<LeaseHandle>;
  /**
   * Asks once for the lease; undefined if another client holds it. See {@link tryAcquireLease}.
   * @throws {@link TargetNotFoundError} if the resource does not exist.
   */
  tryAcquireLease(options?: TryAcquireLeaseOptions): Promise<LeaseHandle | undefined>;
  /**
   * The state of the lease. See {@link inspectLease}.
   * @throws {@link TargetNotFoundError} if the resource does not exist.
   */
  inspectLease(options?: TimedCallOptions): Promise<LeaseInfo>;
  /**
   * Breaks the lease. Returns whether there was one. See {@link breakLease}.
   * @throws {@link TargetNotFoundError} if the resource does not exist.
   */
  breakLease(options?: BreakLeaseOptions): Promise<boolean>;
}

/** The defaults of the calls of a {@link ConcurrentBlob}: the options of updates without those that belong to one call. */
export type TargetDefaults<T, I = T> = Omit<OptimisticUpdateOptions<T, I>, "startFrom" | "ifMatch" | "operationId" | keyof CallOptions>;

/** The defaults that calls other than updates have, too. */
export function targetDefaults({ timeoutInMs, tryTimeoutInMs, conditions, journal }: TargetOptions): TargetOptions {
  return { timeoutInMs, tryTimeoutInMs, conditions, journal };
}

/** Throws for defaults that belong to one call: with the same operation id, all calls but the first would be taken for repetitions. */
export function checkDefaults<D extends object>(facade: string, defaults: D): D {
  if (typeof defaults !== "object") throw new TypeError(`${facade}: defaults must be an object.`);
  for (const name of ["startFrom", "ifMatch", "operationId"]) {
    if (name in defaults) throw new TypeError(`${facade}: ${name} belongs to one call, and cannot be a default.`);
  }
  return defaults;
}

/** The calls on one target, with the defaults of a facade. */
export class TargetFacade<T, I = T> implements ConcurrentTarget<T, I> {
  readonly #target: UpdateTarget<T, I>;
  readonly #defaults: TargetDefaults<T, I>;

  constructor(target: UpdateTarget<T, I>, defaults: TargetDefaults<T, I>) {
    this.#target = target;
    this.#defaults = defaults;
  }

  read(options?: TargetOptions): Promise<ReadResult<T>> {
    return readTarget(this.#target, this.#merge(options));
  }

  tryRead(options?: TargetOptions): Promise<ReadResult<T> | undefined> {
    return tryReadTarget(this.#target, this.#merge(options));
  }

  readIfChanged(etag: string, options?: TargetOptions): Promise<ReadIfChangedResult<T>> {
    return readIfChanged(this.#target, etag, this.#merge(options));
  }

  update(mutator: Mutator<T>, options?: OptimisticUpdateOptions<T, I>): Promise<UpdateResult<T>> {
    return optimisticUpdate(this.#target, mutator, mergeDefined<OptimisticUpdateOptions<T, I>>(this.#defaults, options));
  }

  createIfNotExists(value: I, options?: TargetOptions): Promise<UpdateResult<T>> {
    return createIfNotExists(this.#target, value, this.#merge(options));
  }

  overwrite(value: I, options?: WriteTargetOptions): Promise<{ readonly etag: string }> {
    return overwrite(this.#target, value, this.#merge(options));
  }

  deleteIfUnchanged(etag: string, options?: TargetOptions): Promise<void> {
    return deleteIfUnchanged(this.#target, etag, this.#merge(options));
  }

  watch(options?: WatchOptions): Watch<T> {
    const { conditions, journal } = this.#defaults;
    return watch(this.#target, mergeDefined<WatchOptions>({ conditions, journal }, options));
  }

  #merge(options: TargetOptions | undefined): TargetOptions {
    return mergeDefined(targetDefaults(this.#defaults), options);
  }
}
