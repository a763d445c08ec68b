import * as asc from "azure-storage-concurrency";
import type { AnyConcurrencyError, ConcurrencyErrorCode, ConflictError, SchemaIssue } from "azure-storage-concurrency";

import { same, typeOf } from "./expect.js";

export function narrowByGuard(error: unknown): void {
  if (asc.isConcurrencyError(error, "CONFLICT")) {
    typeOf(error).is<ConflictError>();
    typeOf(error.attempts).is<number>();
    typeOf(error.currentETag).is<string | undefined>();
    // @ts-expect-error Errors are readonly.
    error.attempts = 1;
    // @ts-expect-error A conflict has no reason.
    error.reason;
  }
  if (asc.isConcurrencyError(error, "SCHEMA")) typeOf(error.issues).is<readonly SchemaIssue[]>();
  if (asc.isConcurrencyError(error, "FENCED")) typeOf(error.fencedBy - error.epoch).is<number>();
  if (asc.isConcurrencyError(error, "TRANSACTION_LIMIT")) typeOf(error.limit).is<"operations" | "bytes" | "entity" | "properties">();
  if (asc.isConcurrencyError(error, "APPEND_LIMIT")) typeOf(error.limit).is<"record" | "blocks" | "size">();
  if (asc.isConcurrencyError(error, "MESSAGE_LOST")) typeOf(error.reason).is<"taken" | "expired" | "claim" | "timeToLive">();
  if (asc.isConcurrencyError(error, "IN_PROGRESS")) typeOf(error.retryAfterInMs).is<number>();
  if (asc.isConcurrencyError(error, "IDEMPOTENCY_MISMATCH")) typeOf(error.key).is<string>();
  // @ts-expect-error No such code.
  asc.isConcurrencyError(error, "CONFLIKT");
}

/** A union that is discriminated by its code, so that a switch can be complete. */
export function narrowByCode(error: unknown): string {
  if (!asc.isConcurrencyError(error)) throw error;
  typeOf(error).is<AnyConcurrencyError>();
  typeOf(error.code).is<ConcurrencyErrorCode>();
  typeOf(error.committed).is<false | "unknown">();
  typeOf(error.retryable).is<boolean>();
  typeOf(error.url).is<string | undefined>();
  error satisfies Error;
  // @ts-expect-error No such code.
  if (error.code === "CONFLIKT") return "";
  switch (error.code) {
    case "CONFLICT":
    case "COMMIT_UNKNOWN":
    case "FILE_IN_USE":
      return String(error.attempts);
    case "OPERATION_TIMEOUT":
    case "WATCH_FAILED":
      return String(error.elapsedInMs);
    case "LEASE_LOST":
    case "MESSAGE_LOST":
    case "ID_COUNTER":
    case "TARGET_STATE":
      return error.reason;
    case "LEASE_UNAVAILABLE":
      return error.holder ?? String(error.waitedInMs);
    case "LEASE_RELEASE_FAILED":
      return error.leaseId;
    case "LOCK_MODE_MISMATCH":
      return `${error.setting}: ${error.expected}, ${error.found}`;
    case "FENCED":
      return String(error.epoch);
    case "TRANSACTION_LIMIT":
    case "APPEND_LIMIT":
      return error.limit;
    case "CONTENT_CHANGED":
      return error.etag;
    case "CONTENT_TOO_LARGE":
      return String(error.sizeInBytes - error.maxSizeInBytes);
    case "SCHEMA":
      return error.phase;
    default:
      return error.code;
  }
}

export function recogniseClasses(error: unknown): void {
  if (error instanceof asc.ConflictError) typeOf(error.code).is<"CONFLICT">();
  if (error instanceof asc.LeaseLostError) typeOf(error.reason).is<"stolen" | "broken" | "expired" | "deleted" | "unreachable" | "maxHold">();
  if (error instanceof asc.ConcurrencyError) typeOf(error.code).is<ConcurrencyErrorCode>();
  same<Extract<ConcurrencyErrorCode, "PRECONDITION">, "PRECONDITION">();
}

/** Only the library makes errors, except the one for adapters. */
export function cannotBeMade(): void {
  new asc.PreconditionError("The row was changed.", { cause: new Error() });
  // @ts-expect-error Abstract.
  new asc.ConcurrencyError("x");
  // @ts-expect-error Made by the library.
  new asc.ConflictError();
  // @ts-expect-error Made by the library.
  new asc.LeaseLostError("x");
  // @ts-expect-error Made by the library.
  new asc.SchemaError("x");
  class Mine extends asc.OperationTimeoutError {}
  // @ts-expect-error The same for a subclass.
  new Mine();
}
