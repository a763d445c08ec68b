import { describe, expect, it, vi } from "vitest";
import { blobHttpHeaders, blobMetadata, CommitUnknownError, ConflictError, createIfNotExists, LeaseUnavailableError, optimisticUpdate, overwrite, readTarget, deleteIfUnchanged, tableEntity, TargetNotFoundError } from "../../src/index.js";
import type { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { after, answer, before, busy, hang, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("createIfNotExists", () => {
  it("creates with one request", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toEqual({ value: { n: 1 }, etag: blob.stored?.etag, outcome: "created", attempts: 1, operationId: expect.any(String) as string });
    expect(service.operations).toEqual(["upload"]);
  });

  it("returns what exists with two, and leaves it alone", async () => {
    const { service, blob } = counterBlob();
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toMatchObject({ value: { n: 0 }, etag: blob.stored?.etag, outcome: "unchanged" });
    expect(service.operations).toEqual(["upload", "download"]);
    expect(blob.json).toEqual({ n: 0 });
  });

  it("returns what exists if the SAS may only create", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", answer(403, "UnauthorizedBlobOverwrite"));
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toMatchObject({ value: { n: 0 }, etag: blob.stored?.etag, outcome: "unchanged" });
  });

  it.each([
    ["PendingCopyOperation", 409],
    ["ContainerBeingDeleted", 409],
  ])("waits while the answer is %s", async (code, status) => {
    const { service, blob } = counterBlob();
    blob.drop();
    service.next("upload", answer(status, code), answer(status, code));
    expect(await inFakeTime(createIfNotExists<Counter>(blob, { n: 1 }))).toMatchObject({ outcome: "created", attempts: 1 });
    expect(service.operations).toEqual(["upload", "upload", "upload"]);
  });

  it("knows its own creation after a lost answer", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    service.next("upload", loseAnswer);
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toMatchObject({ outcome: "created", etag: blob.stored?.etag });
    expect(service.operations).toEqual(["upload", "download"]);
  });

  it("does not claim to have created what may be another client's, after a lost answer", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    await createIfNotExists<Counter>(blob, { n: 1 });
    service.next("upload", loseAnswer);
    expect(await rejection(createIfNotExists<Counter>(blob, { n: 1 }))).toBeInstanceOf(CommitUnknownError);
  });

  it("does not claim anything if the answer was lost and reading back failed", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    service.next("upload", loseAnswerForGood);
    const broken = answer(500, "InternalError");
    service.next("download", ...Array<Fault>(100).fill(broken));
    service.next("upload", ...Array<Fault>(100).fill(answer(503, "ServerBusy")));
    expect(await rejection(inFakeTime(createIfNotExists<Counter>(blob, { n: 1 })))).toBeInstanceOf(CommitUnknownError);
  });

  it("looks again if reading back failed once", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    service.next("upload", loseAnswerForGood);
    service.next("download", answer(500, "InternalError"));
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toMatchObject({ outcome: "created", value: { n: 1 } });
  });

  it("does not claim anything without a journal after a lost answer", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    service.next("upload", loseAnswer);
    expect(await rejection(createIfNotExists<Counter>(blob, { n: 1 }, { journal: false }))).toBeInstanceOf(CommitUnknownError);
  });

  it("tries again if what existed is gone when it is read", async () => {
    const { service, blob } = counterBlob();
    service.next("download", before(() => blob.drop()));
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toMatchObject({ outcome: "created", attempts: 2 });
  });

  it("creates an entity", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    const target = tableEntity<{ n: number }>(table, "p", "r");
    const value = { partitionKey: "p", rowKey: "r", n: 1 };
    expect(await createIfNotExists(target, value)).toMatchObject({ outcome: "created", value });
    expect(await createIfNotExists(target, { ...value, n: 2 })).toMatchObject({ outcome: "unchanged", value });
    expect(service.operations).toEqual(["createEntity", "createEntity", "getEntity"]);
  });

  it("returns what exists under a lease, whether the lease is the caller's or not, and leaves it alone", async () => {
    const { blob } = counterBlob();
    blob.stored!.leaseId = "mine";
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toMatchObject({ outcome: "unchanged", value: { n: 0 } });
    const own = await createIfNotExists<Counter>(blob, { n: 1 }, { conditions: { leaseId: "mine" } });
    expect(own).toMatchObject({ outcome: "unchanged", value: { n: 0 } });
    expect(blob.json).toEqual({ n: 0 });
  });
});

describe("overwrite", () => {
  it("stores without a condition, with one request", async () => {
    const { service, blob } = counterBlob();
    const upload = vi.spyOn(blob, "upload");
    expect(await overwrite<Counter>(blob, { n: 9 })).toEqual({ etag: blob.stored?.etag });
    expect(upload.mock.calls[0]![2]?.conditions).toEqual({});
    expect(service.operations).toEqual(["upload"]);
    expect(blob.json).toEqual({ n: 9 });
    blob.drop();
    await overwrite<Counter>(blob, { n: 10 });
    expect(blob.json).toEqual({ n: 10 });
  });

  it("replaces an entity, and creates one", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ old: { type: "String", value: "x" } });
    const target = tableEntity<{ n: number }>(table, "p", "r");
    expect(await overwrite(target, { n: 1 })).toEqual({ etag: table.row()?.etag });
    expect([...table.row()!.properties.keys()]).toEqual(["n", "asc_journal"]);
    expect(service.operations).toEqual(["upsertEntity"]);
  });

  it("overwrites metadata and headers", async () => {
    const { blob } = counterBlob();
    await overwrite(blobMetadata(blob), { a: "1" });
    expect(Object.keys(blob.metadata)).toEqual(["a", "asc_journal"]);
    await overwrite(blobMetadata(blob), { a: "1" }, { journal: false });
    // That of the content stays: it is not the business of who writes the metadata.
    expect(Object.keys(blob.metadata)).toEqual(["a", "asc_journal"]);
    await overwrite(blobHttpHeaders(blob), { cacheControl: "no-store" });
    expect(blob.stored?.headers).toEqual({ blobCacheControl: "no-store" });
  });

  it("passes the lease on, and says that one is in the way", async () => {
    const { blob } = counterBlob();
    blob.stored!.leaseId = "mine";
    expect(await rejection(overwrite<Counter>(blob, { n: 1 }))).toBeInstanceOf(LeaseUnavailableError);
    await overwrite<Counter>(blob, { n: 1 }, { conditions: { leaseId: "mine" } });
    expect(blob.json).toEqual({ n: 1 });
  });
});

describe("overwrite whose response is lost", () => {
  const { service, blob } = counterBlob();

  it("is found in the journal: the SDK does not send it again", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", loseAnswer);
    expect(await overwrite<Counter>(blob, { n: 9 })).toEqual({ etag: blob.stored?.etag });
    expect(service.operations).toEqual(["upload", "download"]);
    expect(service.requests[0]?.served).toBe(1);
  });

  it("does not erase an update that another client made on top of it", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", after(() => optimisticUpdate<Counter>(blob, (doc) => void (doc.n += 5)), loseAnswer));
    const { etag } = await overwrite<Counter>(blob, { n: 9 });
    expect(blob.json).toEqual({ n: 14 });
    // Not the ETag of the other value: with it, the caller could erase that value.
    expect(etag).toBe('"0x0"');
  });

  it("is of unknown outcome if it is not found: the request may still arrive", async () => {
    for (const fault of [loseRequest, after(() => blob.put({ n: 5 }), loseAnswerForGood)]) {
      service.next("upload", fault);
      expect(await rejection(overwrite<Counter>(blob, { n: 9 }))).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown", operationId: expect.stringContaining("~") as unknown });
    }
  });

  it("is sent again if the caller accepts that, and after a 503 ServerBusy in any case", async () => {
    service.next("upload", loseRequest);
    await inFakeTime(overwrite<Counter>(blob, { n: 9 }, { onUnknown: "retry" }));
    expect(blob.json).toEqual({ n: 9 });
    service.next("upload", busy, busy);
    await inFakeTime(overwrite<Counter>(blob, { n: 10 }));
    expect(blob.json).toEqual({ n: 10 });
  });

  it("counts as done without a journal if the value is stored", async () => {
    service.next("upload", loseAnswerForGood);
    await overwrite<Counter>(blob, { n: 11 }, { journal: false });
    service.next("upload", loseRequest);
    expect(await rejection(overwrite<Counter>(blob, { n: 12 }, { journal: false }))).toMatchObject({ code: "COMMIT_UNKNOWN" });
  });
});

describe("overwrite with ifMatch", () => {
  it("writes over that version only, and has the current ETag otherwise", async () => {
    const { service, blob } = counterBlob();
    const { etag } = blob.stored!;
    const next = await overwrite<Counter>(blob, { n: 1 }, { ifMatch: etag });
    expect(service.operations).toEqual(["upload"]);
    expect(await rejection(overwrite<Counter>(blob, { n: 2 }, { ifMatch: etag }))).toMatchObject({ code: "CONFLICT", attempts: 1, currentETag: next.etag });
    expect(blob.json).toEqual({ n: 1 });
    blob.drop();
    expect(await rejection(overwrite<Counter>(blob, { n: 2 }, { ifMatch: etag }))).toBeInstanceOf(TargetNotFoundError);
  });

  it("is resolved after a lost response, and sent again after a lost request", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", loseAnswer);
    const { etag } = await overwrite<Counter>(blob, { n: 1 }, { ifMatch: blob.stored!.etag });
    expect(etag).toBe(blob.stored?.etag);
    service.next("upload", loseRequest);
    await inFakeTime(overwrite<Counter>(blob, { n: 2 }, { ifMatch: etag }));
    expect(blob.json).toEqual({ n: 2 });
  });

  it("replaces an entity of that version, and metadata", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ old: { type: "String", value: "x" } });
    const target = tableEntity<{ n: number }>(table, "p", "r");
    const { etag } = table.row()!;
    await overwrite(target, { n: 1 }, { ifMatch: etag });
    expect(await rejection(overwrite(target, { n: 2 }, { ifMatch: etag }))).toMatchObject({ code: "CONFLICT", currentETag: table.row()!.etag });
    const { blob } = counterBlob();
    await overwrite(blobMetadata(blob), { a: "1" }, { ifMatch: blob.stored!.etag });
    expect(await rejection(overwrite(blobMetadata(blob), { a: "2" }, { ifMatch: '"0x1"' }))).toBeInstanceOf(ConflictError);
  });

  it.each(["*", "", 5])("cannot be %j", async (ifMatch) => {
    const { service, blob } = counterBlob();
    expect(await rejection(overwrite<Counter>(blob, { n: 1 }, { ifMatch: ifMatch as string }))).toBeInstanceOf(TypeError);
    expect(service.count()).toBe(0);
  });
});

describe("readTarget", () => {
  it("reads value and ETag with one request", async () => {
    const { service, blob } = counterBlob();
    expect(await readTarget<Counter>(blob)).toEqual({ value: { n: 0 }, etag: blob.stored?.etag });
    expect(service.operations).toEqual(["download"]);
  });

  it("says what is missing", async () => {
    const { blob } = counterBlob();
    blob.drop();
    expect(await rejection(readTarget(blob))).toBeInstanceOf(TargetNotFoundError);
  });

  it("is cancelled with the caller's reason, and leaves no listener", async () => {
    const { service, blob } = counterBlob();
    service.next("download", hang);
    const controller = countingController();
    const error = rejection(readTarget(blob, { abortSignal: controller.signal }));
    await vi.advanceTimersByTimeAsync(0);
    controller.abort(new Error("enough"));
    expect((await error).message).toBe("enough");
    expect(controller.listeners()).toBe(0);
    await expect(readTarget(blob, { abortSignal: controller.signal })).rejects.toThrow("enough");
    expect(service.count()).toBe(1);
  });
});

describe("deleteIfUnchanged", () => {
  it("deletes with one request", async () => {
    const { service, blob } = counterBlob();
    await deleteIfUnchanged(blob, blob.stored!.etag);
    expect(blob.stored).toBeUndefined();
    expect(service.operations).toEqual(["delete"]);
  });

  it("leaves alone what was changed", async () => {
    const { service, blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.putKeeping({ n: 1 });
    const error = await rejection(deleteIfUnchanged(blob, etag));
    expect(error).toBeInstanceOf(ConflictError);
    expect(error).toMatchObject({ code: "CONFLICT", committed: false, currentETag: blob.stored!.etag });
    expect(service.operations).toEqual(["delete", "download"]);
    expect(blob.json).toEqual({ n: 1 });
  });

  it("says what is missing", async () => {
    const { blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.drop();
    expect(await rejection(deleteIfUnchanged(blob, etag))).toBeInstanceOf(TargetNotFoundError);
  });

  it("does not claim to have deleted it if the answer was lost and it is gone", async () => {
    const { service, blob } = counterBlob();
    service.next("delete", loseAnswer);
    expect(await rejection(deleteIfUnchanged(blob, blob.stored!.etag))).toBeInstanceOf(CommitUnknownError);
    expect(service.operations).toEqual(["delete", "download"]);
  });

  it("is sent again if the request was lost", async () => {
    const { service, blob } = counterBlob();
    service.next("delete", loseRequest);
    await inFakeTime(deleteIfUnchanged(blob, blob.stored!.etag));
    expect(blob.stored).toBeUndefined();
  });

  it("does not know if the answer was lost and something is there again", async () => {
    const { service, blob } = counterBlob();
    service.next("delete", after(() => blob.put({ n: 1 }), loseAnswer));
    expect(await rejection(deleteIfUnchanged(blob, blob.stored!.etag))).toBeInstanceOf(CommitUnknownError);
    expect(blob.json).toEqual({ n: 1 });
  });

  it("is a TargetNotFoundError if it does not exist, whatever the service answers", async () => {
    const { blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.drop();
    expect(await rejection(deleteIfUnchanged(blob, etag))).toBeInstanceOf(TargetNotFoundError);
  });

  it("counts as deleted if the answer was lost and the caller accepts that another client did it", async () => {
    const { service, blob } = counterBlob();
    service.next("delete", loseAnswer);
    await deleteIfUnchanged(blob, blob.stored!.etag, { onUnknown: "retry" });
  });

  it("deletes an entity under its ETag", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ n: { type: "Int32", value: 1 } });
    const { etag } = table.row()!;
    table.merge({ n: { type: "Int32", value: 2 } });
    const target = tableEntity(table, "p", "r");
    expect(await rejection(deleteIfUnchanged(target, etag))).toBeInstanceOf(ConflictError);
    await deleteIfUnchanged(target, table.row()!.etag);
    expect(table.row()).toBeUndefined();
  });

  it("passes the lease on", async () => {
    const { blob } = counterBlob();
    blob.stored!.leaseId = "mine";
    await deleteIfUnchanged(blob, blob.stored!.etag, { conditions: { leaseId: "mine" } });
    expect(blob.stored).toBeUndefined();
  });
});

describe("a state of the blob that the service does not allow", () => {
  it.each([
    ["BlobImmutableDueToPolicy", 409, "immutable"],
    ["BlobUsesCustomerSpecifiedEncryption", 409, "encrypted"],
    ["UnauthorizedBlobOverwrite", 403, "overwrite"],
  ])("%s is told by an update, which has written nothing", async (code, status, reason) => {
    const { service, blob } = counterBlob();
    service.next("upload", answer(status, code));
    const error = await rejection(inFakeTime(optimisticUpdate<Counter>(blob, increment)));
    expect(error).toMatchObject({ code: "TARGET_STATE", reason, committed: false });
    expect(service.operations).toEqual(["download", "upload"]);
  });

  const waits: [string, (blob: FakeBlockBlob) => Promise<unknown>][] = [
    ["optimisticUpdate", (blob) => optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 5_000 })],
    ["overwrite", (blob) => overwrite<Counter>(blob, { n: 1 }, { timeoutInMs: 5_000 })],
  ];
  it.each(waits)("PendingCopyOperation is waited for by %s until its time limit, and nothing was written then", async (_name, call) => {
    const { service, blob } = counterBlob();
    service.next("upload", ...Array<Fault>(50).fill(answer(409, "PendingCopyOperation")));
    expect(await rejection(inFakeTime(call(blob)))).toMatchObject({ committed: false, retryable: true });
    expect(service.operations.filter((operation) => operation === "upload").length).toBeGreaterThan(2);
    expect(blob.json).toEqual({ n: 0 });
  });

  it("is not in the way of a response that is lost afterwards: the outcome is unknown then", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", answer(409, "PendingCopyOperation"), hang);
    const error = await rejection(inFakeTime(optimisticUpdate<Counter>(blob, increment, { timeoutInMs: 5_000, tryTimeoutInMs: 5_000 })));
    expect(error).toMatchObject({ committed: "unknown" });
  });

  it("BlobArchived is told by a read", async () => {
    const { service, blob } = counterBlob();
    service.next("download", answer(409, "BlobArchived"));
    expect(await rejection(inFakeTime(readTarget(blob)))).toMatchObject({ code: "TARGET_STATE", reason: "archived" });
  });

  it.each([409, 412])("an unknown code with %i is a conflict: the mutator runs again", async (status) => {
    const { service, blob } = counterBlob();
    service.next("upload", answer(status, "CodeOfTheFuture"));
    expect(await inFakeTime(optimisticUpdate<Counter>(blob, increment))).toMatchObject({ value: { n: 1 }, attempts: 2 });
  });
});
