import type { LeasableLike } from "../clients.js";
import { withSpan } from "../internal/tracing.js";
import { leaseAdapterOf } from "./lease-adapter-of.js";
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
  return withSpan("acquireLease", options, async (tracingOptions) => {
    const adapter = leaseAdapterOf(target);
    const settings = checkLeaseOptions(options, adapter.kind);
    const waitInMs = checkWait(options.waitInMs, adapter.kind);
    checkCreate(adapter, settings);
    const waiter = new LeaseWaiter({ ...wishFor(adapter), waitInMs, abortSignal: options.abortSignal, tracingOptions });
    leaseQueueFor(adapter, settings, undefined).enter(waiter);
    const grant = await waiter.promise;
    if (!grant) throw new TypeError("a waiter gave up that was not asked to");
    return new LeaseGuard(grant.keeper, grant.giveBack);
  });
}

/** Acquires a lease if it is free right now; `null` if it is not. Costs 1 request, none if this process holds it. */
export function tryAcquireLease(target: LeasableLike, options: TryAcquireLeaseOptions = {}): Promise<LeaseGuard | null> {
  return withSpan("tryAcquireLease", options, async (tracingOptions) => {
    const adapter = leaseAdapterOf(target);
    const settings = checkLeaseOptions(options, adapter.kind);
    checkCreate(adapter, settings);
    const waiter = new LeaseWaiter({ ...wishFor(adapter), waitInMs: "one look", abortSignal: options.abortSignal, tracingOptions });
    leaseQueueFor(adapter, settings, undefined).tryOnce(waiter);
    const grant = await waiter.promise;
    return grant ? new LeaseGuard(grant.keeper, grant.giveBack) : null;
  });
}

/** Who may do what about a holder that is dead: nothing but a person, or a crash guard, can know that it is. */
const fileAdvice =
  "the lease of a file never expires: if its holder is dead, whoever has made sure of that may call breakLease(file); " +
  "with the same crashGuard for all users of the file, the next one does it by itself";

function wishFor(adapter: LeaseAdapter): { what: string; url: string; advice: string | undefined } {
  return { what: `the lease on ${adapter.url}`, url: adapter.url, advice: adapter.kind === "file" ? fileAdvice : undefined };
}

function checkCreate(adapter: LeaseAdapter, settings: LeaseSettings): void {
  if (settings.createIfMissing && !adapter.create) throw new TypeError("createIfMissing needs a BlockBlobClient");
}
