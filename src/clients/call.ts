/**
 * Structural types of the parts of the Azure SDK clients that this library calls, one file per SDK.
 *
 * Signatures use these instead of the SDK's classes: a class with private members is only compatible with itself, and an
 * application may have another copy of the SDK (CommonJS beside ESM, or another version). Every optional member says
 * `| undefined`, so that the types are also compatible with `exactOptionalPropertyTypes`.
 */
import type { OperationTracingOptions } from "@azure/core-tracing";

/** An `AbortSignal`, or the SDK's own equivalent. See {@link CallOptions}. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason?: unknown;
  addEventListener(type: "abort", listener: () => void, options?: unknown): void;
  removeEventListener(type: "abort", listener: () => void, options?: unknown): void;
}

/**
 * The options that every call accepts, as in the Azure SDKs.
 *
 * @example
 * ```ts
 * await readTarget(blob, { abortSignal: controller.signal });
 * ```
 */
export interface CallOptions {
  /** Cancels the call, which rejects with the reason of the signal. @defaultValue none: the call is not cancelled */
  abortSignal?: AbortSignalLike | undefined;
  /** The parent of the spans of the call. @defaultValue none: the spans are roots, or children of the active context */
  tracingOptions?: OperationTracingOptions | undefined;
}

/** The options of calls with a time limit, for example {@link readTarget}. */
export interface TimedCallOptions extends CallOptions {
  /**
   * The time limit of the whole call, including retries and waits; `Infinity`: none. A write without a response by then is a
   * {@link CommitUnknownError}, anything else an {@link OperationTimeoutError}.
   * @defaultValue 30_000: longer than the SDKs' own retries, which take 16 s; without a limit a request waits for ever on a network
   * that drops packets
   */
  timeoutInMs?: number | undefined;
  /**
   * The time limit of one try: of one request, including its re-sends by the SDK. A try that takes longer is given up and repeated
   * with twice the time, within `timeoutInMs`; a write that was given up is recognised if it was stored after all.
   * @defaultValue a quarter of `timeoutInMs`, at most 8_000: a response that never arrives costs a part of the time only, and does not
   * block other callers that share the request
   */
  tryTimeoutInMs?: number | undefined;
}

/** How a call is retried after a conflict with another writer, for example {@link optimisticUpdate}. */
export interface ConflictRetryOptions extends TimedCallOptions {
  /**
   * How often the caller's function runs before the call rejects with a {@link ConflictError}.
   * @defaultValue 50: with the default delays the time limit comes first
   */
  maxAttempts?: number | undefined;
  /**
   * The maximum delay after the first conflict, doubled with each further one; the delay is random (full jitter).
   * @defaultValue 10: about the time of one request
   */
  retryDelayInMs?: number | undefined;
  /** The upper limit of the delay. @defaultValue 1_000: a conflict rarely lasts longer */
  maxRetryDelayInMs?: number | undefined;
}

/** The options of a write whose response may be lost, for example {@link optimisticUpdate}. */
export interface WriteOutcomeOptions {
  /**
   * Identifies this operation: 1 to 64 letters, digits, `-` and `_`. A repetition with the same id, by any process, is recognised
   * while the id is in the journal of the target, and is not applied again. {@link CommitUnknownError} has the id.
   * @defaultValue a new id for each call
   */
  operationId?: string | undefined;
  /**
   * What to do if the outcome of a write is unknown: `"throw"` a {@link CommitUnknownError}, or `"retry"`, which may apply it twice.
   * @defaultValue "throw": only the caller knows whether the write is idempotent
   */
  onUnknown?: "throw" | "retry" | undefined;
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
