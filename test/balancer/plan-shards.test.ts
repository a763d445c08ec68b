import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planShards } from "../../src/balancer/plan-shards.js";
import type { OwnShards, ShardPlan, ShardView } from "../../src/balancer/plan-shards.js";

const none: ReadonlySet<number> = new Set();

function ownOf({ owners }: ShardView, id: string, more: Partial<OwnShards> = {}): OwnShards {
  const owned = [...owners.keys()].filter((shard) => owners[shard] === id);
  return { id, owned, ending: none, avoided: none, neglected: none, ...more };
}

function plansOf(view: ShardView): Map<string, ShardPlan> {
  return new Map([...view.workers.keys()].map((id) => [id, planShards(view, ownOf(view, id))]));
}

/** All workers act on the same view at the same time. */
function step(view: ShardView): { view: ShardView; released: number; acquired: number } {
  const owners = [...view.owners];
  const count = { released: 0, acquired: 0 };
  for (const [id, { release, acquire }] of plansOf(view)) {
    for (const shard of release) {
      expect(owners[shard], "releases only its own").toBe(id);
      owners[shard] = undefined;
      count.released++;
    }
    for (const shard of acquire) {
      expect(view.owners[shard], "acquires only what is free").toBeUndefined();
      expect(owners[shard], "no two workers acquire the same shard").toBeUndefined();
      owners[shard] = id;
      count.acquired++;
    }
  }
  return { view: { ...view, owners }, ...count };
}

/** Until no worker does anything. */
function settle(start: ShardView): { view: ShardView; rounds: number; released: number } {
  let released = 0;
  let view = start;
  for (let rounds = 0; ; rounds++) {
    const next = step(view);
    if (next.released + next.acquired === 0) return { view, rounds, released };
    expect(rounds, "rounds until nothing changes").toBeLessThan(3);
    released += next.released;
    view = next.view;
  }
}

function countsOf({ workers, owners }: ShardView): Map<string, number> {
  return new Map([...workers.keys()].map((id) => [id, owners.filter((owner) => owner === id).length]));
}

function expectBalanced(view: ShardView): void {
  const counts = countsOf(view);
  const room = [...view.workers.values()].reduce((sum, limit) => sum + limit, 0);
  expect([...counts.values()].reduce((sum, count) => sum + count, 0)).toBe(Math.min(room, view.owners.length));
  for (const [id, count] of counts) {
    expect(count).toBeLessThanOrEqual(view.workers.get(id)!);
    for (const [other, more] of counts) {
      if (count < view.workers.get(id)!) expect(more - count, `${other} has ${more}, ${id} has ${count} and could have more`).toBeLessThanOrEqual(1);
    }
  }
}

const limits = fc.oneof({ weight: 3, arbitrary: fc.constant(Infinity) }, { weight: 1, arbitrary: fc.integer({ min: 0, max: 12 }) });
const names = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 9 });
const views = fc.tuple(names, fc.integer({ min: 1, max: 40 })).chain(([ids, shards]) =>
  fc.record({
    limits: fc.array(limits, { minLength: ids.length, maxLength: ids.length }),
    owners: fc.array(fc.option(fc.integer({ min: 0, max: ids.length - 1 }), { nil: undefined }), { minLength: shards, maxLength: shards }),
  }).map(({ limits: all, owners }): ShardView => ({
    workers: new Map(ids.map((id, n) => [id, all[n]!])),
    owners: owners.map((owner) => (owner === undefined ? undefined : ids[owner])),
  })),
);

function check(property: fc.IProperty<[ShardView]>): void {
  fc.assert(property, { numRuns: 500 });
}

describe("the plans of all workers", () => {
  it("lead from any distribution to a balanced one, which stays as it is, in at most two rounds", () => {
    check(fc.property(views, (view) => {
      const { view: settled, rounds } = settle(view);
      expect(rounds).toBeLessThanOrEqual(2);
      expectBalanced(settled);
    }));
  });

  it("move no shard that need not move: each worker keeps what it has up to its quota", () => {
    check(fc.property(views, (view) => {
      const before = countsOf(view);
      const { view: settled, released } = settle(view);
      const after = countsOf(settled);
      let necessary = 0;
      for (const [id, count] of before) necessary += Math.max(0, count - after.get(id)!);
      expect(released).toBe(necessary);
      // No balanced distribution needs fewer: exchanging a larger quota of one worker for the smaller one of another releases no less.
      const smallest = Math.min(...[...after].filter(([id, count]) => count < view.workers.get(id)!).map(([, count]) => count), Infinity);
      for (const [id, count] of after) {
        if (count !== smallest + 1 || view.workers.get(id)! < smallest + 1) continue;
        for (const [other, less] of after) {
          if (less !== smallest || view.workers.get(other)! <= smallest) continue;
          expect(before.get(other)! > smallest && before.get(id)! <= smallest, `${other} should have the larger quota, not ${id}`).toBe(false);
        }
      }
    }));
  });

  it("move only what the newcomer gets when a worker joins, each shard once", () => {
    check(fc.property(views, (start) => {
      const { view } = settle({ ...start, workers: new Map([...start.workers.keys()].map((id) => [id, Infinity])) });
      const joined = settle({ ...view, workers: new Map([...view.workers, ["newcomer", Infinity]]) });
      expect(joined.released).toBe(Math.floor(view.owners.length / (view.workers.size + 1)));
      for (const [shard, owner] of joined.view.owners.entries()) expect([view.owners[shard], "newcomer"]).toContain(owner);
    }));
  });

  it("move only what was its own when a worker leaves", () => {
    check(fc.property(views, (start) => {
      fc.pre(start.workers.size > 1);
      const { view } = settle({ ...start, workers: new Map([...start.workers.keys()].map((id) => [id, Infinity])) });
      const [gone] = view.workers.keys();
      const workers = new Map([...view.workers].filter(([id]) => id !== gone));
      const left = settle({ workers, owners: view.owners.map((owner) => (owner === gone ? undefined : owner)) });
      expect(left.released).toBe(0);
      for (const [shard, owner] of view.owners.entries()) if (owner !== gone) expect(left.view.owners[shard]).toBe(owner);
      expectBalanced(left.view);
    }));
  });

  it("fit together for 1,000 workers: when one joins, and when 50 leave, no other shards move, and each moves once", () => {
    const workers = new Map(Array.from({ length: 1_000 }, (_, n) => [`worker ${n}`, Infinity]));
    const shares = ({ workers: all, owners }: ShardView): Record<number, number> => {
      const counts = new Map<string, number>();
      const shares: Record<number, number> = {};
      for (const owner of owners) counts.set(owner!, (counts.get(owner!) ?? 0) + 1);
      for (const id of all.keys()) shares[counts.get(id) ?? 0] = (shares[counts.get(id) ?? 0] ?? 0) + 1;
      return shares;
    };
    const { view: full } = step({ workers, owners: Array.from({ length: 4_000 }, () => undefined) });
    expect(shares(full)).toEqual({ 4: 1_000 });
    const joining = step({ ...full, workers: new Map([...workers, ["newcomer", Infinity]]) });
    expect([joining.released, joining.acquired]).toEqual([3, 0]);
    const joined = step(joining.view);
    expect([joined.released, joined.acquired]).toEqual([0, 3]);
    expect(shares(joined.view)).toEqual({ 3: 4, 4: 997 });
    const leaving = new Set([...workers.keys()].slice(0, 50));
    const left = step({ workers: new Map([...joined.view.workers].filter(([id]) => !leaving.has(id))), owners: joined.view.owners.map((owner) => (leaving.has(owner!) ? undefined : owner)) });
    expect(left.released).toBe(0);
    expect(left.view.owners.every((owner, shard) => leaving.has(joined.view.owners[shard]!) || owner === joined.view.owners[shard])).toBe(true);
    expect(shares(left.view)).toEqual({ 4: 755, 5: 196 });
  });

  it("wait for the shards of a worker that has left, but still holds their leases", () => {
    const view: ShardView = { workers: new Map([["a", Infinity]]), owners: ["gone", "a", "gone", undefined] };
    expect(planShards(view, ownOf(view, "a"))).toEqual({ quota: 4, release: [], acquire: [3], isBalanced: false });
  });
});

describe("the plan of a worker", () => {
  const two: ReadonlyMap<string, number> = new Map([["a", Infinity], ["b", Infinity]]);

  it("releases what it acquired last", () => {
    const view: ShardView = { workers: two, owners: ["a", "a", "a", "a"] };
    expect(planShards(view, ownOf(view, "a", { owned: [2, 0, 3, 1] })).release).toEqual([1, 3]);
  });

  it("counts shards whose work is ending as released already, and as owned", () => {
    const view: ShardView = { workers: two, owners: ["a", "a", "a", "a", undefined, undefined] };
    expect(planShards(view, ownOf(view, "a", { ending: new Set([0]) }))).toEqual({ quota: 3, release: [], acquire: [], isBalanced: false });
    expect(planShards(view, ownOf(view, "a", { ending: new Set([0, 1]) }))).toMatchObject({ release: [], acquire: [] });
  });

  it("trusts its own knowledge more than the listing, which is older", () => {
    const view: ShardView = { workers: two, owners: [undefined, "b", "b", undefined] };
    expect(planShards(view, ownOf(view, "a", { owned: [0] })).acquire).toEqual([3]);
  });

  it("leaves out what it avoids, and takes nothing in its place", () => {
    const view: ShardView = { workers: two, owners: ["b", "b", undefined, undefined] };
    expect(planShards(view, ownOf(view, "a", { avoided: new Set([3]) })).acquire).toEqual([2]);
  });

  it("takes a neglected shard beyond its quota, but not beyond its limit, and gives another one for it", () => {
    const view: ShardView = { workers: two, owners: ["a", "a", "b", undefined] };
    const neglected = new Set([3]);
    expect(planShards(view, ownOf(view, "a", { neglected }))).toEqual({ quota: 2, release: [], acquire: [3], isBalanced: false });
    const limited: ShardView = { ...view, workers: new Map([["a", 2], ["b", Infinity]]) };
    expect(planShards(limited, ownOf(limited, "a", { neglected })).acquire).toEqual([]);
    const taken: ShardView = { ...view, owners: ["a", "a", "b", "a"] };
    expect(planShards(taken, ownOf(taken, "a", { owned: [3, 0, 1] })).release).toEqual([1]);
  });

  it("that is not among the workers releases and acquires nothing it has not, and everything it has", () => {
    const view: ShardView = { workers: new Map([["b", Infinity]]), owners: ["a", undefined] };
    expect(planShards(view, ownOf(view, "a"))).toEqual({ quota: 0, release: [0], acquire: [], isBalanced: false });
  });
});
