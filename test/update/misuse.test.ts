import { describe, expect, it } from "vitest";
import { blobHttpHeaders, blobMetadata, blobTags, createIfNotExists, jsonBlob, optimisticUpdate, overwrite, readTarget, deleteIfUnchanged, tableEntity } from "../../src/index.js";
import type { OptimisticUpdateOptions } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

type Options = OptimisticUpdateOptions<Counter>;

describe("misuse is an error before any request", () => {
  const options: [string, unknown, typeof TypeError | typeof RangeError, RegExp][] = [
    ["no attempts", { maxAttempts: 0 }, RangeError, /maxAttempts/],
    ["half an attempt", { maxAttempts: 1.5 }, RangeError, /maxAttempts/],
    ["attempts that are no number", { maxAttempts: "3" }, TypeError, /maxAttempts/],
    ["no time", { timeoutInMs: 0 }, RangeError, /timeoutInMs/],
    ["negative time", { timeoutInMs: -1 }, RangeError, /timeoutInMs/],
    ["a condition of one's own", { conditions: { ifMatch: '"1"' } }, TypeError, /ifMatch/],
    ["an empty lease id", { conditions: { leaseId: "" } }, TypeError, /leaseId/],
    ["a lease id that is no text", { conditions: { leaseId: 5 } }, TypeError, /leaseId/],
    ["a journal that is neither a name nor a boolean", { journal: 5 }, TypeError, /journal/],
    ["NaN as time", { timeoutInMs: Number.NaN }, TypeError, /timeoutInMs/],
    ["a negative delay", { retryDelayInMs: -1 }, RangeError, /retryDelayInMs/],
    ["an endless delay", { retryDelayInMs: Number.POSITIVE_INFINITY }, RangeError, /RetryDelayInMs/i],
    ["a maximum below the delay", { retryDelayInMs: 100, maxRetryDelayInMs: 50 }, RangeError, /maxRetryDelayInMs/],
    ["an unknown onUnknown", { onUnknown: "ignore" }, RangeError, /onUnknown/],
    ["a journal that is no identifier", { journal: "my-journal" }, RangeError, /journal/],
    ["a journal without a name", { journal: "" }, RangeError, /journal/],
    ["a startFrom of one's own making", { startFrom: { value: { n: 0 }, etag: '"x"' } }, TypeError, /startFrom/],
  ];
  it.each(options)("%s", async (_, given, kind, message) => {
    const { service, blob } = counterBlob();
    const update = optimisticUpdate<Counter>(blob, increment, given as Options);
    await expect(update).rejects.toThrow(kind);
    await expect(update).rejects.toThrow(message);
    expect(service.count()).toBe(0);
  });

  it.each([undefined, null, {}, "https://account/blob", 5, () => undefined, { kind: "jsonBlob", url: "x" }, { upload: () => undefined }])(
    "a target that is none: %s",
    async (target) => {
      for (const call of [
        () => optimisticUpdate(target as never, increment as never),
        () => readTarget(target as never),
        () => createIfNotExists(target as never, {} as never),
        () => overwrite(target as never, {} as never),
        () => deleteIfUnchanged(target as never, '"x"'),
      ]) {
        await expect(call()).rejects.toThrow(/^Not a target/);
        await expect(call()).rejects.toBeInstanceOf(TypeError);
      }
    },
  );

  it.each([undefined, null, { n: 1 }, "increment"])("a mutator that is no function: %s", async (mutator) => {
    const { service, blob } = counterBlob();
    await expect(optimisticUpdate<Counter>(blob, mutator as never)).rejects.toThrow(TypeError);
    expect(service.count()).toBe(0);
  });

  it.each(["", undefined, "*"])("a delete under the ETag %j", async (etag) => {
    const { service, blob } = counterBlob();
    await expect(deleteIfUnchanged(blob, etag as string)).rejects.toBeInstanceOf(TypeError);
    expect(service.count()).toBe(0);
    expect(blob.stored).toBeDefined();
  });

  it("a lease on an entity", async () => {
    const service = new FakeService();
    const target = tableEntity(new FakeTable(service), "p", "r");
    await expect(optimisticUpdate(target, () => undefined, { conditions: { leaseId: "x" } })).rejects.toThrow(/has no lease/);
    expect(service.count()).toBe(0);
  });

  it.each(["a/b", "a\\b", "a#b", "a?b", "a\u0000b", "a\u0085b", "x".repeat(513)])("a key that no entity can have: %j", (key) => {
    const table = new FakeTable(new FakeService());
    expect(() => tableEntity(table, key, "r")).toThrow(RangeError);
    expect(() => tableEntity(table, "p", key)).toThrow(/rowKey/);
  });

  it("a key that is no string", () => {
    const table = new FakeTable(new FakeService());
    expect(() => tableEntity(table, 5 as never, "r")).toThrow(TypeError);
    expect(() => tableEntity(table, "p", undefined as never)).toThrow(TypeError);
  });

  it("a pinned type that does not exist", () => {
    const table = new FakeTable(new FakeService());
    expect(() => tableEntity(table, "p", "r", { types: { price: "Decimal" as never } })).toThrow(/types.price/);
  });

  it("a value that cannot be stored", async () => {
    const { service, blob } = counterBlob();
    await expect(overwrite<unknown>(jsonBlob(blob), undefined)).rejects.toBeInstanceOf(TypeError);
    await expect(createIfNotExists<unknown>(jsonBlob(blob), () => 5)).rejects.toBeInstanceOf(TypeError);
    await expect(overwrite(blobTags(blob), { a: 5 } as never)).rejects.toBeInstanceOf(TypeError);
    await expect(overwrite(blobMetadata(blob), { city: "東京" })).rejects.toBeInstanceOf(TypeError);
    await expect(overwrite(blobMetadata(blob), { city: "a\nb" })).rejects.toBeInstanceOf(TypeError);
    await expect(overwrite(blobMetadata(blob), { "a b": "x" })).rejects.toBeInstanceOf(TypeError);
    await expect(overwrite(blobHttpHeaders(blob), { contentDisposition: "東京" })).rejects.toBeInstanceOf(TypeError);
    expect(service.count()).toBe(0);
  });

  it("leaves the caller's options as they were", async () => {
    const { blob } = counterBlob();
    const given: Options = Object.freeze({ initial: Object.freeze({ n: 0 }), conditions: Object.freeze({}), maxAttempts: 3 });
    await optimisticUpdate<Counter>(blob, increment, given);
    blob.drop();
    await optimisticUpdate<Counter>(blob, increment, given);
    expect(given).toEqual({ initial: { n: 0 }, conditions: {}, maxAttempts: 3 });
  });
});
