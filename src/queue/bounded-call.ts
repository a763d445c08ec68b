import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients.js";
import { bounded, wasSentOnce } from "../core/bounded.js";
import { isDefinitive } from "../core/storage-errors.js";

/** What is known after a request that changes something. */
export type CallOutcome<R> =
  /** It was carried out. */
  | { readonly kind: "ok"; readonly value: R }
  /** It was sent once and refused: it had no effect. */
  | { readonly kind: "refused"; readonly error: unknown }
  /** It may or may not have been carried out. `error` may be the refusal of a re-send by the SDK. */
  | { readonly kind: "unknown"; readonly error: unknown };

/** What a bounded call hands to the SDK. */
export interface BoundedCallOptions {
  readonly abortSignal: AbortSignal;
  readonly tracingOptions?: OperationTracingOptions;
}

/** One call that changes something, never longer than `boundInMs`, and what is known of its effect. Never rejects. */
export async function boundedCall<R>(
  boundInMs: number,
  call: (options: BoundedCallOptions) => Promise<R>,
  { abortSignal, tracingOptions }: CallOptions = {},
): Promise<CallOutcome<R>> {
  try {
    const { answer } = await bounded(boundInMs, abortSignal, (signal) => call({ abortSignal: signal, ...(tracingOptions && { tracingOptions }) }));
    return { kind: "ok", value: answer };
  } catch (error) {
    return { kind: wasSentOnce(error) && isDefinitive(error) ? "refused" : "unknown", error };
  }
}

/** The same for a read, where an unknown outcome does no harm. */
export async function boundedRead<R>(
  boundInMs: number,
  call: (options: BoundedCallOptions) => Promise<R>,
  options: CallOptions = {},
): Promise<R> {
  const outcome = await boundedCall(boundInMs, call, options);
  if (outcome.kind === "ok") return outcome.value;
  throw outcome.error;
}
