import { describe, expect, it, vi } from "vitest";
import { abortReason, Deadline, delay, isAborted, linkSignals, onAbort, startTimer, throwIfAborted } from "../../src/core/deadline.js";
import type { AbortSignalLike } from "../../src/index.js";
import { deferred } from "../fakes/deferred.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

/** As the SDK's own, which knows no reason. */
const plain: AbortSignalLike = { aborted: true, addEventListener: () => undefined, removeEventListener: () => undefined };

const enough = new Error("enough");

describe("abortReason", () => {
  it("is the caller's own", () => {
    expect(abortReason(AbortSignal.abort(enough))).toBe(enough);
  });

  it("is an AbortError where the signal has none", () => {
    expect(abortReason(plain)).toMatchObject({ name: "AbortError" });
  });
});

it("throwIfAborted throws the reason of an aborted signal, and nothing otherwise", () => {
  expect(() => throwIfAborted(undefined)).not.toThrow();
  expect(() => throwIfAborted(new AbortController().signal)).not.toThrow();
  expect(() => throwIfAborted(AbortSignal.abort(enough))).toThrow(enough);
});

it("isAborted is false without a signal", () => {
  expect([undefined, new AbortController().signal, plain].map(isAborted)).toEqual([false, false, true]);
});

describe("onAbort", () => {
  it("calls the listener at once on an aborted signal, once", () => {
    const listener = vi.fn();
    onAbort(plain, listener)();
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it("calls the listener when the signal aborts, unless it was removed", () => {
    const controller = countingController();
    const [kept, removed] = [vi.fn(), vi.fn()];
    onAbort(controller.signal, kept);
    onAbort(controller.signal, removed)();
    controller.abort();
    expect(kept).toHaveBeenCalledTimes(1);
    expect(removed).not.toHaveBeenCalled();
  });

  it("adds one listener to the signal for all its users, and removes it with the last of them", () => {
    const controller = countingController();
    const added = vi.spyOn(controller.signal, "addEventListener");
    const listeners = Array.from({ length: 50 }, () => vi.fn());
    const offs = listeners.map((listener) => onAbort(controller.signal, listener));
    expect(added).toHaveBeenCalledTimes(1);
    for (const off of offs.slice(1)) off();
    expect(controller.listeners()).toBe(1);
    offs[0]!();
    expect(controller.listeners()).toBe(0);
    const again = vi.fn();
    onAbort(controller.signal, again);
    controller.abort();
    expect(again).toHaveBeenCalledTimes(1);
    expect(listeners.every((listener) => listener.mock.calls.length === 0)).toBe(true);
  });

  it("keeps the listener of a user that came later when an earlier user removes its own twice", () => {
    const controller = countingController();
    const off = onAbort(controller.signal, () => undefined);
    off();
    const later = [vi.fn(), vi.fn()];
    onAbort(controller.signal, later[0]!);
    off();
    onAbort(controller.signal, later[1]!);
    expect(controller.listeners()).toBe(1);
    controller.abort();
    for (const listener of later) expect(listener).toHaveBeenCalledTimes(1);
  });

  it("calls all listeners in order, except those that another listener removed", () => {
    const controller = countingController();
    const called: string[] = [];
    let off: (() => void) | undefined = undefined;
    onAbort(controller.signal, () => {
      called.push("first");
      (off as (() => void) | undefined)?.();
    });
    off = onAbort(controller.signal, () => called.push("removed"));
    onAbort(controller.signal, () => called.push("last"));
    controller.abort();
    expect(called).toEqual(["first", "last"]);
    expect(controller.listeners()).toBe(0);
  });

  it("does without a signal", () => {
    expect(() => onAbort(undefined, () => undefined)()).not.toThrow();
  });
});

describe("linkSignals", () => {
  it("aborts with the reason of the first signal that aborts", () => {
    const [first, second] = [new AbortController(), new AbortController()];
    const { controller } = linkSignals(undefined, first.signal, second.signal);
    expect(controller.signal.aborted).toBe(false);
    second.abort(enough);
    first.abort(new Error("too late"));
    expect(controller.signal.reason).toBe(enough);
  });

  it("is aborted from the start if one of the signals is", () => {
    const { controller } = linkSignals(new AbortController().signal, AbortSignal.abort(enough));
    expect(controller.signal.reason).toBe(enough);
  });

  it("gives an AbortError as the reason if the signal has none", () => {
    expect(linkSignals(plain).controller.signal.reason).toMatchObject({ name: "AbortError" });
  });

  it("can be aborted by its owner, which does not abort the signals", () => {
    const caller = new AbortController();
    const { controller, unlink } = linkSignals(caller.signal);
    controller.abort(enough);
    expect(caller.signal.aborted).toBe(false);
    unlink();
  });

  it("leaves no listener once it is unlinked, and does not abort any more", () => {
    const callers = [countingController(), countingController()];
    const { controller, unlink } = linkSignals(...callers.map(({ signal }) => signal));
    expect(callers.map(({ listeners }) => listeners())).toEqual([1, 1]);
    unlink();
    expect(callers.map(({ listeners }) => listeners())).toEqual([0, 0]);
    callers[0]!.abort();
    expect(controller.signal.aborted).toBe(false);
  });
});

/** 2^31 ms, the first time that `setTimeout` does not take. */
const tooLongInMs = 2 ** 31;

describe("startTimer", () => {
  it.each([0, 1, 1_000, tooLongInMs - 1, tooLongInMs, tooLongInMs + 1, 3 * tooLongInMs, 365 * 86_400_000])("fires after %i ms, and not before", (ms) => {
    const onTime = vi.fn();
    startTimer(ms, onTime);
    if (ms > 0) vi.advanceTimersByTime(ms - 1);
    expect(onTime).not.toHaveBeenCalled();
    vi.advanceTimersByTime(ms > 0 ? 1 : 0);
    expect(onTime).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(tooLongInMs);
    expect(onTime).toHaveBeenCalledTimes(1);
  });

  it("never fires after Infinity, and needs no timer for that", () => {
    const onTime = vi.fn();
    const stop = startTimer(Infinity, onTime);
    expect(vi.getTimerCount()).toBe(0);
    stop();
    expect(onTime).not.toHaveBeenCalled();
  });

  it.each([500, 1.5 * tooLongInMs])("can be stopped at any time, of %i ms", (ms) => {
    for (const passedInMs of [0, ms - 1]) {
      const onTime = vi.fn();
      const stop = startTimer(ms, onTime);
      vi.advanceTimersByTime(passedInMs);
      stop();
      expect(vi.getTimerCount()).toBe(0);
      vi.advanceTimersByTime(2 * tooLongInMs);
      expect(onTime).not.toHaveBeenCalled();
    }
  });
});

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
    const waiting = rejection(delay(100, controller.signal));
    controller.abort(enough);
    expect(await waiting).toBe(enough);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("does not begin on an aborted signal", async () => {
    expect(await rejection(delay(100, AbortSignal.abort(enough)))).toBe(enough);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("a deadline", () => {
  const timeout = new Error("the time is over");
  const timeoutReason = (): Error => timeout;
  const never = new Promise<never>(() => undefined);

  it("aborts its signal with the reason when the time is over, and not before", async () => {
    const reason = vi.fn(timeoutReason);
    const deadline = new Deadline(1_000, reason);
    await vi.advanceTimersByTimeAsync(999);
    expect(deadline.signal.aborted).toBe(false);
    expect(reason).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(deadline.signal.reason).toBe(timeout);
  });

  it.each([tooLongInMs, 365 * 86_400_000])("of %i ms, more than setTimeout takes, is over when it should be", async (ms) => {
    const deadline = new Deadline(ms, timeoutReason);
    await vi.advanceTimersByTimeAsync(ms - 1);
    expect(deadline.signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(deadline.signal.aborted).toBe(true);
  });

  it("of Infinity needs no timer, and is ended by its signals alone", () => {
    const caller = countingController();
    const deadline = new Deadline(Infinity, timeoutReason, caller.signal);
    expect(vi.getTimerCount()).toBe(0);
    caller.abort(enough);
    expect(deadline.signal.reason).toBe(enough);
  });

  it("ends with the reason of the first of its signals that aborts, and leaves no timer and no listener", () => {
    const callers = [countingController(), countingController()];
    const deadline = new Deadline(1_000, timeoutReason, undefined, ...callers.map(({ signal }) => signal));
    callers[1]!.abort(enough);
    callers[0]!.abort(new Error("too late"));
    expect(deadline.signal.reason).toBe(enough);
    expect(vi.getTimerCount()).toBe(0);
    expect(callers.map(({ listeners }) => listeners())).toEqual([0, 0]);
  });

  it.each([
    ["before", 0],
    ["after", 1],
  ])("is over from the start with an aborted signal %s one that is not, and leaves nothing behind", async (_, place) => {
    const live = countingController();
    const signals: AbortSignal[] = [live.signal];
    signals.splice(place, 0, AbortSignal.abort(enough));
    const deadline = new Deadline(1_000, timeoutReason, ...signals);
    expect(deadline.signal.reason).toBe(enough);
    expect(vi.getTimerCount()).toBe(0);
    expect(live.listeners()).toBe(0);
    expect(await rejection(deadline.race(never))).toBe(enough);
  });

  it("gives an AbortError as the reason if the signal has none", () => {
    expect(new Deadline(Infinity, timeoutReason, plain).signal.reason).toMatchObject({ name: "AbortError" });
  });

  it("leaves no timer and no listener when it is disposed of, and never aborts after that", async () => {
    const caller = countingController();
    const deadline = new Deadline(1.5 * tooLongInMs, timeoutReason, caller.signal);
    await vi.advanceTimersByTimeAsync(tooLongInMs);
    deadline.dispose();
    deadline.dispose();
    expect(vi.getTimerCount()).toBe(0);
    expect(caller.listeners()).toBe(0);
    caller.abort();
    expect(deadline.signal.aborted).toBe(false);
  });

  it("keeps its first reason when it is ended again", async () => {
    const deadline = new Deadline(1_000, timeoutReason);
    const raced = rejection(deadline.race(never));
    deadline.abort(enough);
    deadline.abort(new Error("too late"));
    expect(await raced).toBe(enough);
    expect(deadline.signal.reason).toBe(enough);
    expect(vi.getTimerCount()).toBe(0);
  });

  describe("race", () => {
    it("settles as the promise does", async () => {
      const deadline = new Deadline(1_000, timeoutReason);
      expect(await deadline.race(Promise.resolve("done"))).toBe("done");
      await expect(deadline.race(Promise.reject(enough))).rejects.toBe(enough);
      expect(deadline.signal.aborted).toBe(false);
      deadline.dispose();
    });

    it("rejects with the reason when the time is over, although the promise never settles", async () => {
      const deadline = new Deadline(1_000, timeoutReason);
      await deadline.race(Promise.resolve("an earlier race"));
      const raced = rejection(deadline.race(never));
      await vi.advanceTimersByTimeAsync(1_000);
      expect(await raced).toBe(timeout);
    });

    it("rejects with the reason and not with the client's own error of the abort", async () => {
      const deadline = new Deadline(1_000, timeoutReason);
      const client = deferred<never>();
      deadline.signal.addEventListener("abort", () => client.reject(new DOMException("aborted", "AbortError")));
      const raced = rejection(deadline.race(client.promise));
      await vi.advanceTimersByTimeAsync(1_000);
      expect(await raced).toBe(timeout);
    });

    it("rejects with the reason even if the client's promise is a thenable that rejects within the abort", async () => {
      const deadline = new Deadline(1_000, timeoutReason);
      const client: PromiseLike<never> = {
        then: (_resolve, reject) => {
          deadline.signal.addEventListener("abort", () => void reject?.(new DOMException("aborted", "AbortError")));
          return never;
        },
      };
      const raced = rejection(deadline.race(client));
      await vi.advanceTimersByTimeAsync(1_000);
      expect(await raced).toBe(timeout);
    });

    it("rejects at once with the reason of a deadline that is over, and ignores what becomes of the promise", async () => {
      const deadline = new Deadline(0, timeoutReason);
      await vi.advanceTimersByTimeAsync(0);
      const late = deferred<string>();
      expect(await rejection(deadline.race(late.promise))).toBe(timeout);
      late.reject(new Error("not unhandled"));
      await vi.advanceTimersByTimeAsync(1);
    });

    it("is not concerned by the end of a deadline after its promise has settled", async () => {
      const deadline = new Deadline(1_000, timeoutReason);
      expect(await deadline.race(Promise.resolve("done"))).toBe("done");
      await vi.advanceTimersByTimeAsync(1_000);
      expect(deadline.signal.reason).toBe(timeout);
    });

    it("goes on with the promise after the deadline was disposed of", async () => {
      const deadline = new Deadline(1_000, timeoutReason);
      const work = deferred<string>();
      const raced = deadline.race(work.promise);
      deadline.dispose();
      await vi.advanceTimersByTimeAsync(2_000);
      work.resolve("done");
      expect(await raced).toBe("done");
    });
  });
});
