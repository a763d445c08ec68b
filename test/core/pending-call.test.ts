import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isThenable, PendingCall, waitOrDetach, WriteCall } from "../../src/core/pending-call.js";
import type { PendingCallOptions, WriteCallSettings } from "../../src/core/pending-call.js";
import { Attempts } from "../../src/core/telemetry.js";
import { deferred } from "../fakes/deferred.js";
import { countedAbort, outcomeOf, pass, useFakeClock } from "../lease/fakes/time.js";
import { rejection } from "../support/outcome.js";

useFakeClock();

const timeout = new Error("the time is over");
const enough = new Error("enough");

class TestCall extends PendingCall<string> {
  waits = false;

  constructor(options: Partial<PendingCallOptions> = {}) {
    super({ timeoutInMs: Infinity, ...options });
    this.promise.catch(() => undefined);
  }

  protected override onTimeout(): void {
    if (!this.waits) this.reject(timeout);
  }
}

/** A trace whose end throws, as that of a tracer with a defect. */
function brokenTrace(): Attempts {
  const trace = new Attempts("call", undefined, undefined);
  vi.spyOn(trace, "end").mockImplementation(() => {
    throw new Error("a defect of the tracer");
  });
  return trace;
}

describe("a pending call", () => {
  it("settles once, with what came first", async () => {
    const resolved = new TestCall();
    const onSettled = vi.fn();
    resolved.onSettled = onSettled;
    expect(resolved.isSettled()).toBe(false);
    resolved.resolve("first");
    expect(resolved.isSettled()).toBe(true);
    resolved.resolve("second");
    resolved.reject(enough);
    expect(await resolved.promise).toBe("first");
    expect(onSettled).toHaveBeenCalledTimes(1);
    const rejected = new TestCall();
    rejected.reject(enough);
    rejected.resolve("second");
    rejected.reject(timeout);
    expect(await rejection(rejected.promise)).toBe(enough);
  });

  it("ends its attempt once, with its outcome", () => {
    const trace = new Attempts("call", undefined, undefined);
    const end = vi.spyOn(trace, "end");
    const call = new TestCall({ trace });
    call.resolve("done", "updated");
    call.reject(enough);
    expect(end.mock.calls).toEqual([["updated", undefined]]);
    const failing = new TestCall({ trace });
    failing.reject(enough);
    expect(end.mock.calls.at(-1)).toEqual(["failed", enough]);
  });

  it.each([1_000, 2 ** 31 + 1_000])("is told after %i ms that its time is over", async (timeoutInMs) => {
    const outcome = outcomeOf(new TestCall({ timeoutInMs }).promise);
    await pass(timeoutInMs - 1);
    expect(outcome).toEqual({});
    await pass(1);
    expect(outcome).toMatchObject({ error: timeout, at: timeoutInMs });
  });

  it("may wait on although its time is over", async () => {
    const call = new TestCall({ timeoutInMs: 1_000 });
    call.waits = true;
    await pass(10_000);
    expect(call.isSettled()).toBe(false);
    call.resolve("done");
    expect(await call.promise).toBe("done");
  });

  it("rejects with the reason of its signal", async () => {
    const caller = countedAbort();
    const call = new TestCall({ abortSignal: caller.signal });
    caller.abort(enough);
    expect(call.isSettled()).toBe(true);
    expect(await rejection(call.promise)).toBe(enough);
  });

  it("is settled from the start if its signal is aborted, and leaves nothing behind", async () => {
    const call = new TestCall({ timeoutInMs: 1_000, abortSignal: AbortSignal.abort(enough) });
    expect(call.isSettled()).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
    expect(await rejection(call.promise)).toBe(enough);
  });

  it.each<[string, (call: TestCall) => void]>([
    ["resolved", (call) => call.resolve("done")],
    ["rejected", (call) => call.reject(enough)],
  ])("leaves no timer and no listener once it is %s", (_, settle) => {
    const caller = countedAbort();
    const call = new TestCall({ timeoutInMs: 1_000, abortSignal: caller.signal });
    expect([vi.getTimerCount(), caller.listeners()]).toEqual([1, 1]);
    settle(call);
    expect([vi.getTimerCount(), caller.listeners()]).toEqual([0, 0]);
  });

  it("leaves no timer and no listener after its time is over, or its signal aborted", async () => {
    const callers = [countedAbort(), countedAbort()];
    for (const { signal } of callers) new TestCall({ timeoutInMs: 1_000, abortSignal: signal });
    callers[0]!.abort();
    expect(vi.getTimerCount()).toBe(1);
    await pass(1_000);
    expect(callers.map(({ listeners }) => listeners())).toEqual([0, 0]);
  });
});

describe("a tracer that throws at the end of a call", () => {
  const uncaught: unknown[] = [];
  const onUncaught = (error: unknown): void => void uncaught.push(error);
  beforeEach(() => {
    uncaught.length = 0;
    process.on("uncaughtException", onUncaught);
  });
  afterEach(() => {
    process.off("uncaughtException", onUncaught);
    expect(uncaught).toEqual([]);
  });

  it("leaves neither the caller waiting, nor the owner of the operation, and is not thrown at the one who settles it", async () => {
    for (const settle of ["resolve", "reject"] as const) {
      const call = new TestCall({ trace: brokenTrace() });
      const onSettled = vi.fn();
      call.onSettled = onSettled;
      expect(() => (settle === "resolve" ? call.resolve("done") : call.reject(enough))).not.toThrow();
      expect(await call.promise.catch((error: unknown) => error)).toBe(settle === "resolve" ? "done" : enough);
      expect(onSettled).toHaveBeenCalledTimes(1);
    }
  });

  it("is not thrown from the timer of a deadline", async () => {
    const call = new TestCall({ timeoutInMs: 1_000, trace: brokenTrace() });
    await pass(1_000);
    expect(await rejection(call.promise)).toBe(timeout);
  });

  it("does not keep the abort of a shared signal from the other calls", async () => {
    const caller = countedAbort();
    const calls = [new TestCall({ abortSignal: caller.signal, trace: brokenTrace() }), new TestCall({ abortSignal: caller.signal })];
    caller.abort(enough);
    expect(await Promise.all(calls.map(({ promise }) => rejection(promise)))).toEqual([enough, enough]);
  });
});

function writeCall(settings: Partial<WriteCallSettings> = {}): WriteCall<string> {
  const call = new WriteCall<string>({
    maxAttempts: 10,
    timeoutInMs: 1_000,
    tryTimeoutInMs: 8_000,
    retryDelayInMs: 10,
    maxRetryDelayInMs: 100,
    onUnknown: "throw",
    options: {},
    url: "https://account.test/target",
    ...settings,
  });
  call.promise.catch(() => undefined);
  return call;
}

describe("the deadline of a write", () => {
  it("says that nothing was written if nothing was sent", async () => {
    const call = writeCall();
    await pass(1_000);
    const error = await rejection(call.promise);
    expect(error).toMatchObject({ name: "OperationTimeoutError", elapsedInMs: 1_000 });
    expect(error.message).toContain("Nothing was written");
  });

  it("is a ConflictError after a conflict, with the attempts and the last ETag", async () => {
    const call = writeCall();
    call.hadConflict = true;
    call.attempts = 3;
    call.currentETag = '"1"';
    await pass(1_000);
    expect(await rejection(call.promise)).toMatchObject({ name: "ConflictError", attempts: 3, currentETag: '"1"', cause: { name: "OperationTimeoutError" } });
  });

  it.each(["inFlight", "mayHaveCommitted"] as const)("is a CommitUnknownError if a write is or was sent whose outcome is unknown (%s)", async (flag) => {
    const calls = [writeCall(), writeCall()];
    for (const call of calls) call[flag] = true;
    calls[1]!.hadConflict = true;
    await pass(1_000);
    for (const { promise } of calls) {
      expect(await rejection(promise)).toMatchObject({ name: "CommitUnknownError", cause: { name: "OperationTimeoutError" } });
    }
  });

  it("does not exist with timeoutInMs Infinity", () => {
    writeCall({ timeoutInMs: Infinity });
    expect(vi.getTimerCount()).toBe(0);
  });
});

it("a write that gives up after conflicts is of unknown outcome if an earlier attempt may have committed", async () => {
  const call = writeCall();
  call.mayHaveCommitted = true;
  call.rejectConflict(enough);
  expect(await rejection(call.promise)).toMatchObject({ name: "CommitUnknownError", cause: enough });
  const other = writeCall();
  other.rejectConflict(enough);
  expect(await rejection(other.promise)).toMatchObject({ name: "ConflictError", cause: enough });
});

describe("waitOrDetach", () => {
  const waitInMs = 100;
  const nobodyWaits = (): boolean => false;
  const othersWait = (): boolean => true;
  const never = new Promise<never>(() => undefined);

  it("returns the result of the function", async () => {
    expect(await waitOrDetach(Promise.resolve(7), new TestWaiter(), othersWait, waitInMs)).toEqual({ kind: "done", result: 7 });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("rejects with the error of the function", async () => {
    expect(await rejection(waitOrDetach(Promise.reject(enough), new TestWaiter(), othersWait, waitInMs))).toBe(enough);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("detaches a function that is too slow for other callers, and tells when it has ended, however it did", async () => {
    const slow = deferred<number>();
    const outcome = outcomeOf(waitOrDetach(slow.promise, new TestWaiter(), othersWait, waitInMs));
    await pass(waitInMs - 1);
    expect(outcome).toEqual({});
    await pass(1);
    expect(outcome.value).toMatchObject({ kind: "detached" });
    const { done } = outcome.value as { done: Promise<unknown> };
    const ended = outcomeOf(done);
    await pass(10_000);
    expect(ended.at).toBeUndefined();
    slow.reject(enough);
    await pass(0);
    expect(ended).toEqual({ value: undefined, at: 10_000 + waitInMs });
  });

  it("waits on while no other caller waits, and looks again after the same time", async () => {
    let others = false;
    const outcome = outcomeOf(waitOrDetach(never, new TestWaiter(), () => others, waitInMs));
    await pass(10 * waitInMs + 1);
    others = true;
    expect(outcome).toEqual({});
    await pass(waitInMs);
    expect(outcome.value).toMatchObject({ kind: "detached" });
    expect(outcome.at).toBe(11 * waitInMs);
  });

  it.each([
    [10, waitInMs],
    [400, 600],
    [60_000, 5_000],
  ])("gives a function that took %i ms before %i ms this time", async (tookInMs, waitedInMs) => {
    const waiter = new TestWaiter();
    waiter.tookInMs = tookInMs;
    const outcome = outcomeOf(waitOrDetach(never, waiter, othersWait, waitInMs));
    await pass(60_000);
    expect(outcome.at).toBe(waitedInMs);
  });

  it("ends when the caller has gone, and the owner of the operation is still told", async () => {
    const waiter = new TestWaiter();
    const notify = vi.fn();
    waiter.onSettled = notify;
    const outcome = outcomeOf(waitOrDetach(never, waiter, nobodyWaits, waitInMs));
    await pass(50);
    waiter.settle();
    await pass(0);
    expect(outcome).toMatchObject({ value: { kind: "abandoned" }, at: 50 });
    expect(notify).toHaveBeenCalledTimes(1);
    expect(waiter.onSettled).toBe(notify);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("ends at once if the function has cancelled its own call before it returned", async () => {
    const waiter = new TestWaiter();
    waiter.settle();
    const outcome = outcomeOf(waitOrDetach(never, waiter, nobodyWaits, waitInMs));
    await pass(0);
    expect(outcome).toMatchObject({ value: { kind: "abandoned" }, at: 0 });
  });

  it("leaves the error of a function unheard whose caller has gone", async () => {
    const waiter = new TestWaiter();
    const slow = deferred<number>();
    const outcome = outcomeOf(waitOrDetach(slow.promise, waiter, nobodyWaits, waitInMs));
    waiter.settle();
    await pass(0);
    expect(outcome.value).toEqual({ kind: "abandoned" });
    slow.reject(enough);
    await pass(1);
  });
});

/** As much of a call as waitOrDetach needs. */
class TestWaiter implements Pick<WriteCall<unknown>, "isSettled" | "tookInMs" | "onSettled"> {
  tookInMs = 0;
  onSettled: (() => void) | undefined;
  #settled = false;

  isSettled(): boolean {
    return this.#settled;
  }

  settle(): void {
    this.#settled = true;
    this.onSettled?.();
  }
}

it("isThenable is true for promises of any kind, and nothing else", () => {
  const thenables: unknown[] = [Promise.resolve(), { then: () => undefined }];
  const others: unknown[] = [undefined, null, 0, "then", {}, { then: true }];
  expect(thenables.map((value) => isThenable(value))).toEqual([true, true]);
  expect(others.filter((value) => isThenable(value))).toEqual([]);
});
