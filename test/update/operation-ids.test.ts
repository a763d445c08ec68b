import { describe, expect, it, vi } from "vitest";
import { blobTags, DELETE, optimisticUpdate, overwrite, resolveOutcome, tableEntity } from "../../src/index.js";
import type { CommitUnknownError } from "../../src/index.js";
import { after, hang, loseAnswer, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("operationId", () => {
  it("is recognised by a later call: the mutator does not run again", async () => {
    const { service, blob } = counterBlob();
    const first = await optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" });
    expect(first).toMatchObject({ outcome: "updated", operationId: "order-1" });
    const mutator = vi.fn(increment);
    const again = await optimisticUpdate<Counter>(blob, mutator, { operationId: "order-1" });
    expect(again).toEqual({ outcome: "unchanged", value: { n: 1 }, etag: first.etag, attempts: 0, operationId: "order-1" });
    expect(mutator).not.toHaveBeenCalled();
    expect(service.operations).toEqual(["download", "upload", "download"]);
    await optimisticUpdate<Counter>(blob, increment, { operationId: "order-2" });
    expect(blob.json).toEqual({ n: 2 });
  });

  it("is recognised under 31 later writes", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" });
    for (let i = 0; i < 31; i++) await optimisticUpdate<Counter>(blob, increment);
    await optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" });
    expect(blob.json).toEqual({ n: 32 });
    await optimisticUpdate<Counter>(blob, increment);
    await optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" });
    expect(blob.json).toEqual({ n: 34 });
  });

  it("of concurrent calls is applied once, in one batch or by two processes", async () => {
    const { service, blob } = counterBlob();
    const results = await Promise.all(Array.from({ length: 5 }, () => optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" })));
    expect(results.map(({ attempts }) => attempts)).toEqual([1, 0, 0, 0, 0]);
    expect(blob.json).toEqual({ n: 1 });
    service.next("upload", after(() => undefined, pass));
    const both = await inFakeTime(Promise.all([1, 2].map(() => optimisticUpdate<Counter>(blob, increment, { operationId: "order-2", coalesce: false }))));
    expect(both.map(({ outcome }) => outcome).sort()).toEqual(["unchanged", "updated"]);
    expect(blob.json).toEqual({ n: 2 });
  });

  it("of a hundred concurrent calls is kept for each, in several batches", async () => {
    const { blob } = counterBlob();
    const update = (i: number): Promise<unknown> => optimisticUpdate<Counter>(blob, increment, { operationId: `order-${i}` });
    await inFakeTime(Promise.all(Array.from({ length: 40 }, (_, i) => update(i))));
    await inFakeTime(Promise.all(Array.from({ length: 40 }, (_, i) => update(i))));
    expect(blob.json).toEqual({ n: 40 });
  });

  it("is that of the CommitUnknownError, and a repetition is applied once, whether the first was stored or not", async () => {
    for (const fault of [loseAnswerForGood, loseRequest]) {
      const { service, blob } = counterBlob();
      service.next("upload", fault);
      service.next("download", pass);
      service.each("download", hang);
      const error = rejection(optimisticUpdate<Counter>(blob, increment, { operationId: "order-1", timeoutInMs: 100 }));
      await vi.advanceTimersByTimeAsync(100);
      expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN", operationId: "order-1" });
      service.next("download", pass, pass);
      await inFakeTime(optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" }));
      expect(blob.json).toEqual({ n: 1 });
    }
  });

  it("works for overwrite and entities", async () => {
    const { blob } = counterBlob();
    await overwrite<Counter>(blob, { n: 10 }, { operationId: "set-1" });
    await optimisticUpdate<Counter>(blob, increment);
    await overwrite<Counter>(blob, { n: 10 }, { operationId: "set-1" });
    expect(blob.json).toEqual({ n: 11 });
    const table = new FakeTable(new FakeService());
    const target = tableEntity<{ n: number }>(table, "p", "r");
    for (let i = 0; i < 3; i++) await optimisticUpdate(target, (draft) => {
        draft.n++;
      }, { operationId: "row-1", initial: { n: 0 } });
    expect(table.property("n")).toEqual({ type: "Int32", value: 1 });
  });

  it("needs a journal, and a name that it can hold", async () => {
    const { service, blob } = counterBlob();
    expect(await rejection(optimisticUpdate<Counter>(blob, increment, { operationId: "a", journal: false }))).toBeInstanceOf(TypeError);
    expect(await rejection(optimisticUpdate(blobTags(blob), () => undefined, { operationId: "a" }))).toBeInstanceOf(TypeError);
    expect(await rejection(optimisticUpdate<Counter>(blob, increment, { operationId: "a b" }))).toBeInstanceOf(RangeError);
    expect(service.count()).toBe(0);
  });
});

describe("resolveOutcome", () => {
  /** An update of unknown outcome: its response, or its request, is lost, and reading back fails. */
  async function unknown(how: typeof loseAnswerForGood, options: object = {}): Promise<{ operationId: string } & ReturnType<typeof counterBlob>> {
    const own = counterBlob();
    await optimisticUpdate<Counter>(own.blob, increment);
    own.service.next("upload", how);
    own.service.next("download", pass, hang, hang, hang);
    const error = rejection(optimisticUpdate<Counter>(own.blob, increment, { timeoutInMs: 100, ...options }));
    await vi.advanceTimersByTimeAsync(100);
    const { operationId } = (await error) as unknown as CommitUnknownError;
    expect(operationId).toBeTypeOf("string");
    return { ...own, operationId };
  }

  it("is committed if the journal has it, also under later writes", async () => {
    for (const options of [{}, { operationId: "order-1" }]) {
      const { blob, operationId } = await unknown(loseAnswerForGood, options);
      expect(await resolveOutcome(blob, operationId)).toBe("committed");
      for (let i = 0; i < 30; i++) await optimisticUpdate<Counter>(blob, increment);
      expect(await resolveOutcome(blob, operationId)).toBe("committed");
      for (let i = 0; i < 3; i++) await optimisticUpdate<Counter>(blob, increment);
      expect(await resolveOutcome(blob, operationId)).toBe("unknown");
    }
  });

  it("is notCommitted if another write is in its place, and unknown while the request may still arrive", async () => {
    const { blob, operationId } = await unknown(loseRequest);
    expect(await resolveOutcome(blob, operationId)).toBe("unknown");
    await optimisticUpdate<Counter>(blob, increment);
    expect(await resolveOutcome(blob, operationId)).toBe("notCommitted");
    await inFakeTime(optimisticUpdate<Counter>(blob, increment, { operationId }));
    expect(blob.json).toEqual({ n: 3 });
  });

  it("is unknown for an id of the caller that is not in the journal, and for a target that is gone", async () => {
    const { blob, operationId } = await unknown(loseRequest, { operationId: "order-1" });
    await optimisticUpdate<Counter>(blob, increment);
    expect(await resolveOutcome(blob, operationId)).toBe("unknown");
    await optimisticUpdate<Counter>(blob, () => DELETE);
    expect(await resolveOutcome(blob, operationId)).toBe("unknown");
  });

  it("is never notCommitted for an update that was committed", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", pass, loseAnswer);
    const results = [];
    for (let i = 0; i < 3; i++) results.push(await optimisticUpdate<Counter>(blob, increment));
    for (const { operationId } of results) expect(await resolveOutcome(blob, operationId)).not.toBe("notCommitted");
  });

  it("repeats an id of the library: it is applied once", async () => {
    const { blob, operationId } = await unknown(loseAnswerForGood);
    expect(await inFakeTime(optimisticUpdate<Counter>(blob, increment, { operationId }))).toMatchObject({ attempts: 0 });
    expect(blob.json).toEqual({ n: 2 });
  });

  it("rejects what is not an operation id, without a request", async () => {
    const { service, blob } = counterBlob();
    expect(await rejection(resolveOutcome(blob, "a b"))).toBeInstanceOf(RangeError);
    expect(await rejection(resolveOutcome(blob, undefined as never))).toBeInstanceOf(TypeError);
    expect(service.count()).toBe(0);
  });
});
