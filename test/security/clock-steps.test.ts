import { afterEach, describe, expect, it, vi } from "vitest";

import { ClaimInbox, enqueue, QueueConsumer, ReaderWriterLock, Semaphore } from "../../src/index.js";
import type { Inbox, MessageContext } from "../../src/index.js";
import { RenewalLoop } from "../../src/core/renewal.js";
import { startStopwatch } from "../../src/core/deadline.js";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import { after, hang, ok, status } from "../lease/fakes/answers.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { ScriptedLeasable } from "../lease/fakes/scripted-leasable.js";
import { abortTime, blockEventLoop, elapsed, outcomeOf, pass, setWallClock, suspendMachine, useFakeClock } from "../lease/fakes/time.js";
import { locksOn, run } from "../lock/support.js";
import { FakeQueue } from "../queue/fakes/fake-queue.js";
import { FakeTable } from "../queue/fakes/fake-table.js";

// A time server that sets the clocks of a fleet forward must not end all its leases at once. A host that pauses a virtual machine looks
// the same to the machine, once its clock was corrected: only the service can tell.

useFakeClock();
afterEach(() => pass(2_100));

const held = async (blob: ScriptedLeasable, options: object = {}) => {
  const lease = (await tryAcquireLease(blob, { durationInSeconds: 15, ...options }))!;
  return { lease, aborted: abortTime(lease.signal) };
};

describe.each([20_000, 86_400_000])("after the wall clock was set forward by %i ms", (step) => {
  it("every lease of a process is confirmed by one renewal, and stays held", async () => {
    const blobs = Array.from({ length: 50 }, () => new ScriptedLeasable({ renew: after(20, ok) }));
    const leases = await Promise.all(blobs.map((blob) => held(blob)));
    await pass(2_500);
    setWallClock(step);
    await pass(1_100);
    expect(leases.map(({ aborted }) => aborted.at)).toEqual(blobs.map(() => undefined));
    expect(blobs.map((blob) => blob.times("renew").length)).toEqual(blobs.map(() => 1));
    for (const { lease } of leases) {
      lease.assertHeld();
      expect(lease.remainingInMs).toBeGreaterThan(12_000);
    }
    await pass(60_000);
    expect(leases.map(({ aborted }) => aborted.at)).toEqual(blobs.map(() => undefined));
    await Promise.all(leases.map(({ lease }) => lease.release()));
  });

  it("a lease counts as not held until the service has confirmed it", async () => {
    const blob = new ScriptedLeasable({ renew: after(500, ok) });
    const { lease } = await held(blob);
    await pass(2_500);
    setWallClock(step);
    expect(lease.remainingInMs).toBe(0);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: "LEASE_LOST", message: expect.stringContaining("the clock of this machine was set forward") as string }));
    await pass(499);
    expect(lease.remainingInMs).toBe(0);
    await pass(2);
    lease.assertHeld();
    expect(blob.times("renew")).toEqual([2_500]);
    await lease.release();
  });

  it("a lease that another client has taken meanwhile is lost with the response: the machine was paused, and does not know", async () => {
    const blob = new ScriptedLeasable({ renew: after(100, status(409, "LeaseIdMismatchWithLeaseOperation")) });
    const { aborted } = await held(blob);
    await pass(2_500);
    setWallClock(step);
    await pass(1_100);
    expect(aborted.at).toBeLessThanOrEqual(3_600);
  });

  it("a lease is lost two seconds after the step was noticed if the service does not respond", async () => {
    const { lease, aborted } = await held(new ScriptedLeasable({ renew: hang }));
    await pass(2_500);
    setWallClock(step);
    expect(lease.remainingInMs).toBe(0);
    await pass(2_300);
    expect(aborted.at).toBeLessThanOrEqual(4_750);
    expect(lease.signal.reason).toMatchObject({ reason: "unreachable" });
  });

  it("a renewal that was sent before does not confirm a lease: it may have been carried out before a pause", async () => {
    const blob = new ScriptedLeasable({ renew: (_, nth) => (nth === 0 ? after(400, ok) : after(100, status(409, "LeaseIdMismatchWithLeaseOperation"))) });
    const { lease, aborted } = await held(blob);
    await pass(5_100);
    setWallClock(step);
    await pass(400);
    expect(lease.remainingInMs).toBe(0);
    await pass(500);
    expect(blob.times("renew")).toHaveLength(2);
    expect(aborted.at).toBeLessThanOrEqual(6_000);
  });

  it("a lease without renewals is lost: nothing would confirm it", async () => {
    const blob = new ScriptedLeasable();
    const { aborted } = await held(blob, { autoRenew: false });
    await pass(2_500);
    setWallClock(step);
    await pass(1_000);
    expect(aborted.at).toBeLessThanOrEqual(3_500);
    expect(blob.times("renew")).toEqual([]);
  });

  it("a lease under a crash guard stays held with its lock", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    const lease = await run(acquireLease(server.blob(), { durationInSeconds: Infinity, crashGuard: locksOn(server) }));
    const aborted = abortTime(lease.signal);
    await pass(2_500);
    // The service's clock is right: only that of this machine was set.
    const now = Date.now.bind(Date);
    vi.spyOn(Date, "now").mockImplementation(() => now() + step + 10_000);
    expect(lease.remainingInMs).toBe(0);
    await pass(2_000);
    expect(aborted.at).toBeUndefined();
    lease.assertHeld();
    await run(lease.release());
  });

  it.each<[string, () => Inbox | undefined]>([["no inbox", () => undefined], ["a ClaimInbox", () => new ClaimInbox(new FakeTable())]])("a handler keeps its message, with %s", async (_, inbox) => {
    const queue = new FakeQueue();
    await enqueue(queue, "payload");
    let context: MessageContext | undefined;
    const completed: unknown[] = [];
    const consumer = new QueueConsumer(queue, async (_payload, given) => {
      context = given;
      await new Promise((resolve) => setTimeout(resolve, 20_000));
      given.assertHeld();
    }, { inbox: inbox(), visibilityTimeoutInSeconds: 15 });
    consumer.on("completed", (event) => completed.push(event));
    await consumer.start();
    await pass(3_000);
    setWallClock(Math.min(step, 60_000));
    expect(() => context!.assertHeld()).toThrow(expect.objectContaining({ code: "MESSAGE_LOST" }));
    await pass(20_000);
    expect(completed).toHaveLength(1);
    const stopping = consumer.stop();
    await pass(60_000);
    await stopping;
  });
});

describe("what is no step", () => {
  it.each<[string, (ms: number) => void]>([["a suspension", suspendMachine], ["a blocked event loop", blockEventLoop]])("%s ends a lease without a question to the service", async (_, act) => {
    const blob = new ScriptedLeasable();
    const { lease } = await held(blob);
    await pass(2_500);
    act(20_000);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ reason: "expired" }));
    expect(lease.signal.aborted).toBe(true);
    expect(blob.times("renew")).toEqual([]);
  });

  it("a suspension that a step follows is not taken for a step", async () => {
    const blob = new ScriptedLeasable();
    const { lease } = await held(blob);
    await pass(2_500);
    suspendMachine(13_000);
    setWallClock(20_000);
    expect(lease.remainingInMs).toBe(0);
    expect(lease.signal.aborted).toBe(true);
  });

  it("a platform that does not know its uptime takes every step for a suspension", async () => {
    vi.spyOn(process, "getBuiltinModule").mockReturnValue(undefined);
    const { lease } = await held(new ScriptedLeasable());
    await pass(2_500);
    setWallClock(20_000);
    expect(lease.remainingInMs).toBe(0);
    expect(lease.signal.aborted).toBe(true);
  });
});

it("never tells more time than the monotonic clock leaves, whatever the others say", async () => {
  let random = 7;
  const next = (max: number): number => (random = (random * 16_807) % 2_147_483_647) % max;
  for (let round = 0; round < 300; round++) {
    const clock = startStopwatch();
    const startedAt = elapsed();
    let lost = false;
    const loop = new RenewalLoop({ renew: () => Promise.resolve({ kind: "failed", error: new Error("503") }), onLost: () => (lost = true) }, clock, 15_000, {
      marginInMs: () => 1_000, renewAfterInMs: () => 5_000, timeoutInMs: () => 2_000, retryAfterInMs: () => 1_000,
    });
    for (let i = 0; i < 6; i++) {
      const act = [setWallClock, suspendMachine, blockEventLoop, (ms: number) => setWallClock(-ms)][next(4)]!;
      act(next(8_000));
      expect(loop.remainingInMs).toBeLessThanOrEqual(Math.max(0, 14_000 - (elapsed() - startedAt)) + 1);
      await pass(next(2_000));
    }
    await pass(15_000);
    expect(lost).toBe(true);
  }
});

describe("while the service has not confirmed a hold after the wall clock was set", () => {
  const busyFor = (server: FakeLeaseServer, ms: number): void => {
    const end = elapsed() + ms;
    server.intercept = (operation) => (operation === "renew" && elapsed() < end ? after(5, status(503, "ServerBusy")) : undefined);
  };

  it("a lock is not handed over: the next holder would begin although another process may have the lock", async () => {
    const server = new FakeLeaseServer();
    const locks = locksOn(server);
    const holder = await run(locks.acquire("a"), 100);
    const next = outcomeOf(locks.acquire("a", { waitInMs: 60_000 }));
    await pass(2_500);
    busyFor(server, 1_500);
    setWallClock(40_000);
    const releasing = run(holder.release(), 200);
    await releasing;
    if (next.value) next.value.assertHeld();
    await pass(10_000);
    next.value!.assertHeld();
    await run(next.value!.release(), 60_000);
  });

  it("a slot of a semaphore is not handed over", async () => {
    const server = new FakeLeaseServer();
    const semaphore = new Semaphore(locksOn(server), "s", 1);
    const holder = await run(semaphore.acquire(), 100);
    const next = outcomeOf(semaphore.acquire({ waitInMs: 60_000 }));
    await pass(2_500);
    busyFor(server, 1_500);
    setWallClock(40_000);
    await run(holder.release(), 200);
    if (next.value) next.value.assertHeld();
    await pass(15_000);
    next.value!.assertHeld();
    await run(next.value!.release(), 60_000);
  });

  it("no reader joins the others of its process", async () => {
    const server = new FakeLeaseServer();
    const lock = new ReaderWriterLock(locksOn(server), "rw");
    const first = await run(lock.acquireReadLock(), 100);
    const aborted = abortTime(first.signal);
    await pass(2_500);
    busyFor(server, 1_000);
    setWallClock(40_000);
    const second = outcomeOf(lock.acquireReadLock({ waitInMs: 30_000 }));
    await pass(500);
    expect(second.value).toBeUndefined();
    await pass(3_000);
    expect(aborted.at).toBeUndefined();
    second.value!.assertHeld();
    await run(Promise.all([first.release(), second.value!.release()]), 60_000);
  });
});
