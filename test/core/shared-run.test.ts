import { describe, expect, onTestFinished, test, vi } from "vitest";

import { SharedRun } from "../../src/core/shared-run.js";
import { deferred } from "../fakes/deferred.js";

function scene() {
  const runs: { readonly done: ReturnType<typeof deferred>; readonly signal: AbortSignal }[] = [];
  const shared = new SharedRun(async (signal) => {
    const run = { done: deferred(), signal };
    runs.push(run);
    await run.done.promise;
    return runs.length;
  });
  return { runs, shared };
}

describe("SharedRun", () => {
  test("runs once for all callers at the same time, and again for those after its end", async () => {
    const { runs, shared } = scene();
    const both = Promise.all([shared.join({}), shared.join({})]);
    runs[0]!.done.resolve(undefined);
    expect(await both).toEqual([1, 1]);
    const third = shared.join({});
    runs[1]!.done.resolve(undefined);
    expect(await third).toBe(2);
  });

  test("goes on when one caller leaves, and is aborted when the last one does", async () => {
    const { runs, shared } = scene();
    const [first, second] = [new AbortController(), new AbortController()];
    const calls = [shared.join({ abortSignal: first.signal }), shared.join({ abortSignal: second.signal })];
    first.abort(new Error("first"));
    await expect(calls[0]).rejects.toThrow("first");
    expect(runs[0]!.signal.aborted).toBe(false);
    second.abort(new Error("second"));
    await expect(calls[1]).rejects.toThrow("second");
    expect(runs[0]!.signal.aborted).toBe(true);
    void shared.join({}).catch(() => undefined);
    expect(runs).toHaveLength(2);
  });

  test("a failure is that of the caller that started it: the next one tries for itself", async () => {
    let runs = 0;
    const shared = new SharedRun(async () => {
      await Promise.resolve();
      if (++runs === 1) throw new Error("failed");
      return runs;
    });
    const [first, second, third] = await Promise.allSettled([shared.join({}), shared.join({}), shared.join({})]);
    expect(first).toMatchObject({ status: "rejected", reason: { message: "failed" } });
    expect([second, third]).toEqual([{ status: "fulfilled", value: 2 }, { status: "fulfilled", value: 2 }]);
  });

  test("a caller waits no longer than its time", async () => {
    const { runs, shared } = scene();
    await expect(shared.join({ timeoutInMs: 1 })).rejects.toMatchObject({ name: "RequestTimeoutError" });
    expect(runs[0]!.signal.aborted).toBe(true);
  });

  test("the operation is aborted only when no caller waits for it, and not at all when it has ended", async () => {
    const { runs, shared } = scene();
    const [first, second] = [new AbortController(), new AbortController()];
    const leaving = shared.join({ abortSignal: first.signal });
    const staying = shared.join({ abortSignal: second.signal });
    first.abort(new Error("first"));
    await expect(leaving).rejects.toThrow("first");
    // A third caller still joins the first run.
    const third = shared.join({});
    expect(runs).toHaveLength(1);
    runs[0]!.done.resolve(undefined);
    expect(await Promise.all([staying, third])).toEqual([1, 1]);
    const next = shared.join({});
    expect(runs).toHaveLength(2);
    runs[1]!.done.resolve(undefined);
    await next;
  });

  test("the time of a caller that tries for itself is what the run before it has left", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let runs = 0;
    const shared = new SharedRun<number>(async () => {
      runs++;
      await new Promise((resolve) => setTimeout(resolve, 100));
      if (runs === 1) throw new Error("failed");
      return new Promise<number>(() => undefined);
    });
    const first = shared.join({ timeoutInMs: 100_000 });
    const begun = performance.now();
    const second = shared.join({ timeoutInMs: 5_000 });
    const outcomes = Promise.allSettled([first, second]);
    await vi.advanceTimersByTimeAsync(4_999);
    expect(runs).toBe(2);
    await vi.advanceTimersByTimeAsync(1);
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(performance.now() - begun).toBeCloseTo(5_000, 3);
  });
});
