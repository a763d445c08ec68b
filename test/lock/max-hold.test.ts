import { describe, expect, it } from "vitest";
import { LeaderElection } from "../../src/lock/leader-election.js";
import { ReaderWriterLock } from "../../src/lock/reader-writer-lock.js";
import { Semaphore } from "../../src/lock/semaphore.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { abortTime, blockEventLoop, elapsed, outcomeOf, pass, suspendMachine, useFakeClock } from "../lease/fakes/time.js";
import { later, locksOn, run } from "./support.js";

useFakeClock();

describe("maxHoldInMs", () => {
  it("aborts the signal after that time, stops renewing, and releases the lock a safety margin later", async () => {
    const server = new FakeLeaseServer();
    const lock = await run(locksOn(server).acquire("l", { maxHoldInMs: 60_000, durationInSeconds: 30 }));
    const since = elapsed();
    const aborted = abortTime(lock.signal);
    await pass(59_000);
    expect(lock.remainingInMs).toBeLessThanOrEqual(1_020);
    lock.assertHeld();
    await pass(1_000);
    expect(aborted.at! - since).toBeLessThanOrEqual(60_000);
    expect(lock.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "maxHold", message: expect.stringContaining("maxHoldInMs") as string });
    expect(() => lock.assertHeld()).toThrow("maxHoldInMs");
    expect(lock.remainingInMs).toBe(0);
    // The work may need the margin to stop.
    await pass(1_400);
    expect(server.isLeased("locks/l")).toBe(true);
    await pass(200);
    expect(server.isLeased("locks/l")).toBe(false);
    const renewals = server.count("renew");
    await pass(60_000);
    expect(server.count("renew")).toBe(renewals);
    await run(lock.release());
    expect(server.count("release")).toBe(1);
  });

  it("lets withLock reject, and the next one in at once when the work has ended", async () => {
    const server = new FakeLeaseServer();
    const ended = outcomeOf(
      locksOn(server).withLock("l", (lock) => new Promise((resolve) => lock.signal.addEventListener("abort", resolve)), { maxHoldInMs: 5_000 }),
    );
    await pass(100);
    const next = outcomeOf(locksOn(server).acquire("l"));
    await pass(5_500);
    expect(ended.error).toMatchObject({ name: "LeaseLostError", reason: "maxHold" });
    expect(next.at).toBeLessThan(6_500);
    await run(next.value!.release());
  });

  it("starts anew for each holder to which the lock is handed over", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const turns = Promise.all([1, 2, 3].map(() => locks.withLock("l", () => later(1_500), { maxHoldInMs: 2_000 })));
    await run(turns, 5_000);
    expect(server.count("acquire")).toBeLessThanOrEqual(2);
    const tooLong = outcomeOf(Promise.all([locks.withLock("l", () => later(100), { maxHoldInMs: 2_000 }), locks.withLock("l", () => later(2_500), { maxHoldInMs: 2_000 })]));
    await pass(5_000);
    expect(tooLong.error).toMatchObject({ reason: "maxHold" });
  });

  it("begins for several locks when all of them are held", async () => {
    const server = new FakeLeaseServer();
    const other = await run(locksOn(server).acquire("b"));
    const work = outcomeOf(locksOn(server).withLocks(["a", "b"], () => later(800), { maxHoldInMs: 1_000 }));
    await pass(5_000);
    await run(other.release());
    await pass(3_000);
    expect(work.error).toBeUndefined();
    const tooLong = outcomeOf(locksOn(server).withLocks(["a", "b"], () => later(1_500), { maxHoldInMs: 1_000 }));
    await pass(3_000);
    expect(tooLong.error).toMatchObject({ reason: "maxHold" });
  });

  it("is over by the clock, even if no timer could run", async () => {
    for (const stop of [blockEventLoop, suspendMachine]) {
      const server = new FakeLeaseServer();
      const lock = await run(locksOn(server).acquire("l", { maxHoldInMs: 5_000, durationInSeconds: 60 }));
      stop(6_000);
      expect(() => lock.assertHeld()).toThrow("maxHoldInMs");
      await run(lock.release());
      expect(server.isLeased("locks/l")).toBe(false);
      await pass(2_000);
    }
  });

  it("does not end a lock that is released in time, nor any request of it", async () => {
    const server = new FakeLeaseServer();
    const lock = await run(locksOn(server).acquire("l", { maxHoldInMs: 1_000 }));
    server.latencyInMs = 2_000;
    const released = outcomeOf(lock.release());
    await pass(3_000);
    expect(released.error).toBeUndefined();
    expect(lock.signal.reason).toMatchObject({ name: "AbortError" });
  });

  it("is checked before any request", async () => {
    const server = new FakeLeaseServer();
    for (const maxHoldInMs of [0, -1, NaN, "1" as never]) {
      await expect(locksOn(server).acquire("l", { maxHoldInMs })).rejects.toThrow(/maxHoldInMs/);
    }
    expect(() => new LeaderElection(locksOn(server), "l", () => undefined, { maxHoldInMs: 0 })).toThrow(RangeError);
    expect(server.count()).toBe(0);
  });

  it("limits the term of a leader, and a slot", async () => {
    const server = new FakeLeaseServer();
    const ended: string[] = [];
    const election = new LeaderElection(locksOn(server), "e", ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve())), { maxHoldInMs: 10_000 });
    election.on("ended", ({ reason }) => ended.push(reason));
    await run(election.start());
    await pass(11_000);
    expect(ended).toEqual(["lost"]);
    await run(election.stop(), 2_000);

    const semaphore = new Semaphore(locksOn(server), "s", 2);
    const slot = await run(semaphore.acquire({ maxHoldInMs: 3_000 }));
    await pass(3_000);
    expect(slot.signal.reason).toMatchObject({ reason: "maxHold" });
    await run(slot.release());
  });

  it("limits each reader on its own, and a writer from the moment when the readers have left", async () => {
    const server = new FakeLeaseServer();
    const lock = new ReaderWriterLock(locksOn(server), "rw");
    const patient = await run(lock.acquireReadLock());
    const brief = await run(lock.acquireReadLock({ maxHoldInMs: 3_000 }));
    await pass(2_000);
    const later = await run(lock.acquireReadLock({ maxHoldInMs: 3_000 }));
    await pass(1_100);
    expect(brief.signal.reason).toMatchObject({ reason: "maxHold" });
    patient.assertHeld();
    later.assertHeld();
    await run(Promise.all([brief.release(), later.release()]));

    const writing = outcomeOf(lock.acquireWriteLock({ maxHoldInMs: 5_000 }));
    await pass(20_000);
    expect(writing.at).toBeUndefined();
    await run(patient.release());
    await pass(2_000);
    const writer = writing.value!;
    const since = writing.at!;
    writer.assertHeld();
    const lost = abortTime(writer.signal);
    await pass(5_000);
    expect(lost.at! - since).toBeGreaterThan(4_900);
    expect(lost.at! - since).toBeLessThanOrEqual(5_000);
    await run(writer.release());
    await pass(1_000);
    expect(server.isLeased("locks/rw~2Fwrite")).toBe(false);
  });
});
