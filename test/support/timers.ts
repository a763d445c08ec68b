import { afterEach, beforeEach, expect, vi } from "vitest";

/** Fake timers for each test of a file, and a check that none is left. */
export function useFakeTimers(): void {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    const left = vi.getTimerCount();
    vi.useRealTimers();
    expect(left).toBe(0);
  });
}

/** Lets all waits pass that the promise depends on. */
export async function inFakeTime<R>(promise: Promise<R>): Promise<R> {
  promise.catch(() => undefined);
  await vi.runAllTimersAsync();
  return promise;
}
