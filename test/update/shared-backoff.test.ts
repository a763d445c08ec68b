import { afterEach, describe, expect, it, vi } from "vitest";
import { appendExactlyOnce, optimisticUpdate, runTransaction } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { before } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, set, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";

useFakeTimers();

afterEach(() => {
  vi.restoreAllMocks();
});

interface Delays {
  readonly retryDelayInMs?: number;
  readonly maxRetryDelayInMs?: number;
  readonly timeoutInMs: number;
}

const patient: Delays = { retryDelayInMs: 20_000, maxRetryDelayInMs: 20_000, timeoutInMs: 120_000 };
const usual: Delays = { timeoutInMs: 2_000 };

/** The first write meets a conflict with a client that does not use the library. */
const helpers: Readonly<Record<string, () => (which: "first" | "second", delays: Delays) => Promise<unknown>>> = {
  optimisticUpdate: () => {
    const { service, blob } = counterBlob();
    service.next("upload", before(() => blob.putKeeping({ n: 10 })));
    return (_, delays) => optimisticUpdate<Counter>(blob, increment, delays);
  },
  runTransaction: () => {
    const { service, table } = fakePartition({ first: 1, second: 1 });
    service.next("submitTransaction", before(() => set(table, "first", 10)));
    return (rowKey, delays) =>
      runTransaction<Numbered>(table, "p", async (tx) => {
        const row = await tx.get(rowKey);
        tx.update({ rowKey, n: row!.n + 1 });
      }, delays).then(() => valueOf(table, rowKey));
  },
  appendExactlyOnce: () => {
    const service = new FakeService();
    const blob = new FakeAppendBlob(service);
    blob.put("");
    service.next("appendBlock", before(() => blob.appendForeign("other\n")));
    return (record, delays) => appendExactlyOnce(blob, `${record}\n`, delays);
  },
};

describe.each(Object.keys(helpers))("%s: a caller that asks for long delays", (name) => {
  it("does not hold back another one of the same batch", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.9);
    const call = helpers[name]!();
    const first = call("first", patient);
    await inFakeTime(call("second", usual));
    await inFakeTime(first);
  });

  it("does not hold back one that comes while it waits", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.9);
    const call = helpers[name]!();
    const started = performance.now();
    const first = call("first", patient);
    await vi.advanceTimersByTimeAsync(100);
    await inFakeTime(call("second", usual));
    await inFakeTime(first);
    expect(performance.now() - started).toBeLessThan(2_100);
  });

  it("gets them if it is alone", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.9);
    const call = helpers[name]!();
    const started = performance.now();
    await inFakeTime(call("first", patient));
    expect(performance.now() - started).toBeGreaterThan(17_000);
  });
});
