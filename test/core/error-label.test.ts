import { createError } from "../../src/errors.js";
import { describe, expect, it } from "vitest";

import { ConflictError } from "../../src/index.js";
import { errorLabel, errorType, isStorageError } from "../../src/core/telemetry.js";

const restError = Object.assign(new Error("GET https://a/b?sig=abc failed"), { name: "RestError", code: "ServerBusy", statusCode: 503 });
const conflict = createError(ConflictError, "gave up", { attempts: 1, elapsedInMs: 1, currentETag: undefined, url: undefined });

describe("the label of an error", () => {
  it.each([
    [restError, "RestError (ServerBusy, 503)"],
    [conflict, "ConflictError (CONFLICT)"],
    [new TypeError("secret"), "TypeError"],
    [Object.assign(new Error("secret"), { name: "the secret itself" }), "object"],
    [Object.assign(new Error("secret"), { code: "https://a/b?sig=abc" }), "Error"],
    ["secret", "string"],
    [undefined, "undefined"],
    [null, "object"],
  ])("says its kind and nothing of its message: %#", (error, label) => {
    expect(errorLabel(error)).toBe(label);
    expect(label.startsWith(errorType(error))).toBe(true);
  });
});

describe("an error of the storage", () => {
  it.each([
    [restError, true],
    [Object.assign(new Error(""), { statusCode: 404 }), true],
    [conflict, true],
    [new Error("of the caller"), false],
    [new DOMException("", "AbortError"), false],
    ["of the caller", false],
  ])("is told from the caller's own: %#", (error, expected) => {
    expect(isStorageError(error)).toBe(expected);
  });
});
