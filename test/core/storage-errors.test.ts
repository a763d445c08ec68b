import { describe, expect, it } from "vitest";
import { codeOf, isDefinitive, isUnauthorized, isLeaseConflict, isNotFound, isParentNotFound, isNotModified, isConflict, statusOf } from "../../src/core/storage-errors.js";
import { connectionReset } from "../fakes/faults.js";
import { blobError, FakeRestError, headError, tableError } from "../fakes/rest-errors.js";

type Class = "race" | "missing" | "missing parent" | "lease" | "denied" | "not modified" | "definitive";

const classes: Record<Class, (error: unknown) => boolean> = {
  race: isConflict,
  missing: isNotFound,
  "missing parent": isParentNotFound,
  lease: isLeaseConflict,
  denied: isUnauthorized,
  "not modified": isNotModified,
  definitive: isDefinitive,
};

const answers: [number, string | undefined, Class[]][] = [
  [412, "ConditionNotMet", ["race", "definitive"]],
  [412, "UpdateConditionNotSatisfied", ["race", "definitive"]],
  [412, "TargetConditionNotMet", ["race", "definitive"]],
  [412, undefined, ["race", "definitive"]],
  [409, "BlobAlreadyExists", ["race", "definitive"]],
  [409, "EntityAlreadyExists", ["race", "definitive"]],
  [412, "LeaseIdMissing", ["lease", "definitive"]],
  [412, "LeaseIdMismatchWithBlobOperation", ["lease", "definitive"]],
  [412, "LeaseNotPresentWithBlobOperation", ["lease", "definitive"]],
  [412, "LeaseLost", ["lease", "definitive"]],
  [409, "LeaseAlreadyPresent", ["lease", "definitive"]],
  [409, "ContainerBeingDeleted", ["definitive"]],
  [409, "TableBeingDeleted", ["definitive"]],
  [409, undefined, ["definitive"]],
  [404, "BlobNotFound", ["missing", "definitive"]],
  [404, "ResourceNotFound", ["missing", "definitive"]],
  [404, undefined, ["missing", "definitive"]],
  [404, "ContainerNotFound", ["missing parent", "definitive"]],
  [404, "TableNotFound", ["missing parent", "definitive"]],
  [401, "NoAuthenticationInformation", ["denied", "definitive"]],
  [403, "AuthorizationFailure", ["denied", "definitive"]],
  [400, "InvalidInput", ["definitive"]],
  [413, "RequestBodyTooLarge", ["definitive"]],
  [304, "ConditionNotMet", ["not modified"]],
  [408, "RequestTimeout", []],
  [500, "OperationTimedOut", []],
  [503, "ServerBusy", []],
];

describe("an error of the storage service", () => {
  for (const [shape, make] of [
    ["blob", blobError],
    ["HEAD", headError],
    ["table", tableError],
  ] as const) {
    it.each(answers)(`${shape}: %i %s`, (status, code, expected) => {
      const error = code === undefined ? new FakeRestError(status, "", {}) : make(status, code);
      expect(statusOf(error)).toBe(status);
      expect(codeOf(error)).toBe(code);
      expect(Object.keys(classes).filter((name) => classes[name as Class](error))).toEqual(expected);
    });
  }

  it.each([undefined, null, "text", 5, new Error("x"), connectionReset(), { statusCode: "412" }])("is none of them if it is %s", (error) => {
    expect(statusOf(error)).toBeUndefined();
    expect(Object.values(classes).some((is) => is(error))).toBe(false);
  });

  it("has the code of the service rather than that of the transport", () => {
    expect(codeOf({ code: "REQUEST_SEND_ERROR", details: { odataError: { code: "TableNotFound" } } })).toBe("TableNotFound");
    expect(codeOf({ code: 5 })).toBeUndefined();
  });
});
