import type { LeasableLike } from "../clients.js";
import { describeSpan, withAttempts } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { checkCrashGuard } from "./crash-guard.js";
import { leaseAdapterOf } from "./lease-adapters.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import { LeaseGuard } from "./lease-guard.js";
import { checkLeaseOptions, checkWait } from "./lease-options.js";
import type { AcquireLeaseOptions, LeaseSettings, TryAcquireLeaseOptions } from "./lease-options.js";
import { LeaseWaiter } from "./lease-waiter.js";
import { leaseQueueFor } from "./waiter-queue.js";

/**
 * Acquires a lease, waiting for it if somebody else has it: in the order of calls within this process, with one
 * request for all of them every now and then. Costs 1 request if it is free; with a `crashGuard` 4, and 2 to release it.
 */
export function acquireLease(target: LeasableLike, options: AcquireLeaseOptions = {}): Promise<LeaseGuard> {
  return withAttempts("acquireLease", options, async (trace, span) => {
    const adapter = leaseAdapterOf(target);
    const settings = checkLeaseOptions(options, adapter.kind);
    const { crashGuard, abortSignal } = options;
    const waitInMs = checkWait(options.waitInMs, crashGuard ? undefined : adapter.kind);
    checkCreate(adapter, settings);
    const wish = wishFor(adapter, span);
    if (crashGuard) {
      checkCrashGuard(crashGuard, settings);
      const guarded = granted(await crashGuard.acquireGuarded({ adapter, settings, waitInMs, abortSignal, trace, holderTracing: options.tracingOptions }));
      describeSpan(span, { outcome: "acquired" });
      return guarded;
    }
    const waiter = new LeaseWaiter({ ...wish, waitInMs, trace, abortSignal, holderTracing: options.tracingOptions });
    leaseQueueFor(adapter, settings, undefined).enter(waiter);
    const grant = granted(await waiter.promise);
    describeSpan(span, { outcome: "acquired" });
    return new LeaseGuard(grant.keeper, grant.giveBack);
  });
}

/** Acquires a lease if it is free right now; `null` if it is not. Costs 1 request, none if this process holds it. */
export function tryAcquireLease(target: LeasableLike, options: TryAcquireLeaseOptions = {}): Promise<LeaseGuard | null> {
  return withAttempts("tryAcquireLease", options, async (trace, span) => {
    const adapter = leaseAdapterOf(target);
    const settings = checkLeaseOptions(options, adapter.kind);
    const { crashGuard, abortSignal } = options;
    checkCreate(adapter, settings);
    const wish = wishFor(adapter, span);
    if (crashGuard) {
      checkCrashGuard(crashGuard, settings);
      const guarded = await crashGuard.acquireGuarded({ adapter, settings, waitInMs: "one look", abortSignal, trace, holderTracing: options.tracingOptions });
      describeSpan(span, { outcome: guarded ? "acquired" : "taken" });
      return guarded ?? null;
    }
    const waiter = new LeaseWaiter({ ...wish, waitInMs: "one look", trace, abortSignal, holderTracing: options.tracingOptions });
    leaseQueueFor(adapter, settings, undefined).tryOnce(waiter);
    const grant = await waiter.promise;
    describeSpan(span, { outcome: grant ? "acquired" : "taken" });
    return grant ? new LeaseGuard(grant.keeper, grant.giveBack) : null;
  });
}

/** Who may do what about a holder that is dead: nothing but a person, or a crash guard, can know that it is. */
const fileAdvice =
  "the lease of a file never expires: if its holder is dead, whoever has made sure of that may call breakLease(file); " +
  "with the same crashGuard for all users of the file, the next one does it by itself";

function wishFor(adapter: LeaseAdapter, span: CallSpan): { what: string; url: string; advice: string | undefined } {
  describeSpan(span, { targetKind: "lease", url: adapter.url });
  return { what: `the lease on ${adapter.url}`, url: adapter.url, advice: adapter.kind === "file" ? fileAdvice : undefined };
}

function granted<G>(grant: G | undefined): G {
  if (grant === undefined) throw new TypeError("a waiter gave up that was not asked to");
  return grant;
}

function checkCreate(adapter: LeaseAdapter, settings: LeaseSettings): void {
  if (settings.createIfMissing && !adapter.create) throw new TypeError("createIfMissing needs a BlockBlobClient");
}
