import { checkDrainTimeout, defaultDrainTimeoutInMs } from "../core/background-service.js";
import type { EventNames } from "../core/typed-events.js";
import { checkNumber, checkOptions, omitOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { checkLeaseOptions } from "../lease/lease-options.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import type { LeaderElectionOptions } from "../lock/leader-election.js";
import type { AcquireLockOptions, TryAcquireLockOptions } from "../lock/lock-options.js";
import type { LeadershipTerm } from "../lock/term.js";
import { checkWorkerData } from "./worker-record.js";

/**
 * Argument of the function of a {@link WorkBalancer}: the time in which this worker owns a shard.
 * @example
 * ```ts
 * new WorkBalancer(locks, "feeds", 32, async ({ shard, epoch, signal }) => {
 *   while (!signal.aborted) await pollFeed(shard, { epoch, signal });
 * });
 * ```
 */
export interface ShardContext extends LeadershipTerm {
  /** The number of the shard, from 0. */
  readonly shard: number;
}

/** Options of {@link WorkBalancer}. */
export interface WorkBalancerOptions extends Omit<LeaderElectionOptions, "cooldownInMs"> {
  /**
   * How many shards this worker has at most. The others have the rest, up to their own limits; shards beyond all limits have no owner.
   * @defaultValue Infinity: the shards are divided evenly
   */
  maxShards?: number | undefined;
  /**
   * How often this worker lists the workers and the shards; three times as often while it has fewer shards than its share.
   * @defaultValue a third of the lease duration: what becomes free is found before the lease of a dead worker would have been renewed
   * again
   */
  rebalanceIntervalInMs?: number | undefined;
}

/** The events of {@link WorkBalancer}, with their details. */
export interface WorkBalancerEvents {
  /** This worker owns the shard now. */
  acquired: { readonly shard: number; readonly epoch: number };
  /**
   * The work of the shard has ended, and its lease is released. `failed`: the work threw. `abandoned`: the work has not ended within
   * `drainTimeoutInMs`; its lease is not released, but not renewed any more.
   */
  released: { readonly shard: number; readonly epoch: number; readonly reason: "rebalanced" | "shed" | "lost" | "stopped" | "failed" | "abandoned" };
  /**
   * The work of a shard threw, or this worker could not list or acquire shards. It tries again. An {@link OperationTimeoutError}: the work
   * of a shard was abandoned. This worker does not own the shard again before that work has ended.
   */
  error: unknown;
}

const optionNames: OptionNames<WorkBalancerOptions> = {
  durationInSeconds: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
  data: 1,
  maxHoldInMs: 1,
  drainTimeoutInMs: 1,
  maxShards: 1,
  rebalanceIntervalInMs: 1,
};
/** The largest number of shards. */
export const maxShardCount = 10_000;

export const eventNames: EventNames<WorkBalancerEvents> = { acquired: 1, released: 1, error: 1 };

/** The options with defaults filled in and checked. */
export interface BalancerSettings {
  readonly lockOptions: TryAcquireLockOptions;
  readonly data: string | undefined;
  readonly maxShards: number;
  readonly rebalanceIntervalInMs: number;
  readonly drainTimeoutInMs: number;
}

export function checkBalancerOptions(locks: BlobLocks, options: WorkBalancerOptions): BalancerSettings {
  checkOptions("WorkBalancer", options, optionNames);
  const { maxShards = Infinity, rebalanceIntervalInMs, drainTimeoutInMs = defaultDrainTimeoutInMs, ...given } = options;
  const { data, ...lockOptions } = omitOptions(locks.withDefaults<AcquireLockOptions>({ ...given, autoRenew: true }), "waitInMs");
  const { durationInMs } = checkLeaseOptions(lockOptions);
  // A worker that dies would keep its shards, and its place among the workers, forever.
  if (durationInMs === Infinity) throw new RangeError("WorkBalancer: durationInSeconds must be 15 to 60, so that other workers can replace one that has died; got Infinity");
  return {
    lockOptions,
    data: checkWorkerData(data),
    maxShards: checkMaxShards(maxShards),
    rebalanceIntervalInMs: checkNumber("rebalanceIntervalInMs", rebalanceIntervalInMs ?? durationInMs / 3, { min: 100, max: 2 ** 31 - 1 }),
    drainTimeoutInMs: checkDrainTimeout(drainTimeoutInMs),
  };
}

/** More than there can be is no limit: the record of a worker has no room for all numbers, and one that cannot be read hides the worker. */
function checkMaxShards(maxShards: number): number {
  return checkNumber("maxShards", maxShards, { min: 1, integer: true }) >= maxShardCount ? Infinity : maxShards;
}
