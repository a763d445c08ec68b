import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { PollPace } from "../../src/queue/poll-pace.js";

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const paceOf = (): PollPace => new PollPace({ minPollInMs: 100, maxPollInMs: 10_000, concurrency: 16 }, () => undefined, () => undefined);

it("polls when messages come back that were given back, and not later because the queue was empty meanwhile", () => {
  const pace = paceOf();
  for (let i = 0; i < 10; i++) pace.received(0);
  expect(pace.received(0)).toBe(10_000);
  pace.expectMessages(2_500);
  pace.expectMessages(7_000);
  expect(pace.received(0)).toBe(3_000);
  vi.advanceTimersByTime(3_000);
  expect(pace.received(0)).toBe(10_000);
});

it("waits a little if most of the messages were given back, as their groups have too many", () => {
  const pace = paceOf();
  expect(pace.received(16)).toBe(0);
  pace.admitted(5, 11);
  expect(pace.received(16)).toBe(100);
  pace.admitted(11, 5);
  expect(pace.received(16)).toBe(0);
});
