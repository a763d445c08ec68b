import { describe, expect, it } from "vitest";
import { blobMetadata, createIfNotExists, jsonBlob, optimisticUpdate, overwrite, tableEntity } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { useFakeTimers } from "../support/timers.js";

useFakeTimers();

const journal = "j2";

function entity(properties: Record<string, { type: string; value: string | number }>) {
  const table = new FakeTable(new FakeService());
  table.put({ n: { type: "Int32", value: 0 }, ...properties });
  return { table, target: tableEntity<{ n: number; j2?: string }>(table, "p", "r") };
}

async function expectRefused(call: Promise<unknown>, service: FakeService): Promise<void> {
  const error = await rejection(call);
  expect(error).toBeInstanceOf(TypeError);
  expect(error.message).toContain("Choose another journal name");
  expect(error.message).toContain('"j2"');
  expect(service.count("write")).toBe(0);
}

describe("a value of the caller under the name of the journal", () => {
  it.each([{ type: "String", value: "mine" }, { type: "Int32", value: 5 }])("is not replaced if it is stored in an entity: %o", async (stored) => {
    const { table, target } = entity({ j2: stored });
    await expectRefused(optimisticUpdate(target, (draft) => { draft.n++; }, { journal }), table.service);
    expect(table.property("j2")).toEqual(stored);
  });

  it("is refused if a mutator, a creator or an overwrite sets it in an entity", async () => {
    const { table, target } = entity({});
    await expectRefused(optimisticUpdate(target, (draft) => { draft.j2 = "mine"; }, { journal }), table.service);
    await expectRefused(overwrite(target, { n: 1, j2: "mine" }, { journal }), table.service);
    await expectRefused(createIfNotExists(tableEntity<object>(table, "p", "new"), { j2: "mine" }, { journal }), table.service);
    expect(table.property("j2")).toBeUndefined();
  });

  it("is not replaced if it is stored in the metadata of a blob, in any case", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { metadata: { j2: "mine" } });
    for (const name of [journal, "J2"]) {
      const update = optimisticUpdate<Counter>(jsonBlob(blob), increment, { journal: name });
      await expectRefused(update, service);
      await expectRefused(optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["a"] = "1"), { journal: name }), service);
    }
    expect(blob.metadata).toEqual({ j2: "mine" });
  });

  it("is refused if a mutator sets it in the metadata of a blob", async () => {
    const { service, blob } = counterBlob();
    await expectRefused(optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["J2"] = "mine"), { journal }), service);
  });

  it("does not concern a journal, an empty text, another case of an entity's property, and other texts under the default name", async () => {
    const { table, target } = entity({ J2: { type: "String", value: "mine" } });
    for (const n of [1, 2]) expect((await optimisticUpdate(target, (draft) => { draft.n++; }, { journal })).value.n).toBe(n);
    expect(table.property("j2")?.value).toMatch(/~2~/);
    expect(table.property("J2")?.value).toBe("mine");
    const { blob } = counterBlob();
    blob.put({ n: 0 }, { metadata: { j2: "", asc_journal: "foreign" } });
    await optimisticUpdate<Counter>(blob, increment, { journal });
    expect(blob.metadata["j2"]).toMatch(/~1~/);
    await optimisticUpdate<Counter>(blob, increment);
    expect(blob.metadata["asc_journal"]).toMatch(/~1~/);
  });

  it.each(["partitionKey", "rowKey", "etag", "timestamp", "Timestamp"])("is what the service stores as %s of an entity", async (name) => {
    const { table, target } = entity({});
    expect(await rejection(optimisticUpdate(target, (draft) => { draft.n++; }, { journal: name }))).toBeInstanceOf(TypeError);
    expect(table.service.count("write")).toBe(0);
  });
});
