import { describe, expect, it, vi } from "vitest";
import { appendExactlyOnce, blobHttpHeaders, createIfNotExists, DELETE, deleteIfUnchanged, optimisticUpdate, overwrite, readTarget, runTransaction, tableEntity } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { answer, before, copyBelowSdk, hang, pass } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { fakePartition, valueOf } from "../transaction/fakes/partition.js";
import type { Numbered } from "../transaction/fakes/partition.js";

useFakeTimers();

describe("a delete that is copied below the SDK", () => {
  it("is of unknown outcome, with initial, too: the mutator does not run on what the copy left", async () => {
    for (const options of [{}, { initial: { n: 7 } }]) {
      const { service, blob } = counterBlob();
      service.next("delete", copyBelowSdk);
      const mutator = vi.fn((): typeof DELETE => DELETE);
      expect(await inFakeTime(rejection(optimisticUpdate<Counter>(blob, mutator, options)))).toMatchObject({ code: "COMMIT_UNKNOWN" });
      expect(mutator).toHaveBeenCalledTimes(1);
      expect(blob.stored).toBeUndefined();
    }
  });

  it("is a delete if the caller does not mind who did it", async () => {
    const { service, blob } = counterBlob();
    service.next("delete", copyBelowSdk);
    expect((await inFakeTime(optimisticUpdate<Counter>(blob, () => DELETE, { onUnknown: "retry" }))).outcome).toBe("deleted");
  });

  it("never says of deleteIfUnchanged that it deleted nothing", async () => {
    const { service, blob } = counterBlob();
    const { etag } = await readTarget(blob);
    service.next("delete", copyBelowSdk);
    expect(await rejection(deleteIfUnchanged(blob, etag))).toMatchObject({ code: "TARGET_NOT_FOUND", committed: "unknown" });
    const table = new FakeTable(new FakeService());
    table.put({ n: { type: "Int32", value: 0 } });
    const entity = await readTarget(tableEntity(table, "p", "r"));
    table.service.next("deleteEntity", copyBelowSdk);
    expect(await rejection(deleteIfUnchanged(tableEntity(table, "p", "r"), entity.etag))).toMatchObject({ code: "TARGET_NOT_FOUND", committed: "unknown" });
  });

  it("never says that it deleted nothing if what is stored cannot be read", async () => {
    const calls = [
      { expected: "TARGET_NOT_FOUND", run: async (blob: ReturnType<typeof counterBlob>["blob"], etag: string) => deleteIfUnchanged(blob, etag) },
      { expected: "COMMIT_UNKNOWN", run: async (blob: ReturnType<typeof counterBlob>["blob"]) => optimisticUpdate<Counter>(blob, () => DELETE) },
      { expected: "COMMIT_UNKNOWN", run: async (blob: ReturnType<typeof counterBlob>["blob"]) => optimisticUpdate<Counter>(blob, () => DELETE, { initial: { n: 7 } }) },
    ];
    for (const { expected, run } of calls) {
      const { service, blob } = counterBlob();
      const { etag } = await readTarget(blob);
      service.next("delete", (exchange) => {
        service.each("download", answer(403, "AuthorizationFailure"));
        return copyBelowSdk(exchange);
      });
      expect(await inFakeTime(rejection(run(blob, etag)))).toMatchObject({ code: expected, committed: "unknown" });
      expect(blob.stored).toBeUndefined();
    }
  });

  it("never says that it deleted nothing if another client has created the target again before it is read", async () => {
    const { service, blob } = counterBlob();
    const recreate: Fault = (exchange) => copyBelowSdk(exchange).finally(() => blob.put({ n: 5 }));
    const { etag } = await readTarget(blob);
    service.next("delete", recreate);
    expect(await inFakeTime(rejection(deleteIfUnchanged(blob, etag)))).toMatchObject({ code: "COMMIT_UNKNOWN" });
    service.next("delete", recreate);
    const mutator = vi.fn((): typeof DELETE => DELETE);
    expect(await inFakeTime(rejection(optimisticUpdate<Counter>(blob, mutator)))).toMatchObject({ code: "COMMIT_UNKNOWN" });
    service.next("delete", recreate);
    expect((await inFakeTime(optimisticUpdate<Counter>(blob, mutator, { onUnknown: "retry" }))).outcome).toBe("deleted");
    expect(mutator).toHaveBeenCalledTimes(2);
    expect(blob.json).toEqual({ n: 5 });
  });

  it("that met the change of another client is a conflict as before, also if what is stored cannot be read", async () => {
    const { service, blob } = counterBlob();
    const { etag } = await readTarget(blob);
    service.next("delete", before(() => blob.putKeeping({ n: 5 })));
    service.each("download", answer(403, "AuthorizationFailure"));
    expect(await inFakeTime(rejection(deleteIfUnchanged(blob, etag)))).toMatchObject({ code: "CONFLICT", committed: false });
  });

  it("that met the change of another client is a conflict as before", async () => {
    const { service, blob } = counterBlob();
    const { etag } = await readTarget(blob);
    service.next("delete", before(() => blob.putKeeping({ n: 5 })));
    expect(await rejection(deleteIfUnchanged(blob, etag))).toMatchObject({ code: "CONFLICT", committed: false });
  });
});

describe("an update without a journal that is copied below the SDK", () => {
  const later = (headers: { cacheControl?: string | undefined }): void => {
    headers.cacheControl = `max-age=${Number(headers.cacheControl?.split("=")[1] ?? 0) + 1}`;
  };

  it("is not applied twice: headers", async () => {
    const { service, blob } = counterBlob();
    service.next("setHTTPHeaders", copyBelowSdk);
    expect(await inFakeTime(rejection(optimisticUpdate(blobHttpHeaders(blob), later)))).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(blob.stored?.headers.blobCacheControl).toBe("max-age=1");
  });

  it("is not applied twice: journal: false", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", copyBelowSdk);
    const errors = await inFakeTime(Promise.all([1, 2].map(() => rejection(optimisticUpdate<Counter>(blob, increment, { journal: false })))));
    for (const error of errors) expect(error).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(blob.json).toEqual({ n: 2 });
    blob.drop();
    service.next("upload", copyBelowSdk);
    expect(await inFakeTime(rejection(optimisticUpdate<Counter>(blob, increment, { journal: false, initial: { n: 0 } })))).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(blob.json).toEqual({ n: 1 });
  });

  it("is unchanged if the mutator is content with what is stored", async () => {
    const { service, blob } = counterBlob();
    service.next("setHTTPHeaders", copyBelowSdk);
    expect(await inFakeTime(optimisticUpdate(blobHttpHeaders(blob), (headers) => void (headers.cacheControl = "no-store")))).toMatchObject({ outcome: "unchanged" });
  });

  it("is applied again with onUnknown: retry, and after a conflict with another value", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", copyBelowSdk);
    expect((await inFakeTime(optimisticUpdate<Counter>(blob, increment, { journal: false, onUnknown: "retry" }))).value).toEqual({ n: 2 });
    service.next("upload", before(() => blob.putKeeping({ n: 10 })));
    expect((await inFakeTime(optimisticUpdate<Counter>(blob, increment, { journal: false }))).value).toEqual({ n: 11 });
  });
});

describe("a deadline between the conflict of a copied write and the read that shows its outcome", () => {
  const limits = { timeoutInMs: 100, tryTimeoutInMs: 1_000 };

  it("leaves the outcome unknown: an update", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", copyBelowSdk);
    service.next("download", pass);
    service.each("download", hang);
    const error = rejection(optimisticUpdate<Counter>(blob, increment, limits));
    await vi.advanceTimersByTimeAsync(100);
    expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(blob.json).toEqual({ n: 1 });
  });

  it("leaves the outcome unknown: a transaction", async () => {
    const { service, table } = fakePartition({ a: 1 });
    service.next("submitTransaction", copyBelowSdk);
    service.next("getEntity", pass);
    service.each("getEntity", hang);
    const error = rejection(runTransaction(table, "p", async (tx) => tx.update({ rowKey: "a", n: (await tx.get<Numbered>("a"))!.n + 1 }), limits));
    await vi.advanceTimersByTimeAsync(100);
    expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(valueOf(table, "a")).toBe(2);
  });

  it.each([true, false])("leaves the outcome unknown: an append, uniqueRecords %s", async (uniqueRecords) => {
    const service = new FakeService();
    const blob = new FakeAppendBlob(service);
    await appendExactlyOnce(blob, "a\n", { uniqueRecords, createIfNotExists: true });
    service.next("appendBlock", copyBelowSdk);
    service.each("getProperties", hang);
    const error = rejection(appendExactlyOnce(blob, "b\n", { ...limits, uniqueRecords }));
    await vi.advanceTimersByTimeAsync(100);
    expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(Buffer.from(blob.stored!.content).toString()).toBe("a\nb\n");
  });

  it("leaves the outcome unknown: single writes", async () => {
    for (const call of [
      (blob: ReturnType<typeof counterBlob>["blob"]) => createIfNotExists<Counter>(blob, { n: 1 }, limits),
      (blob: ReturnType<typeof counterBlob>["blob"]) => {
        blob.put({ n: 0 });
        return overwrite<Counter>(blob, { n: 1 }, { ...limits, ifMatch: blob.stored!.etag });
      },
    ]) {
      const { service, blob } = counterBlob();
      blob.drop();
      service.next("upload", copyBelowSdk);
      service.each("download", hang);
      const error = rejection(call(blob));
      await vi.advanceTimersByTimeAsync(100);
      expect(await error).toMatchObject({ code: "COMMIT_UNKNOWN" });
      expect(blob.json).toEqual({ n: 1 });
    }
  });
});
