/**
 * Structural types of the parts of the Azure SDK clients that this library calls, one file per SDK.
 *
 * Signatures use these instead of the SDK's classes: a class with private members is only compatible with itself, and an
 * application may have another copy of the SDK (CommonJS beside ESM, or another version). Every optional member says
 * `| undefined`, so that the types are also compatible with `exactOptionalPropertyTypes`.
 */
import type { OperationTracingOptions } from "@azure/core-tracing";

/** An `AbortSignal`, or the SDK's own equivalent. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason?: unknown;
  addEventListener(type: "abort", listener: () => void, options?: unknown): void;
  removeEventListener(type: "abort", listener: () => void, options?: unknown): void;
}

/** The options that every call of the SDKs and of this library accepts. */
export interface CallOptions {
  /** Cancels the call. The promise rejects with the signal's reason. */
  abortSignal?: AbortSignalLike | undefined;
  /** The parent of the spans that the call creates. */
  tracingOptions?: OperationTracingOptions | undefined;
}

/**
 * What the library passes to the functions of an adapter that an application has written, an `Inbox` for example.
 * {@link AdapterRequest.abortSignal} is an `AbortSignal` of the platform: `fetch` and database drivers accept it.
 * @example
 * ```ts
 * await fetch(url, { signal: request.abortSignal });
 * ```
 */
export interface AdapterRequest {
  /** Aborts when the result is not needed any more, or when the time of the call is over. */
  readonly abortSignal: AbortSignal;
  /** The parent of the spans of the adapter's own requests. */
  readonly tracingOptions: OperationTracingOptions;
}

/**
 * Options of every `purge`.
 * @example
 * ```ts
 * await inbox.purge({ olderThanInMs: 30 * 86_400_000 });
 * ```
 */
export interface PurgeOptions extends CallOptions {
  /**
   * The minimum age of what is deleted, counted from its last use. What is still needed is kept in any case.
   * @defaultValue the description of each `purge` gives it
   */
  olderThanInMs?: number | undefined;
}

/**
 * The result of every `purge`.
 * @example
 * ```ts
 * const { deleted, kept } = await inbox.purge();
 * ```
 */
export interface PurgeResult {
  /** How many records were deleted. */
  readonly deleted: number;
  /** How many records were old enough, but are still needed or in use. */
  readonly kept: number;
}
