import type { SchemaIssue } from "./clients/schema.js";

/**
 * Base of all errors that this library throws. Errors of the storage service that are not about concurrency (403, 400, a
 * network failure on a read) are passed on as the SDK threw them; misuse is a `TypeError` or `RangeError`.
 */
export class ConcurrencyError extends Error {
  override readonly name: string = "ConcurrencyError";
  /** A stable code for programs. */
  readonly code: string;

  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** The update met conflicts until its attempts or its time were exhausted. Nothing of it was written. */
export class ConflictError extends ConcurrencyError {
  override readonly name = "ConflictError";
  /** How often the mutator was applied. */
  readonly attempts: number;
  readonly elapsedInMs: number;
  /** The ETag that the last attempt was based on. */
  readonly lastETag: string | undefined;

  constructor(
    message: string,
    details: { attempts: number; elapsedInMs: number; lastETag: string | undefined; cause?: unknown },
  ) {
    super("CONFLICT", message, { cause: details.cause });
    this.attempts = details.attempts;
    this.elapsedInMs = details.elapsedInMs;
    this.lastETag = details.lastETag;
  }
}

/** The time was over before the call could write. Nothing of it was written. */
export class DeadlineError extends ConcurrencyError {
  override readonly name = "DeadlineError";
  readonly elapsedInMs: number;

  constructor(message: string, details: { elapsedInMs: number; cause?: unknown }) {
    super("DEADLINE", message, { cause: details.cause });
    this.elapsedInMs = details.elapsedInMs;
  }
}

/**
 * A write was sent, its response was lost, and what is stored now does not tell whether it was committed. Read the target to
 * decide, or pass `onUnknown: "retry"` if the update is idempotent.
 */
export class CommitUnknownError extends ConcurrencyError {
  override readonly name = "CommitUnknownError";
  readonly attempts: number;

  constructor(message: string, details: { attempts: number; cause?: unknown }) {
    super("COMMIT_UNKNOWN", message, { cause: details.cause });
    this.attempts = details.attempts;
  }
}

/** The blob, entity, ... does not exist, and no `initial` value was given. */
export class TargetNotFoundError extends ConcurrencyError {
  override readonly name = "TargetNotFoundError";
  /** The URL of the missing target, without its query. */
  readonly url: string;

  constructor(message: string, details: { url: string; cause?: unknown }) {
    super("TARGET_NOT_FOUND", message, { cause: details.cause });
    this.url = details.url;
  }
}

/** The entity to be created already exists. Nothing was written. */
export class AlreadyExistsError extends ConcurrencyError {
  override readonly name = "AlreadyExistsError";

  constructor(message: string, details: { cause?: unknown } = {}) {
    super("ALREADY_EXISTS", message, { cause: details.cause });
  }
}

/** A transaction exceeds a limit of the service. Nothing was written. */
export class TransactionLimitError extends ConcurrencyError {
  override readonly name = "TransactionLimitError";
  /** `"operations"`: 100. `"bytes"`: 4 MiB. `"entity"`: 1 MiB for one entity, `"properties"`: 252 of them. */
  readonly limit: "operations" | "bytes" | "entity" | "properties";

  constructor(message: string, details: { limit: "operations" | "bytes" | "entity" | "properties" }) {
    super("TRANSACTION_LIMIT", message);
    this.limit = details.limit;
  }
}

/**
 * A former holder of a table lock, or a former writer of pages, tried to write after its successor had taken over. The service
 * rejected the write; nothing was written.
 */
export class FencedError extends ConcurrencyError {
  override readonly name = "FencedError";
  /** The epoch of the lock, or the sequence number, that was used. */
  readonly epoch: number;
  /** The epoch or sequence number of the successor. */
  readonly fencedBy: number;

  constructor(message: string, details: { epoch: number; fencedBy: number; cause?: unknown }) {
    super("FENCED", message, { cause: details.cause });
    this.epoch = details.epoch;
    this.fencedBy = details.fencedBy;
  }
}

/** A record does not fit into an append blob. It was not appended. */
export class AppendLimitError extends ConcurrencyError {
  override readonly name = "AppendLimitError";
  readonly url: string;
  /**
   * `"record"`: larger than the maximum block size. `"blocks"`: the blob has 50,000 blocks. `"size"`: the blob would grow
   * beyond `maxSizeInBytes`. For the last two: continue in another blob.
   */
  readonly limit: "record" | "blocks" | "size";

  constructor(message: string, details: { url: string; limit: "record" | "blocks" | "size"; cause?: unknown }) {
    super("APPEND_LIMIT", message, { cause: details.cause });
    this.url = details.url;
    this.limit = details.limit;
  }
}

/** The counter of an `IdAllocator` cannot provide ids that are certainly new. No id was allocated. */
export class IdCounterError extends ConcurrencyError {
  override readonly name = "IdCounterError";
  readonly url: string;
  /**
   * `"exhausted"`: the next ids would exceed `Number.MAX_SAFE_INTEGER`. `"reset"`: the counter is lower than ids that were
   * already allocated. `"malformed"`: what is stored is not a counter.
   */
  readonly reason: "exhausted" | "reset" | "malformed";

  constructor(message: string, details: { url: string; reason: "exhausted" | "reset" | "malformed" }) {
    super("ID_COUNTER", message);
    this.url = details.url;
    this.reason = details.reason;
  }
}

/** Two services lock the same table with different granularities: their locks would not exclude each other. */
export class GranularityMismatchError extends ConcurrencyError {
  override readonly name = "GranularityMismatchError";
  readonly expected: string;
  /** The granularity that the first client to lock the table recorded. */
  readonly found: string;

  constructor(message: string, details: { expected: string; found: string }) {
    super("GRANULARITY_MISMATCH", message);
    this.expected = details.expected;
    this.found = details.found;
  }
}

/** Another client holds a lease on the target. */
export class LeaseUnavailableError extends ConcurrencyError {
  override readonly name = "LeaseUnavailableError";
  readonly url: string;
  /** How long the call waited for the lease. */
  readonly waitedInMs: number | undefined;
  /** The holder, if known: a named lock records it. */
  readonly holder: string | undefined;

  constructor(
    message: string,
    details: { url: string; waitedInMs?: number | undefined; holder?: string | undefined; cause?: unknown },
  ) {
    super("LEASE_UNAVAILABLE", message, { cause: details.cause });
    this.url = details.url;
    this.waitedInMs = details.waitedInMs;
    this.holder = details.holder;
  }
}

/** Why a lease is not held any more. */
export type LeaseLossReason = "stolen" | "broken" | "expired" | "deleted" | "unreachable";

/**
 * A lease is not held any more, or is not known to be held any more. Operations since then may conflict with those of its next
 * holder.
 */
export class LeaseLostError extends ConcurrencyError {
  override readonly name = "LeaseLostError";
  readonly url: string;
  /**
   * `"stolen"`: another client holds it. `"broken"`: it was broken. `"expired"`: it was not renewed in time (the event loop was
   * blocked, the machine was suspended, or the caller had to renew it). `"deleted"`: the leased target does not exist any more.
   * `"unreachable"`: the service did not respond to any renewal until it was time to give up.
   */
  readonly reason: LeaseLossReason;

  constructor(message: string, details: { url: string; reason: LeaseLossReason; cause?: unknown }) {
    super("LEASE_LOST", message, { cause: details.cause });
    this.url = details.url;
    this.reason = details.reason;
  }
}

/**
 * A lease that never expires could not be released: the service did not respond. The release is retried in the background for
 * two minutes. If that fails too, the lease stays until a client releases it with this id, or breaks it.
 */
export class LeaseLeftError extends ConcurrencyError {
  override readonly name = "LeaseLeftError";
  readonly url: string;
  readonly leaseId: string;

  constructor(message: string, details: { url: string; leaseId: string; cause?: unknown }) {
    super("LEASE_LEFT", message, { cause: details.cause });
    this.url = details.url;
    this.leaseId = details.leaseId;
  }
}

/** SMB clients kept a file in use until the attempts or the time were exhausted. `cause` is the last rejection. */
export class FileInUseError extends ConcurrencyError {
  override readonly name = "FileInUseError";
  readonly attempts: number;
  readonly elapsedInMs: number;
  /** The service's code for the last rejection, for example `SharingViolation`. */
  readonly reason: string;

  constructor(message: string, details: { attempts: number; elapsedInMs: number; reason: string; cause?: unknown }) {
    super("FILE_IN_USE", message, { cause: details.cause });
    this.attempts = details.attempts;
    this.elapsedInMs = details.elapsedInMs;
    this.reason = details.reason;
  }
}

/**
 * A handler has lost the queue message that it processes: another consumer has received it, or may receive it at any moment.
 * This error is the reason of `context.signal`. Stop processing; the message is delivered again.
 */
export class MessageLostError extends ConcurrencyError {
  override readonly name = "MessageLostError";
  readonly messageId: string;
  /**
   * `"taken"`: according to the queue, another consumer has received or deleted it. `"expired"`: it could not be renewed in
   * time. `"claim"`: its inbox record was taken over, or could not be renewed in time.
   */
  readonly reason: "taken" | "expired" | "claim";

  constructor(message: string, details: { messageId: string; reason: "taken" | "expired" | "claim"; cause?: unknown }) {
    super("MESSAGE_LOST", message, { cause: details.cause });
    this.messageId = details.messageId;
    this.reason = details.reason;
  }
}

/** The stored value, or the value to be stored, is not valid. Nothing was written. */
export class SchemaError extends ConcurrencyError {
  override readonly name = "SchemaError";
  /** `"read"`: the stored value is not valid. `"write"`: the new value is not valid. */
  readonly phase: "read" | "write";
  /** The schema's own messages, which may quote the value. Not enumerable, so that they are not printed with the error. */
  readonly issues!: readonly SchemaIssue[];
  /** The ETag of the stored value that is not valid, if known. */
  readonly etag: string | undefined;

  constructor(
    message: string,
    details: { phase: "read" | "write"; issues: readonly SchemaIssue[]; etag?: string | undefined; cause?: unknown },
  ) {
    super("SCHEMA", message, { cause: details.cause });
    this.phase = details.phase;
    Object.defineProperty(this, "issues", { value: details.issues, enumerable: false });
    this.etag = details.etag;
  }
}

/** A blob was rewritten or deleted while it was downloaded. What had arrived is incomplete, and was discarded. */
export class ContentChangedError extends ConcurrencyError {
  override readonly name = "ContentChangedError";
  readonly url: string;
  /** The version that the download, or its last restart, was reading. */
  readonly etag: string;
  /** How often the download had started again. */
  readonly restarts: number;

  constructor(message: string, details: { url: string; etag: string; restarts: number; cause?: unknown }) {
    super("CONTENT_CHANGED", message, { cause: details.cause });
    this.url = details.url;
    this.etag = details.etag;
    this.restarts = details.restarts;
  }
}

/** A blob is larger than the caller allowed. Only its first range was requested. */
export class ContentTooLargeError extends ConcurrencyError {
  override readonly name = "ContentTooLargeError";
  readonly url: string;
  readonly sizeInBytes: number;
  readonly maxBytes: number;

  constructor(message: string, details: { url: string; sizeInBytes: number; maxBytes: number }) {
    super("CONTENT_TOO_LARGE", message);
    this.url = details.url;
    this.sizeInBytes = details.sizeInBytes;
    this.maxBytes = details.maxBytes;
  }
}

/** A watched target could not be read for so long that the watch gave up. `cause` is the last failure. */
export class WatchFailedError extends ConcurrencyError {
  override readonly name = "WatchFailedError";
  readonly url: string;
  /** How many polls in a row failed. */
  readonly failures: number;
  /** The time since the first failure. */
  readonly elapsedInMs: number;

  constructor(message: string, details: { url: string; failures: number; elapsedInMs: number; cause?: unknown }) {
    super("WATCH_FAILED", message, { cause: details.cause });
    this.url = details.url;
    this.failures = details.failures;
    this.elapsedInMs = details.elapsedInMs;
  }
}

/** Whether `error` is an error of this library. Works across copies of the library, unlike `instanceof`. */
export function isConcurrencyError(error: unknown): error is ConcurrencyError {
  return error instanceof Error && typeof (error as { code?: unknown }).code === "string" && names.has(error.name);
}

/** Whether `error` is a {@link ConflictError}. */
export function isConflictError(error: unknown): error is ConflictError {
  return isNamed(error, "ConflictError");
}

/** Whether `error` is a {@link DeadlineError}. */
export function isDeadlineError(error: unknown): error is DeadlineError {
  return isNamed(error, "DeadlineError");
}

/** Whether `error` is a {@link CommitUnknownError}. */
export function isCommitUnknownError(error: unknown): error is CommitUnknownError {
  return isNamed(error, "CommitUnknownError");
}

/** Whether `error` is a {@link TargetNotFoundError}. */
export function isTargetNotFoundError(error: unknown): error is TargetNotFoundError {
  return isNamed(error, "TargetNotFoundError");
}

/** Whether `error` is a {@link LeaseUnavailableError}. */
export function isLeaseUnavailableError(error: unknown): error is LeaseUnavailableError {
  return isNamed(error, "LeaseUnavailableError");
}

/** Whether `error` is a {@link FileInUseError}. */
export function isFileInUseError(error: unknown): error is FileInUseError {
  return isNamed(error, "FileInUseError");
}

/** Whether `error` is a {@link LeaseLostError}. */
export function isLeaseLostError(error: unknown): error is LeaseLostError {
  return isNamed(error, "LeaseLostError");
}

/** Whether `error` is a {@link LeaseLeftError}. */
export function isLeaseLeftError(error: unknown): error is LeaseLeftError {
  return isNamed(error, "LeaseLeftError");
}

/** Whether `error` is an {@link AlreadyExistsError}. */
export function isAlreadyExistsError(error: unknown): error is AlreadyExistsError {
  return isNamed(error, "AlreadyExistsError");
}

/** Whether `error` is a {@link TransactionLimitError}. */
export function isTransactionLimitError(error: unknown): error is TransactionLimitError {
  return isNamed(error, "TransactionLimitError");
}

/** Whether `error` is an {@link AppendLimitError}. */
export function isAppendLimitError(error: unknown): error is AppendLimitError {
  return isNamed(error, "AppendLimitError");
}

/** Whether `error` is an {@link IdCounterError}. */
export function isIdCounterError(error: unknown): error is IdCounterError {
  return isNamed(error, "IdCounterError");
}

/** Whether `error` is a {@link FencedError}. */
export function isFencedError(error: unknown): error is FencedError {
  return isNamed(error, "FencedError");
}

/** Whether `error` is a {@link GranularityMismatchError}. */
export function isGranularityMismatchError(error: unknown): error is GranularityMismatchError {
  return isNamed(error, "GranularityMismatchError");
}

/** Whether `error` is a {@link MessageLostError}. */
export function isMessageLostError(error: unknown): error is MessageLostError {
  return isNamed(error, "MessageLostError");
}

/** Whether `error` is a {@link SchemaError}. */
export function isSchemaError(error: unknown): error is SchemaError {
  return isNamed(error, "SchemaError");
}

/** Whether `error` is a {@link ContentChangedError}. */
export function isContentChangedError(error: unknown): error is ContentChangedError {
  return isNamed(error, "ContentChangedError");
}

/** Whether `error` is a {@link ContentTooLargeError}. */
export function isContentTooLargeError(error: unknown): error is ContentTooLargeError {
  return isNamed(error, "ContentTooLargeError");
}

/** Whether `error` is a {@link WatchFailedError}. */
export function isWatchFailedError(error: unknown): error is WatchFailedError {
  return isNamed(error, "WatchFailedError");
}

const names: ReadonlySet<string> = new Set([
  "ConcurrencyError",
  "ConflictError",
  "DeadlineError",
  "CommitUnknownError",
  "TargetNotFoundError",
  "AlreadyExistsError",
  "AppendLimitError",
  "IdCounterError",
  "FencedError",
  "GranularityMismatchError",
  "TransactionLimitError",
  "LeaseUnavailableError",
  "FileInUseError",
  "LeaseLostError",
  "LeaseLeftError",
  "MessageLostError",
  "SchemaError",
  "ContentChangedError",
  "ContentTooLargeError",
  "WatchFailedError",
]);

function isNamed(error: unknown, name: string): boolean {
  return isConcurrencyError(error) && error.name === name;
}
