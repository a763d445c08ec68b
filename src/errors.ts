import type { SchemaIssue } from "./clients/schema.js";

/** The error of each code, for functions that are generic in the code, as {@link isConcurrencyError} is. */
export interface ConcurrencyErrorMap {
  CONFLICT: ConflictError;
  OPERATION_TIMEOUT: OperationTimeoutError;
  COMMIT_UNKNOWN: CommitUnknownError;
  TARGET_NOT_FOUND: TargetNotFoundError;
  TARGET_STATE: TargetStateError;
  ALREADY_EXISTS: AlreadyExistsError;
  TRANSACTION_LIMIT: LimitError<"TRANSACTION_LIMIT", "operations" | "bytes" | "entity" | "properties">;
  APPEND_LIMIT: LimitError<"APPEND_LIMIT", "record" | "blocks" | "size">;
  JOURNAL_LIMIT: LimitError<"JOURNAL_LIMIT", "metadata" | "properties" | "entity">;
  FENCED: FencedError;
  LOCK_MODE_MISMATCH: LockModeMismatchError;
  ID_COUNTER: IdCounterError;
  LEASE_UNAVAILABLE: LeaseUnavailableError;
  LEASE_LOST: LeaseLostError;
  LEASE_RELEASE_FAILED: LeaseReleaseError;
  FILE_IN_USE: FileInUseError;
  MESSAGE_LOST: MessageLostError;
  IDEMPOTENCY_MISMATCH: IdempotencyMismatchError;
  IN_PROGRESS: InProgressError;
  SCHEMA: SchemaError;
  CONTENT_CHANGED: ContentChangedError;
  CONTENT_TOO_LARGE: ContentTooLargeError;
  WATCH_FAILED: WatchFailedError;
  PRECONDITION: PreconditionError;
}

/** The codes of all errors. They are stable: {@link isConcurrencyError} and `switch` statements can rely on them. */
export type ConcurrencyErrorCode = keyof ConcurrencyErrorMap;

/** All errors of the library, discriminated by `code`: what {@link isConcurrencyError} narrows an unknown error to. */
export type AnyConcurrencyError = ConcurrencyErrorMap[ConcurrencyErrorCode];

/** What all errors of a class have in common. */
interface ErrorKind {
  readonly name: string;
  readonly code: ConcurrencyErrorCode;
  readonly retryable: boolean;
  /** @defaultValue false */
  readonly committed?: "unknown";
}

/** Marks the errors of all copies and versions of the library. */
const brand = Symbol.for("azure-storage-concurrency.error");

/**
 * The base class of all errors of the library. Every error says what the call was about (`url`), whether it wrote something
 * (`committed`), and whether it can be repeated (`retryable`). Only the library creates errors, except {@link PreconditionError}.
 * Use {@link isConcurrencyError} to recognise them: `instanceof` fails if two copies of the package are installed.
 *
 * Errors of the service that are not about concurrency (403, 400, a network failure on a read) are passed on as the SDK threw
 * them; wrong use is a `TypeError` or `RangeError`.
 */
export abstract class ConcurrencyError extends Error {
  /** @internal */
  static readonly kind: ErrorKind;
  /** A stable code for programs. */
  abstract readonly code: ConcurrencyErrorCode;
  /** The URL of what the call was about, without the query. Undefined if it has none. */
  declare readonly url: string | undefined;
  /** `false`: the call wrote nothing. `"unknown"`: it cannot be known whether the call, or the caller's function, wrote something. */
  declare readonly committed: false | "unknown";
  /** Whether the same call may succeed later without a change. Check `committed` before you repeat a write. */
  declare readonly retryable: boolean;

  protected constructor(message: string, details: object & { cause?: unknown }) {
    const { cause, ...properties } = details;
    super(printable(message), cause === undefined ? undefined : { cause });
    const { name, ...common } = new.target.kind;
    // As for the errors of the platform, the name is not enumerable: it is printed as part of the stack.
    Object.defineProperty(this, "name", { value: name, configurable: true, writable: true });
    Object.defineProperty(this, brand, { value: true });
    Object.assign(this, { committed: false, url: undefined, ...common }, properties);
  }
}

/**
 * Text on one line, without control sequences for a terminal, and without characters that change its direction. What is stored may have been
 * written by anybody: the name of a holder must not add a line to a log, nor replace the line that an operator confirms.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]+/gu, " ");
}

/** Text of a caller in a message: in quotation marks, and {@link printable}, which JSON alone is not. */
export function quotedText(text: unknown): string {
  // In an array: alone, JSON has no undefined.
  return printable(JSON.stringify([text]).slice(1, -1));
}

/**
 * Whether `error` is an error of this library, and, with a code, whether it has that code. Works across copies of the package.
 *
 * @example
 * ```ts
 * if (isConcurrencyError(error, "CONFLICT")) console.log(error.attempts, error.currentETag);
 * ```
 */
export function isConcurrencyError(error: unknown): error is AnyConcurrencyError;
export function isConcurrencyError<C extends ConcurrencyErrorCode>(error: unknown, code: C): error is ConcurrencyErrorMap[C];
export function isConcurrencyError(error: unknown, code?: ConcurrencyErrorCode): boolean {
  try {
    if (typeof error !== "object" || error === null || !(brand in error)) return false;
  } catch {
    // A revoked proxy: an application may throw anything.
    return false;
  }
  return code === undefined || (error as { code?: unknown }).code === code;
}

/** The properties that a caller of {@link createError} passes: those of the class itself, and those that are not the same for all its errors. */
export type ErrorDetails<E extends ConcurrencyError> = Omit<E, Exclude<keyof ConcurrencyError, "url">> &
  Partial<Pick<ConcurrencyError, "committed" | "retryable">> & { readonly cause?: unknown } & (E extends LimitError<infer C, string> ? { readonly code: C } : unknown);

/** Creates an error. The constructors are not part of the public API. */
export function createError<E extends ConcurrencyError>(type: { readonly prototype: E }, message: string, details: ErrorDetails<E>): E {
  return new (type as unknown as new (message: string, details: object) => E)(message, details);
}

/**
 * Other writers kept changing the target of {@link optimisticUpdate}, {@link runTransaction}, ... until the attempts or the time were
 * exhausted. Nothing was written.
 */
export class ConflictError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "ConflictError", code: "CONFLICT", retryable: true };
  declare readonly code: "CONFLICT";
  /** How many attempts were made: how often the caller's function ran, if the call has one. */
  declare readonly attempts: number;
  /** The time from the start of the call to its last conflict. */
  declare readonly elapsedInMs: number;
  /** The ETag that the target had when it was last read. Undefined if it did not exist, or was not read. */
  declare readonly currentETag: string | undefined;
}

/**
 * The time limit of a call, for example {@link readTarget} or {@link optimisticUpdate}, passed before anything was written. (Except
 * for the pages of a {@link PageWriter}, which are several requests: see `writtenBytes`.) With `committed: "unknown"`: {@link breakLease},
 * the release, renewal or change of a {@link LeaseHandle}, or a request of {@link ClaimInbox.purge} or {@link redrive} got no response, or a function of the caller has not ended in time, for example that of a {@link LeaderElection}.
 */
export class OperationTimeoutError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "OperationTimeoutError", code: "OPERATION_TIMEOUT", retryable: true };
  declare readonly code: "OPERATION_TIMEOUT";
  /** How long the call took. For a download: how long its last requests took, which made no progress. */
  declare readonly elapsedInMs: number;
  /** Of a {@link PageWriter} only: how many bytes are certainly written, from the offset of the call. What is behind them may be. */
  declare readonly writtenBytes?: number;
}

/**
 * A write was sent, its response was lost, and what is stored now does not tell whether it was committed. Repeat the call with the
 * same `operationId` (an {@link enqueue} with the same `idempotencyKey`), ask {@link resolveOutcome} later, or pass `onUnknown: "retry"`
 * if the update is idempotent. Every call that writes may reject with it, for example {@link optimisticUpdate}.
 */
export class CommitUnknownError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "CommitUnknownError", code: "COMMIT_UNKNOWN", retryable: false, committed: "unknown" };
  declare readonly code: "COMMIT_UNKNOWN";
  /** How many attempts were made, including the one whose outcome is unknown. */
  declare readonly attempts: number;
  /** Identifies the operation: the `operationId` of the call, or an id of the library; of an {@link enqueue} its idempotency key. For {@link resolveOutcome}, or to repeat the call. */
  declare readonly operationId: string;
}

/** The target of a call, for example {@link readTarget}, or what contains it, does not exist. Nothing was written. */
export class TargetNotFoundError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "TargetNotFoundError", code: "TARGET_NOT_FOUND", retryable: false };
  declare readonly code: "TARGET_NOT_FOUND";
}

/**
 * The service does not carry out a call, for example {@link optimisticUpdate}, because of the state of its target or of what contains it.
 * Nothing was written. The message says what to do.
 */
export class TargetStateError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "TargetStateError", code: "TARGET_STATE", retryable: false };
  declare readonly code: "TARGET_STATE";
  /**
   * `"sealed"`: an append blob that was sealed. `"immutable"`: a legal hold, or an immutability policy. `"encrypted"`: a blob with an
   * encryption key of the customer. `"archived"`: in the archive tier; `"rehydrating"`: on its way out of it. `"snapshots"`: a blob that is
   * to be deleted has snapshots. `"overwrite"`: the blob exists, and the SAS allows only to create it. `"copying"`: a copy to the blob or
   * file has not ended. `"beingDeleted"`: its container, table, queue or share is being deleted.
   *
   * Retryable are `"rehydrating"`, `"copying"` and `"beingDeleted"`. The library has waited for the end of the last two.
   */
  declare readonly reason: "sealed" | "immutable" | "encrypted" | "archived" | "rehydrating" | "snapshots" | "overwrite" | "copying" | "beingDeleted";
}

/** An entity that {@link runTransaction} should create already exists. Nothing was written. */
export class AlreadyExistsError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "AlreadyExistsError", code: "ALREADY_EXISTS", retryable: false };
  declare readonly code: "ALREADY_EXISTS";
}

/**
 * A transaction ({@link runTransaction}), a record ({@link appendExactlyOnce}) or the journal of an update exceeds a limit. Nothing was
 * written.
 *
 * `TRANSACTION_LIMIT`: `"operations"` (100 in a transaction), `"bytes"` (4 MiB), `"entity"` (1 MiB for one entity), `"properties"`
 * (252 in one entity). `APPEND_LIMIT`: `"record"` (larger than a block can be), `"blocks"` (the blob has 50,000 blocks), `"size"`
 * (the blob would grow beyond `maxSizeInBytes`); for the last two, continue in another blob. `JOURNAL_LIMIT`: beside the caller's own
 * data there is no room for the journal, in the `"metadata"` (8 KiB), the `"properties"` (252) or the `"entity"` (1 MiB).
 */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- several codes of one class, each with limits of its own
export class LimitError<C extends "TRANSACTION_LIMIT" | "APPEND_LIMIT" | "JOURNAL_LIMIT", L extends string> extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "LimitError", code: "TRANSACTION_LIMIT", retryable: false };
  declare readonly code: C;
  /** The limit that is exceeded. */
  declare readonly limit: L;
}

/**
 * A former holder of a table lock ({@link TableLock}), or a former writer of pages ({@link claimPages}), tried to write after its
 * successor had taken over. Nothing was written, except what `writtenBytes` says.
 */
export class FencedError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "FencedError", code: "FENCED", retryable: false };
  declare readonly code: "FENCED";
  /** The epoch of the lock, or the sequence number, that was used. */
  declare readonly epoch: number;
  /** The epoch or sequence number of the successor. */
  declare readonly fencedBy: number;
  /** How many bytes a {@link PageWriter} had written in this call before its successor took over. Absent: none. */
  declare readonly writtenBytes?: number;
}

/** The counter of an {@link IdAllocator} cannot provide ids that are certainly new. No id was allocated. */
export class IdCounterError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "IdCounterError", code: "ID_COUNTER", retryable: false };
  declare readonly code: "ID_COUNTER";
  /**
   * `"exhausted"`: the next ids would exceed `Number.MAX_SAFE_INTEGER`. `"reset"`: the counter is lower than ids that were
   * already allocated. `"malformed"`: what is stored is not a counter.
   */
  declare readonly reason: "exhausted" | "reset" | "malformed";
}

/**
 * Two processes use the same lock, for example a {@link TableLock}, or the same table of a {@link ClaimInbox}, with different settings:
 * they would not exclude each other. Or another program has a blob where the lock has one of its own.
 */
export class LockModeMismatchError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "LockModeMismatchError", code: "LOCK_MODE_MISMATCH", retryable: false };
  declare readonly code: "LOCK_MODE_MISMATCH";
  /** The setting that differs. `"tickets"`: the blob from which the waiters of a fair lock draw their tickets is not an append blob. */
  declare readonly setting: "granularity" | "slots" | "fair" | "shards" | "order" | "tickets";
  /** The value that this process uses. */
  declare readonly expected: string;
  /** The value that the first process recorded, or what was found in its place. */
  declare readonly found: string;
}

/**
 * Another client holds the lease or lock that {@link withLease}, {@link BlobLocks}, ... should acquire, or a lease on the target of a
 * write.
 */
export class LeaseUnavailableError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "LeaseUnavailableError", code: "LEASE_UNAVAILABLE", retryable: true };
  declare readonly code: "LEASE_UNAVAILABLE";
  /** How long the call waited for it. */
  declare readonly waitedInMs: number;
  /** The holder, if known: a named lock records it. */
  declare readonly holder: string | undefined;
}

/**
 * A lease that was held is lost, or is not known to be held any more. Operations since then may conflict with those of its next
 * holder. {@link withLease} rejects with it; it is also the reason of the handle's `signal`.
 */
export class LeaseLostError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "LeaseLostError", code: "LEASE_LOST", retryable: true, committed: "unknown" };
  declare readonly code: "LEASE_LOST";
  /**
   * `"stolen"`: another client holds it. `"broken"`: it was broken. `"expired"`: it was not renewed in time (the event loop was
   * blocked, the machine was suspended, or the caller had to renew it). `"deleted"`: the leased target does not exist any more.
   * `"unreachable"`: the service did not respond to any renewal until it was time to give up. `"maxHold"`: it was held for longer
   * than the caller's own limit, `maxHoldInMs`.
   */
  declare readonly reason: "stolen" | "broken" | "expired" | "deleted" | "unreachable" | "maxHold";
}

/**
 * A lease that never expires ({@link acquireLease}) could not be released: the service did not respond. The release is retried in the background for
 * two minutes. If that fails too, the lease stays until a client releases it with this id, or breaks it.
 */
export class LeaseReleaseError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "LeaseReleaseError", code: "LEASE_RELEASE_FAILED", retryable: false, committed: "unknown" };
  declare readonly code: "LEASE_RELEASE_FAILED";
  /** The id under which the lease is possibly still held. */
  declare readonly leaseId: string;
}

/**
 * SMB clients kept a file in use until the attempts or the time of {@link retryWhileInUse} were exhausted. `cause` is the last
 * rejection.
 */
export class FileInUseError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "FileInUseError", code: "FILE_IN_USE", retryable: true };
  declare readonly code: "FILE_IN_USE";
  /** How often the caller's function was called. */
  declare readonly attempts: number;
  /** The time from the first attempt to the last rejection. */
  declare readonly elapsedInMs: number;
  /** The service's code for the last rejection, for example `SharingViolation`. */
  declare readonly reason: string;
}

/**
 * A handler of a {@link QueueConsumer} has lost the message that it processes: another consumer has received it, or may receive it at any moment.
 * Also the reason of `context.signal`. Stop processing; the message is delivered again.
 */
export class MessageLostError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "MessageLostError", code: "MESSAGE_LOST", retryable: true, committed: "unknown" };
  declare readonly code: "MESSAGE_LOST";
  /** The id that the queue gave to the message; the same for all its deliveries. */
  declare readonly messageId: string;
  /**
   * `"taken"`: according to the queue, another consumer has received or deleted it. `"expired"`: it could not be renewed in
   * time. `"claim"`: its inbox record was taken over, or could not be renewed in time. `"timeToLive"`: the queue has deleted it,
   * as its time to live was over.
   */
  declare readonly reason: "taken" | "expired" | "claim" | "timeToLive";
}

/** An idempotency key was used before, for another payload: {@link CommitInbox}. Nothing was written. */
export class IdempotencyMismatchError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "IdempotencyMismatchError", code: "IDEMPOTENCY_MISMATCH", retryable: false };
  declare readonly code: "IDEMPOTENCY_MISMATCH";
  /** The key that was used twice. */
  declare readonly key: string;
}

/**
 * Another call with the same idempotency key runs its function: {@link Once.run}. The function of this call did not run. Repeat the call
 * after `retryAfterInMs`.
 */
export class InProgressError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "InProgressError", code: "IN_PROGRESS", retryable: true };
  declare readonly code: "IN_PROGRESS";
  /** The key of the call. */
  declare readonly key: string;
  /** When the claim of the other call expires, unless it is renewed. It may end earlier. */
  declare readonly retryAfterInMs: number;
}

/** The stored value, or the new one, is not valid: it does not match the schema of a {@link jsonBlob}, for example. Nothing was written. */
export class SchemaError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "SchemaError", code: "SCHEMA", retryable: false };
  declare readonly code: "SCHEMA";
  /** `"read"`: the stored value is not valid. `"write"`: the new value is not valid. */
  declare readonly phase: "read" | "write";
  /** The schema's own messages, which may quote the value. Not enumerable, so that they are not printed with the error. */
  declare readonly issues: readonly SchemaIssue[];
  /** The ETag of the stored value that is not valid, if known. */
  declare readonly etag: string | undefined;

  protected constructor(message: string, details: { issues: readonly SchemaIssue[]; cause?: unknown }) {
    super(message, details);
    Object.defineProperty(this, "issues", { enumerable: false });
  }
}

/** A blob was rewritten or deleted while {@link downloadConsistent} read it. What had arrived is incomplete, and was discarded. */
export class ContentChangedError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "ContentChangedError", code: "CONTENT_CHANGED", retryable: true };
  declare readonly code: "CONTENT_CHANGED";
  /** The version that the download, or its last restart, was reading. */
  declare readonly etag: string;
  /** How often the download had started again. */
  declare readonly restarts: number;
}

/**
 * The content is larger than the `maxSizeInBytes` of {@link downloadConsistent}, {@link jsonFile}, ... It was not read, or not written.
 */
export class ContentTooLargeError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "ContentTooLargeError", code: "CONTENT_TOO_LARGE", retryable: false };
  declare readonly code: "CONTENT_TOO_LARGE";
  /** The size of the stored content, or of that which was to be written. */
  declare readonly sizeInBytes: number;
  /** The limit that the caller has set. */
  declare readonly maxSizeInBytes: number;
}

/** Polls of {@link watch} failed for longer than `maxFailureTimeInMs`. `cause` is the last failure. */
export class WatchFailedError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "WatchFailedError", code: "WATCH_FAILED", retryable: true };
  declare readonly code: "WATCH_FAILED";
  /** How many polls in a row failed. */
  declare readonly failures: number;
  /** The time since the first failure. */
  declare readonly elapsedInMs: number;
}

/**
 * The one error that callers create: an adapter for {@link defineTarget} throws it when the condition of a write does not hold.
 *
 * @example
 * ```ts
 * if (stored.version !== condition.ifMatch) throw new PreconditionError("the version has changed");
 * ```
 */
export class PreconditionError extends ConcurrencyError {
  /** @internal */
  static override readonly kind: ErrorKind = { name: "PreconditionError", code: "PRECONDITION", retryable: true };
  declare readonly code: "PRECONDITION";

  /** If the attempts of the call are exhausted, the error is the `cause` of its {@link ConflictError}. */
  constructor(message: string, options: { cause?: unknown } = {}) {
    // A mutator throws it: a TypeError in its place would hide what the mutator has found.
    super(typeof (message as unknown) === "string" ? message : "a precondition does not hold", { ...options });
  }
}
