import { describe, expect, expectTypeOf, it } from "vitest";
import { createError } from "../src/errors.js";
import type { AnyConcurrencyError, ConcurrencyErrorCode } from "../src/index.js";
import * as library from "../src/index.js";

const url = "https://account.test/x";

/** One error of each code, and the properties that only its class has. */
const errors: { readonly [code in ConcurrencyErrorCode]: AnyConcurrencyError } = {
  CONFLICT: createError(library.ConflictError, "m", { url, attempts: 2, elapsedInMs: 3, currentETag: "e", cause: "c" }),
  OPERATION_TIMEOUT: createError(library.OperationTimeoutError, "m", { url, elapsedInMs: 3, cause: "c" }),
  COMMIT_UNKNOWN: createError(library.CommitUnknownError, "m", { url, attempts: 2, operationId: "o", cause: "c" }),
  TARGET_NOT_FOUND: createError(library.TargetNotFoundError, "m", { url, cause: "c" }),
  ALREADY_EXISTS: createError(library.AlreadyExistsError, "m", { url, cause: "c" }),
  TRANSACTION_LIMIT: createError<Extract<AnyConcurrencyError, { code: "TRANSACTION_LIMIT" }>>(library.LimitError, "m", { url, code: "TRANSACTION_LIMIT", limit: "bytes", cause: "c" }),
  APPEND_LIMIT: createError<Extract<AnyConcurrencyError, { code: "APPEND_LIMIT" }>>(library.LimitError, "m", { url, code: "APPEND_LIMIT", limit: "size", cause: "c" }),
  JOURNAL_LIMIT: createError<Extract<AnyConcurrencyError, { code: "JOURNAL_LIMIT" }>>(library.LimitError, "m", { url, code: "JOURNAL_LIMIT", limit: "metadata", cause: "c" }),
  FENCED: createError(library.FencedError, "m", { url, epoch: 1, fencedBy: 2, cause: "c" }),
  LOCK_MODE_MISMATCH: createError(library.LockModeMismatchError, "m", { url, setting: "granularity", expected: "a", found: "b", cause: "c" }),
  ID_COUNTER: createError(library.IdCounterError, "m", { url, reason: "reset", cause: "c" }),
  LEASE_UNAVAILABLE: createError(library.LeaseUnavailableError, "m", { url, waitedInMs: 1, holder: "h", cause: "c" }),
  LEASE_LOST: createError(library.LeaseLostError, "m", { url, reason: "broken", cause: "c" }),
  LEASE_RELEASE_FAILED: createError(library.LeaseReleaseError, "m", { url, leaseId: "l", cause: "c" }),
  FILE_IN_USE: createError(library.FileInUseError, "m", { url, attempts: 1, elapsedInMs: 2, reason: "SharingViolation", cause: "c" }),
  MESSAGE_LOST: createError(library.MessageLostError, "m", { url, messageId: "1", reason: "taken", cause: "c" }),
  IDEMPOTENCY_MISMATCH: createError(library.IdempotencyMismatchError, "m", { url, key: "k", cause: "c" }),
  IN_PROGRESS: createError(library.InProgressError, "m", { url, key: "k", retryAfterInMs: 1, cause: "c" }),
  SCHEMA: createError(library.SchemaError, "m", { url, phase: "read", issues: [{ message: "secret" }], etag: undefined, cause: "c" }),
  CONTENT_CHANGED: createError(library.ContentChangedError, "m", { url, etag: "e", restarts: 1, cause: "c" }),
  CONTENT_TOO_LARGE: createError(library.ContentTooLargeError, "m", { url, sizeInBytes: 2, maxSizeInBytes: 1, cause: "c" }),
  WATCH_FAILED: createError(library.WatchFailedError, "m", { url, failures: 1, elapsedInMs: 2, cause: "c" }),
  TARGET_STATE: createError(library.TargetStateError, "m", { url, reason: "sealed", cause: "c" }),
  PRECONDITION: new library.PreconditionError("m", { cause: "c" }),
};
const codes = Object.keys(errors) as ConcurrencyErrorCode[];

describe("an error", () => {
  it.each(codes)("%s has its code, name, url, cause, and says whether it wrote and can be repeated", (code) => {
    const error = errors[code];
    expect(error).toBeInstanceOf(Error);
    expect(error).toBeInstanceOf(library.ConcurrencyError);
    expect(error).toMatchObject({ code, message: "m", cause: "c" });
    expect(error.url).toBe(code === "PRECONDITION" ? undefined : url);
    const isLimit = code === "TRANSACTION_LIMIT" || code === "APPEND_LIMIT" || code === "JOURNAL_LIMIT";
    expect(error.name).toBe(isLimit ? "LimitError" : Object.getPrototypeOf(error).constructor.name); // eslint-disable-line @typescript-eslint/no-unsafe-member-access -- the class
    expect(String(error)).toBe(`${error.name}: m`);
    expect([false, "unknown"]).toContain(error.committed);
    expect(typeof error.retryable).toBe("boolean");
    // What programs log of an error: its own enumerable properties.
    expect(Object.keys(error)).toEqual(expect.arrayContaining(["code", "url", "committed", "retryable"]));
    expect(Object.keys(error)).not.toContain("name");
  });

  it("may have written something if, and only if, that cannot be known", () => {
    expect(codes.filter((code) => errors[code].committed === "unknown")).toEqual(["COMMIT_UNKNOWN", "LEASE_LOST", "LEASE_RELEASE_FAILED", "MESSAGE_LOST"]);
    expect(createError(library.FencedError, "m", { url, epoch: 1, fencedBy: 2, committed: "unknown" }).committed).toBe("unknown");
  });

  it("can be repeated without a change if another process was in the way", () => {
    expect(codes.filter((code) => errors[code].retryable)).toEqual([
      "CONFLICT",
      "OPERATION_TIMEOUT",
      "LEASE_UNAVAILABLE",
      "LEASE_LOST",
      "FILE_IN_USE",
      "MESSAGE_LOST",
      "IN_PROGRESS",
      "CONTENT_CHANGED",
      "WATCH_FAILED",
      "PRECONDITION",
    ]);
  });

  it("of a schema does not print the schema's messages, which may quote the value", () => {
    const error = errors.SCHEMA;
    expect(JSON.stringify(error)).not.toContain("secret");
    expect(error).toMatchObject({ phase: "read", issues: [{ message: "secret" }] });
  });
});

describe("isConcurrencyError", () => {
  it("tells the codes apart", () => {
    for (const code of codes) {
      expect(library.isConcurrencyError(errors[code])).toBe(true);
      expect(codes.filter((other) => library.isConcurrencyError(errors[code], other))).toEqual([code]);
    }
  });

  it("narrows to the error of the code, and to a union that a switch can tell apart", () => {
    const error: unknown = errors.CONFLICT;
    if (library.isConcurrencyError(error, "CONFLICT")) expectTypeOf(error).toEqualTypeOf<library.ConflictError>();
    if (library.isConcurrencyError(error) && error.code === "APPEND_LIMIT") expectTypeOf(error.limit).toEqualTypeOf<"record" | "blocks" | "size">();
  });

  it("recognises errors of another copy of the library, in another realm, and of a later version", () => {
    const foreign = Object.create({ message: "m" }) as object;
    Object.defineProperty(foreign, Symbol.for("azure-storage-concurrency.error"), { value: true });
    Object.assign(foreign, { code: "CONFLICT" });
    expect(library.isConcurrencyError(foreign, "CONFLICT")).toBe(true);
    expect(library.isConcurrencyError(Object.assign(foreign, { code: "SOMETHING_NEW" }))).toBe(true);
    expect(library.isConcurrencyError(foreign, "CONFLICT")).toBe(false);
  });

  it.each([undefined, null, "ConflictError", {}, new Error("x"), { name: "ConflictError", code: "CONFLICT" }, Object.assign(new Error(), { name: "ConflictError", code: "CONFLICT" })])(
    "does not take %s for one",
    (other) => {
      expect(library.isConcurrencyError(other)).toBe(false);
      expect(library.isConcurrencyError(other, "CONFLICT")).toBe(false);
    },
  );
});
