import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { ServerClock } from "../../../src/testing/file-share/server-clock.js";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

it("runs with time, and moves on demand", () => {
  const clock = new ServerClock();
  const start = clock.now();
  vi.advanceTimersByTime(1_000);
  expect(clock.now() - start).toBe(1_000);
  clock.advance(5_000);
  expect(clock.now() - start).toBe(6_000);
  expect(() => clock.advance(-1)).toThrow(RangeError);
});

it("stands still while it is paused, but for what it is advanced", () => {
  const clock = new ServerClock();
  const start = clock.now();
  clock.pause();
  vi.advanceTimersByTime(1_000);
  clock.pause();
  expect(clock.now() - start).toBe(0);
  clock.advance(15_000);
  expect(clock.now() - start).toBe(15_000);
  clock.resume();
  clock.resume();
  expect(clock.now() - start).toBe(15_000);
  vi.advanceTimersByTime(1_000);
  expect(clock.now() - start).toBe(16_000);
});
