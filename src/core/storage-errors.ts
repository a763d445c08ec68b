/**
 * The only file that names status and error codes of the storage services. It classifies by code, not by status: 412 and
 * 409 can mean a failed condition or a lease. The predicates are named after the service's own codes.
 */
import { createError, isConcurrencyError, LeaseUnavailableError, OperationTimeoutError, TargetNotFoundError, TargetStateError } from "../errors.js";
import { RequestTimeoutError } from "./deadline.js";
import { isMisuse } from "./validate.js";

interface RestErrorLike {
  statusCode?: unknown;
  code?: unknown;
  details?: { errorCode?: unknown; odataError?: { code?: unknown } } | undefined;
}

/** The HTTP status of the response that an error was created from. Undefined: no response arrived. */
export function statusOf(error: unknown): number | undefined {
  const status = (error as RestErrorLike | undefined)?.statusCode;
  return typeof status === "number" ? status : undefined;
}

/** The storage error code. Its location depends on service and verb: for HEAD and for tables it is in `details` only. */
export function codeOf(error: unknown): string | undefined {
  const e = error as RestErrorLike | undefined;
  for (const code of [e?.details?.errorCode, e?.details?.odataError?.code, e?.code]) {
    if (typeof code === "string") return code;
  }
  return undefined;
}

/**
 * The service responded, and its response proves that the request had no effect. A 5xx or 408 is not such a response: the
 * service also sends those for requests that it goes on to commit.
 */
export function isDefinitive(error: unknown): boolean {
  const status = statusOf(error);
  // An adapter of the caller's own has no status codes: it reports a failed condition by this error.
  if (isConcurrencyError(error, "PRECONDITION")) return true;
  return status !== undefined && status >= 400 && status < 500 && status !== 408;
}

/** The body of a response ended within its JSON or XML: the connection broke. */
export function isIncompleteText(error: unknown): boolean {
  return codeOf(error) === "PARSE_ERROR";
}

const connectionCodes: ReadonlySet<string> = new Set(["ECONNRESET", "ECONNREFUSED", "ETIMEDOUT", "EPIPE", "EAI_AGAIN", "REQUEST_SEND_ERROR"]);

/** No response arrived: the connection broke, or could not be made. */
export function isConnectionBroken(error: unknown): boolean {
  return statusOf(error) === undefined && connectionCodes.has(codeOf(error) ?? "");
}

/** The service is throttling, and has not begun to carry out the request. */
export function isServerBusy(error: unknown): boolean {
  return statusOf(error) === 503 && codeOf(error) === "ServerBusy";
}

/**
 * Another attempt may succeed: no response arrived, the service is down, busy or throttling, or it rejects the request for now. Errors
 * of this library are final, except the one for the latter; so is misuse.
 */
export function isTransient(error: unknown): boolean {
  if (isConcurrencyError(error)) return isRejectedForNow(error.cause) && error.code === "TARGET_STATE";
  if (isMisuse(error)) return false;
  const status = statusOf(error);
  return status === undefined || status >= 500 || status === 408 || status === 429 || isRejectedForNow(error);
}

/** The service rejects a write, and will carry it out later: a copy to the target is pending, or what contains the target is being deleted. */
export function isRejectedForNow(error: unknown): boolean {
  return /^PendingCopyOperation$|BeingDeleted$/.test(codeOf(error) ?? "");
}

/** A SAS that may only create, and the blob exists. */
export function isUnauthorizedOverwrite(error: unknown): boolean {
  return codeOf(error) === "UnauthorizedBlobOverwrite";
}

type StateAdvice = readonly [state: TargetStateError["reason"], advice: string];

const beingDeleted: StateAdvice = [
  "beingDeleted",
  "cannot be written: its container, table, queue or share is being deleted, which takes 30 s or more. Create that again, then try again.",
];

/** The codes that tell of a state of the target, or of what contains it. An object, which a bundler can leave out. */
const targetStates: Readonly<Record<string, StateAdvice>> = {
  BlobIsSealed: ["sealed", "is sealed: an append blob accepts no more blocks after that. Continue in another blob."],
  BlobImmutableDueToLegalHold: ["immutable", "is immutable, because it has a legal hold. Clear the hold, or write to another blob."],
  BlobImmutableDueToPolicy: ["immutable", "is immutable until its immutability policy has ended. Wait until then, or write to another blob."],
  BlobUsesCustomerSpecifiedEncryption: ["encrypted", "is encrypted with a key of its own, which the library does not send. Use an encryption scope, or the SDK."],
  BlobArchived: ["archived", "is archived. Set its tier to Hot, Cool or Cold, and wait until it is rehydrated."],
  BlobBeingRehydrated: ["rehydrating", "is being rehydrated, which takes hours. Try again later."],
  SnapshotsPresent: ["snapshots", 'has snapshots: delete them first, or with the blob, by the option deleteSnapshots: "include" of the target.'],
  UnauthorizedBlobOverwrite: ["overwrite", "exists, and the SAS allows only to create it: a change needs the permission to write."],
  PendingCopyOperation: ["copying", "is the destination of a copy that has not ended. Wait for the copy, or abort it."],
  ContainerBeingDeleted: beingDeleted,
  TableBeingDeleted: beingDeleted,
  QueueBeingDeleted: beingDeleted,
  ShareBeingDeleted: beingDeleted,
};

function targetStateOf(error: unknown): StateAdvice | undefined {
  const code = codeOf(error);
  return code !== undefined && Object.hasOwn(targetStates, code) ? targetStates[code] : undefined;
}

const conflictCodes = new Set([
  "ConditionNotMet",
  "UpdateConditionNotSatisfied",
  "TargetConditionNotMet",
  "AppendPositionConditionNotMet",
  "BlobAlreadyExists",
  "EntityAlreadyExists",
  "ResourceAlreadyExists",
]);

/** 409 and 412 that are certainly not a conflict with another writer, beside those of leases, of SMB clients and of states of the target. */
const refusalCodes = new Set([
  "AccountBeingCreated",
  "BlobAccessTierNotSupportedForAccountType",
  "BlobNotArchived",
  "BlobOverwritten",
  "BlobTierInadequateForContentLength",
  "BlockCountExceedsLimit",
  "CannotChangeToLowerTier",
  "ContainerAlreadyExists",
  "ContainerDisabled",
  "ContainerQuotaDowngradeNotAllowed",
  "CopyIdMismatch",
  "DirectoryNotEmpty",
  "EndpointUnsupportedAccountFeatures",
  "FeatureVersionMismatch",
  "IncrementalCopyBlobMismatch",
  "IncrementalCopyOfEarlierVersionSnapshotNotAllowed",
  "IncrementalCopyOfEralierVersionSnapshotNotAllowed",
  "IncrementalCopySourceMustBeSnapshot",
  "InfiniteLeaseDurationRequired",
  "InvalidBlobType",
  "InvalidSourceBlobType",
  "InvalidSourceBlobUrl",
  "MaxBlobSizeConditionNotMet",
  "NoPendingCopyOperation",
  "OperationNotAllowedOnIncrementalCopyBlob",
  "PreviousSnapshotCannotBeNewer",
  "PreviousSnapshotNotFound",
  "PreviousSnapshotOperationNotSupported",
  "PublicAccessNotPermitted",
  "QueueAlreadyExists",
  "QueueDisabled",
  "QueueNotEmpty",
  "ReadOnlyAttribute",
  "ResourceTypeMismatch",
  "SequenceNumberConditionNotMet",
  "SequenceNumberIncrementTooLarge",
  "ShareAlreadyExists",
  "ShareHasSnapshots",
  "ShareSnapshotCountExceeded",
  "ShareSnapshotInProgress",
  "SnaphotOperationRateExceeded",
  "SnapshotCountExceeded",
  "SnapshotOperationRateExceeded",
  "SourceConditionNotMet",
  "SystemInUse",
  "TableAlreadyExists",
]);

/**
 * Another client wrote, created or deleted in between: read again. Also a 409 or 412 whose code is not known: what is stored shows whether it
 * was a conflict, and whether the write is stored.
 */
export function isConflict(error: unknown): boolean {
  const status = statusOf(error);
  const code = codeOf(error);
  // Not Modified also has the code of a failed condition.
  if (status === 304) return false;
  if (isConcurrencyError(error, "PRECONDITION")) return true;
  if (code !== undefined && conflictCodes.has(code)) return true;
  // The response to a HEAD, or one from a proxy, may lack the code.
  if (status !== 412 && status !== 409) return false;
  return code === undefined || !(refusalCodes.has(code) || code.startsWith("Lease") || isInUse(error) || targetStateOf(error));
}

/** The blob, entity or file does not exist (its container, table or share may). */
export function isNotFound(error: unknown): boolean {
  return statusOf(error) === 404 && !isParentNotFound(error);
}

const parentNotFoundCodes = new Set(["ContainerNotFound", "TableNotFound", "QueueNotFound", "ShareNotFound", "ParentNotFound"]);

/** The container, table, queue, share or directory of the target does not exist. */
export function isParentNotFound(error: unknown): boolean {
  const code = codeOf(error);
  return statusOf(error) === 404 && code !== undefined && parentNotFoundCodes.has(code);
}

/** The read was conditional, and nothing has changed. */
export function isNotModified(error: unknown): boolean {
  return statusOf(error) === 304;
}

/** The range starts after the end of the content; for empty content every range does. */
export function isRangeNotSatisfiable(error: unknown): boolean {
  return statusOf(error) === 416;
}

/** A lease is the reason for the rejection: the request has no lease id, or one that is not active. */
export function isLeaseConflict(error: unknown): boolean {
  const status = statusOf(error);
  return (status === 412 || status === 409) && (codeOf(error)?.startsWith("Lease") ?? false);
}

const inUseCodes = new Set([
  "SharingViolation",
  "FileLockConflict",
  "FileOpenBySmbClient",
  "DeletePending",
  "SMBDeletePending",
  "CannotDeleteFileOrDirectory",
  "ClientCacheFlushDelay",
]);

/** An SMB client has the file open, locked, marked for deletion or not yet flushed. It may close the file soon. */
export function isInUse(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && inUseCodes.has(code);
}

/** The request was for a file and the name belongs to a directory, or vice versa. */
export function isResourceTypeMismatch(error: unknown): boolean {
  return codeOf(error) === "ResourceTypeMismatch";
}

/** The service does not understand the request, or does not support it: it will reject the same request again. */
export function isBadRequest(error: unknown): boolean {
  const status = statusOf(error);
  return status === 400 || status === 405;
}

/** The credentials do not allow it; the service will reject the same request again. */
export function isUnauthorized(error: unknown): boolean {
  const status = statusOf(error);
  return status === 401 || status === 403;
}

/** Acquiring a lease: another client holds it, or it is being broken. Waiting may help. */
export function isLeaseTaken(error: unknown): boolean {
  const code = codeOf(error);
  return code === "LeaseAlreadyPresent" || code === "LeaseIsBreakingAndCannotBeAcquired";
}

/** A condition of a request for a lease is not met. As `isConflict`, but without the codes of other requests: leases alone need none. */
export function isConditionNotMet(error: unknown): boolean {
  const code = codeOf(error);
  return code === "ConditionNotMet" || (code === undefined && statusOf(error) === 412);
}

/** The lease was broken with a notice period that is not over yet. */
export function isLeaseBreaking(error: unknown): boolean {
  return codeOf(error)?.startsWith("LeaseIsBreaking") ?? false;
}

/** Why a lease is lost, if the response to an operation on it proves the loss. */
export function leaseLossOf(error: unknown): "stolen" | "broken" | "expired" | "deleted" | undefined {
  const code = codeOf(error) ?? "";
  switch (statusOf(error)) {
    case 404:
      return "deleted";
    case 409:
      if (code.startsWith("LeaseIsBr") || code.startsWith("LeaseAlreadyBroken") || code.startsWith("LeaseNotPresent")) return "broken";
      return code.startsWith("Lease") ? "stolen" : undefined;
    case 412:
      if (code.startsWith("LeaseLost") || code.startsWith("LeaseNotPresent")) return "expired";
      // Any other 412 is a condition of the request, or has no code: it proves nothing of the lease.
      return code.startsWith("Lease") ? "stolen" : undefined;
    default:
      return undefined;
  }
}

/** Breaking or changing a lease: there is no lease. */
export function isNotLeased(error: unknown): boolean {
  return codeOf(error) === "LeaseNotPresentWithLeaseOperation";
}

/** The lease id of the operation is not the id of the active lease. */
export function isLeaseIdMismatch(error: unknown): boolean {
  const code = codeOf(error);
  return code?.startsWith("LeaseIdMismatch") === true || code === "LeaseAlreadyPresent";
}

/** The blob is of another kind than the request is for, for example a block blob where an append blob is expected. */
export function isBlobTypeMismatch(error: unknown): boolean {
  return codeOf(error) === "InvalidBlobType";
}

/** The append blob has the maximum number of blocks. */
export function isBlockCountExceeded(error: unknown): boolean {
  return codeOf(error) === "BlockCountExceedsLimit";
}

/** The sequence number of the page blob is not the one that the write was conditional on. */
export function isSequenceConflict(error: unknown): boolean {
  return codeOf(error) === "SequenceNumberConditionNotMet";
}

/** Creating a blob: it already exists. */
export function isAlreadyExists(error: unknown): boolean {
  const code = codeOf(error);
  return code === "BlobAlreadyExists" || code === "ConditionNotMet" || code === "LeaseIdMissing" || isUnauthorizedOverwrite(error);
}

/** Inserting an entity: it already exists. */
export function isEntityAlreadyExists(error: unknown): boolean {
  return codeOf(error) === "EntityAlreadyExists";
}

const popReceiptCodes = new Set(["PopReceiptMismatch", "MessageNotFound"]);

/**
 * The pop receipt is outdated: another consumer received the message, or it was deleted. The service responds with 404
 * MessageNotFound in both cases, Azurite with 400 PopReceiptMismatch in the first.
 */
export function isPopReceiptMismatch(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && popReceiptCodes.has(code);
}

/**
 * Which operation of an entity group transaction failed, if the response says so. The index is a prefix of the message
 * (`3:The specified entity ...`), and the service leaves it out for failed conditions.
 */
export function failedOperation(error: unknown): number | undefined {
  const message = (error as { message?: unknown } | undefined)?.message;
  const index = typeof message === "string" ? /^(\d{1,2}):/.exec(message)?.[1] : undefined;
  return index === undefined ? undefined : Number(index);
}

/**
 * The error that a caller gets for an error of the SDK. For leases, states of the target, missing targets and missing parents it names
 * the target and the remedy; otherwise it is the SDK's own error.
 *
 * @param notFoundAdvice - What to do about a missing target. Without it, a 404 of the target itself is passed on.
 */
export function toConcurrencyError(error: unknown, url: string, notFoundAdvice?: string): unknown {
  if (error instanceof RequestTimeoutError) return toTimeoutError(error, url);
  if (isLeaseConflict(error)) {
    return createError(LeaseUnavailableError, `${url} ${leaseProblems[leaseProblemOf(error)]}`, { url, waitedInMs: 0, holder: undefined, cause: error });
  }
  const [reason, advice] = targetStateOf(error) ?? [];
  if (reason !== undefined) {
    const retryable = reason === "rehydrating" || isRejectedForNow(error);
    return createError(TargetStateError, `${url} ${advice}`, { url, reason, retryable, cause: error });
  }
  if (isResourceTypeMismatch(error)) {
    return createError(TargetNotFoundError, `The file ${url} does not exist: a directory has that name.`, { url, cause: error });
  }
  return toNotFoundError(error, url, notFoundAdvice) ?? error;
}

/** For a request that got no response within its own limit: callers know the limit of a call only. */
export function toTimeoutError(error: RequestTimeoutError, url: string, committed: false | "unknown" = false): OperationTimeoutError {
  return createError(OperationTimeoutError, `${url}: ${error.message}.`, { url, elapsedInMs: error.timeoutInMs, committed, cause: error });
}

/** The part of {@link toConcurrencyError} that is about missing targets and parents; undefined if the error is not. */
export function toNotFoundError(error: unknown, url: string, notFoundAdvice: string | undefined): TargetNotFoundError | undefined {
  if (isParentNotFound(error)) {
    return createError(TargetNotFoundError, `The container, table, queue, share or directory of ${url} does not exist: create it first.`, { url, cause: error });
  }
  if (notFoundAdvice === undefined || !isNotFound(error)) return undefined;
  return createError(TargetNotFoundError, `${url} does not exist${notFoundAdvice && `: ${notFoundAdvice}`}.`, { url, cause: error });
}

/** What is wrong with the lease id of a request: it has none, its lease has ended, or another lease is active. */
function leaseProblemOf(error: unknown): keyof typeof leaseProblems {
  const code = codeOf(error) ?? "";
  if (code.startsWith("LeaseNotPresent") || code.startsWith("LeaseLost")) return "absent";
  return code.startsWith("LeaseIdMismatch") ? "mismatch" : "missing";
}

const leaseProblems = {
  missing: "is leased: pass conditions: { leaseId } if you hold the lease, or wait until it is released.",
  absent: "is not leased: the lease with the id conditions.leaseId has ended, or is on another resource.",
  mismatch: "is leased by another client: conditions.leaseId is not the id of its lease.",
} as const;
