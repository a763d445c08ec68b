import { expect, it } from "vitest";
import { tryAcquireLease } from "../../src/lease/with-lease.js";
import type { TryAcquireLeaseOptions } from "../../src/lease/lease-options.js";
import { after, hang, ok } from "./fakes/answers.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { abortTime, blockEventLoop, elapsed, pass, setWallClock, suspendMachine, useFakeClock } from "./fakes/time.js";

useFakeClock();

async function hold(blob: ScriptedLeasable, options: TryAcquireLeaseOptions = {}) {
  const guard = (await tryAcquireLease(blob, { durationInSeconds: 30, ...options }))!;
  return { guard, aborted: abortTime(guard.signal) };
}

it("knows after a blocked event loop that the lease is lost, before any timer has run", async () => {
  const blob = new ScriptedLeasable();
  const { guard } = await hold(blob);
  await pass(5_000);
  blockEventLoop(23_499);
  guard.assertHeld();
  expect(guard.remainingInMs).toBeCloseTo(1, 6);
  blockEventLoop(1);
  expect(guard.remainingInMs).toBe(0);
  expect(() => guard.assertHeld()).toThrow(expect.objectContaining({ reason: "expired" }));
  expect(guard.signal.aborted).toBe(true);
});

it("aborts the signal by itself after the event loop was blocked", async () => {
  const blob = new ScriptedLeasable();
  const { guard, aborted } = await hold(blob);
  await pass(4_500);
  blockEventLoop(60_000);
  expect(guard.signal.aborted).toBe(false);
  await pass(500); // at the next look at the clock, which was due long ago in a real event loop
  expect(aborted.at).toBe(65_000);
});

it("does not renew behind anybody's back when the timer of the renewal is the first to run", async () => {
  const blob = new ScriptedLeasable();
  const { guard } = await hold(blob, { renewIntervalInMs: 100 });
  await pass(150);
  blockEventLoop(30_000);
  await pass(50);
  expect(guard.signal.aborted).toBe(true);
  expect(blob.times("renew")).toEqual([100]);
});

it("does not take the answer to a renewal that arrives before any timer could tell of the deadline", async () => {
  const blob = new ScriptedLeasable({ renew: after(200, ok) });
  const { guard, aborted } = await hold(blob);
  await pass(10_100);
  blockEventLoop(30_000);
  await pass(100);
  expect(aborted.at).toBe(40_200);
  expect(guard.signal.reason).toMatchObject({ reason: "unreachable" });
  await guard.release();
});

it("notices within a second that the machine was suspended past the lease", async () => {
  const blob = new ScriptedLeasable();
  const { guard, aborted } = await hold(blob);
  await pass(2_000);
  suspendMachine(30_000);
  expect(guard.signal.aborted).toBe(false);
  await pass(1_000);
  expect(aborted.at).toBeLessThanOrEqual(3_000);
  expect(guard.signal.reason).toMatchObject({ reason: "expired" });
});

it("knows of a suspended machine at once when it is asked", async () => {
  const { guard } = await hold(new ScriptedLeasable());
  await pass(2_000);
  suspendMachine(26_499);
  expect(guard.remainingInMs).toBeCloseTo(1, 6);
  suspendMachine(1);
  expect(() => guard.assertHeld()).toThrow("not renewed in time");
});

it("is not fooled by a wall clock that is set back", async () => {
  const blob = new ScriptedLeasable({ renew: hang });
  const { guard, aborted } = await hold(blob);
  await pass(5_000);
  setWallClock(-3_600_000);
  expect(guard.remainingInMs).toBeCloseTo(23_500, 6);
  await pass(55_000);
  expect(aborted.at).toBe(28_500);
});

it("throws away the lease whose acquisition a suspended machine slept through", async () => {
  const blob = new ScriptedLeasable({ acquire: (_at, nth) => (nth === 0 ? { ...ok, afterInMs: 1_000 } : ok) });
  const promise = tryAcquireLease(blob, { durationInSeconds: 30 });
  await pass(500);
  suspendMachine(60_000);
  await pass(500);
  const guard = (await promise)!;
  expect(blob.times("acquire")).toHaveLength(2);
  guard.assertHeld();
  expect(guard.remainingInMs).toBeGreaterThan(28_000);
  expect(elapsed()).toBe(1_000);
  await guard.release();
});

it("is right at any time of a lease that is renewed, and of one that is not", async () => {
  const blob = new ScriptedLeasable({ renew: (at) => (at < 30_000 ? ok : hang) });
  const { guard } = await hold(blob);
  for (let at = 0; at < 60_000; at += 500) {
    const lastRenewal = Math.min(20_000, Math.floor(at / 10_000) * 10_000);
    const left = Math.max(0, lastRenewal + 28_500 - at);
    expect(guard.remainingInMs, `at ${at}`).toBeCloseTo(left, 3);
    if (left > 0) guard.assertHeld();
    else expect(() => guard.assertHeld()).toThrow();
    await pass(500);
  }
});
