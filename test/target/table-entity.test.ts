import fc from "fast-check";
import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { createIfNotExists, optimisticUpdate, overwrite, readTarget, DELETE, tableEntity } from "../../src/index.js";
import type { Entity, UpdateTarget } from "../../src/index.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import type { WireProperty } from "../fakes/fake-table.js";
import { before, loseAnswer } from "../fakes/faults.js";
import { entities } from "../support/entities.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

interface Row {
  n: number;
  [name: string]: unknown;
}

const everyType: Record<string, WireProperty> = {
  binary: { type: "Binary", value: "AQL/" },
  boolean: { type: "Boolean", value: false },
  at: { type: "DateTime", value: "2030-01-02T03:04:05.1234567Z" },
  double: { type: "Double", value: 5 },
  fraction: { type: "Double", value: 1.5 },
  notANumber: { type: "Double", value: "NaN" },
  guid: { type: "Guid", value: "6f9619ff-8b86-d011-b42d-00cf4fc964ff" },
  n: { type: "Int32", value: 5 },
  long: { type: "Int64", value: "9223372036854775807" },
  text: { type: "String", value: "5.0" },
  empty: { type: "String", value: "" },
};

function setUp(properties: Record<string, WireProperty> = everyType): { service: FakeService; table: FakeTable } {
  const service = new FakeService();
  const table = new FakeTable(service);
  table.put(properties);
  return { service, table };
}

const increment = (row: Row): void => {
  row.n++;
};

describe("tableEntity", () => {
  it("shows every type as JavaScript has it", async () => {
    const { table } = setUp();
    expect((await readTarget(tableEntity(table, "p", "r"))).value).toEqual({
      partitionKey: "p",
      rowKey: "r",
      binary: new Uint8Array([1, 2, 255]),
      boolean: false,
      at: new Date("2030-01-02T03:04:05.123Z"),
      double: 5,
      fraction: 1.5,
      notANumber: Number.NaN,
      guid: { type: "Guid", value: "6f9619ff-8b86-d011-b42d-00cf4fc964ff" },
      n: 5,
      long: 9223372036854775807n,
      text: "5.0",
      empty: "",
    });
  });

  it("merges what changed and the journal, and nothing else, in two requests", async () => {
    const { service, table } = setUp();
    const result = await optimisticUpdate(tableEntity<Row>(table, "p", "r"), increment);
    expect(result).toMatchObject({ outcome: "updated", value: { n: 6 }, etag: table.row()?.etag });
    expect(table.lastSent).toEqual({ mode: "Merge", names: ["n", "asc_journal"] });
    expect(service.operations).toEqual(["getEntity", "updateEntity"]);
  });

  it("leaves the type and value of everything else as it is, merged or replaced", async () => {
    for (const removed of [undefined, "empty"]) {
      const { table } = setUp();
      await optimisticUpdate(tableEntity<Row>(table, "p", "r"), (row) => {
        row.n++;
        if (removed) row[removed] = undefined;
      });
      const { asc_journal: journal, ...rest } = Object.fromEntries(table.row()!.properties);
      const expected = Object.entries({ ...everyType, n: { type: "Int32", value: 6 } }).filter(([name]) => name !== removed);
      expect(rest).toEqual(Object.fromEntries(expected));
      expect(journal?.type).toBe("String");
      expect(table.lastSent?.mode).toBe(removed ? "Replace" : "Merge");
    }
  });

  it("is never a row of the library, which other calls would not show", () => {
    const { table } = setUp();
    expect(() => tableEntity(table, "p", "~asc~fence")).toThrow(RangeError);
    expect(() => tableEntity(table, { partitionKey: "p", rowKey: "~asc~operations" })).toThrow(/reserved for the library/);
    expect(tableEntity(table, "~asc~", "~").kind).toBe("tableEntity");
  });

  it("keeps a Double a Double when it becomes a whole number, and the other way round", async () => {
    const { table } = setUp();
    await optimisticUpdate(tableEntity(table, "p", "r"), (row) => {
      row["double"] = 6;
      row["fraction"] = 2;
      row["long"] = 7;
    });
    expect(["double", "fraction", "long"].map((name) => table.property(name))).toEqual([
      { type: "Double", value: 6 },
      { type: "Double", value: 2 },
      { type: "Int64", value: "7" },
    ]);
  });

  it("keeps the least Int32 an Int32", async () => {
    const { table } = setUp({ n: { type: "Int32", value: -(2 ** 31) } });
    await optimisticUpdate(tableEntity<Row>(table, "p", "r"), increment);
    expect(table.property("n")).toEqual({ type: "Int32", value: 1 - 2 ** 31 });
  });

  it("pins types that JavaScript cannot express", async () => {
    const { table } = setUp({});
    const types = { price: "Double", id: "Guid", at: "DateTime", big: "Int64" } as const;
    await optimisticUpdate(tableEntity(table, "p", "r", { types }), () => ({
      partitionKey: "p",
      rowKey: "r",
      price: 5,
      id: "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
      at: "2030-01-02T03:04:05.1234567Z",
      big: 5,
    }));
    expect(["price", "id", "at", "big"].map((name) => table.property(name))).toEqual([
      { type: "Double", value: 5 },
      { type: "Guid", value: "6f9619ff-8b86-d011-b42d-00cf4fc964ff" },
      { type: "DateTime", value: "2030-01-02T03:04:05.1234567Z" },
      { type: "Int64", value: "5" },
    ]);
  });

  it("removes a property that is set to null", async () => {
    const { table } = setUp();
    await optimisticUpdate(tableEntity(table, "p", "r"), (row) => void (row["text"] = null));
    expect(table.property("text")).toBeUndefined();
    expect(table.lastSent?.mode).toBe("Replace");
    expect(table.lastSent?.names).toContain("asc_journal");
  });

  it("keeps the journal of others when it replaces without one of its own", async () => {
    const { table } = setUp();
    await optimisticUpdate(tableEntity<Row>(table, "p", "r"), increment);
    const journal = table.property("asc_journal");
    await optimisticUpdate(tableEntity(table, "p", "r"), (row) => void (row["text"] = null), { journal: false });
    expect(table.lastSent?.mode).toBe("Replace");
    expect(table.property("asc_journal")).toEqual(journal);
  });

  it("writes any entity as it was, and reads it back the same", async () => {
    await fc.assert(
      fc.asyncProperty(entities, entities, async (first, second) => {
        const service = new FakeService();
        const table = new FakeTable(service);
        const target = tableEntity(table, "p", "r");
        // The SDK writes minus zero as 0: JSON has no other way in JavaScript.
        fc.pre(![...Object.values(first), ...Object.values(second)].some((value) => Object.is(value, -0)));
        // Text in the place of a DateTime, Guid, Int64 or Boolean has to be one: see entity-names-and-types.test.ts.
        const isTyped = (value: unknown): boolean => ["bigint", "boolean"].includes(typeof value) || value instanceof Date || (typeof value === "object" && value !== null && "type" in value);
        fc.pre(!Object.entries(second).some(([name, value]) => typeof value === "string" && Object.hasOwn(first, name) && isTyped(first[name])));
        const keys = { partitionKey: "p", rowKey: "r" };
        await optimisticUpdate(target, () => ({ ...first, ...keys }), { initial: keys });
        expect((await readTarget(target)).value).toEqual({ ...first, ...keys });
        const { value } = await optimisticUpdate(target, () => ({ ...second, ...keys }));
        expect((await readTarget(target)).value).toEqual(value);
        // A whole number in the place of an Int64 becomes one: a property keeps its kind of number.
        const stays64 = ([name, given]: [string, unknown]): [string, unknown] =>
          Object.hasOwn(first, name) && typeof first[name] === "bigint" && Number.isSafeInteger(given) ? [name, BigInt(given as number)] : [name, given];
        expect(value).toEqual({ ...Object.fromEntries(Object.entries(second).map(stays64)), ...keys });
      }),
      { numRuns: 100 },
    );
  });

  it.each([
    ["o'neil", "100%"],
    ["😀", "a b"],
    ["", ""],
    ["x".repeat(512), "ключ"],
  ])("finds the entity of the keys %j and %j", async (partitionKey, rowKey) => {
    const { table } = setUp();
    const target = tableEntity<Row>(table, partitionKey, rowKey);
    await optimisticUpdate(target, increment, { initial: { n: 1 } });
    expect(table.property("n", partitionKey, rowKey)).toEqual({ type: "Int32", value: 2 });
  });

  it("accepts a value without its keys, and refuses one with those of another row", async () => {
    const { service, table } = setUp();
    const target = tableEntity<Row>(table, "p", "r");
    await optimisticUpdate(target, () => ({ n: 9 }) as never);
    expect(table.property("n")).toEqual({ type: "Int32", value: 9 });
    service.requests.length = 0;
    await expect(optimisticUpdate(target, (row) => ({ ...row, rowKey: "other" }))).rejects.toThrow(TypeError);
    await expect(optimisticUpdate(target, (row) => void ((row as { partitionKey: string }).partitionKey = "other"))).rejects.toThrow(/an update cannot change a key/);
    expect(service.count("write")).toBe(0);
  });

  it("refuses what a table cannot store, and writes nothing", async () => {
    const { service, table } = setUp();
    const target = tableEntity(table, "p", "r");
    for (const value of [{ a: {} }, { a: [1] }, { "a b": 1 }, 5, "x"]) {
      await expect(optimisticUpdate(target, () => value as never)).rejects.toBeInstanceOf(TypeError);
    }
    expect(service.count("write")).toBe(0);
  });

  it("deletes under the ETag that it read", async () => {
    const { service, table } = setUp();
    service.next("deleteEntity", before(() => table.merge({ n: { type: "Int32", value: 100 } })));
    const result = await inFakeTime(optimisticUpdate(tableEntity<Row>(table, "p", "r"), (row) => (row.n < 100 ? DELETE : undefined)));
    expect(result).toMatchObject({ outcome: "unchanged", value: { n: 100 } });
    expect(table.row()).toBeDefined();
  });

  it("applies a change once when the answer is lost: merge, replace, create", async () => {
    const { service, table } = setUp();
    const target = tableEntity<Row>(table, "p", "r");
    service.next("updateEntity", loseAnswer);
    await optimisticUpdate(target, increment);
    service.next("updateEntity", loseAnswer);
    await optimisticUpdate(target, (row) => {
      row.n++;
      row["text"] = null;
    });
    expect(table.property("n")).toEqual({ type: "Int32", value: 7 });
    const fresh = tableEntity<Row>(table, "p", "new");
    service.next("createEntity", loseAnswer);
    const result = await optimisticUpdate(fresh, increment, { initial: { n: 0 } });
    expect(result).toMatchObject({ outcome: "created", value: { n: 1 } });
    expect(table.property("n", "p", "new")).toEqual({ type: "Int32", value: 1 });
  });

  it("is right below a foreign merge, which leaves the journal alone", async () => {
    const { service, table } = setUp();
    service.next("updateEntity", async (exchange) => {
      await exchange.send();
      table.merge({ text: { type: "String", value: "foreign" } });
      return exchange.send();
    });
    const result = await optimisticUpdate(tableEntity<Row>(table, "p", "r"), increment);
    expect(result).toMatchObject({ value: { n: 6, text: "5.0" } });
    expect(result.etag).not.toBe(table.row()?.etag);
    expect(table.property("n")).toEqual({ type: "Int32", value: 6 });
  });

  it("hides its journal from mutators and results", async () => {
    const { table } = setUp();
    const target = tableEntity<Row>(table, "p", "r");
    const seen = vi.fn(increment);
    await optimisticUpdate(target, seen);
    const { value } = await optimisticUpdate(target, seen);
    for (const row of [value, ...seen.mock.calls.map(([row]) => row)]) expect(row).not.toHaveProperty("asc_journal");
    expect(table.property("asc_journal")?.value).toMatch(/~2~/);
  });
});

describe("tableEntity by an entity that was read", () => {
  const read = { partitionKey: "p", rowKey: "r", n: 1, etag: "W/x", timestamp: "2030-01-01T00:00:00Z" };

  it("has the properties of the entity without those that the service sets", () => {
    const { table } = setUp();
    expectTypeOf(tableEntity(table, read)).toEqualTypeOf<UpdateTarget<Entity<{ n: number }>, { n: number }>>();
  });

  it("uses only the keys: the update reads what is stored now", async () => {
    const { table } = setUp();
    const result = await optimisticUpdate(tableEntity(table, read), (draft) => { draft.n++; });
    expect(result.value.n).toBe(6);
    expect(table.property("n")).toEqual({ type: "Int32", value: 6 });
  });

  it("shares requests with a target by keys, and takes options", async () => {
    const { service, table } = setUp();
    await Promise.all([optimisticUpdate(tableEntity(table, read), (draft) => { draft.n++; }), optimisticUpdate(tableEntity<Row>(table, "p", "r"), increment)]);
    expect(service.operations).toEqual(["getEntity", "updateEntity"]);
    await optimisticUpdate(tableEntity(table, { ...read, price: 1 }, { types: { price: "Double" } }), (draft) => void (draft.price = 5));
    expect(table.property("price")).toEqual({ type: "Double", value: 5 });
  });

  it.each([{}, { partitionKey: "p" }, { rowKey: "r" }, { partitionKey: undefined, rowKey: "r" }])("throws a TypeError without both keys: %j", (entity) => {
    const { table } = setUp();
    expect(() => tableEntity(table, entity)).toThrow(new TypeError("The entity must have a partitionKey and a rowKey."));
  });

  it.each([null, undefined, 5])("throws a TypeError for %s", (entity) => {
    const { table } = setUp();
    expect(() => tableEntity(table, entity as never)).toThrow(TypeError);
  });
});

describe("a value with the keys of another entity", () => {
  it("that is to be created is named as that, and not as the mutator's", async () => {
    const { service, table } = setUp();
    const target = tableEntity<Row>(table, "p", "new");
    const wrong = { n: 1, rowKey: "other" } as Row;
    const mutator = vi.fn();
    for (const call of [
      optimisticUpdate(target, mutator, { initial: wrong }),
      optimisticUpdate(target, mutator, { initial: () => wrong }),
      createIfNotExists(target, wrong),
      overwrite(target, wrong),
    ]) {
      const { message } = await rejection(call);
      expect(message).toBe('The value to be created has the rowKey "other", but the target has "new": leave it out.');
    }
    expect(mutator).not.toHaveBeenCalled();
    expect(service.count("write")).toBe(0);
  });

  it("that a mutator returns is named as the mutator's, also if the entity is created", async () => {
    const { service, table } = setUp();
    for (const [rowKey, initial] of [["r", undefined], ["new", { n: 1 }]] as const) {
      const update = optimisticUpdate(tableEntity<Row>(table, "p", rowKey), (row) => ({ ...row, rowKey: "other" }), { initial });
      expect((await rejection(update)).message).toBe('The mutator returned an entity with the rowKey "other": an update cannot change a key.');
    }
    expect(service.count("write")).toBe(0);
  });
});
