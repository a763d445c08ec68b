import { afterEach, describe, expect, it, vi } from "vitest";
import {
  clockDriven,
  Deadline,
  delay,
  eventLoopTurn,
  nativeSignal,
  onAbort,
  RequestTimeoutError,
  startGrace,
  startIdleTimer,
  startStopwatch,
  StopSignal,
  wallClockOffset,
  watchEventLoop,
  withinGrace,
  withinMoment,
} from "../../src/core/deadline.js";
import type { AbortSignalLike } from "../../src/index.js";
import { deferred } from "../fakes/deferred.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();
afterEach(() => {
  vi.unstubAllGlobals();
});

const enough = new Error("enough");

describe("a stop signal", () => {
  it("has not aborted at first, and afterwards has an AbortError as its reason, the first one", () => {
    const signal = new StopSignal();
    expect([signal.aborted, signal.reason]).toEqual([false, undefined]);
    signal.abort();
    const { reason } = signal;
    expect(reason).toBeInstanceOf(DOMException);
    expect(reason).toMatchObject({ name: "AbortError", message: "The operation was aborted." });
    signal.abort();
    expect([signal.aborted, signal.reason]).toEqual([true, reason]);
    expect(signal.reason).toBe(reason);
  });

  it("calls each listener once, in order, but not one that was removed", () => {
    const signal = new StopSignal();
    const called: string[] = [];
    const removed = (): void => void called.push("removed");
    signal.onAbort(() => called.push("first"));
    const off = signal.onAbort(() => called.push("off"));
    signal.addEventListener("abort", removed);
    signal.addEventListener("abort", () => called.push("last"));
    off();
    signal.removeEventListener("abort", removed);
    signal.abort();
    signal.abort();
    expect(called).toEqual(["first", "last"]);
  });

  it("is listened to by onAbort without a listener of its own for all users", () => {
    const signal = new StopSignal();
    const adding = vi.spyOn(signal, "addEventListener");
    const listener = vi.fn();
    onAbort(signal, listener);
    expect(adding).not.toHaveBeenCalled();
    signal.abort();
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it.each(["before", "after"])("has one native signal, which aborts with its reason, also if it is asked for %s", (when) => {
    const signal = new StopSignal();
    if (when === "before") expect(signal.native.aborted).toBe(false);
    signal.abort();
    expect(signal.native).toBe(signal.native);
    expect(signal.native).toBeInstanceOf(AbortSignal);
    expect(signal.native.reason).toBe(signal.reason);
    expect(nativeSignal(signal)).toBe(signal.native);
  });

  it("is not what clients get: a native signal is its own", () => {
    const { signal } = new AbortController();
    expect(nativeSignal(signal)).toBe(signal);
  });
});

describe("onAbort", () => {
  it("leaves the signal alone after it has aborted", () => {
    const controller = countingController();
    const off = onAbort(controller.signal, () => undefined);
    controller.abort();
    const removing = vi.spyOn(controller.signal, "removeEventListener");
    off();
    expect(removing).not.toHaveBeenCalled();
  });

  it("removes the listener that it has added, by its type", () => {
    const { signal } = new AbortController();
    const [adding, removing] = [vi.spyOn(signal, "addEventListener"), vi.spyOn(signal, "removeEventListener")];
    onAbort(signal, () => undefined)();
    expect(removing.mock.calls).toEqual([adding.mock.calls[0]]);
    expect(adding.mock.calls[0]![0]).toBe("abort");
  });
});

describe("a clock-driven signal", () => {
  it("asks the clock before it says that it has not aborted, and not afterwards", () => {
    const controller = new AbortController();
    let isOver = false;
    const check = vi.fn(() => isOver && controller.abort(enough));
    const signal = clockDriven(controller.signal, check);
    expect(signal).toBe(controller.signal);
    expect(signal.aborted).toBe(false);
    expect(() => signal.throwIfAborted()).not.toThrow();
    expect(check).toHaveBeenCalledTimes(2);
    isOver = true;
    expect(() => signal.throwIfAborted()).toThrow(enough);
    expect(signal.aborted).toBe(true);
    expect(check).toHaveBeenCalledTimes(3);
  });

  it("can be driven by another clock later, as a signal that is handed on", () => {
    const controller = new AbortController();
    const again = vi.fn();
    const signal = clockDriven(clockDriven(controller.signal, () => undefined), again);
    expect(signal.aborted).toBe(false);
    expect(again).toHaveBeenCalledTimes(1);
  });
});

describe("startIdleTimer", () => {
  it("fires once, and does not keep the process alive", () => {
    const onTime = vi.fn();
    const unref = vi.fn();
    const setTimer = globalThis.setTimeout;
    vi.stubGlobal("setTimeout", (...args: Parameters<typeof setTimer>) => Object.assign(setTimer(...args), { unref }));
    startIdleTimer(100, onTime);
    expect(unref).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(99);
    expect(onTime).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(onTime).toHaveBeenCalledTimes(1);
  });

  it("can be stopped, and needs no unref, which browsers do not have", () => {
    const onTime = vi.fn();
    const clear = vi.fn();
    vi.stubGlobal("setTimeout", () => 7);
    vi.stubGlobal("clearTimeout", clear);
    startIdleTimer(100, onTime)();
    expect(clear).toHaveBeenCalledWith(7);
    expect(onTime).not.toHaveBeenCalled();
  });
});

describe("a grace time", () => {
  it("ends after its time, and leaves no listener", () => {
    const caller = countingController();
    const onEnd = vi.fn();
    startGrace(1_000, caller.signal, onEnd);
    vi.advanceTimersByTime(999);
    expect(onEnd).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(onEnd.mock.calls).toEqual([["time"]]);
    expect(caller.listeners()).toBe(0);
  });

  it("ends 200 ms after an abort, if that is earlier, and leaves no timer", () => {
    const caller = countingController();
    const onEnd = vi.fn();
    startGrace(1_000, caller.signal, onEnd);
    caller.abort();
    vi.advanceTimersByTime(199);
    expect(onEnd).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(onEnd.mock.calls).toEqual([["abort"]]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("begins with an aborted signal as with an abort", () => {
    const onEnd = vi.fn();
    startGrace(1_000, AbortSignal.abort(), onEnd);
    vi.advanceTimersByTime(200);
    expect(onEnd.mock.calls).toEqual([["abort"]]);
  });

  it("can be stopped, with its timers and its listener", () => {
    const caller = countingController();
    const [early, late] = [vi.fn(), vi.fn()];
    startGrace(1_000, caller.signal, early)();
    expect([vi.getTimerCount(), caller.listeners()]).toEqual([0, 0]);
    const stop = startGrace(1_000, caller.signal, late);
    caller.abort();
    stop();
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(2_000);
    expect([early, late].map(({ mock }) => mock.calls.length)).toEqual([0, 0]);
  });

  it("lets a clean-up settle that ends in time, and leaves nothing behind", async () => {
    const caller = countingController();
    await withinGrace(Promise.resolve(), 1_000, caller.signal);
    expect([vi.getTimerCount(), caller.listeners()]).toEqual([0, 0]);
    expect(await rejection(withinGrace(Promise.reject(enough), 1_000, caller.signal))).toBe(enough);
    expect([vi.getTimerCount(), caller.listeners()]).toEqual([0, 0]);
  });

  it("does not wait for a clean-up that takes longer, whose failure is observed", async () => {
    const cleanUp = deferred();
    const done = vi.fn();
    void withinGrace(cleanUp.promise, 1_000, undefined).then(done);
    await vi.advanceTimersByTimeAsync(999);
    expect(done).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toHaveBeenCalledTimes(1);
    cleanUp.reject(enough);
    await vi.advanceTimersByTimeAsync(1);
  });

  it("of a moment is 200 ms", async () => {
    const done = vi.fn();
    void withinMoment(new Promise(() => undefined)).then(done);
    await vi.advanceTimersByTimeAsync(199);
    expect(done).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toHaveBeenCalledTimes(1);
  });
});

describe("the event loop", () => {
  it("has had its turn when eventLoopTurn resolves", async () => {
    const turned = vi.fn();
    void eventLoopTurn().then(turned);
    await Promise.resolve();
    expect(turned).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(0);
    expect(turned).toHaveBeenCalledTimes(1);
  });

  it("is watched every 5 ms: what is measured is the time since its last turn", () => {
    const watch = watchEventLoop();
    vi.advanceTimersByTime(12);
    expect(watch.forInMs()).toBeCloseTo(2, 6);
    vi.advanceTimersByTime(1_003);
    expect(watch.forInMs()).toBeCloseTo(0, 6);
    watch.stop();
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(10);
    expect(watch.forInMs()).toBeCloseTo(10, 6);
  });
});

describe("a deadline", () => {
  const timeout = new Error("the time is over");
  const timeoutReason = (): Error => timeout;

  it("can be brought forward, and not put off, by callers with less time", () => {
    const deadline = new Deadline(1_000, timeoutReason);
    vi.advanceTimersByTime(100);
    deadline.shortenTo(2_000);
    deadline.shortenTo(900);
    expect(vi.getTimerCount()).toBe(1);
    deadline.shortenTo(300);
    expect(vi.getTimerCount()).toBe(1);
    deadline.shortenTo(500);
    vi.advanceTimersByTime(299);
    expect(deadline.isAborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect([deadline.isAborted, deadline.signal.reason]).toEqual([true, timeout]);
  });

  it("keeps its timer if it would be over at the same time", () => {
    const deadline = new Deadline(1_000, timeoutReason);
    const clear = vi.spyOn(globalThis, "clearTimeout");
    deadline.shortenTo(1_000);
    expect(clear).not.toHaveBeenCalled();
    clear.mockRestore();
    deadline.dispose();
  });

  it("of Infinity can be brought forward, but not once it was disposed of", () => {
    const deadline = new Deadline(Infinity, timeoutReason);
    deadline.shortenTo(10);
    expect(vi.getTimerCount()).toBe(1);
    expect(deadline.isDisposed).toBe(false);
    deadline.dispose();
    expect(deadline.isDisposed).toBe(true);
    deadline.shortenTo(5);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("is put off while the work may continue, and asks again", () => {
    const deadline = new Deadline(100, timeoutReason);
    const more = [50, 30, 0];
    deadline.postponeInMs = () => more.shift()!;
    vi.advanceTimersByTime(179);
    expect([deadline.isAborted, more]).toEqual([false, [0]]);
    vi.advanceTimersByTime(1);
    expect([deadline.isAborted, more]).toEqual([true, []]);
  });

  it("uses another controller, also if it has aborted before", () => {
    const [early, late] = [new AbortController(), new AbortController()];
    const deadline = new Deadline(100, timeoutReason);
    deadline.use(early);
    expect(deadline.signal).toBe(early.signal);
    expect(early.signal.aborted).toBe(false);
    vi.advanceTimersByTime(100);
    expect(early.signal.reason).toBe(timeout);
    deadline.use(late);
    expect(late.signal.reason).toBe(timeout);
  });

  it("that was aborted leaves its reason alone", async () => {
    const deadline = new Deadline(100, timeoutReason);
    deadline.abort(enough);
    const disposing = vi.spyOn(deadline, "dispose");
    deadline.abort(timeout);
    expect(disposing).not.toHaveBeenCalled();
    expect(await rejection(deadline.race(new Promise(() => undefined)))).toBe(enough);
  });
});

it("delay and onAbort take signals that are not native", async () => {
  const listeners = new Set<() => void>();
  const signal = { aborted: false, addEventListener: (_: string, listener: () => void) => void listeners.add(listener), removeEventListener: (_: string, listener: () => void) => void listeners.delete(listener) } as AbortSignalLike & { aborted: boolean };
  const waiting = rejection(delay(100, signal));
  signal.aborted = true;
  for (const listener of listeners) listener();
  expect(await waiting).toMatchObject({ name: "AbortError", message: "The operation was aborted." });
  expect(listeners.size).toBe(0);
});

describe("clocks", () => {
  it("tell the monotonic time alone, too", () => {
    vi.advanceTimersByTime(50);
    const elapsedInMs = startStopwatch();
    vi.advanceTimersByTime(100);
    vi.setSystemTime(Date.now() + 5_000);
    expect(elapsedInMs()).toBeCloseTo(5_100, 6);
    expect(elapsedInMs.monotonic?.()).toBeCloseTo(100, 6);
  });

  it("have an offset from the uptime of the machine, where there is one", () => {
    const getBuiltinModule = vi.fn(() => ({ uptime: () => 250 }));
    vi.stubGlobal("process", { getBuiltinModule });
    vi.setSystemTime(1_000_000);
    expect(wallClockOffset()).toBe(750_000);
    expect(getBuiltinModule).toHaveBeenCalledWith("node:os");
  });

  it.each([
    ["no process", undefined],
    ["an older Node", {}],
    ["no such module", { getBuiltinModule: () => undefined }],
    ["no uptime", { getBuiltinModule: () => ({}) }],
    ["an uptime that may not be read", { getBuiltinModule: () => ({ uptime: () => { throw enough; } }) }],
  ])("have none with %s", (_, process) => {
    vi.stubGlobal("process", process);
    expect(wallClockOffset()).toBeUndefined();
  }); // prettier-ignore
});

it("a RequestTimeoutError names the time, rounded, and what did not happen", () => {
  expect(new RequestTimeoutError(1_234.6)).toMatchObject({ name: "RequestTimeoutError", message: "no response within 1235 ms", timeoutInMs: 1_234.6 });
  expect(new RequestTimeoutError(10, "no turn").message).toBe("no turn within 10 ms");
});
