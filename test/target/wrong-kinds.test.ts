import { describe, expect, it } from "vitest";
import { blobHttpHeaders, blobMetadata, blobTags, jsonBlob, optimisticUpdate, overwrite, readTarget, runTransaction, tableEntity } from "../../src/index.js";
import type { UpdateTarget } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { isThenable } from "../../src/core/pending-call.js";
import { counterBlob } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { fakePartition } from "../transaction/fakes/partition.js";

type AnyTarget = UpdateTarget<Record<string, unknown>>;

const kinds: Record<string, () => unknown> = {
  "a Map": () => new Map([["a", 1]]),
  "a Set": () => new Set([1]),
  "a Date": () => new Date(),
  "a list": () => [],
  "a promise": () => Promise.resolve({ a: "1" }),
  "a thenable": () => ({ then: () => undefined }),
  "a RegExp": () => /x/,
  "bytes": () => new Uint8Array(1),
  "a function": () => () => 1,
  "a string": () => "x",
  null: () => null,
};

function entity(): { service: FakeService; table: FakeTable; target: AnyTarget } {
  const service = new FakeService();
  const table = new FakeTable(service);
  table.put({ a: { type: "Int32", value: 1 } });
  return { service, table, target: tableEntity(table, "p", "r") as unknown as AnyTarget };
}

describe.each(Object.entries(kinds))("%s", (_, make) => {
  it("does not erase an entity", async () => {
    const { service, table, target } = entity();
    expect(await rejection(overwrite(target, make() as never))).toBeInstanceOf(TypeError);
    expect(service.count()).toBe(0);
    // What a mutator returns is awaited.
    if (!isThenable(make())) expect(await rejection(optimisticUpdate(target, () => make() as never))).toBeInstanceOf(TypeError);
    expect(service.count("write")).toBe(0);
    expect(table.property("a")?.value).toBe(1);
  });

  it("is no initial value of an entity", async () => {
    const service = new FakeService();
    const target = tableEntity(new FakeTable(service), "p", "new") as unknown as AnyTarget;
    expect(await rejection(optimisticUpdate(target, () => undefined, { initial: make as never }))).toBeInstanceOf(TypeError);
    expect(service.count("write")).toBe(0);
  });

  it("does not erase metadata, headers or tags", async () => {
    const { service, blob } = counterBlob();
    for (const target of [blobMetadata(blob), blobHttpHeaders(blob), blobTags(blob)] as unknown as AnyTarget[]) {
      expect(await rejection(overwrite(target, make() as never))).toBeInstanceOf(TypeError);
    }
    expect(service.count()).toBe(0);
  });
});

it("an object of a class is an entity", async () => {
  class Customer {
    email = "a@example.com";
  }
  const { target } = entity();
  await overwrite(target, new Customer() as unknown as Record<string, unknown>);
  expect((await readTarget(target)).value).toMatchObject({ email: "a@example.com" });
});

describe("names that are not those of the caller", () => {
  it("in a draft are a TypeError, and never ignored", async () => {
    for (const name of ["odata.x", "odata.count", "asc_tombstone", "asc_journal", "__proto__x.y"]) {
      const { service, target } = entity();
      expect(await rejection(optimisticUpdate(target, (draft) => void (draft[name] = 5)))).toBeInstanceOf(TypeError);
      expect(service.count("write")).toBe(0);
    }
  });

  it("in a transaction are a TypeError, too", async () => {
    for (const name of ["odata.x", "asc_tombstone", "asc_journal"]) {
      const { service, table } = fakePartition({ a: 1 });
      expect(await rejection(runTransaction(table, "p", (tx) => tx.create({ rowKey: "x", [name]: "1" })))).toBeInstanceOf(TypeError);
      expect(await rejection(runTransaction(table, "p", (tx) => tx.upsert({ rowKey: "a", [name]: "1" })))).toBeInstanceOf(TypeError);
      expect(service.count("write")).toBe(0);
    }
  });

  it("that the SDK returns with an entity are left out", async () => {
    const { target } = entity();
    await overwrite(target, { a: 2, "odata.metadata": "https://x", "odata.etag": "W/1" });
    expect(Object.keys((await readTarget(target)).value)).toEqual(["partitionKey", "rowKey", "a"]);
  });

  it("of every object are not those of a journal", async () => {
    const { service, blob } = counterBlob();
    for (const journal of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
      expect(await rejection(optimisticUpdate(jsonBlob(blob), () => undefined, { journal }))).toBeInstanceOf(RangeError);
    }
    expect(service.count()).toBe(0);
  });

  it("of keys are well-formed Unicode", async () => {
    const { service, table } = fakePartition({ a: 1 });
    expect(() => tableEntity(table, "p", "a\ud800")).toThrow(RangeError);
    expect(() => tableEntity(table, "\udc00p", "a")).toThrow(RangeError);
    expect(await rejection(runTransaction(table, "p", (tx) => tx.get("\ud800")))).toBeInstanceOf(RangeError);
    expect(service.count()).toBe(0);
    tableEntity(table, "p", "a\u{1f600}");
  });
});
