import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { acquireLease, BlobLocks, breakLease, LeaderElection, ReaderWriterLock, Semaphore, tryAcquireLease, WorkBalancer } from "../../src/index.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { RecordedMetrics } from "../support/metrics.js";
import type { Attributes } from "../support/metrics.js";
import { candidate } from "./candidate.js";
import { later, locksOn, run } from "./support.js";

useFakeClock();

let metrics: RecordedMetrics;
beforeEach(() => {
  metrics = new RecordedMetrics();
});
afterEach(() => metrics.stop());

const kind = (name: string, rest: Attributes = {}): Attributes => ({ "azsc.target.kind": name, ...rest });

function withBlob(): FakeLeaseServer {
  const server = new FakeLeaseServer();
  server.addBlob();
  return server;
}

describe("a lease", () => {
  it("is held until it is released; its wait and its hold are measured", async () => {
    const server = withBlob();
    const lease = await run(acquireLease(server.blob()));
    expect(await metrics.values("lease.held")).toEqual([[kind("lease"), 1]]);
    await pass(10_000);
    await run(lease.release());
    expect(await metrics.values("lease.held")).toEqual([[kind("lease"), 0]]);
    expect(await metrics.values("lease.wait_time")).toEqual([[kind("lease", { "azsc.outcome": "acquired" }), 1]]);
    const [[, heldForInSeconds]] = (await metrics.sums("lease.hold_time")) as [[Attributes, number]];
    expect(heldForInSeconds).toBeGreaterThanOrEqual(10);
    expect(heldForInSeconds).toBeLessThan(11);
    expect(await metrics.values("lease.lost")).toEqual([]);
  });

  it("that is lost is counted once, with the reason", async () => {
    const server = withBlob();
    const lease = await run(acquireLease(server.blob(), { durationInSeconds: 15 }));
    await run(breakLease(server.blob()));
    await pass(15_000);
    expect(lease.signal.aborted).toBe(true);
    await run(lease.release().catch(() => undefined));
    expect(await metrics.values("lease.lost")).toEqual([[kind("lease", { "azsc.reason": "broken" }), 1]]);
    expect(await metrics.values("lease.held")).toEqual([[kind("lease"), 0]]);
    expect(await metrics.values("lease.hold_time")).toEqual([[kind("lease"), 1]]);
  });

  it("that another client has is taken; a caller that leaves is aborted", async () => {
    const server = withBlob();
    const held = await run(acquireLease(server.blob()));
    const controller = new AbortController();
    expect(await run(tryAcquireLease(server.blob()))).toBeUndefined();
    const waiting = outcomeOf(acquireLease(server.blob(), { abortSignal: controller.signal }));
    const impatient = outcomeOf(acquireLease(server.blob(), { waitInMs: 1_000 }));
    await pass(2_000);
    controller.abort();
    await pass(10);
    expect([waiting.error, impatient.error]).toMatchObject([{ name: "AbortError" }, { code: "LEASE_UNAVAILABLE" }]);
    await run(held.release());
    expect(await metrics.values("lease.wait_time")).toEqual([
      [kind("lease", { "azsc.outcome": "acquired" }), 1],
      [kind("lease", { "azsc.outcome": "taken" }), 2],
      [kind("lease", { "azsc.outcome": "aborted" }), 1],
    ]);
  });

  it("that was acquired before the metrics were on does not make what is held negative", async () => {
    const server = withBlob();
    metrics.stop();
    const lease = await run(acquireLease(server.blob()));
    metrics = new RecordedMetrics();
    await run(lease.release());
    expect(await metrics.values("lease.held")).toEqual([]);
  });
});

describe("locks", () => {
  it("are told apart by their helper; a hand-over within the process is counted", async () => {
    const locks = new BlobLocks(new FakeLeaseServer().container());
    await run(Promise.all([1, 2, 3].map(() => locks.withLock("a", () => later(10)))), 1_000);
    await run(new ReaderWriterLock(locks, "rw").withReadLock(() => later(10)), 1_000);
    await run(new ReaderWriterLock(locks, "rw").withWriteLock(() => later(10)), 1_000);
    expect(await metrics.values("lease.hold_time")).toEqual([
      [kind("lock"), 3],
      [kind("readerWriterLock"), 2],
    ]);
    expect(await metrics.values("lease.handovers")).toEqual([[kind("lock"), 2]]);
    expect((await metrics.values("lease.held")).map(([, value]) => value)).toEqual([0, 0]);
  });

  it("of a semaphore count as its slots, and not as locks as well", async () => {
    const semaphore = new Semaphore(new BlobLocks(new FakeLeaseServer().container()), "exports", 2);
    const slots = await run(Promise.all([semaphore.acquire(), semaphore.acquire()]), 1_000);
    expect(await metrics.values("lease.held")).toEqual([[kind("semaphore"), 2]]);
    const third = outcomeOf(semaphore.acquire());
    await pass(1_000);
    await run(Promise.all(slots.map((slot) => slot.release())), 1_000);
    await run((third.value as (typeof slots)[0]).release());
    expect(await metrics.values("lease.wait_time")).toEqual([[kind("semaphore", { "azsc.outcome": "acquired" }), 3]]);
    expect(await metrics.values("lease.handovers")).toEqual([[kind("semaphore"), 1]]);
    expect(await metrics.values("lease.held")).toEqual([[kind("semaphore"), 0]]);
  });
});

describe("an election", () => {
  it("shows who leads, from start to stop, also if the metrics come later; its terms are measured", async () => {
    const server = new FakeLeaseServer();
    metrics.stop();
    const first = candidate(server);
    void first.election.start();
    await pass(20);
    metrics = new RecordedMetrics();
    const leader = { "azsc.name": "scheduler" };
    expect(await metrics.values("election.leader")).toEqual([[leader, 1]]);
    const second = new LeaderElection(locksOn(server), "other", () => undefined);
    void second.start();
    await run(first.election.resign());
    expect(await metrics.values("election.leader")).toEqual([
      [leader, 0],
      [{ "azsc.name": "other" }, 1],
    ]);
    await run(Promise.all([first.election.stop(), second.stop()]));
    expect(await metrics.values("term.duration")).toEqual([
      [kind("election", { "azsc.outcome": "resigned" }), 1],
      [kind("election", { "azsc.outcome": "stopped" }), 1],
    ]);
  });

  it("and a balancer have terms and locks of their own kinds", async () => {
    const locks = locksOn(new FakeLeaseServer());
    const balancer = new WorkBalancer(locks, "feeds", 2, () => undefined);
    void balancer.start();
    await pass(15_000);
    expect(balancer.ownedShards).toEqual([0, 1]);
    // Two shards, and the worker itself.
    expect(await metrics.values("lease.held")).toEqual([[kind("balancer"), 3]]);
    await run(balancer.stop(), 1_000);
    expect(await metrics.values("term.duration")).toEqual([[kind("balancer", { "azsc.outcome": "stopped" }), 2]]);
  });
});
