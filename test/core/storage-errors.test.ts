import { describe, expect, it } from "vitest";
import {
  codeOf,
  isAlreadyExists,
  isConflict,
  isDefinitive,
  isLeaseConflict,
  isNotFound,
  isNotModified,
  isParentNotFound,
  isRejectedForNow,
  isTransient,
  isUnauthorized,
  leaseLossOf,
  statusOf,
  toConcurrencyError,
} from "../../src/core/storage-errors.js";
import { isConcurrencyError } from "../../src/errors.js";
import { connectionReset } from "../fakes/faults.js";
import { blobError, FakeRestError, headError, tableError } from "../fakes/rest-errors.js";

type Class = "race" | "missing" | "missing parent" | "lease" | "denied" | "not modified" | "for now" | "definitive";

const classes: Record<Class, (error: unknown) => boolean> = {
  race: isConflict,
  missing: isNotFound,
  "missing parent": isParentNotFound,
  lease: isLeaseConflict,
  denied: isUnauthorized,
  "not modified": isNotModified,
  "for now": isRejectedForNow,
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
  [409, "ResourceAlreadyExists", ["race", "definitive"]],
  [412, "AppendPositionConditionNotMet", ["race", "definitive"]],
  // A code that no version of the library knows: a conflict to look at.
  [412, "CodeOfTheFuture", ["race", "definitive"]],
  [409, "CodeOfTheFuture", ["race", "definitive"]],
  [409, undefined, ["race", "definitive"]],
  [400, "CodeOfTheFuture", ["definitive"]],
  [403, "CodeOfTheFuture", ["denied", "definitive"]],
  [409, "ContainerBeingDeleted", ["for now", "definitive"]],
  [409, "TableBeingDeleted", ["for now", "definitive"]],
  [409, "QueueBeingDeleted", ["for now", "definitive"]],
  [409, "ShareBeingDeleted", ["for now", "definitive"]],
  [409, "PendingCopyOperation", ["for now", "definitive"]],
  [403, "UnauthorizedBlobOverwrite", ["denied", "definitive"]],
  ...[
    "BlobArchived", "BlobBeingRehydrated", "BlobImmutableDueToLegalHold", "BlobImmutableDueToPolicy", "BlobIsSealed", "BlobUsesCustomerSpecifiedEncryption",
    "SnapshotsPresent", "InvalidBlobType", "BlockCountExceedsLimit", "ResourceTypeMismatch", "ReadOnlyAttribute", "SharingViolation", "FileLockConflict",
    "DeletePending", "CannotDeleteFileOrDirectory", "DirectoryNotEmpty", "ContainerAlreadyExists", "TableAlreadyExists", "QueueAlreadyExists", "ShareAlreadyExists",
    "NoPendingCopyOperation", "SnapshotCountExceeded", "FeatureVersionMismatch", "ContainerDisabled", "PublicAccessNotPermitted", "BlobOverwritten", "SystemInUse", "InvalidSourceBlobType", "PreviousSnapshotNotFound",
  ].map((code): [number, string, Class[]] => [409, code, ["definitive"]]),
  ...["MaxBlobSizeConditionNotMet", "SequenceNumberConditionNotMet", "SourceConditionNotMet", "InfiniteLeaseDurationRequired"].map(
    (code): [number, string, Class[]] => [412, code, ["definitive"]],
  ),
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

describe("a rejection that waiting ends", () => {
  it.each(["ContainerBeingDeleted", "TableBeingDeleted", "QueueBeingDeleted", "ShareBeingDeleted", "PendingCopyOperation"])("%s is transient", (code) => {
    expect(isTransient(blobError(409, code))).toBe(true);
    expect(isTransient(toConcurrencyError(blobError(409, code), "https://a/b"))).toBe(true);
  });

  it.each(["BlobIsSealed", "BlobAlreadyExists", "CodeOfTheFuture", "LeaseAlreadyPresent"])("%s is not", (code) => {
    expect(isTransient(blobError(409, code))).toBe(false);
    expect(isTransient(toConcurrencyError(blobError(409, code), "https://a/b"))).toBe(false);
  });
});

describe("the loss of a lease", () => {
  it.each<[number, string | undefined, ReturnType<typeof leaseLossOf>]>([
    [404, "BlobNotFound", "deleted"],
    [409, "LeaseIdMismatchWithLeaseOperation", "stolen"],
    [409, "LeaseAlreadyPresent", "stolen"],
    [409, "LeaseIsBrokenAndCannotBeRenewed", "broken"],
    [409, "LeaseNotPresentWithLeaseOperation", "broken"],
    [412, "LeaseIdMismatchWithBlobOperation", "stolen"],
    [412, "LeaseIdMissing", "stolen"],
    [412, "LeaseLost", "expired"],
    [412, "LeaseNotPresentWithBlobOperation", "expired"],
    [412, "ConditionNotMet", undefined],
    [412, "AppendPositionConditionNotMet", undefined],
    [412, "CodeOfTheFuture", undefined],
    [412, undefined, undefined],
    [409, "PendingCopyOperation", undefined],
    [409, undefined, undefined],
    [403, "AuthorizationFailure", undefined],
    [500, "InternalError", undefined],
  ])("is concluded from %i %s: %s", (status, code, expected) => {
    expect(leaseLossOf(code === undefined ? new FakeRestError(status, "", {}) : blobError(status, code))).toBe(expected);
  });
});

describe("a state of the target that the service does not allow", () => {
  it.each<[number, string, string, boolean, RegExp]>([
    [409, "BlobIsSealed", "sealed", false, /sealed.*another blob/],
    [409, "BlobImmutableDueToLegalHold", "immutable", false, /legal hold.*[Cc]lear/],
    [409, "BlobImmutableDueToPolicy", "immutable", false, /immutability policy.*another blob/],
    [409, "BlobUsesCustomerSpecifiedEncryption", "encrypted", false, /key of its own.*encryption scope/],
    [409, "BlobArchived", "archived", false, /archived.*tier/],
    [409, "BlobBeingRehydrated", "rehydrating", true, /rehydrated.*later/],
    [409, "SnapshotsPresent", "snapshots", false, /snapshots.*delete them.*deleteSnapshots/],
    [403, "UnauthorizedBlobOverwrite", "overwrite", false, /exists.*permission to write/],
    [409, "PendingCopyOperation", "copying", true, /copy.*abort/],
    [409, "ContainerBeingDeleted", "beingDeleted", true, /being deleted.*30 s/],
    [409, "TableBeingDeleted", "beingDeleted", true, /being deleted/],
    [409, "QueueBeingDeleted", "beingDeleted", true, /being deleted/],
    [409, "ShareBeingDeleted", "beingDeleted", true, /being deleted/],
  ])("%i %s is an error that says what to do: %s, retryable: %s", (status, code, reason, retryable, message) => {
    const cause = blobError(status, code);
    const error = toConcurrencyError(cause, "https://a/b");
    expect(isConcurrencyError(error, "TARGET_STATE")).toBe(true);
    expect(error).toMatchObject({ name: "TargetStateError", reason, retryable, committed: false, url: "https://a/b", cause });
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).toContain("https://a/b");
  });

  it("is also one if the blob exists that a SAS may only create", () => {
    expect(isAlreadyExists(blobError(403, "UnauthorizedBlobOverwrite"))).toBe(true);
    expect(isAlreadyExists(blobError(403, "AuthorizationFailure"))).toBe(false);
  });
});
