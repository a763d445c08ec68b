import type { SchemaIssue } from "./clients.js";

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

/** Somebody else holds a lease on the target. */
export class LeaseUnavailableError extends ConcurrencyError {
  override readonly name = "LeaseUnavailableError";
  readonly url: string;

  constructor(message: string, facts: { url: string; cause?: unknown }) {
    super("LEASE_UNAVAILABLE", message, { cause: facts.cause });
    this.url = facts.url;
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
  readonly issues: readonly SchemaIssue[];

  constructor(message: string, facts: { phase: "read" | "write"; issues: readonly SchemaIssue[]; cause?: unknown }) {
    super("SCHEMA", message, { cause: facts.cause });
    this.phase = facts.phase;
    this.issues = facts.issues;
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
/** Whether `error` is a {@link MessageLostError}. */
export function isMessageLostError(error: unknown): error is MessageLostError {
  return isNamed(error, "MessageLostError");
}
/** Whether `error` is a {@link SchemaError}. */
export function isSchemaError(error: unknown): error is SchemaError {
  return isNamed(error, "SchemaError");
}

const names: ReadonlySet<string> = new Set([
  "ConcurrencyError",
  "ConflictError",
  "DeadlineError",
  "CommitUnknownError",
  "TargetNotFoundError",
  "LeaseUnavailableError",
  "MessageLostError",
  "SchemaError",
]);

function isNamed(error: unknown, name: string): boolean {
  return isConcurrencyError(error) && error.name === name;
}
