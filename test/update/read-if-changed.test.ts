import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { z } from "zod";
import { blobHttpHeaders, blobMetadata, blobTags, jsonBlob, optimisticUpdate, readTarget, tableEntity, TargetNotFoundError } from "../../src/index.js";
import type { BlobLike } from "../../src/clients.js";
import type { ReadResult, UpdateTarget } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { answer } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("readTarget with ifChangedSince", () => {
  it("has a type without \"unchanged\" unless it is asked for", () => {
    type Plain = () => Promise<ReadResult<Counter>>;
    type Conditional = () => Promise<ReadResult<Counter> | "unchanged">;
    const { blob } = counterBlob();
    const etag = "e" as string | undefined;
    expectTypeOf(() => readTarget<Counter>(blob)).toEqualTypeOf<Plain>();
    expectTypeOf(() => readTarget<Counter>(blob, { timeoutInMs: 5 })).toEqualTypeOf<Plain>();
    expectTypeOf(() => readTarget<Counter>(blob, { ifChangedSince: "e" })).toEqualTypeOf<Conditional>();
    expectTypeOf(() => readTarget<Counter>(blob, { ifChangedSince: etag })).toEqualTypeOf<Conditional>();
  });

  it("is \"unchanged\" by one conditional request, without content", async () => {
    const { service, blob } = counterBlob();
    const download = vi.spyOn(blob, "download");
    const { etag } = blob.stored!;
    expect(await readTarget<Counter>(blob, { ifChangedSince: etag })).toBe("unchanged");
    expect(service.operations).toEqual(["download"]);
    expect(download.mock.calls[0]![2]?.conditions).toEqual({ ifNoneMatch: etag });
  });

  it("is the new value if there is one, and an update can start from it", async () => {
    const { service, blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.put({ n: 1 });
    const read = await readTarget<Counter>(blob, { ifChangedSince: etag });
    expect(read).toEqual({ value: { n: 1 }, etag: blob.stored?.etag });
    if (read === "unchanged") throw new Error("impossible");
    await optimisticUpdate<Counter>(blob, increment, { startFrom: read });
    expect(service.operations).toEqual(["download", "upload"]);
    expect(blob.json).toEqual({ n: 2 });
  });

  it.each<[string, (blob: BlobLike) => UpdateTarget<object>]>([
    ["metadata", blobMetadata],
    ["HTTP headers", blobHttpHeaders],
  ])("asks for %s on the condition too", async (_name, targetOf) => {
    const { service, blob } = counterBlob();
    const { etag } = await readTarget(targetOf(blob));
    const getProperties = vi.spyOn(blob, "getProperties");
    expect(await readTarget(targetOf(blob), { ifChangedSince: etag })).toBe("unchanged");
    expect(getProperties.mock.calls[0]![0]?.conditions).toEqual({ ifNoneMatch: etag });
    blob.put({ n: 1 }, { metadata: { a: "1" }, headers: { blobContentType: "a/b" } });
    expect(await readTarget(targetOf(blob), { ifChangedSince: etag })).toMatchObject({ etag: blob.stored?.etag });
    expect(service.operations).toEqual(["getProperties", "getProperties", "getProperties"]);
  });

  it("compares tags by what they are, as they do not change the blob's ETag", async () => {
    const { service, blob } = counterBlob();
    await blob.setTags({ a: "1" });
    const before = blob.stored!.etag;
    const { etag } = await readTarget(blobTags(blob));
    expect(await readTarget(blobTags(blob), { ifChangedSince: etag })).toBe("unchanged");
    await blob.setTags({ a: "2" });
    expect(blob.stored!.etag).toBe(before);
    expect(await readTarget(blobTags(blob), { ifChangedSince: etag })).toMatchObject({ value: { a: "2" } });
    expect(service.count("getTags")).toBe(3);
  });

  it("reads an entity whole, and compares", async () => {
    const service = new FakeService();
    const table = new FakeTable(service);
    table.put({ n: { type: "Int32", value: 1 } });
    const target = tableEntity<{ n: number }>(table, "p", "r");
    const { etag } = await readTarget(target);
    expect(await readTarget(target, { ifChangedSince: etag })).toBe("unchanged");
    table.merge({ n: { type: "Int32", value: 2 } });
    expect(await readTarget(target, { ifChangedSince: etag })).toMatchObject({ value: { n: 2 } });
    expect(service.operations).toEqual(["getEntity", "getEntity", "getEntity"]);
  });

  it("says what is missing", async () => {
    const { blob } = counterBlob();
    const { etag } = blob.stored!;
    blob.drop();
    expect(await rejection(readTarget(blob, { ifChangedSince: etag }))).toBeInstanceOf(TargetNotFoundError);
    expect(await rejection(readTarget(blobMetadata(blob), { ifChangedSince: etag }))).toBeInstanceOf(TargetNotFoundError);
  });

  it("checks what is new with the schema, and passes on what the service refuses", async () => {
    const { service, blob } = counterBlob();
    const target = jsonBlob(blob, { schema: z.object({ n: z.string() }) });
    expect(await rejection(readTarget(target, { ifChangedSince: '"0x0"' }))).toMatchObject({ name: "SchemaError" });
    service.next("download", answer(403, "AuthorizationFailure"));
    expect(await rejection(readTarget(blob, { ifChangedSince: '"0x0"' }))).toMatchObject({ statusCode: 403 });
  });

  it.each([["", RangeError], ["*", RangeError], [7, TypeError], [null, TypeError]])("refuses %j before it asks", async (etag, error) => {
    const { service, blob } = counterBlob();
    expect(await rejection(readTarget(blob, { ifChangedSince: etag as string }))).toBeInstanceOf(error);
    expect(service.count()).toBe(0);
  });
});
