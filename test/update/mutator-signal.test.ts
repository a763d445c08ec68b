import { afterEach, describe, expect, it, vi } from "vitest";
import { OperationTimeoutError, optimisticUpdate, runTransaction } from "../../src/index.js";
import type { MutatorContext } from "../../src/index.js";
import { before } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, valueOf } from "../transaction/fakes/partition.js";

useFakeTimers();
afterEach(() => vi.unstubAllGlobals());

/** Resolves when the signal aborts. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
}

describe("the signal of a mutator", () => {
  it("aborts when the time is over, with the error of the call, and nothing is written", async () => {
    const { service, blob } = counterBlob();
    let reason: unknown;
    const update = rejection(
      optimisticUpdate<Counter>(blob, async (_draft, { signal }) => {
        await aborted(signal);
        reason = signal.reason;
        return { n: 5 };
      }, { timeoutInMs: 50 }),
    );
    await vi.advanceTimersByTimeAsync(49);
    expect(reason).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    const error = await update;
    expect(error).toBeInstanceOf(OperationTimeoutError);
    expect(reason).toBe(error);
    expect(service.count("write")).toBe(0);
  });

  it("aborts when the caller cancels, with the reason of the caller", async () => {
    const { service, blob } = counterBlob();
    const controller = new AbortController();
    const reasons: unknown[] = [];
    const update = rejection(
      optimisticUpdate<Counter>(blob, async (_draft, { signal }) => {
        await aborted(signal);
        reasons.push(signal.reason);
      }, { abortSignal: controller.signal }),
    );
    await vi.advanceTimersByTimeAsync(0);
    const reason = new Error("the caller left");
    controller.abort(reason);
    expect(await update).toBe(reason);
    await vi.advanceTimersByTimeAsync(0);
    expect(reasons).toEqual([reason]);
    expect(service.count("write")).toBe(0);
  });

  it("belongs to one call: the signal of another call in the same batch does not abort", async () => {
    const { blob } = counterBlob();
    const controller = new AbortController();
    const contexts: MutatorContext[] = [];
    const remember = (draft: Counter, context: MutatorContext): void => {
      contexts.push(context);
      context.signal.throwIfAborted(); // makes the signal
      draft.n++;
    };
    const cancelled = rejection(optimisticUpdate<Counter>(blob, remember, { abortSignal: controller.signal }));
    const other = optimisticUpdate<Counter>(blob, async (draft, context) => {
      remember(draft, context);
      controller.abort();
    });
    await inFakeTime(Promise.all([cancelled, other]));
    expect(contexts[0]!.signal.aborted).toBe(true);
    expect(contexts.slice(1).every(({ signal }) => !signal.aborted || signal === contexts[0]!.signal)).toBe(true);
    expect(contexts.at(-1)!.signal.aborted).toBe(false);
  });

  it("is the same in all attempts, and does not abort when the call succeeds", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", before(() => blob.putKeeping({ n: 5 })));
    const signals: AbortSignal[] = [];
    await inFakeTime(
      optimisticUpdate<Counter>(blob, (draft, { signal }) => {
        signals.push(signal);
        draft.n++;
      }),
    );
    expect(signals).toHaveLength(2);
    expect(signals[0]).toBe(signals[1]);
    expect(signals[0]!.aborted).toBe(false);
  });

  it("is not made for a mutator that does not use it", async () => {
    const count = async (mutator: (draft: Counter, context: MutatorContext) => void): Promise<number> => {
      const { blob } = counterBlob();
      let made = 0;
      vi.stubGlobal("AbortController", class extends AbortController {
        constructor() {
          super();
          made++;
        }
      });
      await optimisticUpdate<Counter>(blob, mutator);
      vi.unstubAllGlobals();
      return made;
    };
    const unused = await count(increment);
    const used = await count((draft, { signal }) => void (draft.n += Number(!signal.aborted)));
    expect(used).toBe(unused + 1);
  });
});

describe("the signal of a transaction", () => {
  it("aborts when the time is over and when the caller cancels, and nothing is written", async () => {
    for (const kind of ["timeout", "cancel"] as const) {
      const { table } = fakePartition({ a: 0 });
      const controller = new AbortController();
      let reason: unknown;
      const running = rejection(
        runTransaction(table, "p", async (tx) => {
          tx.update({ rowKey: "a", n: 1 });
          await aborted(tx.signal);
          reason = tx.signal.reason;
        }, { timeoutInMs: 50, abortSignal: controller.signal }),
      );
      await vi.advanceTimersByTimeAsync(10);
      if (kind === "cancel") controller.abort(new Error("the caller left"));
      await vi.advanceTimersByTimeAsync(40);
      expect(reason).toBe(await running);
      expect(reason).toMatchObject(kind === "timeout" ? { name: "OperationTimeoutError" } : { message: "the caller left" });
      expect(valueOf(table, "a")).toBe(0);
    }
  });
});
