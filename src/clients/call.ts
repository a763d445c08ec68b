/**
 * The parts of the Azure SDK clients that this library calls, written down by hand, one file per SDK.
 *
 * Signatures take these instead of the SDK's classes: a class with private members is only compatible with
 * itself, and an application may well hold another copy of the SDK (CommonJS beside ESM, or another version).
 * Every optional member says `| undefined`, so that they fit callers with `exactOptionalPropertyTypes` too.
 */
import type { OperationTracingOptions } from "@azure/core-tracing";

/** An `AbortSignal`, or the SDK's look-alike of it. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason?: unknown;
  addEventListener(type: "abort", listener: () => void, options?: unknown): void;
  removeEventListener(type: "abort", listener: () => void, options?: unknown): void;
}

/** What every call of the SDKs, and every call of this library, accepts. */
export interface CallOptions {
  /** Cancels the call. The promise rejects with the signal's reason. */
  abortSignal?: AbortSignalLike | undefined;
  /** Parent of the spans that the call creates. */
  tracingOptions?: OperationTracingOptions | undefined;
}
