import { describe, expect, it } from "vitest";
import { identityOf } from "../../src/core/identity.js";
import { redactUrl } from "../../src/core/telemetry.js";
import { checkIdentifier, checkNumber, checkOneOf } from "../../src/core/validate.js";

describe("checkNumber", () => {
  it.each([
    [1, { min: 1 }],
    [0, { min: 0 }],
    [Number.POSITIVE_INFINITY, { min: 1, integer: true }],
    [1.5, { min: 1, max: 2 }],
  ])("accepts %d in %j", (value, bounds) => {
    expect(checkNumber("x", value, bounds)).toBe(value);
  });

  it.each([
    [0, { min: 1 }, RangeError],
    [-1, { min: 0 }, RangeError],
    [3, { min: 1, max: 2 }, RangeError],
    [1.5, { min: 1, integer: true }, RangeError],
    [Number.NaN, { min: 0 }, TypeError],
    ["5" as unknown as number, { min: 0 }, TypeError],
    [null as unknown as number, { min: 0 }, TypeError],
  ])("refuses %s in %j and names the option", (value, bounds, kind) => {
    expect(() => checkNumber("timeoutInMs", value, bounds)).toThrow(kind);
    expect(() => checkNumber("timeoutInMs", value, bounds)).toThrow(/timeoutInMs/);
  });
});

describe("checkOneOf", () => {
  it("accepts what is on the list, and names the list for what is not", () => {
    expect(checkOneOf("x", "a", ["a", "b"])).toBe("a");
    expect(() => checkOneOf("x", "c", ["a", "b"])).toThrow(/"a", "b"/);
  });
});

describe("checkIdentifier", () => {
  it("accepts what is a name both of metadata and of a property", () => {
    for (const name of ["a", "_a1", "asc_journal", "x".repeat(128)]) expect(checkIdentifier("journal", name)).toBe(name);
  });

  it.each(["", "1a", "a b", "a-b", "ä", "a.b", "x".repeat(129), 5 as unknown as string])("refuses %j", (name) => {
    expect(() => checkIdentifier("journal", name)).toThrow(RangeError);
  });
});

describe("redactUrl", () => {
  it("leaves out the query, where a SAS has its signature", () => {
    expect(redactUrl("https://a/b?sig=SECRET")).toBe("https://a/b");
    expect(redactUrl("https://a/b")).toBe("https://a/b");
  });
});

describe("identityOf", () => {
  it("is the same for the same object, and another for another", () => {
    const [a, b] = [{}, {}];
    expect(identityOf(a)).toBe(identityOf(a));
    expect(identityOf(a)).not.toBe(identityOf(b));
  });
});
