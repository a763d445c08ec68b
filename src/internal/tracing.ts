import { createTracingClient } from "@azure/core-tracing";
import type { OperationTracingOptions, TracingClient, TracingSpan, TracingSpanKind, TracingSpanOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients.js";
import { errorLabel, errorType, isOfStorage } from "./error-label.js";
import { logger } from "./log.js";
import { displayUrl } from "./url.js";

const client: TracingClient = createTracingClient({
  namespace: "Microsoft.Storage",
  packageName: "azure-storage-concurrency",
});

/** What is known of a span; see {@link spanAttributes}. */
export interface SpanFacts {
  readonly targetKind?: string | undefined;
  readonly url?: string | undefined;
  readonly attempts?: number | undefined;
  readonly attempt?: number | undefined;
  readonly outcome?: string | undefined;
  readonly requests?: number | undefined;
  readonly waitInMs?: number | undefined;
  readonly epoch?: number | undefined;
  readonly messageId?: string | undefined;
}

/** The attributes of all spans of the library. */
export const spanAttributes: Readonly<Record<keyof SpanFacts | "errorType", string>> = Object.freeze({
  /** What is worked on: `jsonBlob`, `tableEntity`, `lease`, `lock`, `queue`, ... */
  targetKind: "azsc.target.kind",
  /** Where it is, without the query. */
  url: "url.full",
  /** Of a call: how many attempts it took part in. */
  attempts: "azsc.attempts",
  /** Of an attempt: which one it was, from 1. */
  attempt: "azsc.attempt",
  /** How it ended. */
  outcome: "azsc.outcome",
  /** How many requests were made for it, without those that the SDK repeats by itself. Shared ones count for everybody. */
  requests: "azsc.requests",
  /** How long no attempt of the call was under way: it backed off, or stood in line. */
  waitInMs: "azsc.wait_ms",
  /** Of a lock or a term: its number. */
  epoch: "azsc.epoch",
  /** Of a message: its id, which the queue gave it. */
  messageId: "azsc.message.id",
  /** The name of the error that a call threw. */
  errorType: "error.type",
});

/** A span that somebody else ends. */
export type CallSpan = Omit<TracingSpan, "end">;

/**
 * Runs a public call in a span, which costs next to nothing while no instrumenter is registered. What the call
 * throws is logged here.
 */
export async function withSpan<R>(
  name: string,
  options: CallOptions,
  fn: (tracingOptions: OperationTracingOptions | undefined, span: CallSpan) => Promise<R>,
  facts: SpanFacts = {},
): Promise<R> {
  try {
    return await inSpan(name, options, fn, facts);
  } catch (error) {
    logThrown(name, error);
    throw error;
  }
}

/** The same for what nobody has called, and nobody gets the error of. */
export async function inSpan<R>(
  name: string,
  options: CallOptions,
  fn: (tracingOptions: OperationTracingOptions | undefined, span: CallSpan) => Promise<R>,
  facts: SpanFacts = {},
  spanKind: TracingSpanKind = "internal",
): Promise<R> {
  const { span, tracingOptions } = startSpan(name, options.tracingOptions, { spanKind });
  describeSpan(span, facts);
  try {
    // Its status stays unset: that it did not fail is all that OpenTelemetry wants to know, and a message whose handler
    // failed has been dealt with all the same.
    return await client.withContext(tracingOptions.tracingContext, () => fn(tracingOptions, span));
  } catch (error) {
    describeSpan(span, { outcome: options.abortSignal?.aborted ? "aborted" : "failed" });
    failSpan(span, error);
    throw error;
  } finally {
    span.end();
  }
}

/** A span that the caller has to end, and the options of what happens in it. */
export function startSpan(
  name: string,
  parent: OperationTracingOptions | undefined,
  options: TracingSpanOptions = {},
): { span: TracingSpan; tracingOptions: Required<OperationTracingOptions> } {
  const { span, updatedOptions } = client.startSpan(name, parent ? { tracingOptions: parent } : {}, options);
  return { span, tracingOptions: updatedOptions.tracingOptions };
}

export function describeSpan(span: CallSpan, facts: SpanFacts): void {
  for (const [name, value] of Object.entries(facts) as [keyof SpanFacts, string | number | undefined][]) {
    if (value === undefined) continue;
    // Once more, whoever it came from: an URL with its SAS must not get out.
    span.setAttribute(spanAttributes[name], name === "url" ? displayUrl(String(value)) : value);
  }
}

/** Says that it failed. Not the error itself, as the SDK's tracing client would: its message and stack are not ours to show. */
export function failSpan(span: CallSpan, error: unknown): void {
  span.setAttribute(spanAttributes.errorType, errorType(error));
  span.setStatus({ status: "error", error: errorLabel(error) });
}

const logged = new WeakSet();

/** Once for each error, though it may pass through several calls that are made of each other. */
function logThrown(name: string, error: unknown): void {
  if (typeof error === "object" && error !== null) {
    if (logged.has(error)) return;
    logged.add(error);
  }
  const message = `${name} failed: ${errorLabel(error)}`;
  // What the caller's own function threw, or its signal, is no news to it.
  if (isOfStorage(error) || error instanceof TypeError || error instanceof RangeError) logger.warning(message);
  else logger.verbose(message);
}
