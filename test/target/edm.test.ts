import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromEdm, isEdmType, toEdm } from "../../src/target/edm.js";
import type { EdmType } from "../../src/target/edm.js";
import { entityValues } from "../support/entities.js";

describe("the stored form of a value", () => {
  it("comes back as the value", () => {
    fc.assert(
      fc.property(entityValues, (value) => {
        expect(fromEdm(toEdm("x", value, undefined, undefined))).toEqual(value);
      }),
      { numRuns: 500 },
    );
  });

  const cases: [string, unknown, EdmType | undefined, EdmType | undefined, EdmType, unknown][] = [
    ["a whole number", 5, undefined, undefined, "Int32", 5],
    ["the least Int32", -(2 ** 31), undefined, undefined, "Int32", -(2 ** 31)],
    ["one more than an Int32", 2 ** 31, undefined, undefined, "Double", 2 ** 31],
    ["minus zero, which JSON does not have", -0, undefined, undefined, "Int32", 0],
    ["a fraction", 1.5, undefined, undefined, "Double", 1.5],
    ["NaN", Number.NaN, undefined, undefined, "Double", "NaN"],
    ["minus infinity", Number.NEGATIVE_INFINITY, undefined, undefined, "Double", "-Infinity"],
    ["a whole number where a Double was", 5, undefined, "Double", "Double", 5],
    ["a whole number where an Int64 was", 5, undefined, "Int64", "Int64", "5"],
    ["a fraction where an Int64 was", 5.5, undefined, "Int64", "Double", 5.5],
    ["a fraction where an Int32 was", 5.5, undefined, "Int32", "Double", 5.5],
    ["a string where a number was", "x", undefined, "Int32", "String", "x"],
    ["a bigint", 5n, undefined, undefined, "Int64", "5"],
    ["the largest Int64", 2n ** 63n - 1n, undefined, undefined, "Int64", "9223372036854775807"],
    ["a pinned Double", 5, "Double", "Int32", "Double", 5],
    ["a pinned Int64 from a number", 5, "Int64", undefined, "Int64", "5"],
    ["a pinned Guid", "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "Guid", undefined, "Guid", "6F9619FF-8B86-D011-B42D-00CF4FC964FF"],
    ["a pinned DateTime with ticks", "2030-01-02T03:04:05.1234567Z", "DateTime", undefined, "DateTime", "2030-01-02T03:04:05.1234567Z"],
    ["a Date", new Date(0), undefined, undefined, "DateTime", "1970-01-01T00:00:00.000Z"],
    ["bytes", new Uint8Array([1, 2, 255]), undefined, undefined, "Binary", "AQL/"],
    ["a typed value, which wins over a pin", { type: "Int32", value: 5 }, "Double", undefined, "Int32", 5],
    ["a typed Boolean in the SDK's form", { type: "Boolean", value: "false" }, undefined, undefined, "Boolean", false],
    ["a typed Int32 in the SDK's form", { type: "Int32", value: "5" }, undefined, undefined, "Int32", 5],
    ["an empty string", "", undefined, undefined, "String", ""],
    ["empty bytes", new Uint8Array(), undefined, undefined, "Binary", ""],
  ];
  it.each(cases)("of %s", (_, value, wanted, previous, type, stored) => {
    expect(toEdm("x", value, wanted, previous)).toEqual({ type, value: stored });
  });

  const refused: [string, unknown, EdmType | undefined][] = [
    ["an object", {}, undefined],
    ["an array", [1], undefined],
    ["a function", () => 1, undefined],
    ["a symbol", Symbol("x"), undefined],
    ["an invalid Date", new Date(Number.NaN), undefined],
    ["a bigint beyond 64 bits", 2n ** 63n, undefined],
    ["a fraction as an Int32", 1.5, "Int32"],
    ["too large an Int32", 2 ** 31, "Int32"],
    ["a fraction as an Int64", 1.5, "Int64"],
    ["an unsafe number as an Int64", 2 ** 60, "Int64"],
    ["text as an Int64", "5x", "Int64"],
    ["empty text as a Double", "", "Double"],
    ["text as a Double", "five", "Double"],
    ["text as a Guid", "x", "Guid"],
    ["text as a DateTime", "yesterday", "DateTime"],
    ["text as Binary", "ä", "Binary"],
    ["a number as a String", 5, "String"],
    ["a number as a Boolean", 1, "Boolean"],
    ["a typed value of the wrong kind", { type: "Guid", value: "x" }, undefined],
  ];
  it.each(refused)("is refused for %s, and the message has the name but not the value", (_, value, wanted) => {
    expect(() => toEdm("secret", value, wanted, undefined)).toThrow(TypeError);
    expect(() => toEdm("secret", value, wanted, undefined)).toThrow(/"secret"/);
    if (typeof value === "string" && value) expect(() => toEdm("secret", value, wanted, undefined)).not.toThrow(`"${value}"`);
  });

  it("is refused for an object without a prototype, as for any other", () => {
    expect(() => toEdm("x", Object.create(null), undefined, undefined)).toThrow(TypeError);
    expect(() => toEdm("x", Object.create(null), undefined, undefined)).toThrow(/cannot store/);
  });

  it("encodes long binaries", () => {
    const bytes = new Uint8Array(64 * 1024).fill(255);
    expect(fromEdm(toEdm("x", bytes, undefined, undefined))).toEqual(bytes);
  });

  it("knows the eight types", () => {
    expect(["Binary", "Boolean", "DateTime", "Double", "Guid", "Int32", "Int64", "String"].every(isEdmType)).toBe(true);
    expect([undefined, 5, "Edm.Int32", "Decimal", "toString"].some(isEdmType)).toBe(false);
  });
});
