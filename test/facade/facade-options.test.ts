import { inspect } from "node:util";
import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { z } from "zod";
import { ConcurrentBlob, ConcurrentFile, ConcurrentTable, jsonBlob, jsonFile } from "../../src/index.js";
import type { ConcurrentLeasable, ConcurrentTarget, Entity, FileLike } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { answer, before, hang, hangAfterCommit } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";
import { FakeTransactionTable } from "../transaction/fakes/fake-transaction-table.js";

useFakeTimers();

/** A file client that is not called: the tests end before the first request. */
function fileClient(): FileLike {
  const members = ["create", "delete", "download", "getProperties", "setMetadata", "setHttpHeaders", "uploadRange", "rename", "getShareLeaseClient"];
  return Object.assign(Object.fromEntries(members.map((name) => [name, () => Promise.reject(new Error("no request was expected"))])), {
    url: "https://account.file.core.windows.net/share/file.json",
    name: "file.json",
    path: "file.json",
    shareName: "share",
  }) as unknown as FileLike;
}

function conditionsOf(mock: { mock: { calls: unknown[][] } }): unknown[] {
  return mock.mock.calls.map((args) => (args.at(-1) as { conditions?: { leaseId?: string } }).conditions?.leaseId);
}

describe("the types of facades", () => {
  it("are those of the calls on one target", () => {
    const { blob } = counterBlob();
    expectTypeOf<ConcurrentBlob<Counter>>().toExtend<ConcurrentTarget<Counter>>();
    expectTypeOf<ConcurrentBlob<Counter>>().toExtend<ConcurrentLeasable>();
    expectTypeOf<ConcurrentFile<Counter>>().toExtend<ConcurrentLeasable>();
    const rows = new ConcurrentTable<Counter>(new FakeTransactionTable(new FakeService()));
    expectTypeOf(rows.entity("p", "r")).toEqualTypeOf<ConcurrentTarget<Entity<Counter>, Counter>>();
    expectTypeOf(rows.entity<{ total: number }>("p", "r")).toEqualTypeOf<ConcurrentTarget<Entity<{ total: number }>, { total: number }>>();
    expectTypeOf(new ConcurrentBlob(blob, { schema: z.object({ level: z.string().default("info") }) })).toEqualTypeOf<ConcurrentBlob<{ level: string }>>();
  });
});

describe("the defaults of a ConcurrentBlob", () => {
  it("reach every call: the lease id and the journal", async () => {
    const { service, blob } = counterBlob();
    blob.stored!.leaseId = "held";
    const doc = new ConcurrentBlob<Counter>(blob, { defaults: { conditions: { leaseId: "held" }, journal: "log" } });
    const methods = (["download", "upload", "getProperties", "setMetadata", "setHTTPHeaders", "getTags", "setTags", "delete"] as const).map((name) => vi.spyOn(blob, name));
    const { etag } = await doc.read();
    await doc.tryRead();
    await doc.readIfChanged(etag);
    await doc.update(increment);
    await doc.createIfNotExists({ n: 1 });
    await doc.metadata.update((metadata) => void (metadata["a"] = "1"));
    await doc.metadata.read();
    await doc.httpHeaders.update((headers) => void (headers.cacheControl = "no-store"));
    await doc.tags.update((tags) => void (tags["t"] = "1"));
    await doc.downloadConsistent();
    await (await doc.downloadConsistentStream()).content.cancel();
    await using states = doc.watch();
    await states.next();
    expect(Object.keys(blob.metadata).sort()).toEqual(["a", "log"]);
    await doc.deleteIfUnchanged((await doc.overwrite({ n: 2 })).etag);
    expect(blob.stored).toBeUndefined();
    const sent = methods.flatMap(conditionsOf);
    expect(sent).toHaveLength(service.count());
    expect(new Set(sent)).toEqual(new Set(["held"]));
  });

  it.each<[string, (doc: ConcurrentBlob<Counter>) => Promise<unknown>]>([
    ["read", (doc) => doc.read()],
    ["tryRead", (doc) => doc.tryRead()],
    ["readIfChanged", (doc) => doc.readIfChanged('"0x0"')],
    ["update", (doc) => doc.update(increment)],
    ["createIfNotExists", (doc) => doc.createIfNotExists({ n: 1 })],
    ["overwrite", (doc) => doc.overwrite({ n: 1 })],
    ["deleteIfUnchanged", (doc) => doc.deleteIfUnchanged('"0x0"')],
    ["metadata.read", (doc) => doc.metadata.read()],
    ["tags.update", (doc) => doc.tags.update(() => undefined)],
  ])("limit the time of %s, and the call's own limit comes first", async (_name, call) => {
    const { service, blob } = counterBlob();
    service.each("any", hang);
    let settled = false;
    const running = rejection(call(new ConcurrentBlob<Counter>(blob, { defaults: { timeoutInMs: 40 } }))).finally(() => (settled = true));
    await vi.advanceTimersByTimeAsync(39);
    expect(settled).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect((await running).name).toMatch(/^(OperationTimeoutError|CommitUnknownError)$/);
  });

  it("are not removed by an explicit undefined", async () => {
    const { service, blob } = counterBlob();
    const doc = new ConcurrentBlob<Counter>(blob, { defaults: { journal: "log", maxAttempts: 1, initial: { n: 7 }, onUnknown: "retry" } });
    const nothing = { journal: undefined, maxAttempts: undefined, initial: undefined, onUnknown: undefined, conditions: undefined, timeoutInMs: undefined };
    service.next("upload", before(() => blob.putKeeping({ n: 5 })));
    expect(await rejection(inFakeTime(doc.update(increment, nothing)))).toMatchObject({ name: "ConflictError", attempts: 1 });
    blob.drop();
    expect((await doc.update(increment, nothing)).value).toEqual({ n: 8 });
    expect(Object.keys(blob.metadata)).toEqual(["log"]);
  });

  it("give way to an option of the call", async () => {
    const { service, blob } = counterBlob();
    const doc = new ConcurrentBlob<Counter>(blob, { defaults: { timeoutInMs: 40, journal: "log" } });
    await doc.update(increment, { journal: false });
    expect(Object.keys(blob.metadata)).toEqual([]);
    service.each("download", hang);
    const reading = rejection(doc.read({ timeoutInMs: 10 }));
    await vi.advanceTimersByTimeAsync(10);
    expect(await reading).toMatchObject({ name: "OperationTimeoutError" });
  });

  it("are copied: a later change of the caller's object has no effect", async () => {
    const { blob } = counterBlob();
    const defaults = { journal: "log" };
    const doc = new ConcurrentBlob<Counter>(blob, { defaults });
    defaults.journal = "other";
    await doc.update(increment);
    expect(Object.keys(blob.metadata)).toEqual(["log"]);
  });
});

describe("the defaults of a ConcurrentTable", () => {
  it("reach entities and transactions, and are not removed by an explicit undefined", async () => {
    const service = new FakeService();
    const table = new FakeTransactionTable(service);
    table.put({ n: { type: "Int32", value: 1 } });
    const rows = new ConcurrentTable<Counter>(table, { types: { price: "Double" }, defaults: { timeoutInMs: 40, journal: "log" } });
    await rows.update({ partitionKey: "p", rowKey: "r" }, (draft) => void (draft["price"] = 5), { journal: undefined });
    expect([...table.row()!.properties.keys()]).toEqual(["n", "price", "log"]);
    expect(table.property("price")).toEqual({ type: "Double", value: 5 });
    await rows.runTransaction("p", (tx) => tx.create({ rowKey: "new", n: 1, price: 7 }), { types: undefined });
    expect(table.property("price", "p", "new")).toEqual({ type: "Double", value: 7 });
    for (const call of [
      (): Promise<unknown> => rows.entity("p", "r").read({ timeoutInMs: undefined }),
      (): Promise<unknown> => rows.runTransaction("p", (tx) => tx.get("r")),
    ]) {
      service.next("getEntity", hang, hang, hang);
      const reading = rejection(call());
      await vi.advanceTimersByTimeAsync(40);
      expect(await reading).toMatchObject({ name: "OperationTimeoutError" });
    }
  });

  it("has no lock without locks, and says how to get it", () => {
    const rows = new ConcurrentTable(new FakeTransactionTable(new FakeService()));
    expect(() => rows.lock).toThrow(TypeError);
    expect(() => rows.lock).toThrow(/new BlobLocks\(container\)/);
  });
});

describe("the defaults of a ConcurrentFile", () => {
  it.each<[string, (file: ConcurrentFile<Counter>) => Promise<unknown>]>([
    ["update", (file) => file.update(increment, { crashGuard: undefined })],
    ["updateMetadata", (file) => file.updateMetadata(() => undefined, { crashGuard: undefined })],
    ["updateHttpHeaders", (file) => file.updateHttpHeaders(() => undefined, { crashGuard: undefined })],
    ["withLease", (file) => file.withLease(() => undefined, { crashGuard: undefined })],
    ["acquireLease", (file) => file.acquireLease({ crashGuard: undefined })],
    ["tryAcquireLease", (file) => file.tryAcquireLease({ crashGuard: undefined })],
  ])("keep the crash guard in %s with an explicit undefined", async (_name, call) => {
    const asked = new Error("the crash guard was asked");
    const lock = (): Promise<never> => Promise.reject(asked);
    const file = new ConcurrentFile<Counter>(fileClient(), { crashGuard: { acquire: lock, tryAcquire: lock } });
    expect(await rejection(inFakeTime(call(file)))).toBe(asked);
  });
});

describe("the time limit of a ConcurrentFile", () => {
  it.each<[string, (file: ConcurrentFile<Counter>) => Promise<unknown>]>([
    ["read", (file) => file.read()],
    ["tryRead", (file) => file.tryRead({ timeoutInMs: undefined })],
    ["readIfChanged", (file) => file.readIfChanged('"0x0"')],
    ["createIfNotExists", (file) => file.createIfNotExists({ n: 1 })],
    ["overwrite", (file) => file.overwrite({ n: 1 })],
  ])("reaches %s", async (_name, call) => {
    const pending = (): Promise<never> => new Promise(() => undefined);
    const members = { download: pending, getProperties: pending, create: pending, delete: pending };
    // The staging file beside the target is made by the constructor of the client.
    const client = Object.assign(fileClient(), members, { pipeline: {}, constructor: function Sibling() { return client; } }) as FileLike;
    const running = rejection(call(new ConcurrentFile<Counter>(client, { defaults: { timeoutInMs: 40 } })));
    await vi.advanceTimersByTimeAsync(40);
    expect((await running).message).toContain("40 ms (timeoutInMs)");
    await vi.runAllTimersAsync();
  });
});

describe("a facade", () => {
  const { blob } = counterBlob();
  const table = new FakeTransactionTable(new FakeService());

  it.each<[string, (client: unknown) => unknown]>([
    ["ConcurrentBlob", (client) => new ConcurrentBlob(client as never)],
    ["ConcurrentTable", (client) => new ConcurrentTable(client as never)],
    ["ConcurrentFile", (client) => new ConcurrentFile(client as never)],
  ])("%s throws a TypeError for what is not its client", (name, make) => {
    for (const client of [undefined, null, {}, "https://account/blob", 5]) {
      expect(() => make(client)).toThrow(TypeError);
      expect(() => make(client)).toThrow(new RegExp(`^${name} needs a `));
    }
  });

  it("takes a schema or a target, and not both", () => {
    const schema = z.object({ n: z.number() });
    const file = fileClient();
    for (const make of [
      () => new ConcurrentBlob<{ n: number }>(blob, { target: jsonBlob<{ n: number }>(blob), schema }),
      () => new ConcurrentBlob<{ n: number }>(blob, { target: jsonBlob<{ n: number }>(blob), keepTier: true }),
      () => new ConcurrentFile<{ n: number }>(file, { target: jsonFile<{ n: number }>(file), schema }),
      () => new ConcurrentFile<{ n: number }>(file, { target: jsonFile<{ n: number }>(file), maxSizeInBytes: 5 }),
    ]) expect(make).toThrow(TypeError);
  });

  it("returns its client, and does not show it when it is printed", () => {
    const service = new FakeService();
    const secret = Object.assign(new FakeBlockBlob(service), { key: "account-key" });
    const secretTable = Object.assign(new FakeTransactionTable(service), { key: "account-key" });
    const secretFile = Object.assign(fileClient(), { key: "account-key" });
    const facades = [new ConcurrentBlob(secret), new ConcurrentTable(secretTable), new ConcurrentFile(secretFile)];
    expect(facades.map(({ client }) => client)).toEqual([secret, secretTable, secretFile]);
    for (const facade of facades) {
      expect(Object.keys(facade)).not.toContain("client");
      expect(inspect(facade, { depth: 10 })).not.toContain("account-key");
      expect(JSON.stringify(facade)).not.toContain("account-key");
    }
    expect(inspect(new ConcurrentTable(secretTable).entity("p", "r"), { depth: 10 })).not.toContain("account-key");
  });

  it("rejects, and does not throw, if a key of an entity is missing", async () => {
    const rows = new ConcurrentTable(table);
    await expect(rows.update({ partitionKey: "p" }, () => undefined)).rejects.toThrow(TypeError);
    expect(() => rows.entity({ rowKey: "r" })).toThrow(TypeError);
  });

  it("passes on what the service rejects, and a lost response of overwrite", async () => {
    const { service, blob: own } = counterBlob();
    const doc = new ConcurrentBlob<Counter>(own, { defaults: { timeoutInMs: 40 } });
    service.next("download", answer(403, "AuthorizationFailure"));
    expect(await rejection(doc.read())).toMatchObject({ statusCode: 403 });
    service.next("upload", hangAfterCommit);
    service.each("download", hang);
    const writing = rejection(doc.overwrite({ n: 1 }));
    await vi.advanceTimersByTimeAsync(40);
    expect(await writing).toMatchObject({ name: "CommitUnknownError" });
  });
});

describe("a facade of the wrong client", () => {
  const table = new FakeTransactionTable(new FakeService());

  it("is a TypeError of its constructor", () => {
    const { blob } = counterBlob();
    expect(() => new ConcurrentBlob(table as never)).toThrow(/ConcurrentBlob needs a BlockBlobClient/);
    expect(() => new ConcurrentTable(blob as never)).toThrow(/ConcurrentTable needs a TableClient/);
    expect(() => new ConcurrentFile(blob as never)).toThrow(TypeError);
  });

  it.each([5, "", 5n, Symbol("s"), () => undefined, null])("rejects %s instead of options, and does not throw", async (options) => {
    const { service, blob } = counterBlob();
    const doc = new ConcurrentBlob<Counter>(blob, { defaults: { maxAttempts: 3 } });
    const rows = new ConcurrentTable<Counter>(table);
    for (const call of [doc.update(increment, options as never), doc.read(options as never), rows.entity("p", "r").update(increment, options as never), rows.runTransaction("p", () => 1, options as never)]) {
      expect(await rejection(call)).toBeInstanceOf(TypeError);
    }
    expect(service.count()).toBe(0);
  });
});
