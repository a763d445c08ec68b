import type { CallOptions, LeasableLike } from "../clients.js";
import { isTargetNotFoundError } from "../errors.js";
import { isMissing } from "../core/storage-errors.js";
import { acquireLease } from "../lease/acquire-lease.js";
import { leaseAdapterOf } from "../lease/lease-adapters.js";
import type { LeaseGuard } from "../lease/lease-guard.js";
import { leaseOptionsOf } from "./leased-options.js";
import type { HeldLike, LeasedUpdateOptions, LockChoice } from "./leased-options.js";
import type { TargetAdapter } from "../target/target.js";

/** What an update holds, and what it can do with it. */
export interface Hold {
  /** Undefined: there is nothing that could be leased, and no lock either. */
  readonly held: HeldLike | undefined;
  /** The lease on the target, if that is what is held. */
  readonly lease: LeaseGuard | undefined;
  /** The caller's own: it is not released, and if it is lost there is no other. */
  readonly borrowed: boolean;
  /** Whether somebody else may hold the lease under the same id afterwards. */
  readonly handedOn: boolean;
}

/** Acquires what keeps other writers out. */
export type TakeHold = (options: CallOptions) => Promise<Hold>;

/** Decides, before any request, what an update of this target has to hold. */
export function holdFor<T>(adapter: TargetAdapter<T, unknown>, options: LeasedUpdateOptions<T>): TakeHold {
  const { leasable } = adapter;
  const { lease, lock } = options;
  if (leasable) {
    if (lock) throw new TypeError(`lock: ${adapter.kind} has a lease of its own, which the service knows of`);
    leaseAdapterOf(leasable);
    if (!lease) return (call) => takeLease(leasable, options, call);
    if (lease.url !== adapter.url) throw new TypeError(`lease is on ${lease.url}, not on ${adapter.url}`);
    return () => Promise.resolve({ held: lease, lease, borrowed: true, handedOn: true });
  }
  if (!adapter.guarded) throw new TypeError(`${adapter.kind} has no lease: use optimisticUpdate, or a TableLock`);
  if (!isLockChoice(lock)) {
    throw new TypeError(`${adapter.kind} has no lease: pass lock: { locks, name }, the same for all its writers`);
  }
  const { locks, name } = lock;
  return async (call) => {
    const held = await locks.acquire(name, { ...call, ...(options.waitInMs !== undefined && { waitInMs: options.waitInMs }) });
    return { held, lease: undefined, borrowed: false, handedOn: false };
  };
}

async function takeLease<T>(leasable: LeasableLike, options: LeasedUpdateOptions<T>, call: CallOptions): Promise<Hold> {
  try {
    const lease = await acquireLease(leasable, { ...leaseOptionsOf(options), ...call });
    // Under a crash guard each holder has an id of its own, which tells its successor whose lease it was.
    return { held: lease, lease, borrowed: false, handedOn: !options.crashGuard };
  } catch (error) {
    if (!isTargetNotFoundError(error) || !isMissing(error.cause)) throw error;
    return { held: undefined, lease: undefined, borrowed: false, handedOn: false };
  }
}

function isLockChoice(lock: unknown): lock is LockChoice {
  const { locks, name } = (lock ?? {}) as { locks?: { acquire?: unknown } | null; name?: unknown };
  return typeof locks?.acquire === "function" && typeof name === "string" && name !== "";
}
