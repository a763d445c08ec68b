import { LeaseUnavailableError, TargetNotFoundError } from "../errors.js";

/**
 * The only file that knows status and error codes of the storage services. It classifies by code, not by status:
 * 412 and 409 mean a lost race just as well as a lease.
 */

interface RestErrorLike {
  statusCode?: unknown;
  code?: unknown;
  details?: { errorCode?: unknown; odataError?: { code?: unknown } } | undefined;
}

/** HTTP status of an error that the service answered with, or undefined: no answer arrived. */
export function statusOf(error: unknown): number | undefined {
  const status = (error as RestErrorLike | undefined)?.statusCode;
  return typeof status === "number" ? status : undefined;
}

/** The storage error code. Where it stands differs by service and verb: HEAD has it in `details` only, tables too. */
export function codeOf(error: unknown): string | undefined {
  const e = error as RestErrorLike | undefined;
  for (const code of [e?.details?.errorCode, e?.details?.odataError?.code, e?.code]) {
    if (typeof code === "string") return code;
  }
  return undefined;
}

const raceCodes = new Set([
  "ConditionNotMet",
  "UpdateConditionNotSatisfied",
  "TargetConditionNotMet",
  "AppendPositionConditionNotMet",
  "BlobAlreadyExists",
  "EntityAlreadyExists",
  "ResourceAlreadyExists",
]);

/** Somebody else wrote, created or deleted in between: read again. */
export function isRace(error: unknown): boolean {
  const status = statusOf(error);
  const code = codeOf(error);
  // Its code is that of a lost race too, ConditionNotMet.
  if (status === 304) return false;
  if (code !== undefined && raceCodes.has(code)) return true;
  // A HEAD or a proxy may leave out the code; a bare 412 is what a failed condition looks like.
  return status === 412 && code === undefined;
}

/** The blob or entity is not there (its container or table may be). */
export function isMissing(error: unknown): boolean {
  return statusOf(error) === 404 && !isMissingParent(error);
}

const missingParents = new Set(["ContainerNotFound", "TableNotFound", "QueueNotFound", "ShareNotFound", "ParentNotFound"]);

/** What the target lives in is not there. */
export function isMissingParent(error: unknown): boolean {
  const code = codeOf(error);
  return statusOf(error) === 404 && code !== undefined && missingParents.has(code);
}

/** The read had a condition, and nothing changed. */
export function isNotModified(error: unknown): boolean {
  return statusOf(error) === 304;
}

/** The range lies behind the end of the content; of empty content each does. */
export function isBehindEnd(error: unknown): boolean {
  return statusOf(error) === 416;
}

/** No answer, or one that another try may well be spared: the service is down, busy or throttles. */
export function isPassing(error: unknown): boolean {
  const status = statusOf(error);
  return status === undefined || status >= 500 || status === 408 || status === 429;
}

/** A lease stands in the way: none was named, or not the one that is held. */
export function isLeaseConflict(error: unknown): boolean {
  const status = statusOf(error);
  return (status === 412 || status === 409) && (codeOf(error)?.startsWith("Lease") ?? false);
}

/** What is wrong with the lease id of a request: none was given, or there is no lease that it could be of, or another's. */
export function leaseProblemOf(error: unknown): "missing" | "absent" | "mismatch" {
  const code = codeOf(error) ?? "";
  if (code.startsWith("LeaseNotPresent") || code.startsWith("LeaseLost")) return "absent";
  return code.startsWith("LeaseIdMismatch") ? "mismatch" : "missing";
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

/** An SMB client has the file open, locked, half deleted or not yet written back: it may have let go in a moment. */
export function isInUse(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && inUseCodes.has(code);
}

/** A file was asked for, and a directory has that name; or the other way round. */
export function isOtherKind(error: unknown): boolean {
  return codeOf(error) === "ResourceTypeMismatch";
}

/** The credentials do not allow it; the same request will be refused again whoever asks. */
export function isDenied(error: unknown): boolean {
  const status = statusOf(error);
  return status === 401 || status === 403;
}

/**
 * The service answered, and its answer says that the request had no effect. A 5xx or 408 is not such an answer: the
 * service gives those also for what it went on to commit.
 */
export function isDefinitive(error: unknown): boolean {
  const status = statusOf(error);
  return status !== undefined && status >= 400 && status < 500 && status !== 408;
}

/** Acquiring a lease: somebody else has it, or it is being broken. Waiting helps. */
export function isLeaseTaken(error: unknown): boolean {
  const code = codeOf(error);
  return code === "LeaseAlreadyPresent" || code === "LeaseIsBreakingAndCannotBeAcquired";
}

/** Why a lease is no more, if the answer to an operation on it says so for certain. */
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
      return "stolen";
    default:
      return undefined;
  }
}

/** The append blob has as many blocks as there can be. */
export function isOutOfBlocks(error: unknown): boolean {
  return codeOf(error) === "BlockCountExceedsLimit";
}

/** The page blob has another sequence number than the one that the write was for. */
export function isSequenceConflict(error: unknown): boolean {
  return codeOf(error) === "SequenceNumberConditionNotMet";
}

/** The blob that was to be created is there. */
export function isAlreadyThere(error: unknown): boolean {
  const code = codeOf(error);
  return code === "BlobAlreadyExists" || code === "ConditionNotMet" || code === "LeaseIdMissing";
}

/** The entity that was to be inserted is there. */
export function isEntityThere(error: unknown): boolean {
  return codeOf(error) === "EntityAlreadyExists";
}

/** Breaking or changing: there is no lease. */
export function isNotLeased(error: unknown): boolean {
  return codeOf(error) === "LeaseNotPresentWithLeaseOperation";
}

/** An operation that names a lease: there is one, but not that one. */
export function isOtherLease(error: unknown): boolean {
  const code = codeOf(error);
  return code?.startsWith("LeaseIdMismatch") === true || code === "LeaseAlreadyPresent";
}

const lostMessageCodes = new Set(["PopReceiptMismatch", "MessageNotFound"]);

/**
 * The pop receipt is no longer the message's: somebody received it anew, or deleted it. The service says so with 404
 * MessageNotFound in both cases, Azurite with 400 PopReceiptMismatch in the first.
 */
export function isLostMessage(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && lostMessageCodes.has(code);
}

/**
 * Which operation of an entity group transaction failed, if the answer says so. It stands in front of the message
 * (`3:The specified entity ...`), and the service leaves it out for failed conditions.
 */
export function failedOperation(error: unknown): number | undefined {
  const message = (error as { message?: unknown } | undefined)?.message;
  const index = typeof message === "string" ? /^(\d{1,2}):/.exec(message)?.[1] : undefined;
  return index === undefined ? undefined : Number(index);
}

/** Turns what the service says about leases and missing parents into errors that name the target and the remedy. */
export function explain(error: unknown, url: string): unknown {
  if (isLeaseConflict(error)) {
    return new LeaseUnavailableError(`${url} ${leaseProblems[leaseProblemOf(error)]}`, { url, cause: error });
  }
  if (isOtherKind(error)) {
    return new TargetNotFoundError(`there is no file ${url}: a directory has that name`, { url, cause: error });
  }
  if (isMissingParent(error)) {
    return new TargetNotFoundError(`what contains ${url} does not exist: create it first`, { url, cause: error });
  }
  return error;
}

const leaseProblems = {
  missing: "is leased: pass conditions: { leaseId } if the lease is yours, or wait until it is released",
  absent: "is not leased: the lease that conditions.leaseId names has ended, or was on something else",
  mismatch: "is leased by somebody else: conditions.leaseId is not the id of its lease",
} as const;
