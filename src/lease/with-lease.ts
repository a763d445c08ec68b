import type { LeasableLike } from "../clients/leasable.js";
import { describeSpan, errorLabel, logger, withAttempts, withSpan } from "../core/telemetry.js";
import type { Attempts, CallSpan } from "../core/telemetry.js";
import { isConcurrencyError } from "../errors.js";
import { LeaseWaiter } from "./acquire.js";
import { leaseAdapterOf } from "./lease-adapters.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import { LeaseHandle } from "./lease-guard.js";
import { checkCrashGuard, checkLeaseOptions, checkWait } from "./lease-options.js";
import type { AcquireLeaseOptions, TryAcquireLeaseOptions } from "./lease-options.js";
import { waiterQueueFor } from "./waiter-queue.js";

/**
 * Runs `fn` while holding a lease on the target, which is renewed as long as `fn` runs and released afterwards. If
 * the lease is lost, `lease.signal` aborts, and once `fn` has ended the call rejects with the `LeaseLostError`, even
 * if `fn` has a result: it can no longer be trusted. Costs 2 requests, and one for each renewal (2 for a share); with a
 * `crashGuard` 6.
 */
export function withLease<R>(
  target: LeasableLike,
  fn: (lease: LeaseHandle) => Promise<R> | R,
  options: AcquireLeaseOptions = {},
): Promise<R> {
  return withSpan("withLease", options, async (tracingOptions, span) => {
    checkFunction(fn);
    const lease = await acquireLease(target, { ...options, tracingOptions });
    describeSpan(span, { targetKind: "lease", url: lease.url });
    return useLease(lease, (held) => doNotReuseOnFailure(held, fn));
  });
}

/**
 * Acquires a lease, waiting for it if another client holds it: in FIFO order within this process, with one poller for all
 * waiters. Costs 1 request if it is free; with a `crashGuard` 4, and 2 to release it.
 */
export function acquireLease(target: LeasableLike, options: AcquireLeaseOptions = {}): Promise<LeaseHandle> {
  return withAttempts("acquireLease", options, async (trace, span) => {
    const adapter = leaseAdapterOf(target);
    const waitInMs = checkWait(options.waitInMs, options.crashGuard ? undefined : adapter.kind);
    const lease = await acquire(adapter, waitInMs, options, trace, span);
    if (!lease) throw new TypeError("the lease was not granted");
    return lease;
  });
}

/** Acquires a lease if it is free right now; `null` if it is not. Costs 1 request, none if this process holds it. */
export function tryAcquireLease(target: LeasableLike, options: TryAcquireLeaseOptions = {}): Promise<LeaseHandle | null> {
  return withAttempts("tryAcquireLease", options, async (trace, span) => {
    return (await acquire(leaseAdapterOf(target), "try", options, trace, span)) ?? null;
  });
}

async function acquire(
  adapter: LeaseAdapter,
  waitInMs: number | "try",
  options: TryAcquireLeaseOptions,
  trace: Attempts,
  span: CallSpan,
): Promise<LeaseHandle | undefined> {
  const { crashGuard, abortSignal, tracingOptions: holderTracing } = options;
  const { url } = adapter;
  const settings = checkLeaseOptions(options, adapter.kind);
  if (settings.createIfNotExists && !adapter.create) throw new TypeError("createIfNotExists needs a BlockBlobClient");
  describeSpan(span, { targetKind: "lease", url });
  let lease: LeaseHandle | undefined;
  if (crashGuard) {
    checkCrashGuard(crashGuard, settings);
    lease = await crashGuard.acquireGuarded({ adapter, settings, waitInMs, abortSignal, trace, holderTracing });
  } else {
    const advice = adapter.kind === "file" ? fileAdvice : undefined;
    const waiter = new LeaseWaiter({ what: `the lease on ${url}`, url, advice, waitInMs, trace, abortSignal, holderTracing });
    const queue = waiterQueueFor(adapter, settings, undefined);
    if (waitInMs === "try") queue.tryAcquire(waiter);
    else queue.enqueue(waiter);
    const grant = await waiter.promise;
    lease = grant && new LeaseHandle(grant.lease, grant.release);
  }
  describeSpan(span, { outcome: lease ? "acquired" : "taken" });
  return lease;
}

/** Only an operator, or a crash guard, can know that a holder is dead. */
const fileAdvice =
  "the lease of a file never expires: if its holder is dead, whoever has made sure of that may call breakLease(file); " +
  "with the same crashGuard for all users of the file, the next one does it by itself";

/**
 * Failed work may have left a request in flight that carries the lease's id. If the lease were handed over within the process,
 * it would keep that id, and the service would accept the late write while the next holder has the lease.
 */
async function doNotReuseOnFailure<R>(lease: LeaseHandle, fn: (lease: LeaseHandle) => Promise<R> | R): Promise<R> {
  try {
    return await fn(lease);
  } catch (error) {
    lease.doNotReuse();
    throw error;
  }
}

export function checkFunction(fn: unknown): void {
  if (typeof fn !== "function") throw new TypeError("fn must be a function");
}

/** Something that can be held: a lease, or a combination of leases. */
export interface Held {
  readonly signal: AbortSignal;
  assertHeld(): void;
  release(): Promise<void>;
}

/**
 * The order of cleanup: `fn` ends, the lease is released, and then the outcome of the call is decided. The error of `fn` comes
 * first, then the loss of the lease. A failed release never masks a result.
 */
export async function useLease<H extends Held, R>(held: H, fn: (held: H) => Promise<R> | R): Promise<R> {
  let result: R;
  try {
    result = await fn(held);
  } catch (error) {
    const lost = lossOf(held);
    await held.release().catch((releaseError: unknown) => attachSuppressed(error, releaseError));
    // A request that uses the signal of the lease ends in an AbortError when the lease is lost: that is not an error of fn
    // itself, and would hide the cause.
    if (lost && (error as Error | undefined)?.name === "AbortError") throw lost;
    if (lost) attachSuppressed(error, lost);
    throw error;
  }
  // Correct even if the timers have not run yet: fn may have blocked the event loop until now.
  const lost = lossOf(held);
  await held.release().catch((error: unknown) => {
    if (isConcurrencyError(error, "LEASE_LOST")) throw error;
    logger.warning(`a lease could not be released: ${errorLabel(error)}`);
  });
  if (lost) throw lost;
  return result;
}

function lossOf(held: Held): Error | undefined {
  try {
    held.assertHeld();
    return undefined;
  } catch {
    // Not lost: fn has released it, as it may.
    return held.signal.aborted ? (held.signal.reason as Error) : undefined;
  }
}

/** As `await using` does: the first error is thrown, the other one is attached to it. */
function attachSuppressed(error: unknown, suppressed: unknown): void {
  if (error === suppressed) return;
  if (typeof error === "object" && error !== null && Object.isExtensible(error) && !("suppressed" in error)) {
    Object.defineProperty(error, "suppressed", { value: suppressed, configurable: true });
  }
  logger.warning(`an error under a lease suppresses another: ${errorLabel(suppressed)}`);
}
