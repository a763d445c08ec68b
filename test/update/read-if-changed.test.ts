import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { z } from "zod";
import { blobHttpHeaders, blobMetadata, blobTags, jsonBlob, optimisticUpdate, readIfChanged, readTarget, tableEntity, TargetNotFoundError, tryReadTarget } from "../../src/index.js";
import type { BlobLike } from "../../src/clients.js";
import type { ReadIfChangedResult, ReadResult, UpdateTarget } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { answer } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("readIfChanged", () => {
  it("has a result whose type tells whether there is a value", () => {
    const { blob } = counterBlob();
    expectTypeOf(() => readTarget<Counter>(blob)).toEqualTypeOf<() => Promise<ReadResult<Counter>>>();
    expectTypeOf(() => tryReadTarget<Counter>(blob)).toEqualTypeOf<() => Promise<ReadResult<Counter> | undefined>>();
    expectTypeOf(() => readIfChanged<Counter>(blob, "e")).toEqualTypeOf<() => Promise<ReadIfChangedResult<Counter>>>();
    expectTypeOf<Extract<ReadIfChangedResult<Counter>, { changed: true }>["value"]>().toEqualTypeOf<Counter>();
  });

  it("has no value after one conditional request, without content", async () => {
    const { service, blob } = counterBlob();
    const download = vi.spyOn(blob, "download");
    const { etag } = blob.stored!;
    expect(await readIfChanged<Counter>(blob, etag)).toEqual({ changed: false, etag });
    expect(service.operations).toEqual(["download"]);
    expect(download.mock.calls[0]![2]?.conditions).toEqual({ ifNoneMatch: etag });
  });

  it("is the new value if there is one, and an update can start from it", async () => {
    const { service, blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.put({ n: 1 });
    const read = await readIfChanged<Counter>(blob, etag);
    expect(read).toEqual({ changed: true, value: { n: 1 }, etag: blob.stored?.etag });
    if (!read.changed) throw new Error("impossible");
    await optimisticUpdate<Counter>(blob, increment, { startFrom: read });
    expect(service.operations).toEqual(["download", "upload"]);
    expect(blob.json).toEqual({ n: 2 });
  });

  it.each<[string, (blob: BlobLike) => UpdateTarget<unknown>]>([
    ["metadata", blobMetadata as (blob: BlobLike) => UpdateTarget<unknown>],
    ["HTTP headers", blobHttpHeaders as (blob: BlobLike) => UpdateTarget<unknown>],
  ])("asks for %s on the condition too", async (_name, targetOf) => {
    const { service, blob } = counterBlob();
    const { etag } = await readTarget(targetOf(blob));
    const getProperties = vi.spyOn(blob, "getProperties");
    expect(await readIfChanged(targetOf(blob), etag)).toEqual({ changed: false, etag });
    expect(getProperties.mock.calls[0]![0]?.conditions).toEqual({ ifNoneMatch: etag });
    blob.put({ n: 1 }, { metadata: { a: "1" }, headers: { blobContentType: "a/b" } });
    expect(await readIfChanged(targetOf(blob), etag)).toMatchObject({ etag: blob.stored?.etag });
    expect(service.operations).toEqual(["getProperties", "getProperties", "getProperties"]);
  });

  it("compares tags by what they are, as they do not change the blob's ETag", async () => {
    const { service, blob } = counterBlob();
    await blob.setTags({ a: "1" });
    const before = blob.stored!.etag;
    const { etag } = await readTarget(blobTags(blob));
    expect(await readIfChanged(blobTags(blob), etag)).toEqual({ changed: false, etag });
    await blob.setTags({ a: "2" });
    expect(blob.stored!.etag).toBe(before);
    expect(await readIfChanged(blobTags(blob), etag)).toMatchObject({ value: { a: "2" } });
    expect(service.count("getTags")).toBe(3);
  });

  it("reads an entity whole, and compares", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ n: { type: "Int32", value: 1 } });
    const target = tableEntity<{ n: number }>(table, "p", "r");
    const { etag } = await readTarget(target);
    expect(await readIfChanged(target, etag)).toEqual({ changed: false, etag });
    table.merge({ n: { type: "Int32", value: 2 } });
    expect(await readIfChanged(target, etag)).toMatchObject({ value: { n: 2 } });
    expect(service.operations).toEqual(["getEntity", "getEntity", "getEntity"]);
  });

  it("says what is missing", async () => {
    const { blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.drop();
    expect(await rejection(readIfChanged(blob, etag))).toBeInstanceOf(TargetNotFoundError);
    expect(await rejection(readIfChanged(blobMetadata(blob), etag))).toBeInstanceOf(TargetNotFoundError);
  });

  it("checks what is new with the schema, and passes on what the service refuses", async () => {
    const { service, blob } = counterBlob();
    const target = jsonBlob(blob, { schema: z.object({ n: z.string() }) });
    expect(await rejection(readIfChanged(target, '"0x0"'))).toMatchObject({ name: "SchemaError" });
    service.next("download", answer(403, "AuthorizationFailure"));
    expect(await rejection(readIfChanged(blob, '"0x0"'))).toMatchObject({ statusCode: 403 });
  });

  it.each([["", RangeError], ["*", RangeError], [7, TypeError], [null, TypeError]])("refuses %j before it asks", async (etag, error) => {
    const { service, blob } = counterBlob();
    expect(await rejection(readIfChanged(blob, etag as string))).toBeInstanceOf(error);
    expect(service.count()).toBe(0);
  });
});

describe("tryReadTarget", () => {
  it("reads what is stored as readTarget does, and an update can start from it", async () => {
    const { service, blob } = counterBlob();
    const found = await tryReadTarget<Counter>(blob);
    expect(found).toEqual({ value: { n: 0 }, etag: blob.stored?.etag });
    await optimisticUpdate<Counter>(blob, increment, { startFrom: found });
    expect(service.operations).toEqual(["download", "upload"]);
  });

  it.each<[string, (blob: BlobLike) => UpdateTarget<unknown>]>([
    ["the content", jsonBlob as (blob: BlobLike) => UpdateTarget<unknown>],
    ["the metadata", blobMetadata as (blob: BlobLike) => UpdateTarget<unknown>],
  ])("is undefined for %s of a blob that does not exist", async (_name, targetOf) => {
    const { blob } = counterBlob();
    blob.drop();
    expect(await tryReadTarget(targetOf(blob))).toBeUndefined();
    expect(await rejection(readTarget(targetOf(blob)))).toBeInstanceOf(TargetNotFoundError);
  });

  it("rejects with every other error", async () => {
    const { service, blob } = counterBlob();
    service.next("download", answer(403, "AuthorizationFailure"));
    expect(await rejection(tryReadTarget(blob))).toMatchObject({ statusCode: 403 });
    expect(await rejection(tryReadTarget(jsonBlob(blob, { schema: z.object({ n: z.string() }) })))).toMatchObject({ name: "SchemaError" });
  });
});
