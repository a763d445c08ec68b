import { describe, expect, it } from "vitest";
import { acquireLease, tryAcquireLease } from "../../src/lease/with-lease.js";
import { startStopwatch } from "../../src/core/deadline.js";
import { leaseAdapterOf } from "../../src/lease/lease-adapters.js";
import { LeaseHandleImpl } from "../../src/lease/lease-handle.js";
import { HeldLease } from "../../src/lease/held-lease.js";
import { after, hang, ok, okAbout, reset, resent, status } from "./fakes/answers.js";
import { FakeLeaseServer } from "./fakes/fake-lease-server.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { blockEventLoop, outcomeOf, pass, useFakeClock } from "./fakes/time.js";

useFakeClock();

const wanted = "22222222-2222-2222-2222-222222222222";
const mismatch = status(409, "LeaseIdMismatchWithLeaseOperation");

it("has the id that was asked for, and a fresh one for each acquisition otherwise", async () => {
  const blob = new ScriptedLeasable();
  const first = (await tryAcquireLease(blob, { leaseId: wanted }))!;
  expect(first.leaseId).toBe(wanted);
  expect(first.conditions).toEqual({ leaseId: wanted });
  await first.release();
  const second = (await tryAcquireLease(blob))!;
  await second.release();
  const third = (await tryAcquireLease(blob))!;
  await third.release();
  expect(new Set(blob.callsOf("acquire").map((call) => call.leaseId)).size).toBe(3);
});

it("shows no signature of its URL", async () => {
  const guard = await acquireLease(new ScriptedLeasable());
  expect(guard.url).toBe("https://account.test/container/blob");
  await guard.release();
});

it("is lost from the start if the lease was lost on the way to it", () => {
  const times = { durationInMs: 15_000, safetyMarginInMs: 0, renewIntervalInMs: 5_000, autoRenew: false };
  const keeper = new HeldLease(leaseAdapterOf(new ScriptedLeasable()), wanted, startStopwatch(), times);
  blockEventLoop(15_000);
  expect(keeper.check()).toBeDefined();
  const guard = new LeaseHandleImpl(keeper, () => Promise.resolve());
  expect(guard.signal.aborted).toBe(true);
  expect(guard.signal.reason).toBe(keeper.check());
});

describe("renew", () => {
  it("extends a lease that is not renewed by itself", async () => {
    const blob = new ScriptedLeasable();
    const guard = (await tryAcquireLease(blob, { durationInSeconds: 15, autoRenew: false }))!;
    await pass(10_000);
    await guard.renew();
    expect(guard.remainingInMs).toBeCloseTo(14_250, 6);
    await pass(10_000);
    guard.assertHeld();
    await guard.release();
    expect(blob.times("renew")).toEqual([10_000]);
  });

  it("rejects with what went wrong while the lease is still held", async () => {
    const blob = new ScriptedLeasable({ renew: status(503) });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: 15, autoRenew: false }))!;
    await expect(guard.renew()).rejects.toMatchObject({ statusCode: 503 });
    guard.assertHeld();
    await guard.release();
  });

  it("rejects with the loss if that is the answer", async () => {
    const blob = new ScriptedLeasable({ renew: mismatch });
    const guard = (await tryAcquireLease(blob, { autoRenew: false }))!;
    await expect(guard.renew()).rejects.toMatchObject({ name: "LeaseLostError", reason: "stolen" });
    expect(guard.signal.aborted).toBe(true);
  });

  it("is unreachable, not expired, if it is under way at the deadline", async () => {
    const blob = new ScriptedLeasable({ renew: hang });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: 15, autoRenew: false }))!;
    await pass(14_000);
    const renewal = outcomeOf(guard.renew());
    await pass(250);
    expect(renewal.error).toMatchObject({ name: "LeaseLostError", reason: "unreachable" });
    expect(renewal.at).toBe(14_250);
    await guard.release();
  });

  it("joins the renewal that is under way", async () => {
    const blob = new ScriptedLeasable({ renew: after(100, ok) });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: 30 }))!;
    await pass(10_050);
    const renewals = Promise.all([guard.renew(), guard.renew()]);
    await pass(50);
    await renewals;
    expect(blob.times("renew")).toEqual([10_000]);
    await guard.release();
  });

  it("refuses after the release", async () => {
    const blob = new ScriptedLeasable();
    const guard = (await tryAcquireLease(blob))!;
    await guard.release();
    await expect(guard.renew()).rejects.toThrow("was released");
    await expect(guard.change()).rejects.toThrow("was released");
    expect(() => guard.assertHeld()).toThrow("was released");
    expect(guard.remainingInMs).toBe(0);
    expect(blob.times("renew")).toEqual([]);
  });
});

describe("change", () => {
  it("goes on with the new id", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    const promise = acquireLease(server.blob());
    await pass(1);
    const guard = await promise;
    const old = guard.leaseId;
    const change = guard.change(wanted);
    await pass(1);
    await change;
    expect(guard.leaseId).toBe(wanted);
    expect(old).not.toBe(wanted);
    await pass(60_000);
    guard.assertHeld();
    const release = guard.release();
    await pass(1);
    await release;
    expect(server.isLeased()).toBe(false);
  });

  it("does not collide with a renewal that is due while it is under way", async () => {
    const server = new FakeLeaseServer();
    server.addBlob();
    const promise = acquireLease(server.blob());
    await pass(1);
    const guard = await promise;
    await pass(9_500);
    server.latencyInMs = 1_000;
    const change = outcomeOf(guard.change(wanted)); // takes effect at 9.5 s, is answered at 10.5 s
    await pass(10_000);
    expect(change.error).toBeUndefined();
    guard.assertHeld();
    expect(server.requests.filter((request) => request.operation === "renew").map((request) => request.leaseId)).toEqual([wanted]);
    server.latencyInMs = 1;
    const release = guard.release();
    await pass(1);
    await release;
  });

  it("waits for the renewal that is under way", async () => {
    const blob = new ScriptedLeasable({ renew: after(500, ok) });
    const guard = (await tryAcquireLease(blob))!;
    await pass(10_000);
    const change = guard.change(wanted);
    await pass(500);
    await change;
    expect(blob.times("change")).toEqual([10_500]);
    await guard.release();
  });

  it("is waited for by a release, which then gives the right id back", async () => {
    const blob = new ScriptedLeasable({ change: after(500, ok) });
    const guard = (await tryAcquireLease(blob))!;
    const change = guard.change(wanted);
    const release = guard.release();
    await pass(500);
    await Promise.all([change, release]);
    expect(blob.callsOf("release")).toMatchObject([{ leaseId: wanted, at: 500 }]);
  });

  it("is lost if the service says so", async () => {
    const blob = new ScriptedLeasable({ change: mismatch });
    const guard = (await tryAcquireLease(blob))!;
    await expect(guard.change(wanted)).rejects.toMatchObject({ reason: "stolen" });
    expect(guard.signal.aborted).toBe(true);
  });

  it.each([
    ["its answer was lost", reset],
    ["it was sent twice and the second found the id changed", resent(mismatch)],
    ["it was answered 500, which may mean anything", status(500)],
  ])("finds out by a renewal that it took effect if %s", async (_, answer) => {
    const blob = new ScriptedLeasable({ change: answer });
    const guard = (await tryAcquireLease(blob))!;
    await guard.change(wanted);
    expect(guard.leaseId).toBe(wanted);
    expect(blob.callsOf("renew")).toMatchObject([{ leaseId: wanted }]);
    await guard.release();
  });

  it.each([
    ["409", mismatch],
    ["200 about another lease", okAbout("33333333-3333-3333-3333-333333333333")],
  ])("keeps the old id if the renewal with the new one is answered %s", async (_, answer) => {
    const blob = new ScriptedLeasable({ change: reset, renew: [answer, ok] });
    const guard = (await tryAcquireLease(blob))!;
    const old = guard.leaseId;
    await expect(guard.change(wanted)).rejects.toThrow("ECONNRESET");
    expect(guard.leaseId).toBe(old);
    guard.assertHeld();
    await guard.release();
  });

  it("rejects with the loss if the deadline passes meanwhile", async () => {
    const blob = new ScriptedLeasable({ change: after(300, ok) });
    const guard = (await tryAcquireLease(blob, { durationInSeconds: 15, autoRenew: false }))!;
    await pass(14_100);
    const change = outcomeOf(guard.change(wanted));
    await pass(300);
    expect(guard.signal.aborted).toBe(true);
    expect(change.error).toBeDefined();
  });

  it("that nothing was heard of is found out by the next renewal", async () => {
    const blob = new ScriptedLeasable({ change: reset, renew: [reset, mismatch, ok] });
    const guard = (await tryAcquireLease(blob))!;
    const old = guard.leaseId;
    await expect(guard.change(wanted)).rejects.toThrow("ECONNRESET");
    await pass(10_000);
    expect(blob.callsOf("renew").map(({ leaseId }) => leaseId)).toEqual([wanted, old, wanted]);
    guard.assertHeld();
    expect(guard.leaseId).toBe(wanted);
    await guard.release();
    expect(blob.callsOf("release")).toMatchObject([{ leaseId: wanted }]);
  });

  it("that nothing was heard of is found out by the release", async () => {
    const blob = new ScriptedLeasable({ change: after(500, reset), renew: reset, release: [mismatch, ok] });
    const guard = (await tryAcquireLease(blob))!;
    const old = guard.leaseId;
    const change = outcomeOf(guard.change(wanted));
    const release = outcomeOf(guard.release());
    await pass(1_000);
    expect(change.error).toMatchObject({ message: "ECONNRESET" });
    expect(release).toMatchObject({ at: 500 });
    expect(release.error).toBeUndefined();
    expect(blob.callsOf("release").map(({ leaseId }) => leaseId)).toEqual([old, wanted]);
  });
});
