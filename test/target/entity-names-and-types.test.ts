import { describe, expect, it } from "vitest";
import { createIfNotExists, DELETE, optimisticUpdate, overwrite, readTarget, tableEntity } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import type { WireProperty } from "../fakes/fake-table.js";
import { loseAnswer } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";

function tableWith(properties: Record<string, WireProperty>): FakeTable {
  const table = new FakeTable(new FakeService());
  table.put(properties);
  return table;
}
const text = (value: string): WireProperty => ({ type: "String", value });
const number = (value: number): WireProperty => ({ type: "Int32", value });

describe("a property with a name that the SDK uses for its own", () => {
  for (const name of ["timestamp", "etag", "rowKey", "partitionKey"]) {
    it(`${name}: is kept by updates of other properties, and a lost response is recognised`, async () => {
      const table = tableWith({ n: number(1), [name]: text("mine") });
      const target = tableEntity<{ n: number }>(table, "p", "r");
      const { value, etag } = await optimisticUpdate(target, (draft) => { draft.n++; });
      expect(value).toEqual({ partitionKey: "p", rowKey: "r", n: 2 });
      expect(etag).toBe(table.row()?.etag);
      table.service.next("updateEntity", loseAnswer);
      await optimisticUpdate(target, (draft) => { draft.n++; });
      expect(table.property("n")?.value).toBe(3);
      expect(table.property(name)).toEqual(text("mine"));
      expect((await readTarget(target)).etag).toBe(table.row()?.etag);
    });

    it(`${name}: is never lost because another property is removed; the error names both`, async () => {
      const table = tableWith({ n: number(1), extra: number(5), [name]: text("mine") });
      const target = tableEntity<{ n: number; extra?: number }>(table, "p", "r");
      const [removal, update] = await Promise.allSettled([
        optimisticUpdate(target, (draft) => { delete draft.extra; }),
        optimisticUpdate(target, (draft) => { draft.n++; }),
      ]);
      expect(removal).toMatchObject({ reason: { name: "TypeError", message: expect.stringContaining(`"${name}"`) as unknown } });
      expect((removal as PromiseRejectedResult).reason).toMatchObject({ message: expect.stringContaining('"extra"') as unknown });
      expect(update.status).toBe("fulfilled");
      expect(table.property(name)).toEqual(text("mine"));
      expect(table.property("extra")).toEqual(number(5));
    });
  }

  it("is gone with the entity when that is deleted and created again in one batch", async () => {
    const table = tableWith({ n: number(1), timestamp: text("mine") });
    const target = tableEntity<{ n: number }>(table, "p", "r");
    await Promise.all([optimisticUpdate(target, () => DELETE), optimisticUpdate(target, (draft) => { draft.n++; }, { initial: { n: 5 } })]);
    expect(table.property("n")?.value).toBe(6);
    expect(table.property("timestamp")).toBeUndefined();
  });
});

describe("text for a property that is stored as a Guid or DateTime", () => {
  const id = "6f9619ff-8b86-d011-b42d-00cf4fc964ff";
  const other = "11111111-2222-3333-4444-555555555555";
  const stored = { id: { type: "Guid", value: id }, at: { type: "DateTime", value: "2030-01-02T03:04:05.1234567Z" } };
  interface Row {
    id: unknown;
    at: unknown;
  }

  it("keeps the type if it is one", async () => {
    const table = tableWith(stored);
    await optimisticUpdate(tableEntity<Row>(table, "p", "r"), (draft) => {
      draft.id = other;
      draft.at = "2031-01-02T03:04:05.7654321Z";
    });
    expect(table.property("id")).toEqual({ type: "Guid", value: other });
    expect(table.property("at")).toEqual({ type: "DateTime", value: "2031-01-02T03:04:05.7654321Z" });
  });

  for (const [name, value] of [["id", "not a guid"], ["at", "tomorrow"], ["at", "2031-13-02T03:04:05Z"], ["at", ""]] as const) {
    it(`is an error that names the property if it is none: ${name} = ${JSON.stringify(value)}`, async () => {
      const table = tableWith(stored);
      const error = await rejection(optimisticUpdate(tableEntity<Row>(table, "p", "r"), (draft) => { draft[name] = value; }));
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toContain(`"${name}"`);
      expect(error.message).not.toContain(value || "tomorrow");
      expect(table.property(name)).toEqual(stored[name]);
    });
  }

  it("changes the type if the caller says so", async () => {
    const table = tableWith(stored);
    await optimisticUpdate(tableEntity<Row>(table, "p", "r"), (draft) => { draft.id = { type: "String", value: "not a guid" }; });
    expect(table.property("id")).toEqual(text("not a guid"));
    const pinned = tableEntity<Row>(table, "p", "r", { types: { at: "String" } });
    await optimisticUpdate(pinned, (draft) => { draft.at = "tomorrow"; });
    expect(table.property("at")).toEqual(text("tomorrow"));
  });
});

describe("text for a property that is stored as an Int64 or Boolean", () => {
  const stored = { big: { type: "Int64", value: "5" }, flag: { type: "Boolean", value: true } } as const;
  interface Row {
    big: unknown;
    flag: unknown;
  }

  it("keeps the type if it is an Int64", async () => {
    const table = tableWith(stored);
    await optimisticUpdate(tableEntity<Row>(table, "p", "r"), (draft) => { draft.big = "9007199254740993"; });
    expect(table.property("big")).toEqual({ type: "Int64", value: "9007199254740993" });
  });

  it.each([["big", "five"], ["big", ""], ["big", "9223372036854775808"], ["flag", "true"], ["flag", "yes"]] as const)("is an error that names the property otherwise: %s = %j", async (name, value) => {
    const table = tableWith(stored);
    const error = await rejection(optimisticUpdate(tableEntity<Row>(table, "p", "r"), (draft) => { draft[name] = value; }));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain(`"${name}"`);
    expect(table.property(name)).toEqual(stored[name]);
  });

  it("changes the type if the caller says so", async () => {
    const table = tableWith(stored);
    await optimisticUpdate(tableEntity<Row>(table, "p", "r"), (draft) => {
      draft.big = text("five");
      draft.flag = text("yes");
    });
    expect([table.property("big"), table.property("flag")]).toEqual([text("five"), text("yes")]);
  });
});

describe("keys in the value that an entity is created with", () => {
  it("are not needed", async () => {
    const table = new FakeTable(new FakeService());
    const { value } = await optimisticUpdate(tableEntity<{ n: number }>(table, "p", "r"), (draft) => { draft.n++; }, { initial: { n: 0 } });
    expect(value).toEqual({ partitionKey: "p", rowKey: "r", n: 1 });
  });

  it("are an error of that value if they are wrong, not of the mutator", async () => {
    const table = new FakeTable(new FakeService());
    const target = tableEntity<{ n: number }>(table, "p", "r");
    const wrong = { n: 0, rowKey: "other" };
    for (const call of [
      optimisticUpdate(target, (draft) => { draft.n++; }, { initial: wrong }),
      optimisticUpdate(target, (draft) => { draft.n++; }, { initial: () => wrong }),
      createIfNotExists(target, wrong),
      overwrite(target, wrong),
    ]) {
      const error = await rejection(call);
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toContain('"other"');
      expect(error.message).not.toContain("mutator");
    }
    expect(table.service.count("write")).toBe(0);
  });
});
