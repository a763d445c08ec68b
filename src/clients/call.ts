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
