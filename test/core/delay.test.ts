import { describe, expect, it, vi } from "vitest";
import { delay } from "../../src/core/deadline.js";
import { fullJitter } from "../../src/core/retry.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("delay", () => {
  it("waits for the time given", async () => {
    const done = vi.fn();
    void delay(100).then(done);
    await vi.advanceTimersByTimeAsync(99);
    expect(done).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toHaveBeenCalled();
  });

  it("leaves no listener behind", async () => {
    const controller = countingController();
    const waiting = delay(100, controller.signal);
    expect(controller.listeners()).toBe(1);
    await vi.advanceTimersByTimeAsync(100);
    await waiting;
    expect(controller.listeners()).toBe(0);
  });

  it("ends at once with the reason of an abort, and leaves no timer", async () => {
    const controller = countingController();
    const reason = new Error("enough");
    const waiting = rejection(delay(100, controller.signal));
    controller.abort(reason);
    expect(await waiting).toBe(reason);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("does not begin on an aborted signal", async () => {
    const reason = new Error("enough");
    expect(await rejection(delay(100, AbortSignal.abort(reason)))).toBe(reason);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("fullJitter", () => {
  it("lies between nothing and the doubled base, capped", () => {
    const random = vi.spyOn(Math, "random");
    random.mockReturnValue(0.999_999);
    expect([0, 1, 2, 6, 7, 50, 2_000].map((retry) => Math.round(fullJitter(retry, 10, 1_000)))).toEqual([10, 20, 40, 640, 1_000, 1_000, 1_000]);
    random.mockReturnValue(0);
    expect(fullJitter(5, 10, 1_000)).toBe(0);
    random.mockReturnValue(0.5);
    expect(fullJitter(5, 10, 1_000)).toBe(160);
    random.mockRestore();
  });
});
