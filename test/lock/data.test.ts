import { describe, expect, it } from "vitest";
import { BlobLocks, LeaderElection, Semaphore } from "../../src/index.js";
import type { LockStatus, TryAcquireLockOptions } from "../../src/index.js";
import { World } from "../simulation/storage/world.js";
import type { SimProcess } from "../simulation/storage/world.js";

function inWorld<R>(main: (world: World, process: SimProcess) => Promise<R>): Promise<R> {
  const world = new World(1);
  return world.time.run(() => main(world, world.newProcess()));
}

describe("the data of a lock", () => {
  it("are visible to others while it is held, and until the next holder comes", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      const others = new BlobLocks(world.newProcess().container);
      const seen = async (): Promise<unknown[]> => {
        const listed: LockStatus[] = [];
        for await (const lock of others.list()) listed.push(lock);
        return [(await others.inspect("l")).data, ...listed.map(({ data }) => data)];
      };
      const data = 'order 7, "Größe" 🔒\n';
      await locks.withLock("l", async () => expect(await seen()).toEqual([data, data]), { data });
      expect(await seen()).toEqual([data, data]);
      // The data of the holder before are never taken for those of this one, not even for a short section.
      await locks.withLock("l", async () => expect(await seen()).toEqual([undefined, undefined]));
      await locks.withLock("l", async () => expect(await seen()).toEqual(["x", "x"]), { data: "x" });
      await others.withLock("l", async () => expect(await seen()).toEqual([undefined, undefined]));
    }));

  it("cost two requests if they are new, and none if they are those of the last time", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      const count = async (options: TryAcquireLockOptions): Promise<number> => {
        const { requests } = world.blobs.counts;
        await locks.withLock("l", () => undefined, options);
        const used = world.blobs.counts.requests - requests;
        await world.time.sleep(2_000);
        return used;
      };
      await count({});
      expect(await count({})).toBe(2);
      expect(await count({ data: "a" })).toBe(4);
      expect(await count({ data: "a" })).toBe(2);
      expect(await count({ data: "b" })).toBe(4);
      expect(await count({})).toBe(4);
      expect(await count({})).toBe(2);
    }));

  it("may have 1,024 characters, as they are stored", () =>
    inWorld(async (_world, process) => {
      const locks = new BlobLocks(process.container);
      for (const data of ["a".repeat(1_024), "ü".repeat(170), ""]) {
        await locks.withLock("l", () => undefined, { data });
        expect((await locks.inspect("l")).data).toBe(data);
      }
    }));

  it("are checked before any request", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      const bad: [unknown, typeof RangeError | typeof TypeError][] = [["a".repeat(1_025), RangeError], ["ü".repeat(171), RangeError], ["\ud800", RangeError], [7, TypeError], [{}, TypeError]];
      for (const [data, kind] of bad) {
        const options = { data: data as string };
        await expect(locks.acquire("l", options)).rejects.toThrow(kind);
        await expect(locks.tryAcquire("l", options)).rejects.toThrow(kind);
        await expect(locks.withLocks(["l", "m"], () => undefined, options)).rejects.toThrow(kind);
        await expect(new Semaphore(locks, "s", 2).acquire(options)).rejects.toThrow(kind);
        await expect(new Semaphore(locks, "s", 2).tryAcquire(options)).rejects.toThrow(kind);
        expect(() => new LeaderElection(locks, "l", () => undefined, options)).toThrow(kind);
      }
      expect(world.blobs.counts.requests).toBe(0);
    }));

  it("are those of a slot, and of a leader", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      const semaphore = new Semaphore(locks, "s", 2);
      await semaphore.withSlot(async () => expect((await semaphore.inspect()).holders).toMatchObject([{ data: "slot" }]), { data: "slot" });
      const election = new LeaderElection(locks, "e", () => undefined, { data: "https://10.0.0.7/" });
      await election.start();
      while (!election.isLeader) await world.time.sleep(100);
      expect(await locks.inspect("e")).toMatchObject({ data: "https://10.0.0.7/" });
      await election.stop();
    }));
});
