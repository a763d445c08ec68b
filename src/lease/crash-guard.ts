import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { linkSignals, startStopwatch, withinMoment } from "../core/deadline.js";
import { sha256 } from "../core/identity.js";
import { countSends, read, request as send } from "../core/request.js";
import { isLeaseBreaking, isLeaseIdMismatch, isLeaseTaken, isNotLeased } from "../core/storage-errors.js";
import { errorLabel, logger } from "../core/telemetry.js";
import type { Attempts } from "../core/telemetry.js";
import { leaseTerms, LeaseWaiter, remainingWait } from "./acquire.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import { LeaseHandleImpl } from "./lease-handle.js";
import type { FencingToken, LeaseGrant, LockHandleLike } from "./lease-handle.js";
import type { LeaseSettings, LockProviderLike } from "./lease-options.js";
import { tryRelease } from "./orphaned-lease.js";
import { waiterQueueFor } from "./waiter-queue.js";
import { quotedText } from "../errors.js";

/** A request for a lease under a lock. */
export interface GuardedAcquireRequest {
  readonly adapter: LeaseAdapter;
  readonly settings: LeaseSettings;
  readonly waitInMs: number | "try";
  readonly abortSignal: AbortSignalLike | undefined;
  readonly trace: Attempts;
  /** Parent of the requests that renew and release the lease later. */
  readonly holderTracing: OperationTracingOptions | undefined;
}

/** The lock of a provider, with what a crash guard needs. Of these members, a provider other than `BlobLocks` has only the epoch. */
interface GuardLock {
  readonly handle: LockHandleLike;
  readonly epoch: number;
  /** The lowest epoch whose holder may still have the lease. */
  readonly lowestGuarding: number;
  /** No holder with a smaller epoch has the lease any more. */
  readonly raiseGuarding: (epoch: number) => void;
  /** Identifies the lock: the same for all users. */
  readonly url: string;
}

/** What a provider of this library does for a crash guard: its record says which holders may still have the guarded lease. */
export interface GuardingLocks {
  /** As `acquire` and `tryAcquire`. */
  acquireGuard(name: string, options: CallOptions & { waitInMs?: number | undefined }): Promise<LockHandleLike & { readonly token: FencingToken }>;
  tryAcquireGuard(name: string, options: CallOptions): Promise<(LockHandleLike & { readonly token: FencingToken }) | undefined>;
}

type GuardHandle = LockHandleLike & { readonly epoch?: number };

function acquireLock(guard: LockProviderLike, name: string, waitInMs: number | "try", options: CallOptions): Promise<GuardHandle | undefined> {
  const { acquireGuard, tryAcquireGuard } = guard as Partial<GuardingLocks>;
  if (waitInMs === "try") return tryAcquireGuard ? tryAcquireGuard.call(guard, name, options) : guard.tryAcquire(name, options);
  const waiting = { ...options, waitInMs };
  return acquireGuard ? acquireGuard.call(guard, name, waiting) : guard.acquire(name, waiting);
}

/**
 * Acquires first the lock, then the lease; releases first the lease, then the lock. The lock decides which client may acquire
 * the lease, and expires when its holder dies; the lease makes the service enforce it. Resolves to `undefined` if `waitInMs` is
 * `"try"` and another client holds the lock or the lease.
 */
export async function acquireGuarded(guard: LockProviderLike, request: GuardedAcquireRequest): Promise<LeaseHandleImpl | undefined> {
  const { adapter, waitInMs, abortSignal } = request;
  const { tracingOptions } = request.trace;
  const waitedInMs = startStopwatch();
  const name = await crashGuardName(adapter);
  const acquiring = acquireLock(guard, name, waitInMs, { abortSignal, tracingOptions });
  // Raced: a provider of another library may ignore the signal. What it acquires later is released.
  const handle = await read(() => acquiring, { abortSignal }).catch((error: unknown) => {
    void Promise.resolve(acquiring).then((late) => late && releaseLock(late, name), () => undefined);
    throw error;
  });
  if (!handle) return undefined;
  let lease: LeaseHandleImpl | undefined;
  try {
    const lock = guardLockOf(handle, name);
    const leftInMs = waitInMs === "try" ? waitInMs : remainingWait(waitInMs, waitedInMs());
    let wasTakenOver = false;
    const withinTakeover = withTakeover(adapter, lock, () => (wasTakenOver = true));
    const grant = await acquireUnder(lock, { ...request, adapter: withinTakeover, waitInMs: leftInMs });
    if (!grant) return undefined;
    // Acquired or taken over: what earlier holders had is gone.
    lock.raiseGuarding(lock.epoch);
    grant.lease.dependOn({
      signal: handle.signal,
      get remainingInMs() {
        return remainingOf(handle);
      },
      get isInDoubt() {
        return (handle as { isInDoubt?: unknown }).isInDoubt === true;
      },
    });
    lease = new LeaseHandleImpl(grant.lease, () => releaseBoth(grant, adapter, lock), "lease");
    lease.wasTakenOver = wasTakenOver;
    return lease;
  } finally {
    if (!lease) await withinMoment(releaseLock(handle, name));
  }
}

function guardLockOf(handle: LockHandleLike & { readonly epoch?: number }, name: string): GuardLock {
  const { epoch, previousEpoch, url, token } = handle as { epoch?: unknown; previousEpoch?: unknown; url?: unknown; token?: FencingToken };
  if (!Number.isSafeInteger(epoch) || (epoch as number) < 1) {
    throw new TypeError(
      "crashGuard: the locks of this provider have no epoch, so the next holder could not tell whose lease it finds. " +
        "A lease that never expires needs a provider whose handles have an epoch that grows with each holder, such as BlobLocks",
    );
  }
  const previous = typeof previousEpoch === "number" ? previousEpoch : (epoch as number) - 1;
  return {
    handle,
    epoch: epoch as number,
    lowestGuarding: token?.lowestGuarding ?? Math.max(1, previous - maxPredecessors),
    raiseGuarding: (to) => token?.raiseGuarding?.(to),
    url: typeof url === "string" ? url : name,
  };
}

/** A lock without `remainingInMs` can at least tell by the clock whether it is held. */
function remainingOf(handle: LockHandleLike): number {
  const { remainingInMs } = handle as { remainingInMs?: unknown };
  if (typeof remainingInMs === "number") return remainingInMs;
  try {
    handle.assertHeld();
    return Infinity;
  } catch {
    return 0;
  }
}

async function acquireUnder(lock: GuardLock, request: GuardedAcquireRequest): Promise<LeaseGrant | undefined> {
  const { adapter, settings, waitInMs, abortSignal, trace, holderTracing } = request;
  const { controller, unlink } = linkSignals(abortSignal, lock.handle.signal);
  try {
    const leaseId = guardedLeaseId(lock, lock.epoch);
    const { url } = adapter;
    const terms = leaseTerms(adapter, { ...settings, leaseId });
    const waiter = new LeaseWaiter({ kind: "lease", terms, what: `the lease on ${url}`, url, advice: foreignLeaseAdvice, waitInMs, abortSignal: controller.signal, trace, holderTracing });
    const queue = waiterQueueFor(adapter);
    if (waitInMs === "try") queue.tryAcquire(waiter);
    else queue.enqueue(waiter);
    return await waiter.promise;
  } finally {
    unlink();
  }
}

const foreignLeaseAdvice =
  "it never expires, and it was not acquired with this crashGuard, so its holder may be alive. All users must pass the same " +
  "crashGuard and the same URL. If you are sure that the holder is dead, call breakLease";

async function releaseBoth(grant: LeaseGrant, adapter: LeaseAdapter, lock: GuardLock): Promise<void> {
  const { lease } = grant;
  // An earlier send of the acquisition may still arrive: the next holder then has to find that lease.
  const mayArriveLate = lease.sinceUnanswered !== undefined;
  try {
    // A lease that was lost with the lock may still exist. The next holder could take it over, but should not have to.
    const released = !lease.check() || (await tryRelease(adapter, lease.leaseId)) !== "unknown";
    await grant.release();
    if (released && !mayArriveLate) lock.raiseGuarding(lock.epoch + 1);
  } finally {
    await lock.handle.release();
  }
}

async function releaseLock(lock: LockHandleLike, name: string): Promise<void> {
  await lock.release().catch((error: unknown) => {
    logger.warning(`the lock ${quotedText(name)} could not be released and stays until it expires: ${errorLabel(error)}`);
  });
}

/** The longest name that fits into a blob name with any reasonable prefix. */
const maxNameLength = 700;

/**
 * The name of the lock that guards a lease: the URL, readable, and the same for all clients. Azure Files treats `A` and `a` as
 * the same name, so the lock name must, too. Blob names are case-sensitive.
 */
export async function crashGuardName({ kind, url }: LeaseAdapter): Promise<string> {
  const location = decodeUrl(url.replace(/^[a-z]+:\/\//i, ""));
  const name = `${kind}:${kind === "file" || kind === "share" ? location.toLowerCase() : location}`;
  if (encodeURIComponent(name).length <= maxNameLength) return name;
  // Too long for a blob name: the beginning keeps it readable, the hash makes it unique.
  return `${Array.from(name).slice(0, 50).join("")}...#${await sha256(name)}`;
}

/** The SDK keeps a URL as the caller passed it: the same file may be `a%20b` or `a b`. */
function decodeUrl(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The id of the lease that the holder of this lock with this epoch acquires. The service does not tell which client holds a
 * lease, but the successor can compute its id. The lock is part of the id: two clients that use different guards by mistake get
 * different ids and exclude each other, instead of both assuming that they hold the lease.
 */
export function guardedLeaseId({ url }: Pick<GuardLock, "url">, epoch: number): string {
  const [a, b] = [fnv1a(url, 0x811c9dc5), fnv1a(`${url}#`, 0x2f0b4a27)];
  return `${a}-${b.slice(0, 4)}-4${b.slice(4, 7)}-8${b.slice(5)}-${epoch.toString(16).padStart(12, "0").slice(-12)}`;
}

/** A 32-bit hash. Collisions are unlikely, and nothing depends on it being hard to forge. */
function fnv1a(text: string, seed: number): string {
  let hash = seed;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}

/**
 * How many holders before the last one are tried, if the provider does not say which of them may still have the lease. A holder
 * that died between acquiring the lock and acquiring the lease left the lease of an earlier holder in place.
 */
const maxPredecessors = 16;
const changeTimeoutInMs = 5_000;

/**
 * Acquires as the adapter does, and takes over the lease of a dead holder: it changes the dead holder's id to the new one, which
 * the service carries out only if the lease has exactly that id. So it never breaks the lease of a client that uses the file
 * without the guard. All other clients with the guard are dead or have lost it, as this one holds the lock. If one of them
 * still writes, the service rejects the write.
 */
function withTakeover(adapter: LeaseAdapter, lock: GuardLock, onTakeover: () => void): LeaseAdapter {
  let searched = false;
  let wasResent = false;
  const acquire: LeaseAdapter["acquire"] = async (leaseId, duration, options) => {
    const counter = countSends(options.abortSignal);
    try {
      return await adapter.acquire(leaseId, duration, options);
    } finally {
      counter.stop();
      wasResent ||= counter.sends() > 1;
    }
  };
  return {
    ...adapter,
    wasResent: () => wasResent,
    acquire: async (leaseId, duration, options) => {
      wasResent = false;
      try {
        return await acquire(leaseId, duration, options);
      } catch (error) {
        if (searched || !isLeaseTaken(error)) throw error;
        // Reported before the outcome of the change is known: its response may be lost.
        onTakeover();
        for (let epoch = lock.epoch - 1; epoch >= lock.lowestGuarding; epoch--) {
          const predecessor = guardedLeaseId(lock, epoch);
          const changed = await send((abortSignal) => adapter.change(predecessor, leaseId, { ...options, abortSignal }), {
            timeoutInMs: changeTimeoutInMs,
            abortSignal: options.abortSignal,
          });
          if (changed.kind === "ok" || isNotLeased(changed.error)) return acquire(leaseId, duration, options);
          // Broken with a notice period, which is not over yet: it can be acquired then.
          if (isLeaseBreaking(changed.error)) throw error;
          if (!isLeaseIdMismatch(changed.error)) throw changed.error;
        }
        // One search is enough: the holder is none of the predecessors, and there is no new one while this process holds the lock.
        searched = true;
        throw error;
      }
    },
  };
}
