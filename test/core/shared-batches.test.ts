import { useInstrumenter } from "@azure/core-tracing";
import type { InstrumenterSpanOptions, TracingContext, TracingSpan } from "@azure/core-tracing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Attempts } from "../../src/core/telemetry.js";
import { appendExactlyOnce, optimisticUpdate, runTransaction } from "../../src/index.js";
import type { CallOptions } from "../../src/index.js";
import { deferred } from "../fakes/deferred.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeInstrumenter } from "../fakes/fake-instrumenter.js";
import { FakeService } from "../fakes/fake-service.js";
import { gate } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";
import { fakePartition, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";

useFakeTimers();

/** Calls that share their requests, and how many effects of them are stored. */
interface Subject {
  readonly service: FakeService;
  /** The request that decides. */
  readonly write: string;
  readonly run: (options?: CallOptions) => Promise<unknown>;
  readonly effects: () => number;
}

/** What each subject is read with before it is written. */
const reads: Readonly<Record<string, string>> = { optimisticUpdate: "download", runTransaction: "getEntity", appendExactlyOnce: "getProperties" };

const subjects: Readonly<Record<string, () => Subject>> = {
  optimisticUpdate: () => {
    const { service, blob } = counterBlob();
    return { service, write: "upload", run: (options) => optimisticUpdate<Counter>(blob, increment, options), effects: () => (blob.json as Counter).n };
  },
  runTransaction: () => {
    const { service, table } = fakePartition({ a: 0 });
    return {
      service,
      write: "submitTransaction",
      run: (options) =>
        runTransaction(table, "p", async (tx) => tx.update({ rowKey: "a", n: (await tx.get<Numbered>("a"))!.n + 1 }), options),
      effects: () => Number(valueOf(table, "a")),
    };
  },
  appendExactlyOnce: () => {
    const service = new FakeService();
    const blob = new FakeAppendBlob(service);
    blob.put();
    return { service, write: "appendBlock", run: (options) => appendExactlyOnce(blob, "x", options), effects: () => blob.text.length };
  },
};

/** An instrumenter of which one call throws: the nth of its kind that concerns the span of an attempt. */
class DefectiveInstrumenter extends FakeInstrumenter {
  #left: number;
  readonly #call: string;

  constructor(call: string, nth: number) {
    super();
    this.#call = call;
    this.#left = nth;
  }

  get hasThrown(): boolean {
    return this.#left <= 0;
  }

  override startSpan(name: string, options: InstrumenterSpanOptions): { span: TracingSpan; tracingContext: TracingContext } {
    const check = (call: string): void => {
      if (name.endsWith(".attempt") && call === this.#call && --this.#left === 0) throw new Error("a defect of the tracer");
    };
    check("startSpan");
    const { span, tracingContext } = super.startSpan(name, options);
    const checked: TracingSpan = {
      ...span,
      setAttribute: (key, value) => {
        check(`setAttribute ${key}`);
        span.setAttribute(key, value);
      },
      end: () => {
        check("end");
        span.end();
      },
    };
    return { span: checked, tracingContext };
  }
}

/** Runs three calls in one batch in which something throws. Returns how each ended, and what is stored by then. */
async function runDefectiveBatch({ service, write, run, effects }: Subject, breakIt: () => void): Promise<{ settled: ("fulfilled" | "rejected" | undefined)[]; stored: number }> {
  const held = gate();
  service.next(write, held.fault);
  const first = run();
  await held.reached;
  // The calls that are made while a write is in flight form the next batch.
  breakIt();
  const outcomes = Array.from({ length: 3 }, () => {
    const outcome: { settled?: "fulfilled" | "rejected" } = {};
    run().then(
      () => (outcome.settled = "fulfilled"),
      () => (outcome.settled = "rejected"),
    );
    return outcome;
  });
  held.open();
  await first;
  await vi.advanceTimersByTimeAsync(1_000);
  return { settled: outcomes.map(({ settled }) => settled), stored: effects() - 1 };
}

describe.each(Object.entries(subjects))("in a batch of %s", (_, subject) => {
  const unhandled: unknown[] = [];
  const onUnhandled = (error: unknown): void => void unhandled.push(error);
  beforeEach(() => {
    unhandled.length = 0;
    process.on("unhandledRejection", onUnhandled);
  });
  afterEach(() => {
    process.off("unhandledRejection", onUnhandled);
    useInstrumenter(undefined as never);
    vi.restoreAllMocks();
    expect(unhandled).toEqual([]);
  });

  it.each(["startSpan", "setAttribute azsc.attempt", "setAttribute azsc.outcome", "end"])(
    "a tracer that throws in %s leaves no caller waiting, rejects none whose change is stored, and the next call works",
    async (call) => {
      const batch = subject();
      const instrumenter = new DefectiveInstrumenter(call, 2);
      const { settled, stored } = await runDefectiveBatch(batch, () => useInstrumenter(instrumenter));
      expect(instrumenter.hasThrown).toBe(true);
      expect(settled).not.toContain(undefined);
      expect(stored).toBe(settled.filter((outcome) => outcome === "fulfilled").length);
      await batch.run();
      expect(batch.effects()).toBe(2 + stored);
      await vi.advanceTimersByTimeAsync(1_000);
    },
  );

  it("a defect of the loop rejects the calls of that batch, and the next call works", async () => {
    const batch = subject();
    const begin = vi.spyOn(Attempts.prototype, "begin");
    const { settled, stored } = await runDefectiveBatch(batch, () => {
      begin.mockImplementationOnce(() => undefined).mockImplementationOnce(() => {
        throw new Error("a defect");
      });
    });
    expect(settled).toEqual(["rejected", "rejected", "rejected"]);
    expect(stored).toBe(0);
    await batch.run();
    expect(batch.effects()).toBe(2);
    await vi.advanceTimersByTimeAsync(1_000);
  });
});

/** Runs three functions in one batch; each adds its name to what is stored. */
interface Batch {
  readonly add: (name: string, work: () => Promise<void> | undefined, options?: CallOptions & { timeoutInMs?: number }) => Promise<unknown>;
  readonly stored: () => string[];
}

const batches: Readonly<Record<string, () => Batch>> = {
  optimisticUpdate: () => {
    const blob = new FakeBlockBlob(new FakeService());
    blob.put([]);
    return {
      add: (name, work, options) =>
        optimisticUpdate<string[]>(
          blob,
          async (names) => {
            await work();
            names.push(name);
          },
          options,
        ),
      stored: () => blob.json as string[],
    };
  },
  runTransaction: () => {
    const { table } = fakePartition();
    return {
      add: (name, work, options) =>
        runTransaction(
          table,
          "p",
          async (tx) => {
            await work();
            tx.create({ rowKey: name, n: 1 });
          },
          options,
        ),
      stored: () => table.rowKeys(),
    };
  },
};

describe.each(Object.entries(batches))("a call of %s", (_, batch) => {
  it.each([
    ["whose deadline passes", { timeoutInMs: 20 }, "OperationTimeoutError"],
    ["whose signal aborts", { abortSignal: undefined }, "AbortError"],
  ])("%s while a later call of its batch is running is not committed, and the others are", async (_, options, name) => {
    const { add, stored } = batch();
    const controller = new AbortController();
    const slow = deferred();
    const outcome = rejection(add("gone", () => undefined, "abortSignal" in options ? { abortSignal: controller.signal } : options));
    const others = [add("slow", () => slow.promise), add("quick", () => undefined)];
    await vi.advanceTimersByTimeAsync(20);
    controller.abort();
    expect(await outcome).toMatchObject({ name });
    slow.resolve();
    await Promise.all(others);
    expect(stored().toSorted()).toEqual(["quick", "slow"]);
  });
});

describe.each(Object.entries(subjects))("a call of %s that is made when the only other caller has just gone", (name, subject) => {
  it("is not cut off with it, although a response arrives at the same moment", async () => {
    const { service, run, effects } = subject();
    const held = gate("after");
    service.next(reads[name]!, held.fault);
    const controller = new AbortController();
    const gone = rejection(run({ abortSignal: controller.signal }));
    await held.reached;
    held.open();
    controller.abort(new Error("enough"));
    await run();
    expect((await gone).message).toBe("enough");
    expect(effects()).toBe(1);
  });

  it("is not cut off with it before anything was sent", async () => {
    const { run, effects } = subject();
    const controller = new AbortController();
    const gone = rejection(run({ abortSignal: controller.signal }));
    controller.abort(new Error("enough"));
    await run();
    expect((await gone).message).toBe("enough");
    expect(effects()).toBe(1);
  });
});
