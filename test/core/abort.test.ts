import { describe, expect, it, vi } from "vitest";
import { abortReason, onAbort, throwIfAborted } from "../../src/core/deadline.js";
import type { AbortSignalLike } from "../../src/index.js";
import { countingController } from "../support/counting-signal.js";

/** As the SDK's own, which knows no reason. */
const plain: AbortSignalLike = { aborted: true, addEventListener: () => undefined, removeEventListener: () => undefined };

describe("abortReason", () => {
  it("is the caller's own", () => {
    const reason = new Error("enough");
    expect(abortReason(AbortSignal.abort(reason))).toBe(reason);
  });

  it("is an AbortError where the signal has none", () => {
    expect(abortReason(plain)).toMatchObject({ name: "AbortError" });
  });
});

describe("throwIfAborted", () => {
  it("throws the reason, and only then", () => {
    expect(() => throwIfAborted(undefined)).not.toThrow();
    expect(() => throwIfAborted(new AbortController().signal)).not.toThrow();
    expect(() => throwIfAborted(AbortSignal.abort(new Error("enough")))).toThrow("enough");
  });
});

describe("onAbort", () => {
  it("calls at once on an aborted signal, once", () => {
    const listener = vi.fn();
    onAbort(plain, listener)();
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it("calls when it aborts, unless it was taken off", () => {
    const controller = countingController();
    const [kept, taken] = [vi.fn(), vi.fn()];
    onAbort(controller.signal, kept);
    onAbort(controller.signal, taken)();
    controller.abort();
    expect(kept).toHaveBeenCalledTimes(1);
    expect(taken).not.toHaveBeenCalled();
  });

  it("adds one listener however many wait, and takes it off with the last of them", () => {
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

  it("calls all who wait, in order, but nobody whom another took off", () => {
    const controller = countingController();
    const called: string[] = [];
    let off: (() => void) | undefined = undefined;
    onAbort(controller.signal, () => {
      called.push("first");
      (off as (() => void) | undefined)?.();
    });
    off = onAbort(controller.signal, () => called.push("taken off"));
    onAbort(controller.signal, () => called.push("last"));
    controller.abort();
    expect(called).toEqual(["first", "last"]);
    expect(controller.listeners()).toBe(0);
  });

  it("does without a signal", () => {
    expect(() => onAbort(undefined, () => undefined)()).not.toThrow();
  });
});
