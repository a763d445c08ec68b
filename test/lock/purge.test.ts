import { describe, expect, it } from "vitest";
import { BlobLocks, isConcurrencyError, ReaderWriterLock, Semaphore, withLease } from "../../src/index.js";
import type { AcquireLeaseOptions, LockHandle, PurgeResult } from "../../src/index.js";
import { formatLockRecord, parseLockRecord } from "../../src/lock/lock-record.js";
import type { LockRecord } from "../../src/lock/lock-record.js";
import type { SimBlob } from "../simulation/storage/sim-blob.js";
import { World } from "../simulation/storage/world.js";
import type { SimProcess } from "../simulation/storage/world.js";

const day = 86_400_000;
const noRecord = parseLockRecord(undefined);

function inWorld<R>(main: (world: World, process: SimProcess) => Promise<R>): Promise<R> {
  const world = new World(1);
  return world.time.run(() => main(world, world.newProcess()));
}

/** A lock that some process used, whatever is known of it otherwise. */
function putLock(process: SimProcess, name: string, record: Partial<LockRecord> = {}, content: Uint8Array = new Uint8Array()): SimBlob {
  const blob = process.blob(name);
  blob.put(content, { metadata: formatLockRecord({ ...noRecord, epoch: 7, reserved: 1, ...record }) });
  return blob;
}

function namesIn(world: World): string[] {
  return [...world.blobs.resources.keys()].filter((key) => key.startsWith("https://")).map((key) => key.slice("https://account.blob.core.windows.net/docs/".length)).sort();
}

function fixedLatency(process: SimProcess, ms: number): void {
  process.setNetworkConditions({ latency: { min: ms, max: ms }, faults: {} });
}

describe("a purge", () => {
  it("deletes what was not used for long enough, and keeps what is younger", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      await locks.withLock("old", () => undefined);
      await world.time.sleep(31 * day);
      await locks.withLock("young", () => undefined);
      await world.time.sleep(2_000);
      expect(await locks.purge()).toEqual({ deleted: 1, kept: 0 });
      expect(namesIn(world)).toEqual(["locks/.floor", "locks/young"]);
      expect(await locks.purge({ olderThanInMs: 2_000_000 })).toEqual({ deleted: 0, kept: 0 });
      expect(await locks.purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
      expect(await locks.list().next()).toMatchObject({ done: true });
    }));

  it("counts a lock as used that one process takes again and again from its reserved epochs", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      for (let hour = 0; hour < 30; hour++) {
        await locks.withLock("l", () => undefined);
        await world.time.sleep(3_600_000);
      }
      expect(await locks.purge({ olderThanInMs: 2 * 3_600_000 })).toEqual({ deleted: 0, kept: 0 });
    }));

  it("keeps a lock whose record is of a later version of the library", () =>
    inWorld(async (world, process) => {
      for (const name of ["locks/later", "locks/known"]) putLock(process, name);
      process.blob("locks/later").put(new Uint8Array(), { metadata: { ...formatLockRecord({ ...noRecord, epoch: 7, reserved: 1 }), asc_version: "2" } });
      await world.time.sleep(31 * day);
      expect(await new BlobLocks(process.container).purge()).toEqual({ deleted: 1, kept: 1 });
      expect(namesIn(world)).toEqual(["locks/.floor", "locks/later"]);
    }));

  it("keeps a lock that is held, however old", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      const held = await locks.acquire("l");
      await world.time.sleep(40 * 60_000);
      expect(await locks.purge({ olderThanInMs: 60_000 })).toEqual({ deleted: 0, kept: 1 });
      held.assertHeld();
      await held.release();
      expect(await locks.purge({ olderThanInMs: 60_000 })).toEqual({ deleted: 1, kept: 0 });
    }));

  it("keeps the lock of a crash guard unless it is certain that nothing is guarded", () =>
    inWorld(async (world, process) => {
      putLock(process, "locks/guarding", { epoch: 9, reserved: 1, lowestGuarding: 9 });
      putLock(process, "locks/released", { epoch: 9, reserved: 1, lowestGuarding: 10 });
      await world.time.sleep(40 * day);
      expect(await new BlobLocks(process.container).purge()).toEqual({ deleted: 1, kept: 1 });
      expect(namesIn(world)).toEqual(["locks/.floor", "locks/guarding"]);
    }));

  it("deletes the lock of a crash guard that was used once, and not that of a holder that died", () =>
    inWorld(async (world, process) => {
      const dead = world.newProcess();
      const options = (of: typeof process): AcquireLeaseOptions => ({ durationInSeconds: Infinity, createIfNotExists: true, crashGuard: new BlobLocks(of.container) });
      await withLease(process.container.getBlockBlobClient("used"), () => undefined, options(process));
      void withLease(dead.container.getBlockBlobClient("held"), () => new Promise(() => undefined), options(dead)).catch(() => undefined);
      await world.time.sleep(1_000);
      dead.cutOff();
      await world.time.sleep(40 * day);
      expect(await new BlobLocks(process.container).purge()).toEqual({ deleted: 1, kept: 1 });
    }));

  it.each([102, 108, 113])("in a loop delays no process for long that waits for the lock (seed %s)", async (seed) => {
    const world = new World(seed);
    const waits: number[] = [];
    await world.time.run(async () => {
      let stopped = false;
      const loop = async (turn: () => Promise<unknown>, pauseInMs: () => number): Promise<void> => {
        while (!stopped) {
          await turn();
          await world.time.sleep(pauseInMs());
        }
      };
      const loops = Array.from({ length: 6 }, (_, n) => {
        const locks = new BlobLocks(world.newProcess().container, { holder: String(n) });
        return loop(() => {
          const since = world.time.now;
          return locks.withLock("l", () => {
            waits.push(world.time.now - since);
            return world.time.sleep(world.time.random() * 60);
          });
        }, () => world.time.random() * 1_000);
      });
      const purger = new BlobLocks(world.newProcess().container);
      loops.push(loop(() => purger.purge({ olderThanInMs: 0 }), () => 1));
      await world.time.sleep(60_000);
      stopped = true;
      await Promise.all(loops);
    });
    expect(waits.length).toBeGreaterThan(300);
    expect(Math.max(...waits)).toBeLessThan(4_000);
  });

  it("deletes nothing but locks: no blob of another program, no blob with content, none of another prefix", () =>
    inWorld(async (world, process) => {
      const foreign = ["locks/report", "locks/a.b", "locks/x.tickets", "other/l", "locks/nested/l"];
      for (const name of foreign) process.blob(name).put(new Uint8Array());
      putLock(process, "other/m");
      putLock(process, "locks/table", {}, new Uint8Array([1]));
      putLock(process, "locks/nested/m");
      await world.time.sleep(40 * day);
      const before = namesIn(world);
      expect(await new BlobLocks(process.container).purge()).toEqual({ deleted: 0, kept: 0 });
      expect(namesIn(world)).toEqual(before);
    }));

  it("keeps a lock with a nonsensical epoch: new locks would have to start above it", () =>
    inWorld(async (world, process) => {
      putLock(process, "locks/l", { epoch: Number.MAX_SAFE_INTEGER - 10 });
      await world.time.sleep(40 * day);
      expect(await new BlobLocks(process.container).purge()).toEqual({ deleted: 0, kept: 1 });
    }));

  it("takes the tickets along, but not those of a lock that stays", () =>
    inWorld(async (world, process) => {
      const other = new BlobLocks(world.newProcess().container);
      const locks = new BlobLocks(process.container);
      for (const name of ["gone", "stays"]) {
        const held = await locks.acquire(name);
        const waiting = other.acquire(name);
        await world.time.sleep(1_000);
        await held.release();
        await (await waiting).release();
      }
      await world.time.sleep(40 * day);
      await locks.withLock("stays", () => undefined);
      expect(namesIn(world)).toEqual(["locks/gone", "locks/gone.tickets", "locks/stays", "locks/stays.tickets"]);
      expect(await locks.purge()).toEqual({ deleted: 1, kept: 0 });
      expect(namesIn(world)).toEqual(["locks/.floor", "locks/stays", "locks/stays.tickets"]);
      // A purge that died in between has left these behind.
      process.blob("locks/stays").drop();
      expect(await locks.purge()).toEqual({ deleted: 0, kept: 0 });
      expect(namesIn(world)).toEqual(["locks/.floor"]);
    }));

  it("takes the slots of semaphores along, and their records, but not of one that is used", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      await new Semaphore(locks, "gone", 2).withSlot(() => undefined);
      await new Semaphore(locks, "used", 2).withSlot(() => undefined);
      await world.time.sleep(40 * day);
      await new Semaphore(locks, "used", 2).withSlot(() => undefined);
      expect(namesIn(world)).toEqual(["locks/gone.slots", expect.stringMatching(/^locks\/gone~2F\d$/), "locks/used.slots", expect.stringMatching(/^locks\/used~2F\d$/)]);
      expect(await locks.purge()).toEqual({ deleted: 1, kept: 0 });
      expect(namesIn(world)).toEqual(["locks/.floor", "locks/used.slots", expect.stringMatching(/^locks\/used~2F\d$/)]);
    }));

  it("does not keep the processes of a semaphore from sharing it afterwards", () =>
    inWorld(async (world, operator) => {
      const semaphores = [0, 1].map(() => new Semaphore(new BlobLocks(world.newProcess().container), "s", 1));
      for (const semaphore of semaphores) await semaphore.withSlot(() => undefined);
      await world.time.sleep(2_000);
      await new BlobLocks(operator.container).purge({ olderThanInMs: 0 });
      expect(namesIn(world)).toEqual(["locks/.floor"]);
      const longestWaits = [0, 0];
      const end = world.time.now + 60_000;
      const loop = async (semaphore: Semaphore, process: number): Promise<void> => {
        while (world.time.now < end) {
          const since = world.time.now;
          await semaphore.withSlot(() => {
            longestWaits[process] = Math.max(longestWaits[process]!, world.time.now - since);
            return world.time.sleep(50);
          }, { waitInMs: Infinity });
        }
      };
      await Promise.all(semaphores.flatMap((semaphore, process) => Array.from({ length: 3 }, () => loop(semaphore, process))));
      expect(Math.max(...longestWaits)).toBeLessThan(8_000);
    }));

  it("deletes the blobs of readers that died, and none that is held", () =>
    inWorld(async (world, process) => {
      const dead = world.newProcess();
      await new ReaderWriterLock(new BlobLocks(dead.container), "rw").acquireReadLock();
      dead.cutOff();
      const alive = await new ReaderWriterLock(new BlobLocks(process.container), "rw").acquireReadLock();
      await world.time.sleep(40 * 60_000);
      expect(namesIn(world)).toHaveLength(2);
      expect(await new BlobLocks(process.container).purge({ olderThanInMs: 60_000 })).toEqual({ deleted: 1, kept: 1 });
      alive.assertHeld();
      await alive.release();
    }));

  it("costs a request for the listing, one for each deleted lock, and two for the floor; none later for locks with a record", () =>
    inWorld(async (world, process) => {
      for (let n = 0; n < 20; n++) putLock(process, `locks/l${n}`);
      const locks = new BlobLocks(process.container);
      const count = async (run: () => Promise<unknown>): Promise<number> => {
        const { requests } = world.blobs.counts;
        await run();
        return world.blobs.counts.requests - requests;
      };
      expect(await count(() => locks.purge({ olderThanInMs: 0 }))).toBe(1 + 2 + 20);
      expect(await count(() => locks.purge({ olderThanInMs: 0 }))).toBe(1);
      // Acquire (404), create, acquire, read the record, read the floor, write the record, release.
      expect(await count(() => locks.withLock("l0", () => undefined))).toBe(7);
      expect(await count(() => locks.withLock("l0", () => undefined))).toBeLessThanOrEqual(3);
      await locks.purge({ olderThanInMs: 0 });
      putLock(process, "locks/m", { epoch: 3 });
      // The floor is high enough already: it is only read.
      expect(await count(() => locks.purge({ olderThanInMs: 0 }))).toBe(1 + 1 + 1);
    }));

  it("rejects bad input before any request", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      await expect(locks.purge({ olderThanInMs: -1 })).rejects.toThrow(RangeError);
      await expect(locks.purge({ olderThanInMs: "1" as never })).rejects.toThrow(TypeError);
      await expect(locks.purge({ unusedForInMs: 1 } as never)).rejects.toThrow(TypeError);
      expect(world.blobs.counts.requests).toBe(0);
    }));

  it("ends on a network that does not respond", () =>
    inWorld(async (world, process) => {
      process.cutOff();
      await expect(new BlobLocks(process.container).purge()).rejects.toMatchObject({ code: "OPERATION_TIMEOUT" });
      expect(world.time.now).toBe(30_000);
    }));

  it("ends when its signal aborts, with the reason", () =>
    inWorld(async (world, process) => {
      for (let n = 0; n < 200; n++) putLock(process, `locks/l${n}`);
      const controller = new AbortController();
      const purging = new BlobLocks(process.container).purge({ olderThanInMs: 0, abortSignal: controller.signal });
      const ended = expect(purging).rejects.toThrow("enough");
      await world.time.sleep(200);
      controller.abort(new Error("enough"));
      await ended;
      const { requests } = world.blobs.counts;
      await world.time.sleep(10_000);
      expect(world.blobs.counts.requests - requests).toBeLessThanOrEqual(16);
      expect(namesIn(world).length).toBeGreaterThan(20);
    }));

  it("may be run by several processes at once", () =>
    inWorld(async (world, process) => {
      for (let n = 0; n < 50; n++) putLock(process, `locks/l${n}`, { epoch: n + 1 });
      const purges = Array.from({ length: 4 }, () => new BlobLocks(world.newProcess().container).purge({ olderThanInMs: 0 }));
      const results: PurgeResult[] = await Promise.all(purges);
      expect(results.reduce((sum, { deleted }) => sum + deleted, 0)).toBe(50);
      expect(process.blob("locks/.floor").metadata).toEqual({ asc_floor: "50" });
    }));
});

describe("a purge at any moment", () => {
  /** Far ahead of the clock, so that the clock alone would not make epochs grow. */
  const ahead = 1_000 * Date.UTC(2040, 0, 1);

  /** Two processes use a lock in turns; a third one purges everything that is not held, beginning at a given moment. */
  async function runWith(purgeAt: number, purgeLatency: number): Promise<{ epochs: number[]; deleted: number }> {
    return inWorld(async (world, process) => {
      putLock(process, "l", { epoch: ahead, reserved: 32 });
      const epochs: number[] = [];
      let holder: LockHandle | undefined;
      const use = async (user: SimProcess, after: number, turns: number): Promise<void> => {
        fixedLatency(user, 10);
        const locks = new BlobLocks(user.container, { prefix: "" });
        await world.time.sleep(after);
        for (let turn = 0; turn < turns; turn++) {
          const lock = await locks.acquire("l");
          expect(holder, "two holders").toBeUndefined();
          holder = lock;
          expect(lock.epoch, "the epoch of a holder").toBeGreaterThan(epochs.at(-1) ?? 0);
          epochs.push(lock.epoch);
          await world.time.sleep(4);
          lock.assertHeld();
          holder = undefined;
          await lock.release();
          await world.time.sleep(6);
        }
      };
      const purge = async (): Promise<number> => {
        const operator = world.newProcess();
        fixedLatency(operator, purgeLatency);
        await world.time.sleep(purgeAt);
        const locks = new BlobLocks(operator.container, { prefix: "" });
        return (await locks.purge({ olderThanInMs: 0 })).deleted + (await locks.purge({ olderThanInMs: 0 })).deleted;
      };
      const [deleted] = await Promise.all([purge(), use(process, 0, 4), use(world.newProcess(), 120, 2)]);
      return { epochs, deleted };
    });
  }

  it.each([1, 7, 10, 40])("leaves epochs growing and exclusion intact, with a latency of %i ms", async (latency) => {
    let deleted = 0;
    let kept = 0;
    const step = 3;
    for (let at = 0; at < 260; at += step) {
      const result = await runWith(at, latency);
      expect(result.epochs).toHaveLength(6);
      if (result.deleted > 0) deleted++;
      else kept++;
    }
    // Both occurred: the lock was free at some of these moments, and in use at others.
    expect(deleted).toBeGreaterThan(10);
    expect(kept + deleted).toBe(Math.ceil(260 / step));
  });

  it("is not undone by a process that remembers its reserved epochs", () =>
    inWorld(async (world, process) => {
      const locks = new BlobLocks(process.container);
      const first = await locks.withLock("l", (lock) => lock.epoch);
      const second = await locks.withLock("l", (lock) => lock.epoch);
      expect(second).toBe(first + 1);
      const other = new BlobLocks(world.newProcess().container);
      await other.purge({ olderThanInMs: 0 });
      const theirs = await other.withLock("l", (lock) => lock.epoch);
      const mine = await locks.withLock("l", (lock) => lock.epoch);
      expect(theirs).toBeGreaterThan(second);
      expect(mine).toBeGreaterThan(theirs);
    }));

  it("does no harm to a holder that was paused past its lease: it has lost the lock, and its writes are rejected", () =>
    inWorld(async (world, process) => {
      const paused = await new BlobLocks(process.container).acquire("l", { autoRenew: false, durationInSeconds: 15 });
      await world.time.sleep(16_000);
      const other = new BlobLocks(world.newProcess().container);
      expect(await other.purge({ olderThanInMs: 0 })).toEqual({ deleted: 1, kept: 0 });
      const next = await other.acquire("l");
      expect(next.epoch).toBeGreaterThan(paused.epoch);
      expect(() => paused.assertHeld()).toThrow();
      const late = process.blob("locks/l").setMetadata({ asc_epoch: "1" }, { conditions: { leaseId: paused.leaseId } });
      await expect(late).rejects.toMatchObject({ statusCode: 412 });
      await paused.release().catch((error: unknown) => expect(isConcurrencyError(error, "LEASE_LOST")).toBe(true));
      next.assertHeld();
      await next.renew();
      await next.release();
    }));

  it("a delete that arrives late does not delete the lock that was created since", () =>
    inWorld(async (_world, process) => {
      const blob = putLock(process, "locks/l");
      const { etag } = blob.stored!;
      await new BlobLocks(process.container).purge({ olderThanInMs: 0 });
      await new BlobLocks(process.container).withLock("l", () => undefined);
      await expect(blob.delete({ conditions: { ifMatch: etag } })).rejects.toMatchObject({ statusCode: 412 });
    }));
});
