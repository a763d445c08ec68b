import { AbortError } from "p-retry";
import { describe, expect, it, vi } from "vitest";
import { fullJitter, jitter, maxPollDelayInMs, pollDelay, retry } from "../../src/core/retry.js";
import type { RetryPolicy } from "../../src/core/retry.js";
import { countedAbort, elapsed, outcomeOf, pass, suspendMachine, useFakeClock } from "../lease/fakes/time.js";

useFakeClock();

const always: Pick<RetryPolicy, "maxAttempts" | "shouldRetry"> = { maxAttempts: Infinity, shouldRetry: () => true };

/** An operation that fails with these errors, one after the other, and then succeeds. Records when each attempt began. */
function failing(...errors: unknown[]): { attempt: (attempt: number) => Promise<string>; times: number[]; numbers: number[] } {
  const times: number[] = [];
  const numbers: number[] = [];
  const attempt = async (number: number): Promise<string> => {
    times.push(elapsed());
    numbers.push(number);
    if (times.length <= errors.length) throw errors[times.length - 1];
    return "done";
  };
  return { attempt, times, numbers };
}

const error = new Error("busy");

describe("retry", () => {
  it("returns the result of the first attempt that succeeds, and numbers the attempts from 1", async () => {
    const { attempt, numbers } = failing(error, error);
    expect(await retry(attempt, always)).toBe("done");
    expect(numbers).toEqual([1, 2, 3]);
  });

  it("makes maxAttempts attempts, the first one included, and rejects with the last error", async () => {
    const last = new Error("last");
    const { attempt, numbers } = failing(error, error, last);
    await expect(retry(attempt, { ...always, maxAttempts: 3 })).rejects.toBe(last);
    expect(numbers).toEqual([1, 2, 3]);
  });

  it("makes one attempt with maxAttempts 1, and does not ask whether to retry", async () => {
    const shouldRetry = vi.fn(() => true);
    const { attempt, numbers } = failing(error);
    await expect(retry(attempt, { maxAttempts: 1, shouldRetry })).rejects.toBe(error);
    expect(numbers).toEqual([1]);
    expect(shouldRetry).not.toHaveBeenCalled();
  });

  it("makes any number of attempts with maxAttempts Infinity", async () => {
    const { attempt, numbers } = failing(...Array.from({ length: 2_000 }, () => error));
    expect(await retry(attempt, always)).toBe("done");
    expect(numbers).toHaveLength(2_001);
  });

  it("stops when shouldRetry says so, which gets the error itself and the number of its attempt", async () => {
    const final = new Error("final");
    const shouldRetry = vi.fn((thrown: unknown) => thrown !== final);
    const { attempt, numbers } = failing(error, final, error);
    await expect(retry(attempt, { maxAttempts: 10, shouldRetry })).rejects.toBe(final);
    expect(numbers).toEqual([1, 2]);
    expect(shouldRetry.mock.calls).toEqual([
      [error, 1],
      [final, 2],
    ]);
  });

  it("reports each failed attempt to onFailure, the last one included, before it decides", async () => {
    const calls: unknown[] = [];
    const { attempt } = failing(error, error, error);
    const policy: RetryPolicy = {
      maxAttempts: 3,
      shouldRetry: (_, number) => calls.push(`decide ${number}`) > 0,
      onFailure: (thrown, number) => calls.push(thrown === error && `failed ${number}`),
    };
    await expect(retry(attempt, policy)).rejects.toBe(error);
    expect(calls).toEqual(["failed 1", "decide 1", "failed 2", "decide 2", "failed 3"]);
  });

  describe("leaves it to shouldRetry, whatever p-retry makes of it, to judge", () => {
    it.each<[string, unknown]>([
      ["a TypeError", new TypeError("not a network error")],
      ["a TypeError of the network", new TypeError("fetch failed")],
      ["a RangeError", new RangeError("no")],
      ["an AbortError of p-retry", new AbortError("stop")],
      ["a DOMException", new DOMException("aborted", "AbortError")],
      ["a string", "text"],
      ["undefined", undefined],
      ["null", null],
    ])("%s", async (_, thrown) => {
      const onFailure = vi.fn();
      const again = failing(thrown);
      expect(await retry(again.attempt, { ...always, onFailure })).toBe("done");
      expect(onFailure).toHaveBeenCalledExactlyOnceWith(thrown, 1);
      const final = failing(thrown);
      const outcome = await retry(final.attempt, { maxAttempts: 2, shouldRetry: () => false }).catch((caught: unknown) => ({ caught }));
      expect(outcome).toEqual({ caught: thrown });
      expect((outcome as { caught: unknown }).caught).toBe(thrown);
      expect(final.numbers).toEqual([1]);
    });

    it("an error that is thrown before the attempt returns a promise", async () => {
      let attempts = 0;
      const attempt = (): Promise<string> => {
        if (++attempts === 1) throw error;
        return Promise.resolve("done");
      };
      expect(await retry(attempt, always)).toBe("done");
    });
  });
});

describe("the wait between attempts", () => {
  it("is the backoff of the attempt that failed", async () => {
    const { attempt, times } = failing(error, error, error);
    const outcome = outcomeOf(retry(attempt, { ...always, backoff: (number) => number * 100 }));
    await pass(1_000);
    expect(times).toEqual([0, 100, 300, 600]);
    expect(outcome.value).toBe("done");
  });

  it("is none without a backoff: the next attempt needs no timer", async () => {
    const { attempt, times } = failing(error, error);
    const done = retry(attempt, always);
    expect(vi.getTimerCount()).toBe(0);
    await done;
    expect(times).toEqual([0, 0, 0]);
  });

  it("ends at once with the reason of an abort, and leaves neither a timer nor a listener", async () => {
    const caller = countedAbort();
    const { attempt, times } = failing(error, error);
    const outcome = outcomeOf(retry(attempt, { ...always, backoff: () => 1_000, abortSignal: caller.signal }));
    await pass(400);
    expect(caller.listeners()).toBe(1);
    const reason = new Error("enough");
    caller.abort(reason);
    await pass(0);
    expect(outcome).toMatchObject({ error: reason, at: 400 });
    expect(times).toEqual([0]);
    expect(vi.getTimerCount()).toBe(0);
    expect(caller.listeners()).toBe(0);
  });

  it("leaves no listener when it ends by itself", async () => {
    const caller = countedAbort();
    const { attempt } = failing(error, error);
    const outcome = outcomeOf(retry(attempt, { ...always, backoff: () => 10, abortSignal: caller.signal }));
    await pass(20);
    expect(outcome.value).toBe("done");
    expect(caller.listeners()).toBe(0);
  });
});

describe("a signal that aborts while an attempt is in flight", () => {
  it("does not throw away the success of that attempt", async () => {
    const caller = countedAbort();
    const attempt = async (): Promise<string> => {
      caller.abort(new Error("enough"));
      return "committed";
    };
    expect(await retry(attempt, { ...always, abortSignal: caller.signal })).toBe("committed");
    expect(caller.listeners()).toBe(0);
  });

  it("does not throw away the success of a later attempt either", async () => {
    const caller = countedAbort();
    const attempt = async (number: number): Promise<string> => {
      if (number === 1) throw error;
      caller.abort(new Error("enough"));
      return "committed";
    };
    expect(await retry(attempt, { ...always, abortSignal: caller.signal })).toBe("committed");
  });

  it("starts no further attempt, and the error of that attempt counts", async () => {
    const caller = countedAbort();
    const shouldRetry = vi.fn(() => true);
    let attempts = 0;
    const attempt = async (): Promise<string> => {
      attempts++;
      caller.abort(new Error("enough"));
      throw error;
    };
    await expect(retry(attempt, { maxAttempts: 3, shouldRetry, abortSignal: caller.signal })).rejects.toBe(error);
    expect(attempts).toBe(1);
    expect(shouldRetry).not.toHaveBeenCalled();
  });

  it("does not cut the attempt short", async () => {
    const caller = countedAbort();
    const attempt = (): Promise<string> => new Promise((resolve) => setTimeout(() => resolve("done"), 500));
    const outcome = outcomeOf(retry(attempt, { ...always, abortSignal: caller.signal }));
    await pass(100);
    caller.abort();
    await pass(399);
    expect(outcome).toEqual({});
    await pass(1);
    expect(outcome.value).toBe("done");
  });
});

describe("timeoutInMs", () => {
  it("shortens the last wait, so that the last attempt starts when it is over and none later", async () => {
    const { attempt, times } = failing(...Array.from({ length: 100 }, () => error));
    const outcome = outcomeOf(retry(attempt, { ...always, backoff: () => 400, timeoutInMs: 1_000 }));
    await pass(10_000);
    expect(times).toEqual([0, 400, 800, 1_000]);
    expect(outcome).toMatchObject({ error, at: 1_000 });
  });

  it("starts no attempt after one that took longer, and does not ask whether to retry", async () => {
    const shouldRetry = vi.fn(() => true);
    const attempt = vi.fn(() => new Promise<string>((_, reject) => setTimeout(() => reject(error), 1_500)));
    const outcome = outcomeOf(retry(attempt, { maxAttempts: Infinity, shouldRetry, timeoutInMs: 1_000 }));
    await pass(2_000);
    expect(outcome).toMatchObject({ error, at: 1_500 });
    expect(attempt).toHaveBeenCalledTimes(1);
    expect(shouldRetry).not.toHaveBeenCalled();
  });

  it("counts the time for which the machine was suspended", async () => {
    const { attempt, times } = failing(error, error, error);
    const slow = async (number: number): Promise<string> => {
      if (number === 2) suspendMachine(5_000);
      return attempt(number);
    };
    const outcome = outcomeOf(retry(slow, { ...always, backoff: () => 100, timeoutInMs: 1_000 }));
    await pass(1_000);
    expect(outcome).toMatchObject({ error });
    expect(times).toHaveLength(2);
  });
});

describe("delays", () => {
  const most = 0.999_999_999;

  it("fullJitter is a random time between 0 and the doubled base, capped, however many retries there were", () => {
    vi.mocked(Math.random).mockReturnValue(most);
    expect([0, 1, 2, 6, 7, 50, 2_000].map((count) => Math.round(fullJitter(count, 10, 1_000)))).toEqual([10, 20, 40, 640, 1_000, 1_000, 1_000]);
    expect(fullJitter(2_000, 0, 1_000)).toBe(0);
    vi.mocked(Math.random).mockReturnValue(0);
    expect(fullJitter(5, 10, 1_000)).toBe(0);
    vi.mocked(Math.random).mockReturnValue(0.5);
    expect(fullJitter(5, 10, 1_000)).toBe(160);
  });

  it("jitter is the time give or take the fraction", () => {
    vi.mocked(Math.random).mockReturnValue(0);
    expect(jitter(1_000, 0.2)).toBeCloseTo(800, 6);
    vi.mocked(Math.random).mockReturnValue(0.5);
    expect(jitter(1_000, 0.2)).toBeCloseTo(1_000, 6);
    vi.mocked(Math.random).mockReturnValue(most);
    expect(jitter(1_000, 0.2)).toBeCloseTo(1_200, 3);
  });

  it.each([
    [0, 25, 75],
    [500, 25, 75],
    [1_000, 50, 150],
    [5_000, 250, 750],
    [60_000, 333, maxPollDelayInMs],
    [86_400_000, 333, maxPollDelayInMs],
  ])("pollDelay is a tenth of the %i ms waited, give or take half, from 50 ms up to a second", (waitedInMs, min, max) => {
    vi.mocked(Math.random).mockReturnValue(0);
    expect(Math.floor(pollDelay(waitedInMs))).toBe(min);
    vi.mocked(Math.random).mockReturnValue(most);
    expect(Math.round(pollDelay(waitedInMs))).toBe(max);
    expect(pollDelay(waitedInMs)).toBeLessThanOrEqual(maxPollDelayInMs);
  });
});
