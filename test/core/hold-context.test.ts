import { afterEach, describe, expect, it, vi } from "vitest";
import { createAsyncContext } from "../../src/core/hold-context.js";

afterEach(() => {
  vi.unstubAllGlobals();
});

describe("an async context", () => {
  it("follows the asynchronous calls of a function, and no others", async () => {
    const context = createAsyncContext<string>();
    const seen = async (): Promise<string | undefined> => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      return context.get();
    };
    const [inside, nested, outside] = await Promise.all([context.run("a", seen), context.run("a", () => context.run("b", seen)), seen()]);
    expect([inside, nested, outside, context.get()]).toEqual(["a", "b", undefined, undefined]);
  });

  it("ends with the function, even if it throws", () => {
    const context = createAsyncContext<string>();
    expect(() => context.run("a", () => { throw new Error("failed"); })).toThrow("failed");
    expect(context.get()).toBeUndefined();
  });

  it.each<[string, unknown]>([
    ["no process, as in a browser", undefined],
    ["a process without built-in modules", {}],
    ["no such module", { getBuiltinModule: () => undefined }],
  ])("calls the function and knows nothing where there is %s", (_, process) => {
    vi.stubGlobal("process", process);
    const context = createAsyncContext<string>();
    expect(context.run("a", () => context.get() ?? "called")).toBe("called");
  });
});
