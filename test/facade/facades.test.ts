import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ConcurrentBlob, ConcurrentTable, textBlob } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";
import { before } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("ConcurrentBlob", () => {
  it("does with its blob what the functions do", async () => {
    const { service, blob } = counterBlob();
    blob.drop();
    const doc = new ConcurrentBlob<Counter>(blob);
    expect((await doc.createIfNotExists({ n: 1 })).outcome).toBe("created");
    expect((await doc.update(increment)).value).toEqual({ n: 2 });
    expect((await doc.read()).value).toEqual({ n: 2 });
    const { etag } = await doc.overwrite({ n: 9 });
    await doc.metadata.update((metadata) => void (metadata["a"] = "1"));
    await doc.httpHeaders.update((headers) => void (headers.cacheControl = "no-store"));
    await doc.tags.update((tags) => void (tags["t"] = "1"));
    expect(blob.stored).toMatchObject({ metadata: { a: "1" }, headers: { blobCacheControl: "no-store" }, tags: { t: "1" } });
    expect(await rejection(doc.deleteIfUnchanged(etag))).toMatchObject({ name: "ConflictError" });
    await doc.deleteIfUnchanged(blob.stored!.etag);
    expect(blob.stored).toBeUndefined();
    expect(service.count()).toBe(15); // the conflict of deleteIfUnchanged is read back, with tags
  });

  it("reads, watches and downloads as the functions do", async () => {
    const { blob } = counterBlob();
    const doc = new ConcurrentBlob<Counter>(blob, { defaults: { maxRetryDelayInMs: 7 } });
    const { etag } = await doc.read();
    expect(await doc.readIfChanged(etag)).toEqual({ changed: false, etag });
    expect(await doc.tryRead()).toEqual({ value: { n: 0 }, etag });
    for await (const { value } of doc.watch()) {
      expect(value).toEqual({ n: 0 });
      break;
    }
    const stored = new Uint8Array(blob.stored!.content);
    expect((await doc.downloadConsistent()).content).toEqual(stored);
    const { content } = await doc.downloadConsistentStream();
    expect(new Uint8Array(await new Response(content).arrayBuffer())).toEqual(stored);
  });

  it("uses the defaults given once, unless a call has its own", async () => {
    const { service, blob } = counterBlob();
    const defaults = { maxAttempts: 1, journal: "log", initial: { n: 7 } };
    const doc = new ConcurrentBlob<Counter>(blob, { defaults });
    service.next("upload", before(() => blob.putKeeping({ n: 5 })));
    expect(await rejection(inFakeTime(doc.update(increment)))).toMatchObject({ name: "ConflictError", attempts: 1 });
    service.next("upload", before(() => blob.putKeeping({ n: 5 })));
    expect(await inFakeTime(doc.update(increment, { maxAttempts: 2 }))).toMatchObject({ value: { n: 6 } });
    expect(Object.keys(blob.metadata)).toEqual(["log"]);
    blob.drop();
    expect((await doc.update(increment)).value).toEqual({ n: 8 });
    blob.drop();
    // The initial value of the document is none of its metadata.
    expect(await rejection(doc.metadata.update(() => undefined))).toMatchObject({ name: "TargetNotFoundError" });
  });

  it("checks its schema, and takes other kinds of content", async () => {
    const { blob } = counterBlob();
    const strict = new ConcurrentBlob<{ n: number }>(blob, { schema: z.object({ n: z.number().max(1) }) });
    expect(await rejection(strict.update(() => ({ n: 2 })))).toMatchObject({ name: "SchemaError" });
    const text = new ConcurrentBlob<string>(blob, { target: textBlob(blob) });
    expect((await text.read()).value).toBe('{"n":0}');
  });
});

describe("ConcurrentTable", () => {
  it("reads what changed, and watches, as the functions do", async () => {
    const table = new FakeTransactionTable(new FakeService());
    const orders = new ConcurrentTable<{ n: number }>(table);
    const order = orders.entity("p", "r");
    expect(await order.tryRead()).toBeUndefined();
    await order.createIfNotExists({ n: 1 });
    const { etag } = await order.read();
    expect(await order.readIfChanged(etag)).toEqual({ changed: false, etag });
    for await (const { value } of order.watch()) {
      expect(value).toMatchObject({ n: 1 });
      break;
    }
  });

  it("does with its entities what the functions do", async () => {
    const service = new FakeService();
    const table = new FakeTransactionTable(service);
    const rows = new ConcurrentTable<Counter>(table, { types: { n: "Double" } });
    expect((await rows.entity("p", "r").createIfNotExists({ n: 1 })).outcome).toBe("created");
    expect(table.property("n")).toEqual({ type: "Double", value: 1 });
    expect((await rows.update({ partitionKey: "p", rowKey: "r" }, increment)).value).toEqual({ partitionKey: "p", rowKey: "r", n: 2 });
    expect((await rows.entity("p", "new").update(increment, { initial: { n: 5 } })).value).toMatchObject({ rowKey: "new", n: 6 });
    const { value } = await rows.entity("p", "r").read();
    expect(value.n).toBe(2);
    const { etag } = await rows.entity(value).overwrite({ n: 9 });
    await rows.entity(value).deleteIfUnchanged(etag);
    expect(table.row()).toBeUndefined();
    expect(service.operations).toEqual([
      "createEntity",
      "getEntity",
      "updateEntity",
      "getEntity",
      "createEntity",
      "getEntity",
      "upsertEntity",
      "deleteEntity",
    ]);
  });

  it("uses the defaults given once", async () => {
    const service = new FakeService();
    const table = new FakeTransactionTable(service);
    table.put({ n: { type: "Int32", value: 1 } });
    const rows = new ConcurrentTable<Counter>(table, { defaults: { journal: "log" } });
    await rows.update({ partitionKey: "p", rowKey: "r" }, increment);
    expect([...table.row()!.properties.keys()]).toEqual(["n", "log"]);
  });
});
