import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { FileInUseError, isConcurrencyError, retryWhileInUse } from "../../src/index.js";

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** As the SDK raises it: HEAD has the code in `details` only. */
function refusal(statusCode: number, errorCode: string, from: "get" | "head" = "get"): Error {
  const code = from === "get" ? { code: errorCode } : {};
  return Object.assign(new Error(errorCode), { statusCode, ...code, details: { errorCode } });
}

function failing(times: number, error: Error): { fn: ReturnType<typeof vi.fn<() => Promise<string>>> } {
  let left = times;
  return { fn: vi.fn(async () => (left-- > 0 ? Promise.reject(error) : "done")) };
}

/** Lets all timers run until the promise settles. */
async function settle<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  await vi.runAllTimersAsync();
  return promise;
}

describe("retryWhileInUse", () => {
  it.each([
    [409, "SharingViolation"],
    [409, "FileLockConflict"],
    [409, "FileOpenBySmbClient"],
    [409, "DeletePending"],
    [409, "SMBDeletePending"],
    [409, "CannotDeleteFileOrDirectory"],
    [500, "ClientCacheFlushDelay"],
    [408, "ClientCacheFlushDelay"],
  ])("tries again after %i %s, until the file is released", async (status, code) => {
    const { fn } = failing(3, refusal(status, code));
    await expect(settle(retryWhileInUse(fn))).resolves.toBe("done");
    expect(fn).toHaveBeenCalledTimes(4);
  });

  it("finds the code of a HEAD, too", async () => {
    const { fn } = failing(1, refusal(409, "DeletePending", "head"));
    await expect(settle(retryWhileInUse(fn))).resolves.toBe("done");
  });

  it.each([
    [404, "ResourceNotFound"],
    [404, "ParentNotFound"],
    [404, "ShareNotFound"],
    [412, "LeaseIdMissing"],
    [409, "LeaseAlreadyPresent"],
    [409, "ResourceAlreadyExists"],
    [409, "ShareBeingDeleted"],
    [403, "AuthenticationFailed"],
    [500, "InternalError"],
  ])("passes %i %s on at once, as it is", async (status, code) => {
    const error = refusal(status, code);
    const { fn } = failing(1, error);
    await expect(retryWhileInUse(fn)).rejects.toBe(error);
    expect(fn).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("passes on the 404 of a file whose deletion became final in between", async () => {
    const gone = refusal(404, "ResourceNotFound");
    const fn = vi.fn<() => Promise<void>>().mockRejectedValueOnce(refusal(409, "DeletePending")).mockRejectedValue(gone);
    await expect(settle(retryWhileInUse(fn))).rejects.toBe(gone);
    expect(fn).toHaveBeenCalledTimes(2);
  });

  it("gives up after maxAttempts, and says how many they were", async () => {
    const cause = refusal(409, "SharingViolation");
    const { fn } = failing(Infinity, cause);
    const error = await settle(retryWhileInUse(fn, { maxAttempts: 3 })).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(FileInUseError);
    expect(isConcurrencyError(error, "FILE_IN_USE")).toBe(true);
    expect(error).toMatchObject({ code: "FILE_IN_USE", attempts: 3, reason: "SharingViolation", cause });
    expect((error as Error).message).toMatch(/SharingViolation.* after 3 attempts in \d+ ms/);
    expect(fn).toHaveBeenCalledTimes(3);
  });

  it("gives up when the time is over, after an attempt at its very end", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.99);
    const times: number[] = [];
    const startedAt = performance.now();
    const fn = async (): Promise<never> => {
      times.push(performance.now() - startedAt);
      throw refusal(409, "FileLockConflict");
    };
    const options = { timeoutInMs: 1_000, retryDelayInMs: 100, maxRetryDelayInMs: 400 };
    const error = await settle(retryWhileInUse(fn, options)).catch((e: unknown) => e);
    expect(error).toMatchObject({ name: "FileInUseError", attempts: times.length });
    expect((error as FileInUseError).elapsedInMs).toBeGreaterThanOrEqual(1_000);
    expect(times.map(Math.round)).toEqual([0, 99, 297, 693, 1_000]);
  });

  it("tries once if there is no time", async () => {
    const { fn } = failing(1, refusal(409, "SharingViolation"));
    await expect(retryWhileInUse(fn, { timeoutInMs: 0 })).rejects.toMatchObject({ attempts: 1 });
  });

  it("rejects with the caller's reason when aborted while it waits, and leaves nothing behind", async () => {
    const controller = new AbortController();
    const removed = vi.spyOn(controller.signal, "removeEventListener");
    const { fn } = failing(Infinity, refusal(409, "SharingViolation"));
    vi.spyOn(Math, "random").mockReturnValue(0.5);
    const call = retryWhileInUse(fn, { abortSignal: controller.signal });
    call.catch(() => undefined);
    await vi.advanceTimersByTimeAsync(20);
    const reason = new Error("enough");
    controller.abort(reason);
    await expect(call).rejects.toBe(reason);
    expect(fn).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
    expect(removed).toHaveBeenCalled();
  });

  it("hands the caller's abort to the attempt, and rejects with its reason, not with the SDK's error", async () => {
    const controller = new AbortController();
    const call = retryWhileInUse(
      ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("AbortError of the SDK")))),
      { abortSignal: controller.signal },
    );
    controller.abort("stop");
    await expect(call).rejects.toBe("stop");
  });

  it("does not start when aborted already", async () => {
    const { fn } = failing(0, new Error());
    await expect(retryWhileInUse(fn, { abortSignal: AbortSignal.abort("no") })).rejects.toBe("no");
    expect(fn).not.toHaveBeenCalled();
  });

  it("tells each attempt its number", async () => {
    const seen: number[] = [];
    await settle(
      retryWhileInUse(async ({ attempt }) => {
        seen.push(attempt);
        if (attempt < 3) throw refusal(409, "SharingViolation");
      }),
    );
    expect(seen).toEqual([1, 2, 3]);
  });

  it.each([
    [{ maxAttempts: 0 }, RangeError],
    [{ maxAttempts: 1.5 }, RangeError],
    [{ timeoutInMs: -1 }, RangeError],
    [{ retryDelayInMs: Number.NaN }, TypeError],
    [{ retryDelayInMs: 10, maxRetryDelayInMs: 5 }, RangeError],
  ])("refuses %j before anything is called", async (options, type) => {
    const { fn } = failing(0, new Error());
    await expect(retryWhileInUse(fn, options)).rejects.toBeInstanceOf(type);
    expect(fn).not.toHaveBeenCalled();
  });

  it("refuses what is no function", async () => {
    await expect(retryWhileInUse("x" as never)).rejects.toBeInstanceOf(TypeError);
  });
});
