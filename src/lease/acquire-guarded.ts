import { abortReason, onAbort } from "../core/abort.js";
import { startStopwatch } from "../core/stopwatch.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { crashGuardName, guardedLeaseId, takingOver } from "./crash-guard.js";
import type { CrashGuard, CrashGuardLock, GuardedWish } from "./crash-guard.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import { LeaseGuard } from "./lease-guard.js";
import { LeaseWaiter } from "./lease-waiter.js";
import { releaseIfLeft } from "./orphaned-lease.js";
import { leaseQueueFor } from "./waiter-queue.js";
import type { LeaseGrant } from "./waiter-queue.js";

/**
 * First the lock, then the lease; on the way out the lease, then the lock. The lock says who may, and expires when its
 * holder dies; the lease makes the service enforce it. `undefined` if it was to be one look, and somebody has it.
 */
export async function acquireGuarded(guard: CrashGuard, wish: GuardedWish): Promise<LeaseGuard | undefined> {
  const { adapter, waitInMs, abortSignal } = wish;
  const { tracingOptions } = wish.trace;
  const waited = startStopwatch();
  const name = await crashGuardName(adapter);
  const lock = await (waitInMs === "one look"
    ? guard.tryAcquire(name, { abortSignal, tracingOptions })
    : guard.acquire(name, { abortSignal, tracingOptions, waitInMs }));
  if (!lock) return undefined;
  try {
    const left = waitInMs === "one look" ? waitInMs : Math.max(0, waitInMs - waited.elapsedInMs());
    let tookOver = false;
    const taking = takingOver(adapter, lock, () => (tookOver = true));
    const grant = await acquireUnder(lock, { ...wish, adapter: taking, waitInMs: left });
    if (!grant) {
      await letGo(lock, name);
      return undefined;
    }
    grant.keeper.backBy(lock);
    const lease = new LeaseGuard(grant.keeper, () => giveBack(grant, adapter, lock));
    lease.tookOver = tookOver;
    return lease;
  } catch (error) {
    await letGo(lock, name);
    throw error;
  }
}

async function acquireUnder(lock: CrashGuardLock, guarded: GuardedWish): Promise<LeaseGrant | undefined> {
  const { adapter, settings, waitInMs, abortSignal: caller, trace, holderTracing } = guarded;
  const stop = new AbortController();
  const offs = [
    onAbort(caller, () => caller && stop.abort(abortReason(caller))),
    onAbort(lock.signal, () => stop.abort(lock.signal.reason)),
  ];
  try {
    const leaseId = guardedLeaseId(lock, lock.epoch);
    const wish = { what: `the lease on ${adapter.url}`, url: adapter.url, advice: strangerAdvice };
    const waiter = new LeaseWaiter({ ...wish, waitInMs, abortSignal: stop.signal, trace, holderTracing });
    // The id is this holder's alone, and so is the queue.
    leaseQueueFor(adapter, { ...settings, leaseId }, undefined).enter(waiter);
    return await waiter.promise;
  } finally {
    for (const off of offs) off();
  }
}

const strangerAdvice =
  "it never expires, and it was not taken with this crashGuard, so that it is not known whether its holder lives. All " +
  "users must pass the same crashGuard and the same URL; whoever has made sure that the holder is dead may call breakLease";

async function giveBack(grant: LeaseGrant, adapter: LeaseAdapter, lock: CrashGuardLock): Promise<void> {
  const { keeper } = grant;
  try {
    // Lost with the lock, it may well be there still: the next one could take it over, but need not have to.
    if (keeper.check()) await releaseIfLeft(adapter, keeper.leaseId);
    await grant.giveBack();
  } finally {
    await lock.release();
  }
}

async function letGo(lock: CrashGuardLock, name: string): Promise<void> {
  await lock.release().catch((error: unknown) => {
    logger.warning(`the lock ${JSON.stringify(name)} could not be released and will have to run out: ${errorLabel(error)}`);
  });
}
