import { describe, expect, it } from "vitest";
import * as library from "../src/index.js";

const errors = [
  [new library.ConcurrencyError("X", "m"), "ConcurrencyError", "X", library.isConcurrencyError],
  [new library.ConflictError("m", { attempts: 2, elapsedInMs: 3, lastETag: "e", cause: "c" }), "ConflictError", "CONFLICT", library.isConflictError],
  [new library.DeadlineError("m", { elapsedInMs: 3, cause: "c" }), "DeadlineError", "DEADLINE", library.isDeadlineError],
  [new library.CommitUnknownError("m", { attempts: 2, cause: "c" }), "CommitUnknownError", "COMMIT_UNKNOWN", library.isCommitUnknownError],
  [new library.TargetNotFoundError("m", { url: "u", cause: "c" }), "TargetNotFoundError", "TARGET_NOT_FOUND", library.isTargetNotFoundError],
  [new library.LeaseUnavailableError("m", { url: "u", cause: "c" }), "LeaseUnavailableError", "LEASE_UNAVAILABLE", library.isLeaseUnavailableError],
  [new library.AppendLimitError("m", { url: "u", limit: "size", cause: "c" }), "AppendLimitError", "APPEND_LIMIT", library.isAppendLimitError],
  [new library.SchemaError("m", { phase: "read", issues: [], cause: "c" }), "SchemaError", "SCHEMA", library.isSchemaError],
  [new library.ContentChangedError("m", { url: "u", etag: "e", restarts: 1, cause: "c" }), "ContentChangedError", "CONTENT_CHANGED", library.isContentChangedError],
  [new library.WatchFailedError("m", { url: "u", failures: 1, elapsedInMs: 2, cause: "c" }), "WatchFailedError", "WATCH_FAILED", library.isWatchFailedError],
] as const;

describe("errors", () => {
  it.each(errors)("%s", (error, name, code, guard) => {
    expect(error).toBeInstanceOf(Error);
    expect(error).toBeInstanceOf(library.ConcurrencyError);
    expect(error).toMatchObject({ name, code, message: "m" });
    expect(String(error)).toBe(`${name}: m`);
    if (name !== "ConcurrencyError") expect(error.cause).toBe("c");
    expect(guard(error)).toBe(true);
    expect(library.isConcurrencyError(error)).toBe(true);
  });

  it("are told apart by their guards", () => {
    for (const [error, name] of errors) {
      const guards = errors.slice(1).filter(([, , , guard]) => guard(error));
      expect(guards.map(([, guarded]) => guarded)).toEqual(name === "ConcurrencyError" ? [] : [name]);
    }
  });

  it("tell a blob that is too large from others", () => {
    const error = new library.ContentTooLargeError("m", { url: "u", sizeInBytes: 2, maxBytes: 1 });
    expect(error).toMatchObject({ name: "ContentTooLargeError", code: "CONTENT_TOO_LARGE", url: "u", sizeInBytes: 2, maxBytes: 1 });
    expect(library.isContentTooLargeError(error)).toBe(true);
    expect(errors.filter(([, name, , guard]) => name !== "ConcurrencyError" && guard(error))).toEqual([]);
  });

  it("are recognised when they come from another copy of the library", () => {
    const foreign = Object.assign(new Error("m"), { name: "ConflictError", code: "CONFLICT" });
    expect(library.isConflictError(foreign)).toBe(true);
    expect(library.isConcurrencyError(foreign)).toBe(true);
  });

  it.each([undefined, null, "ConflictError", {}, new Error("x"), { name: "ConflictError", code: "CONFLICT" }, Object.assign(new Error(), { name: "ConflictError" })])(
    "are not taken for granted: %s",
    (other) => {
      expect(library.isConcurrencyError(other)).toBe(false);
      expect(library.isConflictError(other)).toBe(false);
    },
  );
});
