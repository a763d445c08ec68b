import { describe, expect, it } from "vitest";
import { Fleet } from "./fleet.js";
import { World } from "./storage/world.js";

const limitInMs = 120_000;

/** Larger fleets take minutes: FLEET=1000 npx vitest run --project unit test/simulation/fleet. Each worker reads the list of all workers and shards, so 1,000 have one shard each. */
const larger = Number(process.env["FLEET"] ?? 0);
const sizes = [
  { workers: 30, shards: 200, durationInSeconds: 30 },
  ...(larger > 0 ? [{ workers: larger, shards: larger > 250 ? larger : 4 * larger, durationInSeconds: 30 }] : []),
];

describe.each(sizes)("$workers workers and $shards shards", ({ workers, shards, durationInSeconds }) => {
  const leaseInMs = durationInSeconds * 1_000;
  const intervalInMs = leaseInMs / 3;

  it("are balanced after a start, a tenth that dies, a tenth that leaves, and a tenth that joins; never two owners", { timeout: workers > 200 ? 7_200_000 : 1_200_000 }, async () => {
    const world = new World(3);
    await world.time.run(async () => {
      const fleet = new Fleet(world, shards, durationInSeconds);
      const tenth = workers / 10;
      const measured: Record<string, unknown> = {};
      const measure = async (what: string, change: () => unknown): Promise<{ moves: number; inMs: number | undefined; requests: number }> => {
        const [moves, requests, since] = [fleet.moves, world.blobs.counts.requests, world.time.now];
        await change();
        const inMs = await fleet.untilBalanced(limitInMs);
        const seconds = (world.time.now - since) / 1_000;
        const result = { moves: fleet.moves - moves, inMs, requests: (world.blobs.counts.requests - requests) / seconds / workers };
        measured[what] = result;
        return result;
      };

      const start = await measure("start", () => fleet.add(workers, 10_000));
      expect(start.inMs).toBeLessThan(6 * intervalInMs);

      const rest = await measure("rest", () => world.time.sleep(2 * leaseInMs));
      expect(rest.moves).toBe(0);
      // A listing, and a renewal of each lease, every third of the lease.
      expect(rest.requests).toBeLessThan((1.1 * (2 + shards / workers)) / (intervalInMs / 1_000));

      const dying = fleet.workers.slice(0, tenth);
      const orphans = dying.reduce((sum, { balancer }) => sum + balancer.ownedShards.length, 0);
      const crash = await measure("crash", () => {
        for (const worker of dying) fleet.kill(worker);
      });
      expect(crash.inMs).toBeLessThan(leaseInMs + 3 * intervalInMs);
      expect(crash.moves).toBe(orphans);

      const leaving = fleet.workers.slice(-tenth);
      const given = leaving.reduce((sum, { balancer }) => sum + balancer.ownedShards.length, 0);
      const leave = await measure("leave", () => Promise.all(leaving.map((worker) => fleet.stop(worker))));
      expect(leave.inMs).toBeLessThan(3 * intervalInMs);
      expect(leave.moves).toBe(given);

      const join = await measure("join", () => fleet.add(tenth, 1_000));
      expect(join.inMs).toBeLessThan(4 * intervalInMs);
      // What the newcomers should have, and no more than a few that moved on different views.
      expect(join.moves).toBeLessThanOrEqual(Math.ceil((shards * tenth) / (workers * 0.9)) + 2);

      if (larger > 0) console.log(JSON.stringify({ workers, shards, ...measured }));
      expect(fleet.errors).toEqual([]);
      expect(fleet.problems).toEqual([]);
      await fleet.stopAll();
    });
  });
});
