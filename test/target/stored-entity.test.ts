import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { entityDiff, entityValue, equalStored, storedFromResponse, storedFromValue } from "../../src/target/stored-entity.js";
import type { StoredEntity } from "../../src/target/stored-entity.js";
import { entities } from "../support/entities.js";

const keys = { partitionKey: "p", rowKey: "r" };

function stored(value: object, previous?: StoredEntity): StoredEntity {
  return storedFromValue(value, previous, {});
}

describe("an entity", () => {
  it("comes back from its stored form as it was", () => {
    fc.assert(
      fc.property(entities, (entity) => {
        expect(entityValue(stored(entity), "p", "r")).toEqual({ ...entity, ...keys });
      }),
    );
  });

  it("that nobody touched keeps its stored form to the letter", () => {
    fc.assert(
      fc.property(entities, (entity) => {
        const before = stored(entity);
        const after = stored(entityValue(before, "p", "r"), before);
        expect(equalStored(before, after)).toBe(true);
        expect(entityDiff(before, after)).toEqual({ mode: "Merge", properties: {} });
      }),
    );
  });

  it("becomes the other by sending their difference, and nothing that is the same is sent by a merge", () => {
    fc.assert(
      fc.property(entities, entities, (first, second) => {
        const from = stored(first);
        const to = stored({ ...first, ...second });
        for (const [a, b] of [
          [from, to],
          [to, from],
          [stored(second), from],
        ] as const) {
          const { mode, properties } = entityDiff(a, b);
          const sent = Object.entries(properties);
          const result: StoredEntity = new Map(mode === "Merge" ? [...a, ...sent] : sent);
          expect(equalStored(result, b)).toBe(true);
          expect(mode).toBe([...a.keys()].every((name) => b.has(name)) ? "Merge" : "Replace");
          if (mode === "Merge") for (const [name, value] of sent) expect(value).not.toEqual(a.get(name));
        }
      }),
    );
  });

  it("loses a property that is set to null or undefined, or left out", () => {
    const before = stored({ a: 1, b: 2, c: 3, d: 4 });
    expect([...stored({ a: 1, b: null, c: undefined }, before).keys()]).toEqual(["a"]);
  });

  it("keeps the ticks of a DateTime that is merely read as a Date", () => {
    const before: StoredEntity = new Map([["at", { type: "DateTime", value: "2030-01-02T03:04:05.1234567Z" }]]);
    const value = entityValue(before, "p", "r");
    expect(value["at"]).toEqual(new Date("2030-01-02T03:04:05.123Z"));
    expect(stored(value, before).get("at")).toEqual(before.get("at"));
    (value["at"] as Date).setUTCFullYear(2031);
    expect(stored(value, before).get("at")).toEqual({ type: "DateTime", value: "2031-01-02T03:04:05.123Z" });
  });

  it("ignores the names that are no properties of its own", () => {
    expect([...stored({ ...keys, etag: "x", timestamp: "y", "odata.metadata": "z", a: 1 }).keys()]).toEqual(["a"]);
  });

  it.each(["a b", "1a", "a-b", "", "a.b", "x".repeat(256), "a#", "__proto__"])("refuses a new property of the name %j", (name) => {
    expect(() => stored(Object.fromEntries([[name, 1]]))).toThrow(TypeError);
  });

  it("takes the longest name, and those of other alphabets", () => {
    expect(stored({ ["x".repeat(255)]: 1, größe: 2, 名前: 3, _a: 4 }).size).toBe(4);
  });

  it("pollutes nothing with a property of the name __proto__", () => {
    const value = entityValue(new Map([["__proto__", { type: "String", value: "x" }]]), "p", "r");
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });
});

describe("what the SDK answers", () => {
  function answer(properties: Record<string, { type: string; value: unknown }>, text: string): StoredEntity {
    return storedFromResponse({ ...keys, etag: "e", timestamp: "t", "odata.metadata": "m", ...properties }, text);
  }

  it("has its doubles found in the text", () => {
    const text = String.raw`{"odata.etag":"W/\"x\"","a":5.0,"b":5,"c\"\\ü":1e3,"s":"\"d\":7.0","d": 7 , "e":-3.0,"f":true,"g":null}`;
    const int = (value: string): { type: string; value: string } => ({ type: "Int32", value });
    const found = answer({ a: int("5"), b: int("5"), 'c"\\ü': int("1000"), d: int("7"), e: int("-3") }, text);
    expect([...found].map(([name, { type, value }]) => [name, type, value])).toEqual([
      ["a", "Double", 5],
      ["b", "Int32", 5],
      ['c"\\ü', "Double", 1000],
      ["d", "Int32", 7],
      ["e", "Double", -3],
    ]);
  });

  it("has whole numbers that no Int32 can hold as doubles, and the least Int32 as what it is", () => {
    const text = '{"a":2147483648,"b":-2147483648,"c":2147483647,"d":-2147483649}';
    const properties = Object.fromEntries(
      Object.entries(JSON.parse(text) as Record<string, number>).map(([name, value]) => [name, { type: "Int32", value: String(value) }]),
    );
    expect([...answer(properties, text).values()].map(({ type }) => type)).toEqual(["Double", "Int32", "Int32", "Double"]);
  });

  it("does without the text", () => {
    expect(storedFromResponse({ a: { type: "Int32", value: "5" } }, undefined).get("a")).toEqual({ type: "Int32", value: 5 });
  });

  it("is not misread because of what a long text says", () => {
    const text = JSON.stringify({ s: '\\"'.repeat(32_000), t: '"a":5.0,'.repeat(8_000), a: 5 });
    expect(answer({ a: { type: "Int32", value: "5" } }, text).get("a")?.type).toBe("Int32");
  });
});
