import { afterEach, describe, expect, it, vi } from "vitest";
import { RequestTimeoutError } from "../../src/core/deadline.js";
import { EventDispatcher } from "../../src/core/typed-events.js";
import { isConcurrencyError } from "../../src/errors.js";

interface Events {
  done: { readonly id: number };
  error: unknown;
}

const dispatcher = (): EventDispatcher<Events> => new EventDispatcher("Tester", { done: 1, error: 1 });

afterEach(() => void vi.restoreAllMocks());

describe("listeners", () => {
  it("get the detail, in the order in which they were added; once means once; off removes", () => {
    const events = dispatcher();
    const seen: string[] = [];
    const first = ({ id }: Events["done"]): void => void seen.push(`first ${id}`);
    events.add("done", first);
    events.add("done", ({ id }) => void seen.push(`once ${id}`), true);
    events.emit("done", { id: 1 });
    events.emit("done", { id: 2 });
    events.remove("done", first);
    events.emit("done", { id: 3 });
    expect(seen).toEqual(["first 1", "once 1", "first 2"]);
  });

  it("that one listener adds or removes meanwhile do not disturb the others", () => {
    const events = dispatcher();
    const seen: string[] = [];
    const removesItself = (): void => {
      seen.push("a");
      events.remove("done", removesItself);
      events.add("done", () => void seen.push("late"));
    };
    events.add("done", removesItself);
    events.add("done", () => void seen.push("b"));
    events.emit("done", { id: 1 });
    expect(seen).toEqual(["a", "b"]);
    events.emit("done", { id: 2 });
    expect(seen).toEqual(["a", "b", "b", "late"]);
  });

  it("that throw or reject do not keep the others from being called, and reach no caller", async () => {
    const events = dispatcher();
    const other = vi.fn();
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    events.add("done", () => {
      throw new Error("listener");
    });
    // eslint-disable-next-line @typescript-eslint/no-misused-promises -- what a caller without the rule writes
    events.add("done", async () => {
      throw new Error("async listener");
    });
    events.add("done", other);
    events.emit("done", { id: 1 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    process.off("unhandledRejection", unhandled);
    expect(other).toHaveBeenCalledTimes(1);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it("of an event that does not exist, and listeners that are no functions, are TypeErrors", () => {
    const events = dispatcher();
    expect(() => events.add("doen" as "done", () => undefined)).toThrow(/Unknown event "doen".*done, error/);
    expect(() => events.add("done", undefined as never)).toThrow(TypeError);
    expect(() => events.remove("doen" as "done", () => undefined)).toThrow(TypeError);
  });
});

describe("an error without a listener", () => {
  it("is written to the console once for each component and cause, without the message of the error", () => {
    const written = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const events = dispatcher();
    events.emit("error", new RangeError("secret payload"));
    events.emit("error", new RangeError("another"));
    expect(written).toHaveBeenCalledTimes(1);
    expect(String(written.mock.calls[0])).toMatch(/Tester.*RangeError/);
    expect(String(written.mock.calls[0])).not.toContain("secret");
    dispatcher().emit("error", new Error("of another component"));
    events.emit("error", new TypeError("of another cause"));
    expect(written).toHaveBeenCalledTimes(3);
  });

  it("is not written if there is a listener", () => {
    const written = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const events = dispatcher();
    events.add("error", () => undefined);
    events.emit("error", new Error("known"));
    events.emit("done", { id: 1 });
    expect(written).not.toHaveBeenCalled();
  });
});

it("an error event has no error that only the library knows: a request without a response is an OperationTimeoutError", () => {
  const events = dispatcher();
  const errors: unknown[] = [];
  events.add("error", (error) => void errors.push(error));
  const cause = new RequestTimeoutError(3_000, "the inbox did not respond");
  events.emit("error", cause);
  expect(errors).toHaveLength(1);
  expect(errors[0]).toMatchObject({ code: "OPERATION_TIMEOUT", message: "Tester: the inbox did not respond within 3000 ms.", elapsedInMs: 3_000, committed: "unknown", cause });
  expect(isConcurrencyError(errors[0])).toBe(true);
});
