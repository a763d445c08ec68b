import type { LeasableLike } from "../clients.js";
import { withAttempts } from "../internal/attempts.js";
import { describeSpan } from "../internal/tracing.js";
import type { CallSpan } from "../internal/tracing.js";
import { leaseAdapterOf } from "./lease-adapter.js";
import type { LeaseAdapter } from "./lease-adapter.js";
import { LeaseGuard } from "./lease-guard.js";
import { checkLeaseOptions, checkWait } from "./lease-options.js";
import type { AcquireLeaseOptions, LeaseSettings, TryAcquireLeaseOptions } from "./lease-options.js";
import { leaseQueueFor } from "./lease-queue.js";
import { LeaseWaiter } from "./lease-waiter.js";

/**
 * Acquires a lease, waiting for it if somebody else has it: in the order of calls within this process, with one
 * request for all of them every now and then. Costs 1 request if it is free.
 */
export function acquireLease(target: LeasableLike, options: AcquireLeaseOptions = {}): Promise<LeaseGuard> {
  return withAttempts("acquireLease", options, async (trace, span) => {
    const settings = checkLeaseOptions(options);
    const waitInMs = checkWait(options.waitInMs);
    const adapter = leaseAdapterOf(target);
    checkCreate(adapter, settings);
    const waiter = new LeaseWaiter({ ...wishFor(adapter, span), waitInMs, trace, abortSignal: options.abortSignal, holderTracing: options.tracingOptions });
    leaseQueueFor(adapter, settings, undefined).enter(waiter);
    const grant = await waiter.promise;
    if (!grant) throw new TypeError("a waiter gave up that was not asked to");
    describeSpan(span, { outcome: "acquired" });
    return new LeaseGuard(grant.keeper, grant.giveBack);
  });
}

/** Acquires a lease if it is free right now; `null` if it is not. Costs 1 request, none if this process holds it. */
export function tryAcquireLease(target: LeasableLike, options: TryAcquireLeaseOptions = {}): Promise<LeaseGuard | null> {
  return withAttempts("tryAcquireLease", options, async (trace, span) => {
    const settings = checkLeaseOptions(options);
    const adapter = leaseAdapterOf(target);
    checkCreate(adapter, settings);
    const waiter = new LeaseWaiter({ ...wishFor(adapter, span), waitInMs: "one look", trace, abortSignal: options.abortSignal, holderTracing: options.tracingOptions });
    leaseQueueFor(adapter, settings, undefined).tryOnce(waiter);
    const grant = await waiter.promise;
    describeSpan(span, { outcome: grant ? "acquired" : "taken" });
    return grant ? new LeaseGuard(grant.keeper, grant.giveBack) : null;
  });
}

function wishFor(adapter: LeaseAdapter, span: CallSpan): { what: string; url: string } {
  describeSpan(span, { targetKind: "lease", url: adapter.url });
  return { what: `the lease on ${adapter.url}`, url: adapter.url };
}

function checkCreate(adapter: LeaseAdapter, settings: LeaseSettings): void {
  if (settings.createIfMissing && !adapter.create) throw new TypeError("createIfMissing needs a BlockBlobClient");
}
