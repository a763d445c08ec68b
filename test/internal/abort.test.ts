import { describe, expect, it, vi } from "vitest";
import { abortReason, onAbort, throwIfAborted } from "../../src/internal/abort.js";
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

  it("does without a signal", () => {
    expect(() => onAbort(undefined, () => undefined)()).not.toThrow();
  });
});
