import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, CallOptions } from "../clients.js";
import type { Attempts } from "../core/telemetry.js";
import { bounded } from "../core/bounded.js";
import { sha256 } from "../core/identity.js";
import { isLeaseTaken, isNotLeased, isOtherLease } from "../core/storage-errors.js";
import type { LeaseAdapter } from "./lease-adapters.js";
import type { LeaseGuard } from "./lease-guard.js";
import type { LeaseSettings } from "./lease-options.js";

/** A lock that is held, as far as a crash guard needs it: a `LockGuard`. */
export interface CrashGuardLock {
  readonly url: string;
  /** Aborts when the lock is lost. */
  readonly signal: AbortSignal;
  readonly remainingInMs: number;
  readonly epoch: number;
  readonly previousEpoch: number;
  release(): Promise<void>;
}

/** Named locks that expire when their holder dies: a `BlobLocks`. */
export interface CrashGuard {
  acquire(name: string, options?: CallOptions & { waitInMs?: number | undefined }): Promise<CrashGuardLock>;
  tryAcquire(name: string, options?: CallOptions): Promise<CrashGuardLock | null>;
  /**
   * @internal A lease under one of these locks; undefined if it was to be one look, and somebody has it. The guard brings
   * the code for it along, so that those who need none do not load it.
   */
  acquireGuarded(wish: GuardedWish): Promise<LeaseGuard | undefined>;
}

/** A lease that is wanted under a lock. */
export interface GuardedWish {
  readonly adapter: LeaseAdapter;
  readonly settings: LeaseSettings;
  readonly waitInMs: number | "one look";
  readonly abortSignal: AbortSignalLike | undefined;
  readonly trace: Attempts;
  /** Parent of what is done with the lease later. */
  readonly holderTracing: OperationTracingOptions | undefined;
}

export function checkCrashGuard(guard: CrashGuard, settings: LeaseSettings): void {
  if (typeof (guard as Partial<CrashGuard>).acquireGuarded !== "function") throw new TypeError("crashGuard must be a BlobLocks");
  if (settings.durationInMs !== Infinity) {
    throw new TypeError("crashGuard is for leases that never expire: this one frees itself; leave it out, or pass durationInSeconds: Infinity");
  }
  if (settings.leaseId !== undefined) throw new TypeError("leaseId cannot be chosen with a crashGuard: the id says whose the lease is");
}

/** As long as a name may be, and still fit into that of a blob with any sensible prefix. */
const maxNameLength = 700;

/**
 * The lock that guards a lease: the URL, readable, and the same for everybody. Azure Files takes `A` and `a` for the
 * same name, so that the lock must too; the names of blobs differ.
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
 * The id of the lease that the holder of this lock with this epoch takes: nobody can ask the service whose a lease is,
 * but its successor can name it. The lock is part of it, so that two who use different guards by mistake get different
 * ids, and thus in each other's way, instead of both believing to hold it.
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
 * How many holders before the last one are looked for: those that died between taking the lock and the lease, leaving
 * that of the one before them.
 */
const furtherBack = 16;
const changeLimitInMs = 5_000;

/**
 * Acquires as the adapter does, and takes over what a dead holder left: by a change from its id to the new one, which
 * the service carries out only if the lease is that very one. So nothing is ever broken that belongs to somebody who
 * uses the file without the guard. All others with the guard are dead, or have lost it, as this one has the lock; and
 * if one of them still writes, the service refuses it.
 */
export function takingOver(adapter: LeaseAdapter, lock: CrashGuardLock, onLeft: () => void): LeaseAdapter {
  let searched = false;
  return {
    ...adapter,
    acquire: async (leaseId, duration, request) => {
      try {
        return await adapter.acquire(leaseId, duration, request);
      } catch (error) {
        if (searched || !isLeaseTaken(error)) throw error;
        // Before it is known whether the change succeeds: its answer may be lost.
        onLeft();
        for (let epoch = lock.epoch - 1; epoch >= Math.max(1, lock.previousEpoch - furtherBack); epoch--) {
          const left = guardedLeaseId(lock, epoch);
          const outcome = await bounded(changeLimitInMs, request.abortSignal, (abortSignal) =>
            adapter.change(left, leaseId, { ...request, abortSignal }),
          ).then(
            () => "taken over" as const,
            (refusal: unknown) => refusal,
          );
          if (outcome === "taken over" || isNotLeased(outcome)) return adapter.acquire(leaseId, duration, request);
          if (!isOtherLease(outcome)) throw outcome;
        }
        // Once is enough: whoever has it is none of those, and no other can join them while this one has the lock.
        searched = true;
        throw error;
      }
    },
  };
}
