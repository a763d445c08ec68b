import { describe, expect, it, vi } from "vitest";
import { blobMetadata, createIfNotExists, optimisticUpdate, overwrite, resolveOutcome, runTransaction } from "../../src/index.js";
import type { CommitUnknownError, Transaction } from "../../src/index.js";
import { after, answer, before, failAfterCommit, hang, hangAfterCommit, loseAnswerForGood, loseRequest, pass } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";

useFakeTimers();

const both = [1, 2];

describe.each([["request", loseRequest, 0], ["response", loseAnswerForGood, 2]] as const)("two callers that share a write whose %s is lost", (_, fault, stored) => {
  it("can repeat their updates by the ids of their errors: each is applied once", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", fault);
    service.next("download", pass);
    service.each("download", hang);
    const errors = both.map(() => rejection(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 100 })));
    await vi.advanceTimersByTimeAsync(100);
    const ids = (await Promise.all(errors)).map((error) => (error as unknown as CommitUnknownError).operationId);
    expect(new Set(ids).size).toBe(2);
    service.heal();
    expect(blob.json).toEqual({ n: stored });
    // Twice: the repetitions are recorded under the ids, too. In one write and in two.
    await inFakeTime(Promise.all(ids.map((operationId) => optimisticUpdate<Counter>(blob, increment, { operationId }))));
    for (const operationId of ids) await inFakeTime(optimisticUpdate<Counter>(blob, increment, { operationId }));
    expect(blob.json).toEqual({ n: 2 });
    for (const id of ids) expect(await resolveOutcome(blob, id)).toBe("committed");
  });

  it("can repeat their transactions by the ids of their errors: each is applied once", async () => {
    const { service, table } = fakePartition({ a: 0 });
    const fn = async (tx: Transaction): Promise<void> => {
      const row = await tx.get<Numbered>("a");
      tx.update({ rowKey: "a", n: row!.n + 1 });
    };
    service.next("submitTransaction", fault);
    service.next("getEntity", pass);
    service.each("getEntity", hang);
    const errors = both.map(() => rejection(runTransaction(table, "p", fn, { timeoutInMs: 100 })));
    await vi.advanceTimersByTimeAsync(100);
    const ids = (await Promise.all(errors)).map((error) => (error as unknown as CommitUnknownError).operationId);
    expect(new Set(ids).size).toBe(2);
    service.heal();
    expect(valueOf(table, "a")).toBe(stored);
    for (let i = 0; i < 2; i++) for (const operationId of ids) await inFakeTime(runTransaction(table, "p", fn, { operationId }));
    expect(valueOf(table, "a")).toBe(2);
  });
});

describe("the id of a write outside of the journal", () => {
  it("is never said to be not committed, and two callers of one write have two", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment);
    service.next("upload", loseAnswerForGood);
    const errors = await inFakeTime(Promise.all(both.map(() => rejection(optimisticUpdate<Counter>(blob, increment, { journal: false })))));
    const ids = errors.map((error) => (error as unknown as CommitUnknownError).operationId);
    expect(new Set(ids).size).toBe(2);
    await optimisticUpdate<Counter>(blob, increment);
    for (const id of ids) expect(await resolveOutcome(blob, id)).toBe("unknown");
  });

  it("of createIfNotExists says nothing, either", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    service.next("upload", loseRequest);
    const { operationId } = (await inFakeTime(rejection(createIfNotExists<Counter>(blob, { n: 1 }, { journal: false })))) as unknown as CommitUnknownError;
    await createIfNotExists<Counter>(blob, { n: 1 });
    expect(await resolveOutcome(blob, operationId)).toBe("unknown");
  });
});

describe('with onUnknown: "retry"', () => {
  it("the id is never said to be not committed if an earlier write was committed", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment);
    // Stored, and then the journal is dropped by a client that does not know it.
    service.next("upload", after(() => blob.put({ n: 2 }), failAfterCommit), hang);
    const error = rejection(optimisticUpdate<Counter>(blob, increment, { onUnknown: "retry", timeoutInMs: 1_000, tryTimeoutInMs: 10_000 }));
    await vi.advanceTimersByTimeAsync(1_000);
    const { operationId } = (await error) as unknown as CommitUnknownError;
    await optimisticUpdate<Counter>(blob, increment);
    expect(await resolveOutcome(blob, operationId)).toBe("unknown");
  });

  it("a retry is found under the id of the first write, and is not applied again by a repetition", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment);
    service.next("upload", after(() => blob.put({ n: 2 }), failAfterCommit), hangAfterCommit);
    const error = rejection(optimisticUpdate<Counter>(blob, increment, { onUnknown: "retry", timeoutInMs: 1_000, tryTimeoutInMs: 10_000 }));
    await vi.advanceTimersByTimeAsync(1_000);
    const { operationId } = (await error) as unknown as CommitUnknownError;
    expect(await resolveOutcome(blob, operationId)).toBe("committed");
    await optimisticUpdate<Counter>(blob, increment, { operationId });
    expect(blob.json).toEqual({ n: 3 });
  });

  it("a retry that finds its first write does not apply it again", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", failAfterCommit);
    service.next("download", pass, answer(500, "InternalError"), answer(500, "InternalError"), answer(500, "InternalError"));
    const result = await inFakeTime(optimisticUpdate<Counter>(blob, increment, { onUnknown: "retry" }));
    expect(result).toMatchObject({ outcome: "updated", value: { n: 1 }, etag: blob.stored?.etag });
    expect(blob.json).toEqual({ n: 1 });
  });

  it.each([{ create: false }, { create: true }])("a retry that finds its first write under another one returns what it wrote itself (create: $create)", async ({ create }) => {
    const { service, blob } = counterBlob();
    if (create) blob.drop();
    const fail = answer(500, "InternalError");
    service.next("upload", failAfterCommit);
    service.next("download", pass, fail, fail, fail, before(() => optimisticUpdate<Counter>(blob, (doc) => void (doc.n += 100), { coalesce: false })));
    const update = (): ReturnType<typeof optimisticUpdate<Counter>> => optimisticUpdate<Counter>(blob, increment, { onUnknown: "retry", initial: { n: 0 } });
    const [one, two] = await inFakeTime(Promise.all([update(), update()]));
    expect(one).toMatchObject({ outcome: create ? "created" : "updated", value: { n: 1 } });
    expect(two).toMatchObject({ outcome: "updated", value: { n: 2 } });
    // With the ETag of the other write, the caller could overwrite it without having seen it.
    for (const { etag } of [one, two]) expect(etag).not.toBe(blob.stored?.etag);
    expect(blob.json).toEqual({ n: 102 });
  });

  it("a retry of which another call has applied the operation returns what is stored", async () => {
    const { service, blob } = counterBlob();
    const fail = answer(500, "InternalError");
    service.next("upload", loseRequest);
    service.next("download", pass, fail, fail, fail, before(() => optimisticUpdate<Counter>(blob, (doc) => void (doc.n += 100), { coalesce: false, operationId: "order-1" })));
    const result = await inFakeTime(optimisticUpdate<Counter>(blob, increment, { onUnknown: "retry", operationId: "order-1" }));
    expect(result).toMatchObject({ outcome: "unchanged", value: { n: 100 } });
    expect(blob.json).toEqual({ n: 100 });
  });
});

describe("content and metadata of one blob share a journal", () => {
  it("but an operation of one is not a repetition of the same id of the other", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" });
    const setState = (metadata: Record<string, string>): void => void (metadata["state"] = `${metadata["state"] ?? ""}x`);
    for (let i = 0; i < 2; i++) {
      await optimisticUpdate(blobMetadata(blob), setState, { operationId: "order-1" });
      await optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" });
    }
    expect(blob.metadata["state"]).toBe("x");
    expect(blob.json).toEqual({ n: 1 });
    expect(await resolveOutcome(blobMetadata(blob), "order-1")).toBe("committed");
  });

  it("and an overwrite of the metadata keeps it", async () => {
    for (const options of [{}, { journal: false as const }, { operationId: "meta-1" }]) {
      const { service, blob } = counterBlob();
      await optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" });
      service.requests.length = 0;
      await overwrite(blobMetadata(blob), { state: "x" }, options);
      expect(service.operations).toEqual(["getProperties", "setMetadata"]);
      await optimisticUpdate<Counter>(blob, increment, { operationId: "order-1" });
      expect(blob.json).toEqual({ n: 1 });
      expect(blob.metadata["state"]).toBe("x");
    }
  });

  it("and an overwrite of the metadata whose response is lost is found by its id", async () => {
    const { service, blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment);
    service.next("setMetadata", loseAnswerForGood);
    service.next("getProperties", pass);
    service.each("getProperties", hang);
    const error = rejection(overwrite(blobMetadata(blob), { state: "x" }, { timeoutInMs: 100 }));
    await vi.advanceTimersByTimeAsync(100);
    service.heal();
    const { operationId } = (await error) as unknown as CommitUnknownError;
    expect(await resolveOutcome(blobMetadata(blob), operationId)).toBe("committed");
  });

  it("and an overwrite of the metadata of a blob that does not exist says so", async () => {
    const { blob } = counterBlob();
    blob.drop();
    expect(await rejection(overwrite(blobMetadata(blob), { state: "x" }))).toMatchObject({ code: "TARGET_NOT_FOUND" });
  });
});

