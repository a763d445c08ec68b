import { describe, expect, it } from "vitest";
import { tryAcquireLease } from "../../src/lease/with-lease.js";
import type { LeaseHandle } from "../../src/lease/lease-handle.js";
import type { LeaseLostError } from "../../src/errors.js";
import { after, deaf, deafHang, hang, ok, okAbout, reset, status } from "./fakes/answers.js";
import type { Answer } from "./fakes/answers.js";
import { ScriptedLeasable } from "./fakes/scripted-leasable.js";
import { abortTime, elapsed, pass, useFakeClock } from "./fakes/time.js";

/**
 * A lease of 30 s: renewed every 10 s, tried again 1 s after a failure, each request cut off after 5 s, lost 28.5 s
 * after the last renewal that succeeded was sent.
 */
const other = "11111111-1111-1111-1111-111111111111";
const table: readonly { answer: string; given: Answer; lost?: LeaseLostError["reason"]; retryAfter?: number }[] = [
  { answer: "200", given: ok },
  { answer: "200 about another lease", given: okAbout(other), lost: "stolen" },
  { answer: "409 LeaseIdMismatchWithLeaseOperation", given: status(409, "LeaseIdMismatchWithLeaseOperation"), lost: "stolen" },
  { answer: "409 LeaseAlreadyPresent", given: status(409, "LeaseAlreadyPresent"), lost: "stolen" },
  { answer: "409 LeaseIsBrokenAndCannotBeRenewed", given: status(409, "LeaseIsBrokenAndCannotBeRenewed"), lost: "broken" },
  { answer: "409 LeaseIsBreakingAndCannotBeAcquired", given: status(409, "LeaseIsBreakingAndCannotBeAcquired"), lost: "broken" },
  { answer: "409 LeaseNotPresentWithLeaseOperation", given: status(409, "LeaseNotPresentWithLeaseOperation"), lost: "broken" },
  { answer: "409 of another kind", given: status(409, "ContainerBeingDeleted"), retryAfter: 1_000 },
  { answer: "412 LeaseLost", given: status(412, "LeaseLost"), lost: "broken" }, // before it can have expired
  { answer: "412 LeaseIdMissing", given: status(412, "LeaseIdMissing"), lost: "stolen" },
  // A lost lease is concluded from a code of a lease only.
  { answer: "412 without a code", given: status(412), retryAfter: 1_000 },
  { answer: "412 ConditionNotMet", given: status(412, "ConditionNotMet"), retryAfter: 1_000 },
  { answer: "412 of an unknown kind", given: status(412, "CodeOfTheFuture"), retryAfter: 1_000 },
  { answer: "404", given: status(404, "BlobNotFound"), lost: "deleted" },
  { answer: "404 of the container", given: status(404, "ContainerNotFound"), lost: "deleted" },
  { answer: "403", given: status(403, "AuthorizationFailure"), retryAfter: 1_000 },
  { answer: "408", given: status(408), retryAfter: 1_000 },
  { answer: "429", given: status(429), retryAfter: 1_000 },
  { answer: "500", given: status(500, "InternalError"), retryAfter: 1_000 },
  { answer: "503", given: status(503, "ServerBusy"), retryAfter: 1_000 },
  { answer: "a reset connection", given: reset, retryAfter: 1_000 },
  { answer: "a request that hangs", given: hang, retryAfter: 6_000 },
  { answer: "a request that hangs and ignores its abort", given: deafHang, retryAfter: 6_000 },
];

useFakeClock();

async function hold(blob: ScriptedLeasable): Promise<{ guard: LeaseHandle; aborted: { at: number | undefined } }> {
  const guard = (await tryAcquireLease(blob, { durationInSeconds: 30 }))!;
  return { guard, aborted: abortTime(guard.signal) };
}

function expectLost(guard: LeaseHandle, reason: string): void {
  expect(guard.signal.reason).toMatchObject({ name: "LeaseLostError", code: "LEASE_LOST", reason, url: "https://account.test/container/blob" });
  expect(() => guard.assertHeld()).toThrow(guard.signal.reason as Error);
  expect(guard.remainingInMs).toBe(0);
}

describe.each(table)("when a renewal is answered by $answer", ({ given, lost, retryAfter }) => {
  const held = lost === undefined;

  it(held ? "goes on if it was the first" : `is ${lost} at once if it was the first`, async () => {
    const blob = new ScriptedLeasable({ renew: [given, ok] });
    const { guard, aborted } = await hold(blob);
    await pass(10_000);
    if (lost !== undefined) {
      expect(aborted.at).toBe(10_000);
      expectLost(guard, lost);
      await pass(60_000);
      expect(blob.times("renew"), "no request after the loss").toEqual([10_000]);
      await guard.release();
      expect(blob.times("release"), "nothing to be released").toEqual([]);
      return;
    }
    await pass(50_000);
    const second = 10_000 + (retryAfter ?? 10_000);
    expect(blob.times("renew").slice(0, 3)).toEqual([10_000, second, second + 10_000]);
    expect(aborted.at).toBeUndefined();
    guard.assertHeld();
    await guard.release();
  });

  it(held ? "goes on if it came after others" : `is ${lost} at once if it came after others`, async () => {
    const blob = new ScriptedLeasable({ renew: [ok, status(503), given, ok] });
    const { guard, aborted } = await hold(blob);
    await pass(21_000);
    if (lost !== undefined) {
      expect(aborted.at).toBe(21_000);
      expectLost(guard, lost);
      return;
    }
    await pass(50_000);
    expect(blob.times("renew").slice(0, 4)).toEqual([10_000, 20_000, 21_000, 21_000 + (retryAfter ?? 10_000)]);
    expect(aborted.at).toBeUndefined();
    await guard.release();
  });

  it("is lost at the deadline if the answer comes after it", async () => {
    const blob = new ScriptedLeasable({ renew: (at) => (at < 28_000 ? status(503) : deaf(after(1_000, given))) });
    const { guard, aborted } = await hold(blob);
    await pass(28_499);
    guard.assertHeld();
    expect(guard.remainingInMs).toBeCloseTo(1, 6);
    await pass(1);
    expect(aborted.at).toBe(28_500);
    expectLost(guard, "unreachable");
    const { reason } = guard.signal as { reason: unknown };
    await pass(60_000);
    expect(guard.signal.reason).toBe(reason);
    expect(blob.times("renew").at(-1)).toBe(28_000);
    expect(() => guard.assertHeld()).toThrow();
  });
});

describe.each(table.filter(({ retryAfter }) => retryAfter !== undefined))("when all renewals are answered by $answer", ({ given, retryAfter }) => {
  it("is lost at the deadline, and not before", async () => {
    const blob = new ScriptedLeasable({ renew: [ok, given] });
    const { guard, aborted } = await hold(blob);
    await pass(60_000);
    expect(aborted.at).toBe(10_000 + 28_500);
    expectLost(guard, "unreachable");
    const times = blob.times("renew");
    expect(times.slice(0, 3)).toEqual([10_000, 20_000, 20_000 + retryAfter!]);
    expect(elapsed()).toBe(60_000);
  });
});

it("says that a lease which nobody tried to renew has expired", async () => {
  const blob = new ScriptedLeasable();
  const guard = (await tryAcquireLease(blob, { durationInSeconds: 15, autoRenew: false }))!;
  const aborted = abortTime(guard.signal);
  await pass(60_000);
  expect(aborted.at).toBe(14_250);
  expectLost(guard, "expired");
  expect(blob.times("renew")).toEqual([]);
});

it("counts from the moment at which the request was sent, not from its answer", async () => {
  const blob = new ScriptedLeasable({ acquire: after(4_000, ok), renew: (at) => (at < 15_000 ? after(3_000, ok) : hang) });
  const promise = tryAcquireLease(blob, { durationInSeconds: 30 });
  await pass(4_000);
  const guard = (await promise)!;
  const aborted = abortTime(guard.signal);
  expect(guard.remainingInMs).toBeCloseTo(24_500, 6);
  await pass(9_000);
  expect(blob.times("renew")).toEqual([10_000]);
  expect(guard.remainingInMs).toBeCloseTo(25_500, 6);
  await pass(60_000);
  expect(aborted.at).toBe(38_500);
  expect(blob.times("renew").slice(0, 2)).toEqual([10_000, 20_000]);
});

it("keeps an infinite lease through any trouble, and still notices that it was broken", async () => {
  const blob = new ScriptedLeasable({ renew: (at) => (at < 600_000 ? hang : status(409, "LeaseIsBrokenAndCannotBeRenewed")) });
  const guard = (await tryAcquireLease(blob, { durationInSeconds: Infinity }))!;
  const aborted = abortTime(guard.signal);
  await pass(599_000);
  guard.assertHeld();
  expect(guard.remainingInMs).toBe(Infinity);
  await pass(60_000);
  expect(aborted.at).toBeGreaterThan(600_000);
  expectLost(guard, "broken");
});

it("honours the interval and the margin that it is given", async () => {
  const blob = new ScriptedLeasable({ renew: [ok, ok, hang] });
  const guard = (await tryAcquireLease(blob, { durationInSeconds: 60, renewIntervalInMs: 5_000, safetyMarginInMs: 20_000 }))!;
  const aborted = abortTime(guard.signal);
  await pass(100_000);
  expect(blob.times("renew").slice(0, 4)).toEqual([5_000, 10_000, 15_000, 26_000]);
  expect(aborted.at).toBe(10_000 + 40_000);
});
