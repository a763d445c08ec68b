import type { AbortSignalLike } from "../clients/call.js";
import type { LeasableLike } from "../clients/leasable.js";
import { withinGrace } from "../core/deadline.js";
import { describeSpan, errorLabel, logger, withAttempts, withSpan } from "../core/telemetry.js";
import type { Attempts, CallSpan } from "../core/telemetry.js";
import { checkOptions } from "../core/validate.js";
import { isConcurrencyError } from "../errors.js";
import { leaseTerms, LeaseWaiter } from "./acquire.js";
import { acquireGuarded } from "./crash-guard.js";
import { rejectNested, runHolding } from "../core/hold-context.js";
import type { Hold } from "../core/hold-context.js";
import { leaseAdapterOf } from "./lease-adapters.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import { LeaseHandleImpl } from "./lease-handle.js";
import type { LeaseHandle } from "./lease-handle.js";
import { acquireLeaseOptionNames, checkCrashGuard, checkLeaseOptions, checkWait, tryAcquireLeaseOptionNames } from "./lease-options.js";
import type { AcquireLeaseOptions, TryAcquireLeaseOptions } from "./lease-options.js";
import { waiterQueueFor } from "./waiter-queue.js";

/**
 * Runs `fn` while holding a lease on the target, which is renewed as long as `fn` runs and released afterwards. If
 * the lease is lost, `lease.signal` aborts, and once `fn` has ended the call rejects with the `LeaseLostError`, even
 * if `fn` has a result: it can no longer be trusted. Costs 2 requests, and one for each renewal (2 for a share); with a
 * `crashGuard` 6.
 *
 * @throws {@link LeaseUnavailableError} if another client still holds the lease after `waitInMs`.
 * @throws {@link LeaseLostError} if the lease was lost while `fn` ran.
 * @throws {@link TargetNotFoundError} if the target does not exist.
 * @throws `TypeError` if the call is made inside a function that holds the same lease.
 * @example
 * ```ts
 * await withLease(blob, (lease) => blob.setMetadata({ state: "done" }, lease.requestOptions));
 * ```
 */
export function withLease<R>(
  target: LeasableLike,
  fn: (lease: LeaseHandle) => Promise<R> | R,
  options: AcquireLeaseOptions = {},
): Promise<R> {
  return withSpan("withLease", options, async (tracingOptions, span) => {
    checkOptions("withLease", options, acquireLeaseOptionNames);
    checkFunction("withLease", fn);
    const lease = await acquireLeaseFor("withLease", target, { ...options, tracingOptions });
    describeSpan(span, { targetKind: "lease", url: lease.url });
    return useLease("withLease", lease, (held) => doNotReuseOnFailure(held, fn), options.abortSignal);
  });
}

/**
 * Acquires a lease, waiting for it if another client holds it: in FIFO order within this process, with one poller for all
 * waiters. The caller releases it. Costs 1 request if it is free; with a `crashGuard` 4, and 2 to release it.
 *
 * @throws {@link LeaseUnavailableError} if another client still holds the lease after `waitInMs`.
 * @throws {@link TargetNotFoundError} if the target does not exist.
 * @throws `TypeError` if the call is made inside a function that holds the same lease.
 * @example
 * ```ts
 * await using lease = await acquireLease(blob);
 * await blob.setMetadata({ state: "done" }, lease.requestOptions);
 * ```
 */
export function acquireLease(target: LeasableLike, options: AcquireLeaseOptions = {}): Promise<LeaseHandle> {
  return acquireLeaseFor("acquireLease", target, options);
}

/** As {@link acquireLease}. `call` is the public call that needs the lease, for error messages. */
export function acquireLeaseFor(call: string, target: LeasableLike, options: AcquireLeaseOptions): Promise<LeaseHandleImpl> {
  return withAttempts("acquireLease", options, async (trace, span) => {
    checkOptions(call, options, acquireLeaseOptionNames);
    const adapter = leaseAdapterOf(target);
    const waitInMs = checkWait(options.waitInMs, options.crashGuard ? undefined : adapter.kind);
    rejectNested(call, adapter.url, `the lease on ${adapter.url}`, call === "leasedUpdate" ? "Pass that lease as the option lease" : "Use that lease");
    const lease = await acquire(adapter, waitInMs, options, trace, span);
    if (!lease) throw new TypeError("the lease was not granted");
    return lease;
  });
}

/**
 * Acquires a lease if it is free now; undefined if another holder has it. Costs 1 request, none if this process holds it.
 *
 * @throws {@link TargetNotFoundError} if the target does not exist.
 * @example
 * ```ts
 * await using lease = await tryAcquireLease(blob);
 * if (!lease) return; // Another client is at work.
 * ```
 */
export function tryAcquireLease(target: LeasableLike, options: TryAcquireLeaseOptions = {}): Promise<LeaseHandle | undefined> {
  return withAttempts("tryAcquireLease", options, async (trace, span) => {
    checkOptions("tryAcquireLease", options, tryAcquireLeaseOptionNames);
    return acquire(leaseAdapterOf(target), "try", options, trace, span);
  });
}

async function acquire(
  adapter: LeaseAdapter,
  waitInMs: number | "try",
  options: TryAcquireLeaseOptions,
  trace: Attempts,
  span: CallSpan,
): Promise<LeaseHandleImpl | undefined> {
  const { crashGuard, abortSignal, tracingOptions: holderTracing } = options;
  const { url } = adapter;
  const settings = checkLeaseOptions(options, adapter.kind);
  if (settings.createIfNotExists && !adapter.create) throw new TypeError("createIfNotExists needs a BlockBlobClient");
  describeSpan(span, { targetKind: "lease", url });
  let lease: LeaseHandleImpl | undefined;
  if (crashGuard) {
    checkCrashGuard(crashGuard, settings);
    lease = await acquireGuarded(crashGuard, { adapter, settings, waitInMs, abortSignal, trace, holderTracing });
  } else {
    const advice = adapter.kind === "file" ? fileAdvice : undefined;
    const terms = leaseTerms(adapter, settings);
    const waiter = new LeaseWaiter({ kind: "lease", terms, what: `the lease on ${url}`, url, advice, waitInMs, trace, abortSignal, holderTracing });
    const queue = waiterQueueFor(adapter);
    if (waitInMs === "try") queue.tryAcquire(waiter);
    else queue.enqueue(waiter);
    const grant = await waiter.promise;
    lease = grant && new LeaseHandleImpl(grant.lease, grant.release, "lease");
  }
  describeSpan(span, { outcome: lease ? "acquired" : "taken" });
  return lease;
}

/** Only an operator, or a crash guard, can know that a holder is dead. */
const fileAdvice =
  "the lease of a file never expires. If you are sure that its holder is dead, call breakLease(file). With the same crashGuard " +
  "for all users of the file, the next holder takes over by itself";

/**
 * Failed work may have left a request in flight that carries the lease's id. If the lease were handed over within the process,
 * it would keep that id, and the service would accept the late write while the next holder has the lease.
 */
async function doNotReuseOnFailure<R>(lease: LeaseHandleImpl, fn: (lease: LeaseHandle) => Promise<R> | R): Promise<R> {
  try {
    return await fn(lease);
  } catch (error) {
    lease.doNotReuse();
    throw error;
  }
}

export function checkFunction(call: string, fn: unknown): void {
  if (typeof fn !== "function") throw new TypeError(`${call}: fn must be a function`);
}

/** Something that can be held: a lease, or a combination of leases. */
export interface Held {
  /** The loss, if it was lost while it was held. Reads the clock. */
  readonly loss: Error | undefined;
  /** The leases that it consists of. */
  readonly holds: readonly Hold[];
  release(): Promise<void>;
}

/**
 * The order of cleanup: `fn` ends, the lease is released, and then the outcome of the call is decided. The error of `fn` comes
 * first, then the loss of the lease. A failed release never masks a result. A caller that aborts does not wait for a service that does not
 * respond to the release, which goes on in the background.
 */
export async function useLease<H extends Held, R>(call: string, held: H, fn: (held: H) => Promise<R> | R, abortSignal?: AbortSignalLike): Promise<R> {
  const release = (): Promise<void> => withinGrace(held.release(), Infinity, abortSignal);
  let result: R;
  try {
    result = await runHolding(call, held.holds, () => fn(held));
  } catch (error) {
    const lost = held.loss;
    await release().catch((releaseError: unknown) => attachSuppressed(error, releaseError));
    // A request that uses the signal of the lease ends in an AbortError when the lease is lost: that is not an error of fn
    // itself, and would hide the cause. Nor is that of a call that was not sent because of the loss: it says that this call wrote
    // nothing, but fn may have written something before.
    const isOfLoss = (error as Error | undefined)?.name === "AbortError" || (isConcurrencyError(error, "LEASE_LOST") && error.cause === lost);
    if (lost && isOfLoss) throw lost;
    if (lost) attachSuppressed(error, lost);
    throw error;
  }
  // Correct even if the timers have not run yet: fn may have blocked the event loop until now.
  const lost = held.loss;
  await release().catch((error: unknown) => {
    if (isConcurrencyError(error, "LEASE_LOST")) throw error;
    logger.warning(`a lease could not be released: ${errorLabel(error)}`);
  });
  if (lost) throw lost;
  return result;
}

/** As `await using` does: the first error is thrown, the other one is attached to it. */
function attachSuppressed(error: unknown, suppressed: unknown): void {
  if (error === suppressed) return;
  if (typeof error === "object" && error !== null && Object.isExtensible(error) && !("suppressed" in error)) {
    Object.defineProperty(error, "suppressed", { value: suppressed, configurable: true });
  }
  logger.warning(`an error under a lease suppresses another: ${errorLabel(suppressed)}`);
}
