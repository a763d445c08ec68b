/** What one listing shows of a balancer. */
export interface ShardView {
  /** The workers that are alive, each with the number of shards that it can have. */
  readonly workers: ReadonlyMap<string, number>;
  /** The owner of each shard; undefined: it is free. An owner that is not among the workers is stopping, or has died lately. */
  readonly owners: readonly (string | undefined)[];
}

/** What a worker knows of itself. */
export interface OwnShards {
  readonly id: string;
  /** The shards whose leases it holds, those that were acquired first come first. */
  readonly owned: readonly number[];
  /** Those of them whose work is ending: they will be released. */
  readonly ending: ReadonlySet<number>;
  /** Shards that it does not acquire now: their work has failed lately, or has not ended. */
  readonly avoided: ReadonlySet<number>;
  /** Shards that have been free for so long that the worker whose share they are seems unable to acquire them. */
  readonly neglected: ReadonlySet<number>;
}

/** What a worker does next. */
export interface ShardPlan {
  /** How many shards it should have. */
  readonly quota: number;
  readonly release: readonly number[];
  readonly acquire: readonly number[];
  /** Every worker has its quota, and no shard has an owner that is not alive: no worker has anything to do. */
  readonly isBalanced: boolean;
}

/**
 * Decides what a worker releases and acquires. All workers that have seen the same compute plans that fit together; what they have seen may
 * differ, and does no harm: the lease decides which worker owns a shard.
 *
 * | Rule | Reason |
 * |---|---|
 * | Quotas differ by one at most, except that no worker has more than its limit; what it cannot have goes to the others | balance |
 * | The larger quotas go to the workers that own most; among equals, to those with the smaller id | each of them has one shard less to release |
 * | A worker above its quota releases what it acquired last; shards that end already count | work that has run for longest is disturbed last |
 * | A worker releases nothing while it is not above its quota | a change moves no more shards than it has to |
 * | Free shards are divided among the workers below their quotas, to the one that lacks most first | two workers do not try the same shard |
 * | A shard that is not free is never acquired, whether its owner is alive or not | its lease has not ended |
 * | A neglected shard is acquired by any worker below its limit; one that has its quota then releases another one | work that cannot run on one worker runs on another |
 */
export function planShards(view: ShardView, own: OwnShards): ShardPlan {
  const { id, owned, ending, avoided, neglected } = own;
  const held = new Set(owned);
  const owners = view.owners.map((owner, shard) => (held.has(shard) ? id : owner));
  const counts = new Map<string, number>([...view.workers.keys()].map((worker) => [worker, 0]));
  let isOwnerGone = false;
  for (const owner of owners) {
    if (owner === undefined) continue;
    const count = counts.get(owner);
    if (count === undefined) isOwnerGone = true;
    else counts.set(owner, count + 1);
  }
  const quotas = quotasOf(view.workers, counts, owners.length);
  const quota = quotas.get(id) ?? 0;
  const staying = owned.filter((shard) => !ending.has(shard));
  const release = staying.slice(Math.min(quota, staying.length)).reverse();
  const limit = view.workers.get(id) ?? 0;
  const wanted = [...sharesOf(owners, quotas, counts, id)];
  for (const shard of neglected) {
    if (owners[shard] === undefined && !wanted.includes(shard) && owned.length + wanted.length < limit) wanted.push(shard);
  }
  const isBalanced = !isOwnerGone && [...quotas].every(([worker, share]) => share === counts.get(worker));
  return { quota, release, acquire: wanted.filter((shard) => !avoided.has(shard)), isBalanced };
}

/** How many shards each worker should have: as even as the limits permit. */
function quotasOf(limits: ReadonlyMap<string, number>, counts: ReadonlyMap<string, number>, shards: number): Map<string, number> {
  const quotas = new Map<string, number>();
  // Water filling: the smallest limits are reached first, and what is left is divided among the others.
  let left = shards;
  const byLimit = [...limits].sort(([, a], [, b]) => a - b);
  let open = byLimit.length;
  for (const [id, limit] of byLimit) {
    if (limit > left / open) break;
    quotas.set(id, limit);
    left -= limit;
    open--;
  }
  const level = open === 0 ? 0 : Math.floor(left / open);
  let extra = open === 0 ? 0 : left % open;
  const others = byLimit.slice(byLimit.length - open).map(([id]) => id);
  others.sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0) || (a < b ? -1 : 1));
  for (const id of others) quotas.set(id, level + (extra-- > 0 ? 1 : 0));
  return quotas;
}

/** The free shards that are the share of one worker. */
function* sharesOf(owners: readonly (string | undefined)[], quotas: ReadonlyMap<string, number>, counts: ReadonlyMap<string, number>, id: string): Generator<number> {
  // One entry for each shard that a worker lacks. A worker's first entry has all that it lacks, so those that lack most come first.
  const lacking: { readonly id: string; readonly lacks: number }[] = [];
  for (const [worker, quota] of quotas) {
    for (let lacks = quota - (counts.get(worker) ?? 0); lacks > 0; lacks--) lacking.push({ id: worker, lacks });
  }
  lacking.sort((a, b) => b.lacks - a.lacks || (a.id < b.id ? -1 : 1));
  let next = 0;
  for (const [shard, owner] of owners.entries()) {
    if (owner === undefined && lacking[next++]?.id === id) yield shard;
  }
}
