import type { TimedCallOptions } from "../clients/call.js";
import type { LeasableLike } from "../clients/leasable.js";
import { RequestTimeoutError } from "../core/deadline.js";
import { read, readInTime } from "../core/request.js";
import { isConflict, isNotFound, isNotLeased, isParentNotFound } from "../core/storage-errors.js";
import { withSpan } from "../core/telemetry.js";
import type { SpanDetails } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, OperationTimeoutError, TargetNotFoundError } from "../errors.js";
import { leaseAdapterOf } from "../lease/lease-adapters.js";
import type { LeaseAdapter, LeaseRequest } from "../lease/lease-adapters.js";
import { checkTimeouts } from "../update/options.js";
import { parseLockRecord } from "./lock-record.js";
import type { LockRecord } from "./lock-record.js";

/** The state of a lease, and the holder of a named lock. See {@link inspectLease}. */
export interface LeaseInfo {
  /** The state, as the service reports it. `"leased"` and `"breaking"`: a client holds it. */
  readonly state: "available" | "leased" | "expired" | "breaking" | "broken";
  /** Of a held lease: whether it expires. */
  readonly duration: "fixed" | "infinite" | undefined;
  /** Of a named lock: the process that acquired it last. It still holds the lock if `state` is `"leased"` or `"breaking"`. */
  readonly holder: string | undefined;
  /** Of a named lock: when it was acquired, by the holder's clock. */
  readonly acquiredOn: Date | undefined;
  /** Of a named lock: the fencing token of that holder. */
  readonly epoch: number | undefined;
  /** The ETag of the target, for `expectedEtag` of {@link breakLease}. Undefined in lists, which have no ETags that can be used. */
  readonly etag: string | undefined;
}

/** Options of {@link breakLease} and {@link BlobLocks.break}. */
export interface BreakLeaseOptions extends Omit<TimedCallOptions, "tryTimeoutInMs"> {
  /**
   * Break the lease only if the lock still has this epoch: not the lease of a holder that came after the inspected one.
   * @defaultValue none: the lease of any holder is broken
   */
  expectedEpoch?: number | undefined;
  /**
   * Break the lease only if the blob still has this ETag, as `inspect` returned it. The next holder of a named lock changes it with its
   * record, also if there was no record before; the lease of a blob that its holder does not write has the same ETag for all holders.
   * @defaultValue none: the lease of any holder is broken
   */
  expectedEtag?: string | undefined;
  /**
   * How long the holder may continue: its handle reports `"broken"` at its next renewal, and the service accepts its writes until
   * the end of the period. The lease of a file has no such period.
   * @defaultValue 0: it ends immediately
   */
  breakPeriodInSeconds?: number | undefined;
}

export const breakLeaseOptionNames: OptionNames<BreakLeaseOptions> = { expectedEpoch: 1, expectedEtag: 1, breakPeriodInSeconds: 1, timeoutInMs: 1, abortSignal: 1, tracingOptions: 1 };
const inspectOptionNames: OptionNames<TimedCallOptions> = { timeoutInMs: 1, tryTimeoutInMs: 1, abortSignal: 1, tracingOptions: 1 };

/**
 * Reads the state of a lease, and the holder of a named lock. Costs 1 request.
 * @throws {@link TargetNotFoundError} if the target does not exist.
 * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`.
 * @example
 * ```ts
 * const { state, duration } = await inspectLease(blob);
 * ```
 */
export function inspectLease(target: LeasableLike, options: TimedCallOptions = {}): Promise<LeaseInfo> {
  return inspectWith(target, options, ({ info }) => info);
}

/** As {@link inspectLease}, for the blob of a named lock. */
export function inspectLock(blob: LeasableLike, options: TimedCallOptions = {}): Promise<LeaseInfo & Pick<LockRecord, "fair" | "data">> {
  return inspectWith(blob, options, ({ info, record: { fair, data } }) => ({ ...info, fair, data }));
}

function inspectWith<R>(target: LeasableLike, options: TimedCallOptions, select: (inspected: InspectedLease) => R): Promise<R> {
  return withSpan("inspectLease", options, async (tracingOptions) => {
    checkOptions("inspectLease", options, inspectOptionNames);
    const limits = { ...checkTimeouts(options), abortSignal: options.abortSignal };
    const adapter = leaseAdapterOf(target);
    return readInTime(async (abortSignal) => select(await inspect(adapter, { abortSignal, tracingOptions })), adapter.url, limits);
  }, spanDetailsOf(target));
}

/**
 * Breaks the lease of its holder. False if there was none, or if it is not the expected one any more. Costs 2 requests.
 * @throws {@link TargetNotFoundError} if the target does not exist.
 * @throws {@link OperationTimeoutError} if the call takes longer than `timeoutInMs`; the lease may be broken.
 * @example
 * ```ts
 * // Only if you are sure that the holder is dead.
 * const wasLeased = await breakLease(file);
 * ```
 */
export function breakLease(target: LeasableLike, options: BreakLeaseOptions = {}): Promise<boolean> {
  return withSpan("breakLease", options, async (tracingOptions) => {
    checkOptions("breakLease", options, breakLeaseOptionNames);
    const { breakPeriodInSeconds = 0 } = options;
    const { timeoutInMs } = checkTimeouts(options);
    const adapter = leaseAdapterOf(target);
    checkNumber("breakPeriodInSeconds", breakPeriodInSeconds, { min: 0, max: adapter.kind === "file" ? 0 : 60, integer: true });
    const expected = expectedHolder(adapter, options);
    return read(async (abortSignal) => {
      const request = { abortSignal, tracingOptions };
      for (let attempts = 1; ; attempts++) {
        const ifMatch = expected && (await etagOfHolder(adapter, expected, request));
        if (expected && ifMatch === undefined) return false;
        const wasBroken = !expected && (await isBroken(adapter, request));
        try {
          // The next holder writes its epoch before it does anything else, and the ETag changes with it.
          await adapter.break(breakPeriodInSeconds, request, ifMatch);
          return !wasBroken;
        } catch (error) {
          if (isNotLeased(error)) return false;
          if (ifMatch === undefined || !isConflict(error)) throw notFound(error, adapter) ?? error;
          // The holder itself may have written the record in between: one that has held the lock for a second does.
          if (attempts >= maxBreakAttempts) return false;
        }
      }
    }, { timeoutInMs, abortSignal: options.abortSignal }).catch((error: unknown) => {
      if (!(error instanceof RequestTimeoutError)) throw error;
      // Not repeated: what is found then may be the lease of the next holder.
      const message = `breakLease of ${adapter.url} got no response within ${timeoutInMs} ms (timeoutInMs). Whether the lease was broken is unknown: call inspectLease.`;
      throw createError(OperationTimeoutError, message, { url: adapter.url, elapsedInMs: timeoutInMs, committed: "unknown", cause: error });
    });
  }, spanDetailsOf(target));
}

const maxBreakAttempts = 3;
const lookTimeoutInMs = 5_000;

/**
 * The service accepts the break of a lease that was broken before, with the same response. What is found decides only what the caller
 * is told: it may be outdated, or this client may break leases and not read.
 */
function isBroken(adapter: LeaseAdapter, request: LeaseRequest): Promise<boolean> {
  const look = (abortSignal: AbortSignal): Promise<boolean> => adapter.inspect({ ...request, abortSignal }).then(({ leaseState }) => leaseState === "broken");
  return read(look, { timeoutInMs: lookTimeoutInMs, abortSignal: request.abortSignal }).catch(() => false);
}

/** What the caller has seen of the holder whose lease is to be broken. */
type ExpectedHolder = Pick<BreakLeaseOptions, "expectedEpoch" | "expectedEtag">;

/** The ETag of the lock while the expected holder has it; undefined if it does not have it. */
async function etagOfHolder(adapter: LeaseAdapter, { expectedEpoch, expectedEtag }: ExpectedHolder, request: LeaseRequest): Promise<string | undefined> {
  const { info, record, etag } = await inspect(adapter, request);
  if (info.state !== "leased" && info.state !== "breaking") return undefined;
  // A lock that was handed over within a process has its later epochs reserved under the same lease.
  if (expectedEpoch !== undefined && (expectedEpoch < record.epoch || expectedEpoch >= record.epoch + record.reserved)) return undefined;
  if (!etag) throw new TypeError(`The response for ${adapter.url} has no ETag, so the lease could be that of a later holder. It was not broken.`);
  return expectedEtag === undefined || etag === expectedEtag ? etag : undefined;
}

/** The target has not been checked yet, and may not be a client. */
function spanDetailsOf(target: LeasableLike): SpanDetails {
  return { targetKind: "lease", url: (target as Partial<LeasableLike> | undefined)?.url };
}

function expectedHolder(adapter: LeaseAdapter, { expectedEpoch, expectedEtag }: ExpectedHolder): ExpectedHolder | undefined {
  if (expectedEpoch === undefined && expectedEtag === undefined) return undefined;
  if (expectedEpoch !== undefined) checkNumber("expectedEpoch", expectedEpoch, { min: 1, integer: true });
  if (expectedEtag !== undefined && (typeof expectedEtag !== "string" || expectedEtag === "")) throw new TypeError("expectedEtag must be a string that is not empty");
  // Both need a condition on the ETag.
  if (adapter.kind !== "blob") throw new TypeError(`${expectedEpoch === undefined ? "expectedEtag is for blobs" : "expectedEpoch is for the blobs of named locks"}; got a ${adapter.kind}`);
  return { expectedEpoch, expectedEtag };
}

interface InspectedLease {
  readonly info: LeaseInfo;
  readonly record: LockRecord;
  readonly etag: string | undefined;
}

async function inspect(adapter: LeaseAdapter, request: LeaseRequest): Promise<InspectedLease> {
  try {
    const properties = await adapter.inspect(request);
    const record = parseLockRecord(properties.metadata);
    return { info: { ...leaseInfo(properties, record), etag: properties.etag }, record, etag: properties.etag };
  } catch (error) {
    throw notFound(error, adapter) ?? error;
  }
}

export function leaseInfo(
  lease: { leaseState?: string | undefined; leaseDuration?: string | undefined },
  record: LockRecord,
): LeaseInfo {
  return {
    state: leaseStateOf(lease),
    duration: lease.leaseDuration as LeaseInfo["duration"],
    holder: record.holder,
    acquiredOn: record.acquiredOn,
    epoch: record.epoch > 0 ? record.epoch : undefined,
    etag: undefined,
  };
}

export function leaseStateOf({ leaseState }: { leaseState?: string | undefined }): LeaseInfo["state"] {
  return (leaseState ?? "available") as LeaseInfo["state"];
}

export function lockInfo(lease: Parameters<typeof leaseInfo>[0], record: LockRecord): LeaseInfo & Pick<LockRecord, "fair" | "data"> {
  return { ...leaseInfo(lease, record), fair: record.fair, data: record.data };
}

function notFound(error: unknown, { url }: LeaseAdapter): Error | undefined {
  if (!isNotFound(error) && !isParentNotFound(error)) return undefined;
  return createError(TargetNotFoundError, `${url} does not exist`, { url, cause: error });
}
