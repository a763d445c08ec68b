import { describe, expect, it } from "vitest";
import { checkOptions, mergeDefined } from "../../src/core/validate.js";

interface Options {
  timeoutInMs?: number | undefined;
  name?: string | undefined;
}
const names = { timeoutInMs: 1, name: 1 } as const;

describe("checkOptions", () => {
  it.each([undefined, {}, { timeoutInMs: 1 }, { timeoutInMs: undefined, name: "a" }, Object.create({ name: "inherited" }) as Options])("accepts %o", (options) => {
    checkOptions<Options>("call", options, names);
  });

  it("ignores an unknown name without a value, as a spread object may have it", () => {
    checkOptions<Options>("call", { other: undefined } as Options, names);
  });

  it.each([{ timeoutMs: 1 }, { toString: 1 }, { __proto__: { timeoutMs: 1 } }, { timeoutMs: null }] as object[])("rejects %o, and names the options that there are", (options) => {
    expect(() => checkOptions<Options>("call", options as Options, names)).toThrow(TypeError);
    expect(() => checkOptions<Options>("call", options as Options, names)).toThrow(/call: unknown option "(timeoutMs|toString)".*timeoutInMs, name/);
  });

  it.each([null, 3, "options", () => undefined])("rejects %s instead of options", (options) => {
    expect(() => checkOptions<Options>("call", options as Options, names)).toThrow(TypeError);
  });
});

describe("mergeDefined", () => {
  it("puts options on top of defaults", () => {
    expect(mergeDefined<Options>({ timeoutInMs: 1, name: "a" }, { timeoutInMs: 2 })).toEqual({ timeoutInMs: 2, name: "a" });
  });

  it("keeps a default if the option is undefined", () => {
    expect(mergeDefined<Options>({ timeoutInMs: 1 }, { timeoutInMs: undefined })).toEqual({ timeoutInMs: 1 });
  });

  it("changes neither, and works without either", () => {
    const defaults = Object.freeze({ timeoutInMs: 1 });
    expect(mergeDefined<Options>(defaults, Object.freeze({ name: "b" }))).toEqual({ timeoutInMs: 1, name: "b" });
    expect(mergeDefined<Options>(undefined, undefined)).toEqual({});
  });
});
