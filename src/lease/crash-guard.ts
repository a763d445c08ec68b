import { linkSignals } from "../core/deadline.js";
import { sha256 } from "../core/identity.js";
import { request as send } from "../core/request.js";
import { startStopwatch } from "../core/stopwatch.js";
import { isLeaseIdMismatch, isLeaseTaken, isNotLeased } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import { LeaseGuard } from "./lease-guard.js";
import type { LeaseGrant } from "./lease-guard.js";
import type { CrashGuard, CrashGuardLock, GuardedAcquireRequest } from "./lease-options.js";
import { LeaseWaiter } from "./acquire.js";
import { tryRelease } from "./orphaned-lease.js";
import { waiterQueueFor } from "./waiter-queue.js";

/**
 * Acquires first the lock, then the lease; releases first the lease, then the lock. The lock decides which client may have the
 * lease, and expires when its holder dies; the lease makes the service enforce it. `undefined` if it was a single try, and
 * another client holds the lock or the lease.
 */
export async function acquireGuarded(guard: CrashGuard, request: GuardedAcquireRequest): Promise<LeaseGuard | undefined> {
  const { adapter, waitInMs, abortSignal } = request;
  const { tracingOptions } = request.trace;
  const waitedInMs = startStopwatch();
  const name = await crashGuardName(adapter);
  const lock = await (waitInMs === "try"
    ? guard.tryAcquire(name, { abortSignal, tracingOptions })
    : guard.acquire(name, { abortSignal, tracingOptions, waitInMs }));
  if (!lock) return undefined;
  let lease: LeaseGuard | undefined;
  try {
    const leftInMs = waitInMs === "try" ? waitInMs : Math.max(0, waitInMs - waitedInMs());
    let wasTakenOver = false;
    const withinTakeover = withTakeover(adapter, lock, () => (wasTakenOver = true));
    const grant = await acquireUnder(lock, { ...request, adapter: withinTakeover, waitInMs: leftInMs });
    if (!grant) return undefined;
    grant.lease.dependOn(lock);
    lease = new LeaseGuard(grant.lease, () => releaseBoth(grant, adapter, lock));
    lease.wasTakenOver = wasTakenOver;
    return lease;
  } finally {
    if (!lease) await releaseLock(lock, name);
  }
}

async function acquireUnder(lock: CrashGuardLock, request: GuardedAcquireRequest): Promise<LeaseGrant | undefined> {
  const { adapter, settings, waitInMs, abortSignal, trace, holderTracing } = request;
  const { controller, unlink } = linkSignals(abortSignal, lock.signal);
  try {
    const leaseId = guardedLeaseId(lock, lock.epoch);
    const { url } = adapter;
    const waiter = new LeaseWaiter({ what: `the lease on ${url}`, url, advice: foreignLeaseAdvice, waitInMs, abortSignal: controller.signal, trace, holderTracing });
    // The id is this holder's alone, and so is the queue.
    waiterQueueFor(adapter, { ...settings, leaseId }, undefined).enqueue(waiter);
    return await waiter.promise;
  } finally {
    unlink();
  }
}

const foreignLeaseAdvice =
  "it never expires, and it was not taken with this crashGuard, so that it is not known whether its holder lives. All " +
  "users must pass the same crashGuard and the same URL; whoever has made sure that the holder is dead may call breakLease";

async function releaseBoth(grant: LeaseGrant, adapter: LeaseAdapter, lock: CrashGuardLock): Promise<void> {
  const { lease } = grant;
  try {
    // Lost with the lock, it may well be there still: the next holder could take it over, but should not have to.
    if (lease.check()) await tryRelease(adapter, lease.leaseId);
    await grant.release();
  } finally {
    await lock.release();
  }
}

async function releaseLock(lock: CrashGuardLock, name: string): Promise<void> {
  await lock.release().catch((error: unknown) => {
    logger.warning(`the lock ${JSON.stringify(name)} could not be released and will have to run out: ${errorLabel(error)}`);
  });
}

/** The longest name that still fits into a blob name with any sensible prefix. */
const maxNameLength = 700;

/**
 * The lock that guards a lease: the URL, readable, and the same for all clients. Azure Files takes `A` and `a` for the
 * same name, so the lock must too; the names of blobs differ.
 */
export async function crashGuardName({ kind, url }: LeaseAdapter): Promise<string> {
  const place = decodeUrl(url.replace(/^[a-z]+:\/\//i, ""));
  const name = `${kind}:${kind === "file" || kind === "share" ? place.toLowerCase() : place}`;
  if (encodeURIComponent(name).length <= maxNameLength) return name;
  // Too long for the name of a blob: its beginning is for people, the hash tells it from others.
  return `${Array.from(name).slice(0, 50).join("")}...#${await sha256(name)}`;
}

/** The same file may be written `a%20b` or `a b`, as the SDK was given it. */
function decodeUrl(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The id of the lease that the holder of this lock with this epoch takes: the service does not tell who holds a lease,
 * but the successor can name it. The lock is part of the id: two clients that use different guards by mistake get different
 * ids and thus exclude each other, instead of both believing to hold it.
 */
export function guardedLeaseId({ url }: CrashGuardLock, epoch: number): string {
  const [a, b] = [fnv1a(url, 0x811c9dc5), fnv1a(`${url}#`, 0x2f0b4a27)];
  return `${a}-${b.slice(0, 4)}-4${b.slice(4, 7)}-8${b.slice(5)}-${epoch.toString(16).padStart(12, "0").slice(-12)}`;
}

/** 32 bits that differ where the text does, most likely; nothing depends on its being hard to forge. */
function fnv1a(text: string, seed: number): string {
  let hash = seed;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}

/**
 * How many holders before the last one are tried: those that died between acquiring the lock and the lease, and so left the
 * lease of a holder before them.
 */
const maxPredecessors = 16;
const changeTimeoutInMs = 5_000;

/**
 * Acquires as the adapter does, and takes over the lease of a dead holder: by a change from its id to the new one, which the
 * service carries out only if the lease is that very one. So no lease is ever broken that belongs to a client that uses the
 * file without the guard. All other clients with the guard are dead, or have lost it, as this one holds the lock; and if one
 * of them still writes, the service refuses it.
 */
function withTakeover(adapter: LeaseAdapter, lock: CrashGuardLock, onTakeover: () => void): LeaseAdapter {
  let searched = false;
  return {
    ...adapter,
    acquire: async (leaseId, duration, options) => {
      try {
        return await adapter.acquire(leaseId, duration, options);
      } catch (error) {
        if (searched || !isLeaseTaken(error)) throw error;
        // Before it is known whether the change succeeds: its response may be lost.
        onTakeover();
        for (let epoch = lock.epoch - 1; epoch >= Math.max(1, lock.previousEpoch - maxPredecessors); epoch--) {
          const predecessor = guardedLeaseId(lock, epoch);
          const changed = await send((abortSignal) => adapter.change(predecessor, leaseId, { ...options, abortSignal }), {
            timeoutInMs: changeTimeoutInMs,
            abortSignal: options.abortSignal,
          });
          if (changed.kind === "ok" || isNotLeased(changed.error)) return adapter.acquire(leaseId, duration, options);
          if (!isLeaseIdMismatch(changed.error)) throw changed.error;
        }
        // Once is enough: the holder is none of those, and no other can join them while this process holds the lock.
        searched = true;
        throw error;
      }
    },
  };
}
