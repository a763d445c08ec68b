import { describe, expect, it, vi } from "vitest";
import { blobHttpHeaders, blobMetadata, CommitUnknownError, ConflictError, createIfNotExists, LeaseUnavailableError, overwrite, readTarget, deleteIfUnchanged, tableEntity, TargetNotFoundError } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { after, answer, before, hang, loseAnswer, loseAnswerForGood, loseRequest } from "../fakes/faults.js";
import type { Fault } from "../fakes/faults.js";
import { counterBlob } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { countingController } from "../support/counting-signal.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("createIfNotExists", () => {
  it("creates with one request", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toEqual({ value: { n: 1 }, etag: blob.stored?.etag, outcome: "created", attempts: 1 });
    expect(service.operations).toEqual(["upload"]);
  });

  it("returns what exists with two, and leaves it alone", async () => {
    const { service, blob } = counterBlob();
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toMatchObject({ value: { n: 0 }, etag: blob.stored?.etag, outcome: "unchanged" });
    expect(service.operations).toEqual(["upload", "download"]);
    expect(blob.json).toEqual({ n: 0 });
  });

  it("knows its own creation after a lost answer", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    service.next("upload", loseAnswer);
    expect(await createIfNotExists<Counter>(blob, { n: 1 })).toMatchObject({ outcome: "created", etag: blob.stored?.etag });
    expect(service.operations).toEqual(["upload", "download"]);
  });

  it("knows somebody else's after a lost answer, even if the content is the same", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    await createIfNotExists<Counter>(blob, { n: 1 });
    service.next("upload", loseAnswer);
    expect((await createIfNotExists<Counter>(blob, { n: 1 })).outcome).toBe("unchanged");
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
    expect([...table.row()!.properties.keys()]).toEqual(["n"]);
    expect(service.operations).toEqual(["upsertEntity"]);
  });

  it("overwrites metadata and headers", async () => {
    const { blob } = counterBlob();
    await overwrite(blobMetadata(blob), { a: "1" });
    expect(blob.metadata).toEqual({ a: "1" });
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
  it("is of unknown outcome if the SDK's second send is rejected: the first one is stored", async () => {
    const { service, blob } = counterBlob();
    // The first send is stored; then another client leases the blob.
    service.next("upload", async (exchange) => {
      await exchange.send();
      blob.stored!.leaseId = "theirs";
      return exchange.send();
    });
    const error = await rejection(overwrite<Counter>(blob, { n: 9 }));
    expect(error).toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown", cause: { statusCode: 412 } });
    expect(blob.json).toEqual({ n: 9 });
  });

  it("is done if the second send is accepted", async () => {
    const { service, blob } = counterBlob();
    service.next("upload", loseAnswer);
    expect(await overwrite<Counter>(blob, { n: 9 })).toEqual({ etag: blob.stored?.etag });
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
    expect(error).toMatchObject({ code: "CONFLICT", committed: false, currentETag: undefined });
    expect(service.count()).toBe(1);
    expect(blob.json).toEqual({ n: 1 });
  });

  it("says what is missing", async () => {
    const { blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.drop();
    expect(await rejection(deleteIfUnchanged(blob, etag))).toBeInstanceOf(TargetNotFoundError);
  });

  it("succeeds if the answer was lost and it is gone", async () => {
    const { service, blob } = counterBlob();
    service.next("delete", loseAnswer);
    await deleteIfUnchanged(blob, blob.stored!.etag);
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
