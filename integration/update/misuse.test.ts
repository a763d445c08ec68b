import type { TableClient } from "@azure/data-tables";
import type { BlockBlobClient } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";

import { blobHttpHeaders, blobMetadata, blobTags, bytesBlob, createIfNotExists, jsonBlob, optimisticUpdate, type OptimisticUpdateOptions, overwrite, readTarget, DELETE, deleteIfUnchanged, SchemaError, tableEntity, TargetNotFoundError, textBlob } from "../../src/index.js";
import { type FaultProxy, isWrite, rewriteResponse, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer, freshName, freshTable, tableClient } from "../support/clients.js";

interface Doc {
  n: number;
}

/** What a program without types may pass. */
const anything = (value: unknown): never => value as never;

describe("misuse of a blob", () => {
  let proxy: FaultProxy;
  let truth: BlockBlobClient;
  let blob: BlockBlobClient;

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().blobUrl);
    const { containerName } = await freshContainer();
    truth = containerClient(containerName).getBlockBlobClient("doc");
    await truth.upload('{"n":1}', 7, { metadata: { owner: "me" } });
    blob = containerClient(containerName, { through: proxy }).getBlockBlobClient("doc");
  });

  afterEach(async () => {
    expect((await truth.downloadToBuffer()).toString()).toBe('{"n":1}');
    expect((await truth.getProperties()).metadata).toEqual({ owner: "me" });
    await proxy.stop();
  });

  const add = (options: OptimisticUpdateOptions<Doc>) => optimisticUpdate<Doc>(blob, (doc) => { doc.n++; }, options);

  async function expectNothingSent(call: () => Promise<unknown>, error: typeof TypeError | typeof RangeError, message: RegExp): Promise<void> {
    // As a rejection, never thrown where it was called: a caller with only .catch() would miss that.
    const promise = call();
    await expect(promise).rejects.toThrow(error);
    await expect(promise).rejects.toThrow(message);
    expect(proxy.requests).toBe(0);
  }

  it.each([
    ["a string", "https://example.invalid/doc"],
    ["null", null],
    ["an empty object", {}],
    ["a number", 5],
    ["an object that merely looks like a target", { kind: "jsonBlob", url: "http://127.0.0.1" }],
  ])("%s as the target is a TypeError before any request", async (_what, target) => {
    await expectNothingSent(() => optimisticUpdate(anything(target), () => undefined), TypeError, /^Not a target/);
    await expectNothingSent(() => readTarget(anything(target)), TypeError, /^Not a target/);
    await expectNothingSent(() => overwrite(anything(target), 1), TypeError, /^Not a target/);
    await expectNothingSent(() => createIfNotExists(anything(target), 1), TypeError, /^Not a target/);
    await expectNothingSent(() => deleteIfUnchanged(anything(target), '"0x1"'), TypeError, /^Not a target/);
  });

  it("a mutator that is no function is a TypeError before any request", async () => {
    await expectNothingSent(() => optimisticUpdate(blob, anything({ n: 2 })), TypeError, /mutator/);
  });

  it.each(["", "no-identifier", "1st", "a b", "ä", "x".repeat(129)])("a journal named %j is a RangeError before any request", async (journal) => {
    await expectNothingSent(() => add({ journal }), RangeError, /journal must be an identifier/);
    await expectNothingSent(() => createIfNotExists(blob, {}, { journal }), RangeError, /journal must be an identifier/);
  });

  it.each([
    [{ maxAttempts: 0 }, /maxAttempts/],
    [{ maxAttempts: -1 }, /maxAttempts/],
    [{ maxAttempts: 1.5 }, /maxAttempts/],
    [{ timeoutInMs: 0 }, /timeoutInMs/],
    [{ timeoutInMs: -5 }, /timeoutInMs/],
    [{ retryDelayInMs: -1 }, /retryDelayInMs/],
    [{ maxRetryDelayInMs: -1 }, /maxRetryDelayInMs/],
    [{ retryDelayInMs: 100, maxRetryDelayInMs: 50 }, /maxRetryDelayInMs/],
    [{ onUnknown: anything("shrug") }, /onUnknown/],
  ])("%j is a RangeError before any request", async (options, message) => {
    await expectNothingSent(() => add(options), RangeError, message);
  });

  it.each([{ maxAttempts: NaN }, { timeoutInMs: anything("1000") }, { retryDelayInMs: anything({}) }])(
    "%j is a TypeError before any request",
    async (options) => {
      await expectNothingSent(() => add(options), TypeError, /must be a number/);
    },
  );

  it.each([undefined, "", null, "*"])("the ETag %j is a TypeError before any request", async (etag) => {
    await expectNothingSent(() => deleteIfUnchanged(blob, anything(etag)), TypeError, /ETag/);
  });

  it("an answer without an ETag is a TypeError, not an unconditional write", async () => {
    const withoutETag = rewriteResponse(({ status, headers, body }) => {
      return { status, headers: { ...headers, etag: undefined }, body };
    });
    proxy.rules = [withoutETag];
    await expect(optimisticUpdate(blobMetadata(blob), (m) => { m["a"] = "b"; })).rejects.toThrow(/no ETag/);
    await expect(optimisticUpdate(blobHttpHeaders(blob), (h) => { h.contentType = "a/b"; })).rejects.toThrow(/no ETag/);
    await expect(add({})).rejects.toThrow(/etag/i); // the SDK's download looks for it as well
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("a startFrom of another target, or none of readTarget's, is a TypeError before any request", async () => {
    const other = await readTarget(textBlob(blob));
    proxy.reset();
    await expectNothingSent(() => add({ startFrom: anything(other) }), TypeError, /startFrom/);
    await expectNothingSent(() => add({ startFrom: { value: { n: 1 }, etag: '"0x1"' } }), TypeError, /startFrom/);
  });

  it.each([
    ["a function", () => undefined],
    ["a symbol", Symbol("s")],
    ["a bigint", 5n],
    ["NaN", { n: NaN }],
    ["Infinity", [Infinity]],
  ])("%s as a JSON document is a TypeError instead of a write", async (_what, value) => {
    await expect(optimisticUpdate(blob, () => value as unknown)).rejects.toThrow(TypeError);
    await expect(overwrite(blob, value as unknown)).rejects.toThrow(TypeError);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("a document that holds itself is a TypeError instead of a write", async () => {
    await expect(optimisticUpdate<{ self?: unknown }>(blob, (doc) => { doc.self = doc; })).rejects.toThrow(TypeError);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("a number in a text or bytes blob is a TypeError instead of a write", async () => {
    await expect(optimisticUpdate(textBlob(blob), () => anything(5))).rejects.toThrow(TypeError);
    await expect(optimisticUpdate(bytesBlob(blob), () => anything([1, 2]))).rejects.toThrow(TypeError);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("metadata, headers and tags that are no strings, or unknown, are TypeErrors instead of a write", async () => {
    await expect(optimisticUpdate(blobMetadata(blob), () => anything({ a: 1 }))).rejects.toThrow(TypeError);
    await expect(optimisticUpdate(blobTags(blob), () => anything({ a: null }))).rejects.toThrow(TypeError);
    await expect(optimisticUpdate(blobHttpHeaders(blob), () => anything({ etag: "x" }))).rejects.toThrow(TypeError);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("metadata and headers cannot be deleted, nor created without their blob", async () => {
    await expect(optimisticUpdate(blobMetadata(blob), () => DELETE)).rejects.toThrow(/cannot be deleted/);
    const missing = containerClient(blob.containerName, { through: proxy }).getBlockBlobClient("missing");
    await expect(optimisticUpdate(blobMetadata(missing), () => ({ a: "b" }), { initial: {} })).rejects.toThrow(/[Cc]reate the blob first/);
    await expect(optimisticUpdate(blobMetadata(missing), () => ({ a: "b" }))).rejects.toThrow(TargetNotFoundError);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("a missing container is a TargetNotFoundError that says so", async () => {
    const nowhere = containerClient(freshName(), { through: proxy }).getBlockBlobClient("doc");
    const call = optimisticUpdate<Doc>(nowhere, (doc) => { doc.n++; }, { initial: { n: 0 } });
    await expect(call).rejects.toThrow(TargetNotFoundError);
    await expect(call).rejects.toThrow(/create it first/);
  });

  it("a schema violation on the way in is a SchemaError instead of a write", async () => {
    const strict = jsonBlob(blob, { schema: z.object({ n: z.number().max(1) }) });
    const call = optimisticUpdate(strict, (doc) => { doc.n++; });
    await expect(call).rejects.toThrow(SchemaError);
    await expect(call).rejects.toMatchObject({ phase: "write", code: "SCHEMA" });
    await expect(overwrite(strict, { n: 2 })).rejects.toMatchObject({ phase: "write" });
    await expect(createIfNotExists(strict, { n: 2 })).rejects.toMatchObject({ phase: "write" });
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("a schema violation of what is stored is a SchemaError before the mutator runs", async () => {
    const strict = jsonBlob(blob, { schema: z.object({ name: z.string() }) });
    let ran = false;
    const call = optimisticUpdate(strict, () => {
      ran = true;
      return { name: "new" };
    });
    await expect(call).rejects.toMatchObject({ name: "SchemaError", phase: "read" });
    await expect(readTarget(strict)).rejects.toMatchObject({ name: "SchemaError", phase: "read" });
    expect(ran).toBe(false);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("one schema violation in a group is that caller's alone", async () => {
    const small = jsonBlob(blob, { schema: z.object({ n: z.number().max(100) }) });
    const results = await Promise.allSettled([
      optimisticUpdate(small, (doc) => { doc.n += 1_000; }),
      optimisticUpdate(small, (doc) => { doc.n += 1; }),
    ]);
    expect(results).toMatchObject([{ reason: { name: "SchemaError", phase: "write" } }, { value: { value: { n: 2 } } }]);
    await truth.upload('{"n":1}', 7, { metadata: { owner: "me" } });
  });
});

describe("content that is not what it should be", () => {
  it.each([
    ["plain text in a JSON blob", jsonBlob, Buffer.from("hello")],
    ["half of a document in a JSON blob", jsonBlob, Buffer.from('{"n":')],
    ["nothing in a JSON blob", jsonBlob, Buffer.alloc(0)],
    ["bytes that are no UTF-8 in a text blob", textBlob, Buffer.from([0x61, 0xff, 0xfe])],
    ["bytes that are no UTF-8 in a JSON blob", jsonBlob, Buffer.from([0x22, 0xff, 0x22])],
  ] as const)("is a SchemaError and stays: %s", async (_what, targetOf, content) => {
    const proxy = await startFaultProxy(azurite().blobUrl);
    try {
      const container = await freshContainer({ through: proxy });
      const truth = containerClient(container.containerName).getBlockBlobClient("doc");
      await truth.upload(content, content.length);
      const target = targetOf(container.getBlockBlobClient("doc"));
      await expect(optimisticUpdate(anything(target), () => anything("new"))).rejects.toMatchObject({ name: "SchemaError", phase: "read" });
      await expect(readTarget(anything(target))).rejects.toThrow(SchemaError);
      expect(proxy.count(isWrite)).toBe(0);
      expect(await truth.downloadToBuffer()).toEqual(content);
    } finally {
      await proxy.stop();
    }
  });
});

describe("misuse of an entity", () => {
  let proxy: FaultProxy;
  let table: TableClient;

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().tableUrl);
    table = await freshTable({ through: proxy });
    await tableClient(table.tableName).createEntity({ partitionKey: "p", rowKey: "r", n: 1 });
  });

  afterEach(async () => {
    const found: unknown[] = [];
    for await (const { partitionKey, rowKey, n } of tableClient(table.tableName).listEntities<Doc>()) found.push([partitionKey, rowKey, n]);
    expect(found).toEqual([["p", "r", 1]]);
    await proxy.stop();
  });

  it.each([
    ["partitionKey", "q"],
    ["rowKey", "s"],
  ])("a mutator that changes the %s is a TypeError instead of a write", async (key, value) => {
    await expect(optimisticUpdate(tableEntity(table, "p", "r"), (e) => ({ ...e, [key]: value }))).rejects.toThrow(new RegExp(`the ${key} .*an update cannot change a key`));
    await expect(overwrite(tableEntity(table, "p", "r"), anything({ n: 2, [key]: value }))).rejects.toThrow(TypeError);
    await expect(createIfNotExists(tableEntity(table, "p", "r2"), anything({ n: 2, [key]: value }))).rejects.toThrow(TypeError);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it.each(["a/b", "a\\b", "a#b", "a?b", "a\tb", "a\nb", "a\u007fb", "a\u0085b", "x".repeat(513)])(
    "the key %j is a RangeError before any request",
    (key) => {
      expect(() => tableEntity(table, key, "r")).toThrow(RangeError);
      expect(() => tableEntity(table, "p", key)).toThrow(RangeError);
      expect(proxy.requests).toBe(0);
    },
  );

  it("a key that is no string is a TypeError before any request", () => {
    expect(() => tableEntity(table, anything(5), "r")).toThrow(TypeError);
    expect(() => tableEntity(table, "p", anything(undefined))).toThrow(TypeError);
  });

  it("a type that does not exist is a RangeError before any request", () => {
    expect(() => tableEntity(table, "p", "r", { types: { n: anything("Decimal") } })).toThrow(RangeError);
  });

  it.each([
    ["an object", { deep: true }],
    ["an array", [1]],
    ["a function", () => 1],
    ["a symbol", Symbol("s")],
    ["a date that is none", new Date(NaN)],
    ["a bigint of more than 64 bits", 2n ** 64n],
    ["a Guid that is none", { type: "Guid", value: "nope" }],
    ["an Int32 of more than 32 bits", { type: "Int32", value: 2 ** 40 }],
  ])("%s as a property is a TypeError instead of a write", async (_what, value) => {
    await expect(optimisticUpdate(tableEntity(table, "p", "r"), (e) => { e["x"] = value; })).rejects.toThrow(TypeError);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it.each(["a-b", "a b", "1a", "a.b", "a'b", "__proto__", "", "x".repeat(256)])("the property name %j is a TypeError instead of a write", async (name) => {
    const withProperty = (entity: object) => Object.fromEntries([...Object.entries(entity), [name, 1]]);
    await expect(optimisticUpdate(tableEntity(table, "p", "r"), (e) => anything(withProperty(e)))).rejects.toThrow(TypeError);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("a lease id is a TypeError before any request", async () => {
    const conditions = { leaseId: "11111111-2222-4333-8444-555555555555" };
    await expect(optimisticUpdate(tableEntity(table, "p", "r"), () => undefined, { conditions })).rejects.toThrow(/has no lease/);
    expect(proxy.requests).toBe(0);
  });

  it("an answer without an ETag is a TypeError, not an unconditional write", async () => {
    proxy.rules = [
      rewriteResponse(({ status, headers, body }) => {
        const text = body.toString().replace(/"odata\.etag":"[^"]*(?:\\"[^"]*)*",/, "");
        return { status, headers: { ...headers, etag: undefined }, body: Buffer.from(text) };
      }),
    ];
    await expect(optimisticUpdate(tableEntity<Doc>(table, "p", "r"), (e) => { e.n++; })).rejects.toThrow(/no ETag/);
    expect(proxy.count(isWrite)).toBe(0);
  });

  it("one caller's wrong property in a group is that caller's alone", async () => {
    const target = tableEntity<Doc & { x?: unknown }>(table, "p", "r");
    const results = await Promise.allSettled([
      optimisticUpdate(target, (e) => { e.x = {}; }),
      optimisticUpdate(target, (e) => { e.x = 5; }),
    ]);
    expect(results).toMatchObject([{ reason: expect.any(TypeError) as unknown }, { value: { value: { x: 5 } } }]);
  });

  it("a missing table is a TargetNotFoundError that says so", async () => {
    const nowhere = tableEntity<Doc>(tableClient(freshName(), { through: proxy }), "p", "r");
    const call = optimisticUpdate(nowhere, (e) => { e.n++; }, { initial: anything({ n: 0 }) });
    await expect(call).rejects.toThrow(TargetNotFoundError);
    await expect(call).rejects.toThrow(/create it first/);
  });
});
