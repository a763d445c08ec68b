import os from "node:os";
import { afterEach, beforeEach, expect, vi } from "vitest";

let start = 0;
const offsets = { monotonic: 0, suspended: 0 };

/** Milliseconds of the fake clock since the test began. */
export function elapsed(): number {
  return Math.round(performance.now() - start);
}

/** Gives each test a clock of its own, and checks that nothing of it is left when the test is over. */
export function useFakeClock(): void {
  beforeEach(() => {
    vi.useFakeTimers();
    Object.assign(offsets, { monotonic: 0, suspended: 0 });
    const monotonic = performance.now.bind(performance);
    vi.spyOn(performance, "now").mockImplementation(() => monotonic() + offsets.monotonic);
    start = performance.now();
    vi.spyOn(os, "uptime").mockImplementation(() => (performance.now() + offsets.suspended) / 1_000);
    // Jitter, the same in every run.
    let seed = 42;
    vi.spyOn(Math, "random").mockImplementation(() => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647);
  });
  afterEach(() => {
    const left = vi.getTimerCount();
    vi.restoreAllMocks();
    vi.useRealTimers();
    expect(left, "timers left behind").toBe(0);
  });
}

export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

/** The event loop stands still: clocks go on, timers do not. */
export function blockEventLoop(ms: number): void {
  offsets.monotonic += ms;
  vi.setSystemTime(Date.now() + ms);
}

/** The machine sleeps: the wall clock and the uptime have moved when it wakes up, the monotonic clock has not. */
export function suspendMachine(ms: number): void {
  offsets.suspended += ms;
  vi.setSystemTime(Date.now() + ms);
}

/** A time server corrects the clock, or the machine was paused by its host and does not know. */
export function setWallClock(byMs: number): void {
  vi.setSystemTime(Date.now() + byMs);
}

/** An abort controller that tells how many listeners its signal has. */
export function countedAbort(): AbortController & { listeners: () => number } {
  const controller = new AbortController();
  let count = 0;
  const { signal } = controller;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>): void => {
    count++;
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>): void => {
    count--;
    remove(...args);
  };
  return Object.assign(controller, { listeners: () => count });
}

/** What became of a promise so far, without waiting for it. */
export function outcomeOf<R>(promise: Promise<R>): { value?: R; error?: unknown; at?: number } {
  const outcome: { value?: R; error?: unknown; at?: number } = {};
  promise.then(
    (value) => Object.assign(outcome, { value, at: elapsed() }),
    (error: unknown) => Object.assign(outcome, { error, at: elapsed() }),
  );
  return outcome;
}

/** When a signal aborts, on the clock of the test. */
export function abortTime(signal: AbortSignal): { at: number | undefined } {
  const seen: { at: number | undefined } = { at: undefined };
  signal.addEventListener("abort", () => (seen.at = elapsed()));
  return seen;
}
