import type { ShardContext, WorkBalancerEvents, WorkBalancerOptions } from "../../src/balancer/balancer-options.js";
import { WorkBalancer } from "../../src/balancer/work-balancer.js";
import type { BlobLocks } from "../../src/lock/blob-locks.js";
import type { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { locksOn } from "../lock/support.js";

export interface Worker {
  readonly balancer: WorkBalancer;
  readonly contexts: ShardContext[];
  readonly errors: unknown[];
  readonly acquired: WorkBalancerEvents["acquired"][];
  readonly released: WorkBalancerEvents["released"][];
}

export interface WorkerOptions extends WorkBalancerOptions {
  readonly shards?: number;
  readonly processShard?: (context: ShardContext) => Promise<void> | void;
}

/** A worker that is a process of its own, unless it is given locks to share. */
export function worker(server: FakeLeaseServer, { shards = 4, processShard, ...options }: WorkerOptions = {}, locks: BlobLocks = locksOn(server)): Worker {
  const contexts: ShardContext[] = [];
  const errors: unknown[] = [];
  const acquired: WorkBalancerEvents["acquired"][] = [];
  const released: WorkBalancerEvents["released"][] = [];
  const balancer = new WorkBalancer(locks, "feeds", shards, (context) => {
    contexts.push(context);
    return processShard?.(context);
  }, options);
  balancer.on("error", (error) => errors.push(error)).on("acquired", (detail) => acquired.push(detail)).on("released", (detail) => released.push(detail));
  return { balancer, contexts, errors, acquired, released };
}

/** The shards of all workers, each of which must have one owner at most. */
export function ownersOf(workers: readonly Worker[]): Map<number, number> {
  const owners = new Map<number, number>();
  for (const [n, { balancer }] of workers.entries()) {
    for (const shard of balancer.ownedShards) {
      if (owners.has(shard)) throw new Error(`shard ${shard} has two owners: ${owners.get(shard)} and ${n}`);
      owners.set(shard, n);
    }
  }
  return owners;
}

export const countsOf = (workers: readonly Worker[]): number[] => workers.map(({ balancer }) => balancer.ownedShards.length);
