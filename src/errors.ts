import type { SchemaIssue } from "./clients/schema.js";

/**
 * Base of all errors that this library raises. Errors of the storage service that have nothing to do with
 * concurrency (403, 400, a broken network on a read) are passed on as the SDK raised them; misuse is a
 * `TypeError` or `RangeError`.
 */
export class ConcurrencyError extends Error {
  override readonly name: string = "ConcurrencyError";
  /** Stable, for programs. */
  readonly code: string;

  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** The update kept losing races until its attempts or its time ran out. Nothing of it was written. */
export class ConflictError extends ConcurrencyError {
  override readonly name = "ConflictError";
  /** How often the mutator was applied. */
  readonly attempts: number;
  readonly elapsedInMs: number;
  /** The ETag that the last attempt was based on. */
  readonly lastETag: string | undefined;

  constructor(
    message: string,
    facts: { attempts: number; elapsedInMs: number; lastETag: string | undefined; cause?: unknown },
  ) {
    super("CONFLICT", message, { cause: facts.cause });
    this.attempts = facts.attempts;
    this.elapsedInMs = facts.elapsedInMs;
    this.lastETag = facts.lastETag;
  }
}

/** The time was over before the call had a chance to write. Nothing of it was written. */
export class DeadlineError extends ConcurrencyError {
  override readonly name = "DeadlineError";
  readonly elapsedInMs: number;

  constructor(message: string, facts: { elapsedInMs: number; cause?: unknown }) {
    super("DEADLINE", message, { cause: facts.cause });
    this.elapsedInMs = facts.elapsedInMs;
  }
}

/**
 * A write was sent, its answer was lost, and what is stored now does not tell whether it landed. Read the target and
 * decide, or pass `onUnknown: "retry"` if applying the mutator twice does no harm.
 */
export class CommitUnknownError extends ConcurrencyError {
  override readonly name = "CommitUnknownError";
  readonly attempts: number;

  constructor(message: string, facts: { attempts: number; cause?: unknown }) {
    super("COMMIT_UNKNOWN", message, { cause: facts.cause });
    this.attempts = facts.attempts;
  }
}

/** The blob, entity, ... does not exist, and no `initial` value was given. */
export class TargetNotFoundError extends ConcurrencyError {
  override readonly name = "TargetNotFoundError";
  /** URL of what is missing, without its query. */
  readonly url: string;

  constructor(message: string, facts: { url: string; cause?: unknown }) {
    super("TARGET_NOT_FOUND", message, { cause: facts.cause });
    this.url = facts.url;
  }
}

/** What was to be created exists. Nothing was written. */
export class AlreadyExistsError extends ConcurrencyError {
  override readonly name = "AlreadyExistsError";

  constructor(message: string, facts: { cause?: unknown } = {}) {
    super("ALREADY_EXISTS", message, { cause: facts.cause });
  }
}

/** A transaction is more than the service takes in one. Nothing was written. */
export class TransactionLimitError extends ConcurrencyError {
  override readonly name = "TransactionLimitError";
  /** `"operations"`: 100. `"bytes"`: 4 MiB. `"entity"`: 1 MiB for one entity, `"properties"`: 252 of them. */
  readonly limit: "operations" | "bytes" | "entity" | "properties";

  constructor(message: string, facts: { limit: "operations" | "bytes" | "entity" | "properties" }) {
    super("TRANSACTION_LIMIT", message);
    this.limit = facts.limit;
  }
}

/**
 * A holder of a table lock, or a writer of pages, that has a successor tried to write. The service refused it; nothing
 * was written.
 */
export class FencedError extends ConcurrencyError {
  override readonly name = "FencedError";
  /** The number of the lock, or the sequence number, that was used. */
  readonly epoch: number;
  /** The number of the one who came after. */
  readonly fencedBy: number;

  constructor(message: string, facts: { epoch: number; fencedBy: number; cause?: unknown }) {
    super("FENCED", message, { cause: facts.cause });
    this.epoch = facts.epoch;
    this.fencedBy = facts.fencedBy;
  }
}

/** A record does not fit into an append blob. It was not appended. */
export class AppendLimitError extends ConcurrencyError {
  override readonly name = "AppendLimitError";
  readonly url: string;
  /**
   * `"record"`: larger than a block can be. `"blocks"`: the blob has 50,000 blocks. `"size"`: the blob would grow beyond
   * `maxSizeInBytes`. For the last two: go on in another blob.
   */
  readonly limit: "record" | "blocks" | "size";

  constructor(message: string, facts: { url: string; limit: "record" | "blocks" | "size"; cause?: unknown }) {
    super("APPEND_LIMIT", message, { cause: facts.cause });
    this.url = facts.url;
    this.limit = facts.limit;
  }
}

/** The counter behind an `IdAllocator` cannot give ids that are sure to be new. No id was given out. */
export class IdCounterError extends ConcurrencyError {
  override readonly name = "IdCounterError";
  readonly url: string;
  /**
   * `"exhausted"`: the next ids would be beyond `Number.MAX_SAFE_INTEGER`. `"reset"`: the counter is behind ids that were
   * given out. `"malformed"`: what is stored is no counter.
   */
  readonly reason: "exhausted" | "reset" | "malformed";

  constructor(message: string, facts: { url: string; reason: "exhausted" | "reset" | "malformed" }) {
    super("ID_COUNTER", message);
    this.url = facts.url;
    this.reason = facts.reason;
  }
}

/** Two services lock the same table in different portions: their locks would not see each other. */
export class GranularityMismatchError extends ConcurrencyError {
  override readonly name = "GranularityMismatchError";
  readonly expected: string;
  /** What the first who locked the table recorded. */
  readonly found: string;

  constructor(message: string, facts: { expected: string; found: string }) {
    super("GRANULARITY_MISMATCH", message);
    this.expected = facts.expected;
    this.found = facts.found;
  }
}

/** Somebody else holds a lease on the target. */
export class LeaseUnavailableError extends ConcurrencyError {
  override readonly name = "LeaseUnavailableError";
  readonly url: string;
  /** How long the call waited for it. */
  readonly waitedInMs: number | undefined;
  /** Who holds it, where that is known: a named lock says. */
  readonly holder: string | undefined;

  constructor(
    message: string,
    facts: { url: string; waitedInMs?: number | undefined; holder?: string | undefined; cause?: unknown },
  ) {
    super("LEASE_UNAVAILABLE", message, { cause: facts.cause });
    this.url = facts.url;
    this.waitedInMs = facts.waitedInMs;
    this.holder = facts.holder;
  }
}

/** Why a lease is no longer held. */
export type LeaseLossReason = "stolen" | "broken" | "expired" | "deleted" | "unreachable";

/**
 * A lease that was held is not any more, or can no longer be known to be. What was done under it since may collide
 * with its next holder.
 */
export class LeaseLostError extends ConcurrencyError {
  override readonly name = "LeaseLostError";
  readonly url: string;
  /**
   * `"stolen"`: somebody else has it. `"broken"`: it was broken. `"expired"`: it was not renewed in time (the event
   * loop was blocked, the machine suspended, or renewing was up to the caller). `"deleted"`: what was leased is gone.
   * `"unreachable"`: the service did not answer any renewal until it was time to give up.
   */
  readonly reason: LeaseLossReason;

  constructor(message: string, facts: { url: string; reason: LeaseLossReason; cause?: unknown }) {
    super("LEASE_LOST", message, { cause: facts.cause });
    this.url = facts.url;
    this.reason = facts.reason;
  }
}

/**
 * A lease that never expires could not be given back: the service did not answer. It is tried again in the background
 * for two minutes; if that is in vain too, it stays until somebody releases it with this id, or breaks it.
 */
export class LeaseLeftError extends ConcurrencyError {
  override readonly name = "LeaseLeftError";
  readonly url: string;
  readonly leaseId: string;

  constructor(message: string, facts: { url: string; leaseId: string; cause?: unknown }) {
    super("LEASE_LEFT", message, { cause: facts.cause });
    this.url = facts.url;
    this.leaseId = facts.leaseId;
  }
}

/** SMB clients kept a file in use until the attempts or the time ran out. `cause` is the last refusal. */
export class FileInUseError extends ConcurrencyError {
  override readonly name = "FileInUseError";
  readonly attempts: number;
  readonly elapsedInMs: number;
  /** The service's code for the last refusal, for example `SharingViolation`. */
  readonly reason: string;

  constructor(message: string, facts: { attempts: number; elapsedInMs: number; reason: string; cause?: unknown }) {
    super("FILE_IN_USE", message, { cause: facts.cause });
    this.attempts = facts.attempts;
    this.elapsedInMs = facts.elapsedInMs;
    this.reason = facts.reason;
  }
}

/**
 * The queue message that a handler works on is no longer its own: another consumer has it, or may get it any moment.
 * It is the reason of `context.signal`. Stop; the message is delivered again.
 */
export class MessageLostError extends ConcurrencyError {
  override readonly name = "MessageLostError";
  readonly messageId: string;
  /**
   * `"taken"`: the queue says that somebody else has received or deleted it. `"expired"`: its time ran out, since it
   * could not be renewed. `"claim"`: its inbox record was taken over, or could not be renewed in time.
   */
  readonly reason: "taken" | "expired" | "claim";

  constructor(message: string, facts: { messageId: string; reason: "taken" | "expired" | "claim"; cause?: unknown }) {
    super("MESSAGE_LOST", message, { cause: facts.cause });
    this.messageId = facts.messageId;
    this.reason = facts.reason;
  }
}

/** What is stored, or what was about to be stored, is not what it should be. Nothing was written. */
export class SchemaError extends ConcurrencyError {
  override readonly name = "SchemaError";
  /** `"read"`: the stored value is wrong. `"write"`: the new one is. */
  readonly phase: "read" | "write";
  /** In the words of the schema, which may quote the value: so it is not printed along with the error. */
  readonly issues!: readonly SchemaIssue[];
  /** Of what is stored and cannot be read, where that is known. */
  readonly etag: string | undefined;

  constructor(
    message: string,
    facts: { phase: "read" | "write"; issues: readonly SchemaIssue[]; etag?: string | undefined; cause?: unknown },
  ) {
    super("SCHEMA", message, { cause: facts.cause });
    this.phase = facts.phase;
    Object.defineProperty(this, "issues", { value: facts.issues, enumerable: false });
    this.etag = facts.etag;
  }
}

/** A blob was rewritten or deleted while it was downloaded. What had arrived is of no use, and was thrown away. */
export class ContentChangedError extends ConcurrencyError {
  override readonly name = "ContentChangedError";
  readonly url: string;
  /** The version that the download, or its last start, was reading. */
  readonly etag: string;
  /** How often the download had started again. */
  readonly restarts: number;

  constructor(message: string, facts: { url: string; etag: string; restarts: number; cause?: unknown }) {
    super("CONTENT_CHANGED", message, { cause: facts.cause });
    this.url = facts.url;
    this.etag = facts.etag;
    this.restarts = facts.restarts;
  }
}

/** A blob is larger than the caller allowed. Nothing but its first range was asked for. */
export class ContentTooLargeError extends ConcurrencyError {
  override readonly name = "ContentTooLargeError";
  readonly url: string;
  readonly sizeInBytes: number;
  readonly maxBytes: number;

  constructor(message: string, facts: { url: string; sizeInBytes: number; maxBytes: number }) {
    super("CONTENT_TOO_LARGE", message);
    this.url = facts.url;
    this.sizeInBytes = facts.sizeInBytes;
    this.maxBytes = facts.maxBytes;
  }
}

/** What is watched could not be read for so long that the watch gave up. `cause` is the last failure. */
export class WatchFailedError extends ConcurrencyError {
  override readonly name = "WatchFailedError";
  readonly url: string;
  /** How many looks in a row failed. */
  readonly failures: number;
  /** Since the first of them. */
  readonly elapsedInMs: number;

  constructor(message: string, facts: { url: string; failures: number; elapsedInMs: number; cause?: unknown }) {
    super("WATCH_FAILED", message, { cause: facts.cause });
    this.url = facts.url;
    this.failures = facts.failures;
    this.elapsedInMs = facts.elapsedInMs;
  }
}

/** Whether `error` is of this library. Works across copies of the library, unlike `instanceof`. */
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
