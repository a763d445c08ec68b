import { describe, expect, it, vi } from "vitest";
import { RenewalLoop } from "../../src/core/renewal.js";
import type { Renewal, RenewalTimes } from "../../src/core/renewal.js";
import { startStopwatch } from "../../src/core/deadline.js";
import { deferred } from "../fakes/deferred.js";
import { blockEventLoop, countedAbort, elapsed, outcomeOf, pass, setWallClock, suspendMachine, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

const durationInMs = 30_000;

/** Lost 28.5 s after the last renewal, renewed every 10 s, tried again after 1 s, each renewal within 5 s. */
const times: RenewalTimes = {
  marginInMs: () => 1_500,
  renewAfterInMs: () => 10_000,
  timeoutInMs: () => 5_000,
  retryAfterInMs: () => 1_000,
};

/** Renews as the test says, and records when that happened and when the hold was lost. */
class Hold {
  readonly loop: RenewalLoop;
  readonly renewedAt: number[] = [];
  readonly timeouts: number[] = [];
  readonly losses: { at: number; error: unknown; expired: boolean }[] = [];
  renew: () => Promise<Renewal> = () => Promise.resolve(renewed());

  constructor(duration = durationInMs, overrides: Partial<RenewalTimes> = {}, clock = startStopwatch()) {
    const renewable = {
      renew: (timeoutInMs: number): Promise<Renewal> => {
        this.renewedAt.push(elapsed());
        this.timeouts.push(timeoutInMs);
        return this.renew();
      },
      onLost: (error: unknown, expired: boolean): void => void this.losses.push({ at: elapsed(), error, expired }),
    };
    this.loop = new RenewalLoop(renewable, clock, duration, { ...times, ...overrides });
  }
}

function renewed(claimDurationInMs = durationInMs): Renewal {
  return { kind: "renewed", clock: startStopwatch(), claimDurationInMs };
}

const busy = new Error("busy");
const failed: Renewal = { kind: "failed", error: busy };
const never = (): Promise<never> => new Promise(() => undefined);

describe("a renewal loop", () => {
  it("renews at the time that is due after the last renewal, for as long as it runs", async () => {
    const hold = new Hold();
    await pass(9_999);
    expect(hold.renewedAt).toEqual([]);
    await pass(25_001);
    expect(hold.renewedAt).toEqual([10_000, 20_000, 30_000]);
    expect(hold.losses).toEqual([]);
    expect(hold.loop.isHeld()).toBe(true);
    hold.loop.stop();
  });

  it("counts from before the request was sent that established the hold, not from its response", async () => {
    const clock = startStopwatch();
    await pass(4_000);
    const hold = new Hold(durationInMs, {}, clock);
    expect(hold.loop.remainingInMs).toBeCloseTo(24_500, 6);
    await pass(6_000);
    expect(hold.renewedAt).toEqual([10_000]);
    hold.loop.stop();
  });

  it("counts from before a renewal was sent, not from its response", async () => {
    const hold = new Hold();
    hold.renew = async () => {
      const renewal = renewed();
      await new Promise((resolve) => setTimeout(resolve, 4_000));
      return renewal;
    };
    await pass(14_000);
    expect(hold.loop.remainingInMs).toBeCloseTo(24_500, 6);
    await pass(6_000);
    expect(hold.renewedAt).toEqual([10_000, 20_000]);
    await pass(4_000);
    hold.loop.stop();
  });

  it("knows at any moment how long it holds, less the margin", async () => {
    const hold = new Hold();
    expect(hold.loop.remainingInMs).toBeCloseTo(28_500, 6);
    await pass(9_000);
    expect(hold.loop.remainingInMs).toBeCloseTo(19_500, 6);
    expect(hold.loop.unconfirmedForInMs).toBeCloseTo(9_000, 6);
    await pass(1_000);
    expect(hold.loop.remainingInMs).toBeCloseTo(28_500, 6);
    hold.loop.stop();
    await pass(1_000);
    expect(hold.loop.remainingInMs).toBe(0);
    expect(hold.loop.untilDeadlineInMs).toBeCloseTo(27_500, 6);
  });

  it("asks for the time of one renewal with what is left and the duration", async () => {
    const timeoutInMs = vi.fn(() => 0.5);
    const hold = new Hold(durationInMs, { timeoutInMs });
    await pass(10_000);
    expect(timeoutInMs).toHaveBeenCalledExactlyOnceWith(expect.closeTo(18_500, 6), durationInMs);
    expect(hold.timeouts).toEqual([1]);
    hold.loop.stop();
  });

  it("uses the duration that the last renewal brought", async () => {
    const hold = new Hold(durationInMs, { marginInMs: (ms) => ms / 10, renewAfterInMs: (ms) => ms / 2 });
    hold.renew = () => Promise.resolve(renewed(4_000));
    await pass(15_000);
    expect(hold.loop.remainingInMs).toBeCloseTo(3_600, 6);
    await pass(2_000);
    expect(hold.renewedAt).toEqual([15_000, 17_000]);
    hold.loop.stop();
  });

  it("is on time even if that is due within a second", async () => {
    const hold = new Hold(durationInMs, { renewAfterInMs: () => 200 });
    await pass(700);
    expect(hold.renewedAt).toEqual([200, 400, 600]);
    hold.loop.stop();
  });

  it("renews one at a time: who asks meanwhile waits for the one in flight", async () => {
    const hold = new Hold();
    const response = deferred<Renewal>();
    hold.renew = () => response.promise;
    const both = [hold.loop.renew(), hold.loop.renew()];
    await pass(15_000);
    expect(hold.renewedAt).toEqual([0]);
    const renewal = renewed();
    response.resolve(renewal);
    expect(await Promise.all(both)).toEqual([renewal, renewal]);
    hold.loop.stop();
  });

  it("renews at once when it is asked to, and counts from there", async () => {
    const hold = new Hold();
    await pass(3_000);
    expect(await hold.loop.renew()).toMatchObject({ kind: "renewed" });
    await pass(10_000);
    expect(hold.renewedAt).toEqual([3_000, 13_000]);
    hold.loop.stop();
  });
});

describe("a renewal that fails", () => {
  it.each([
    ["with a result", () => Promise.resolve(failed)],
    ["with an error", () => Promise.reject(busy)],
  ])("%s is tried again, until the deadline", async (_, renew) => {
    const hold = new Hold();
    hold.renew = renew;
    await pass(60_000);
    expect(hold.renewedAt).toEqual(Array.from({ length: 19 }, (_, index) => 10_000 + index * 1_000));
    expect(hold.losses).toEqual([{ at: 28_500, error: busy, expired: true }]);
  });

  it("and is followed by one that succeeds keeps the hold, and forgets the error", async () => {
    const hold = new Hold();
    hold.renew = () => Promise.resolve(hold.renewedAt.length === 1 ? failed : renewed());
    await pass(11_000);
    expect(hold.renewedAt).toEqual([10_000, 11_000]);
    hold.renew = never;
    hold.loop.letExpire();
    await pass(28_500);
    expect(hold.losses).toEqual([{ at: 39_500, error: undefined, expired: true }]);
  });

  it("does not shorten what is held", async () => {
    const hold = new Hold();
    hold.renew = () => Promise.resolve(failed);
    await pass(10_000);
    expect(hold.loop.remainingInMs).toBeCloseTo(18_500, 6);
    expect(hold.loop.isHeld()).toBe(true);
    hold.loop.stop();
  });
});

describe("the deadline", () => {
  it("is reported a margin before the end, once, while a renewal hangs, with the missing response as the reason", async () => {
    const hold = new Hold();
    hold.renew = never;
    await pass(28_499);
    expect(hold.losses).toEqual([]);
    expect(hold.loop.remainingInMs).toBeCloseTo(1, 6);
    await pass(31_501);
    expect(hold.losses).toEqual([{ at: 28_500, error: expect.objectContaining({ name: "RequestTimeoutError" }) as unknown, expired: true }]);
    expect(hold.loop.isHeld()).toBe(false);
  });

  it.each(["renewed", "last"] as const)("is never undone by a renewal (%s) that succeeds too late", async (kind) => {
    const hold = new Hold();
    const late = deferred<Renewal>();
    hold.renew = () => late.promise;
    await pass(10_000);
    const result = outcomeOf(hold.loop.renew());
    await pass(18_500);
    late.resolve({ kind, clock: startStopwatch(), claimDurationInMs: durationInMs });
    await pass(0);
    expect(hold.loop.isHeld()).toBe(false);
    expect(hold.loop.remainingInMs).toBe(0);
    expect(result.value).toMatchObject({ kind: "failed" });
    await pass(60_000);
    expect(hold.renewedAt).toEqual([10_000]);
    expect(hold.losses).toHaveLength(1);
  });

  it("counts although the event loop is blocked, for who asks and for a response that arrives first", async () => {
    const asked = new Hold();
    await pass(5_000);
    blockEventLoop(23_500);
    expect(asked.loop.isHeld()).toBe(false);
    expect(asked.losses).toEqual([{ at: 28_500, error: undefined, expired: true }]);
    const responded = new Hold();
    responded.renew = () => new Promise((resolve) => setTimeout(() => resolve(renewed()), 100));
    await pass(10_050);
    blockEventLoop(20_000);
    await pass(50);
    expect(responded.losses).toHaveLength(1);
    expect(responded.loop.isHeld()).toBe(false);
  });

  it("starts no renewal when the timer of the renewal is the first to fire after it", async () => {
    const hold = new Hold();
    await pass(9_500);
    blockEventLoop(30_000);
    await pass(1_000);
    expect(hold.renewedAt).toEqual([]);
    expect(hold.losses).toHaveLength(1);
    expect(await hold.loop.renew()).toMatchObject({ kind: "failed" });
    expect(hold.renewedAt).toEqual([]);
  });
});

describe("a suspension of the machine", () => {
  it("past the deadline is reported within a second of its end", async () => {
    const hold = new Hold();
    await pass(2_300);
    suspendMachine(300_000);
    expect(hold.losses).toEqual([]);
    await pass(1_000);
    expect(hold.losses).toEqual([{ at: expect.any(Number) as number, error: undefined, expired: true }]);
    expect(hold.losses[0]!.at).toBeLessThanOrEqual(3_300);
  });

  it("past the deadline is reported within a second even while a renewal hangs", async () => {
    const hold = new Hold();
    hold.renew = never;
    await pass(12_300);
    suspendMachine(300_000);
    await pass(1_000);
    expect(hold.losses[0]!.at).toBeLessThanOrEqual(13_300);
  });

  it("past the time of the next renewal is followed by that within a second", async () => {
    const hold = new Hold();
    await pass(2_300);
    suspendMachine(15_000);
    await pass(1_000);
    expect(hold.renewedAt).toHaveLength(1);
    expect(hold.renewedAt[0]).toBeLessThanOrEqual(3_300);
    hold.loop.stop();
  });

  it("is not hidden by a wall clock that is set back", async () => {
    const hold = new Hold();
    hold.renew = never;
    await pass(5_000);
    setWallClock(-3_600_000);
    await pass(60_000);
    expect(hold.losses).toMatchObject([{ at: 28_500 }]);
  });
});

describe("a hold that depends on another", () => {
  it("is lost with it, with its reason", async () => {
    const hold = new Hold();
    const dependency = countedAbort();
    hold.loop.dependOn({ signal: dependency.signal, remainingInMs: Infinity });
    await pass(5_000);
    const reason = new Error("the lock is lost");
    dependency.abort(reason);
    expect(hold.losses).toEqual([{ at: 5_000, error: reason, expired: false }]);
    expect(dependency.listeners()).toBe(0);
  });

  it("is lost at once if the other is lost already", () => {
    const hold = new Hold();
    hold.loop.dependOn({ signal: AbortSignal.abort(), remainingInMs: 0 });
    expect(hold.losses).toMatchObject([{ at: 0, expired: false }]);
  });

  it("remains no longer than the other, by the clock", async () => {
    const hold = new Hold();
    const otherUntil = elapsed() + 4_200;
    const dependency = {
      signal: new AbortController().signal,
      get remainingInMs() {
        return otherUntil - elapsed();
      },
    };
    hold.loop.dependOn(dependency);
    expect(hold.loop.remainingInMs).toBe(4_200);
    await pass(5_000);
    expect(hold.losses).toMatchObject([{ expired: true }]);
    expect(hold.losses[0]!.at).toBeLessThanOrEqual(5_000);
  });

  it("leaves no listener on the other when it is stopped", () => {
    const hold = new Hold();
    const dependency = countedAbort();
    hold.loop.dependOn({ signal: dependency.signal, remainingInMs: Infinity });
    expect(dependency.listeners()).toBe(1);
    hold.loop.stop();
    expect(dependency.listeners()).toBe(0);
    dependency.abort();
    expect(hold.losses).toEqual([]);
  });
});

describe("a renewal that was made outside of the loop", () => {
  it("takes the place of the next one", async () => {
    const hold = new Hold();
    await pass(8_000);
    hold.loop.adopt(renewed(60_000));
    expect(hold.loop.remainingInMs).toBeCloseTo(58_500, 6);
    await pass(9_999);
    expect(hold.renewedAt).toEqual([]);
    await pass(1);
    expect(hold.renewedAt).toEqual([18_000]);
    hold.loop.stop();
  });

  it("and is for a short time is watched from then on", async () => {
    const hold = new Hold();
    hold.renew = never;
    await pass(8_000);
    hold.loop.adopt(renewed(1_600));
    await pass(1_000);
    expect(hold.losses).toMatchObject([{ at: 8_100, expired: true }]);
  });

  it("and was the last one ends the renewals, and the end is still reported", async () => {
    const hold = new Hold();
    await pass(8_000);
    hold.loop.adopt({ kind: "last", clock: startStopwatch(), claimDurationInMs: durationInMs });
    await pass(60_000);
    expect(hold.renewedAt).toEqual([]);
    expect(hold.losses).toEqual([{ at: 36_500, error: undefined, expired: true }]);
  });

  it("and says that it is lost is the loss, at once", async () => {
    const hold = new Hold();
    await pass(8_000);
    hold.loop.adopt({ kind: "lost", error: busy });
    expect(hold.losses).toEqual([{ at: 8_000, error: busy, expired: false }]);
    await pass(60_000);
    expect(hold.renewedAt).toEqual([]);
    expect(hold.losses).toHaveLength(1);
  });

  it("and failed is tried again after the usual wait, and is the reason of an expiry", async () => {
    const hold = new Hold();
    hold.renew = never;
    await pass(8_000);
    hold.loop.adopt(failed);
    await pass(1_000);
    expect(hold.renewedAt).toEqual([9_000]);
    await pass(30_000);
    expect(hold.losses).toEqual([{ at: 28_500, error: busy, expired: true }]);
  });

  it("changes nothing after the loss, or after the loop was stopped", async () => {
    const lost = new Hold();
    lost.loop.adopt({ kind: "lost", error: busy });
    lost.loop.adopt(renewed());
    expect(lost.loop.isHeld()).toBe(false);
    const stopped = new Hold();
    stopped.loop.stop();
    stopped.loop.adopt({ kind: "lost", error: busy });
    stopped.loop.adopt(renewed(60_000));
    expect(stopped.loop.untilDeadlineInMs).toBeCloseTo(28_500, 6);
    await pass(60_000);
    expect([lost.losses.length, stopped.losses.length]).toEqual([1, 0]);
    expect([...lost.renewedAt, ...stopped.renewedAt]).toEqual([]);
  });
});

describe("a renewal by the loop that says", () => {
  it("that it is lost is the loss, at once", async () => {
    const hold = new Hold();
    hold.renew = () => Promise.resolve({ kind: "lost", error: busy });
    await pass(60_000);
    expect(hold.renewedAt).toEqual([10_000]);
    expect(hold.losses).toEqual([{ at: 10_000, error: busy, expired: false }]);
  });

  it("that it is the last one ends the renewals", async () => {
    const hold = new Hold();
    hold.renew = () => Promise.resolve({ kind: "last", clock: startStopwatch(), claimDurationInMs: durationInMs });
    await pass(60_000);
    expect(hold.renewedAt).toEqual([10_000]);
    expect(hold.losses).toEqual([{ at: 38_500, error: undefined, expired: true }]);
  });
});

describe("letExpire", () => {
  it("ends the renewals, and the end is still reported", async () => {
    const hold = new Hold();
    await pass(9_000);
    hold.loop.letExpire();
    await pass(60_000);
    expect(hold.renewedAt).toEqual([]);
    expect(hold.losses).toEqual([{ at: 28_500, error: undefined, expired: true }]);
  });

  it("does not disturb a renewal in flight", async () => {
    const hold = new Hold();
    const response = deferred<Renewal>();
    hold.renew = () => response.promise;
    await pass(10_000);
    hold.loop.letExpire();
    await pass(1_000);
    response.resolve(renewed());
    await pass(60_000);
    expect(hold.renewedAt).toEqual([10_000]);
    expect(hold.losses).toEqual([{ at: 39_500, error: undefined, expired: true }]);
  });
});

describe("stop", () => {
  it("ends renewals and reports, and leaves no timer, even while a renewal is in flight", async () => {
    const hold = new Hold();
    const response = deferred<Renewal>();
    hold.renew = () => response.promise;
    await pass(10_000);
    hold.loop.stop();
    expect(vi.getTimerCount()).toBe(0);
    response.resolve(renewed());
    await pass(60_000);
    expect(vi.getTimerCount()).toBe(0);
    expect(hold.renewedAt).toEqual([10_000]);
    expect(hold.losses).toEqual([]);
    expect(hold.loop.isHeld()).toBe(false);
  });

  it("leaves a renewal that its owner asks for meanwhile its result, but does not resume", async () => {
    const hold = new Hold();
    hold.loop.stop();
    const renewal = renewed(60_000);
    hold.renew = () => Promise.resolve(renewal);
    expect(await hold.loop.renew()).toBe(renewal);
    expect(hold.loop.isHeld()).toBe(false);
    expect(hold.loop.untilDeadlineInMs).toBeCloseTo(28_500, 6);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("leaves no timer after a loss", async () => {
    const hold = new Hold();
    hold.renew = never;
    await pass(28_500);
    expect(hold.losses).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("a hold without an end", () => {
  it("needs no timer if it is not renewed, and is held until it is stopped", async () => {
    const hold = new Hold(Infinity, { marginInMs: () => 0, renewAfterInMs: () => Infinity, retryAfterInMs: () => Infinity });
    expect(vi.getTimerCount()).toBe(0);
    expect(hold.loop.remainingInMs).toBe(Infinity);
    await pass(1_000);
    suspendMachine(86_400_000);
    expect(hold.loop.isHeld()).toBe(true);
    expect(await hold.loop.renew()).toMatchObject({ kind: "renewed" });
    hold.loop.stop();
    expect(hold.loop.isHeld()).toBe(false);
    expect(hold.losses).toEqual([]);
  });

  it("is renewed if that is wanted, with one timer for that alone", async () => {
    const hold = new Hold(Infinity);
    hold.renew = () => Promise.resolve(renewed(Infinity));
    const timers = vi.spyOn(globalThis, "setTimeout");
    await pass(10_000);
    expect(hold.renewedAt).toEqual([10_000]);
    expect(timers.mock.calls.length).toBeLessThanOrEqual(3);
    hold.loop.stop();
  });
});
