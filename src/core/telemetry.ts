import { createTracingClient } from "@azure/core-tracing";
import type { OperationTracingOptions, TracingClient, TracingSpan, TracingSpanKind, TracingSpanOptions } from "@azure/core-tracing";
import { createClientLogger } from "@azure/logger";
import type { AzureLogger } from "@azure/logger";
import type { CallOptions } from "../clients/call.js";

const client: TracingClient = createTracingClient({
  namespace: "Microsoft.Storage",
  packageName: "azure-storage-concurrency",
});

/** What is known of a span; see {@link spanAttributes}. */
export interface SpanDetails {
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
export const spanAttributes: Readonly<Record<keyof SpanDetails | "errorType", string>> = Object.freeze({
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
  facts: SpanDetails = {},
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
  facts: SpanDetails = {},
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

export function describeSpan(span: CallSpan, facts: SpanDetails): void {
  for (const [name, value] of Object.entries(facts) as [keyof SpanDetails, string | number | undefined][]) {
    if (value === undefined) continue;
    // Once more, whoever it came from: an URL with its SAS must not get out.
    span.setAttribute(spanAttributes[name], name === "url" ? redactUrl(String(value)) : value);
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

/** Runs a call that makes attempts: a span for the call, and one inside it for each attempt. */
export function withAttempts<R>(
  name: string,
  options: CallOptions,
  fn: (attempts: Attempts, span: CallSpan) => Promise<R>,
  facts: SpanDetails = {},
): Promise<R> {
  return withSpan(
    name,
    options,
    async (tracingOptions, span) => {
      const attempts = new Attempts(name, tracingOptions, span);
      try {
        return await fn(attempts, span);
      } catch (error) {
        attempts.end("failed", error);
        throw error;
      } finally {
        attempts.end("done");
        describeSpan(span, attempts.facts());
      }
    },
    facts,
  );
}

/**
 * The attempts of one call, one after the other, each with a span of its own in which the SDK's spans of its requests
 * are.
 *
 * Calls that are carried out together share an attempt. Its requests can be in one trace only, that of the call that
 * comes first; but each of the others has a span for it too, which links to that one: so every trace is complete by
 * itself, tells how often its call was tried, and leads to the requests.
 */
export class Attempts {
  readonly #name: string;
  readonly #call: OperationTracingOptions | undefined;
  readonly #recording: boolean;
  readonly #started = performance.now();
  #count = 0;
  #requests = 0;
  #requestsBefore = 0;
  #inAttemptsInMs = 0;
  /** When the attempt under way was begun. */
  #begun: number | undefined;
  #span: TracingSpan | undefined;
  #attempt: Required<OperationTracingOptions> | undefined;

  constructor(name: string, call: OperationTracingOptions | undefined, span: CallSpan | undefined) {
    this.#name = name;
    this.#call = call;
    this.#recording = span?.isRecording() ?? false;
  }

  /** Parent of what is requested now. */
  get tracingOptions(): OperationTracingOptions | undefined {
    return this.#attempt ?? this.#call;
  }

  /** Whether an attempt is in progress. */
  get isOpen(): boolean {
    return this.#begun !== undefined;
  }

  /** Begins an attempt, unless one is in progress. `shared`: the one whose requests are for this one, too. */
  begin(shared?: Attempts): void {
    if (this.#begun !== undefined) return;
    this.#begun = performance.now();
    this.#count++;
    this.#requestsBefore = this.#requests;
    if (!this.#recording) return;
    const tracingContext = shared === this ? undefined : shared?.tracingOptions?.tracingContext;
    const { span, tracingOptions } = startSpan(`${this.#name}.attempt`, this.#call, tracingContext ? { spanLinks: [{ tracingContext }] } : {});
    describeSpan(span, { attempt: this.#count });
    this.#span = span;
    this.#attempt = tracingOptions;
  }

  /** Ends the attempt that is under way, if there is one. A lost race is an outcome, not an error. */
  end(outcome: string, error?: unknown): void {
    if (this.#begun === undefined) return;
    this.#inAttemptsInMs += performance.now() - this.#begun;
    this.#begun = undefined;
    const span = this.#span;
    if (!span) return;
    this.#span = undefined;
    this.#attempt = undefined;
    describeSpan(span, { outcome, requests: this.#requests - this.#requestsBefore });
    if (error !== undefined) failSpan(span, error);
    span.end();
  }

  /** A request is made for this call. */
  countRequest(): void {
    this.#requests++;
  }

  facts(): SpanDetails {
    const waitInMs = Math.max(0, Math.round(performance.now() - this.#started - this.#inAttemptsInMs));
    return { attempts: this.#count, requests: this.#requests, waitInMs };
  }
}

/** Begins a shared attempt of calls that are carried out together: the first one's is the one with the requests. */
export function beginTogether(calls: readonly { readonly trace: Attempts }[]): void {
  const [first] = calls;
  for (const call of calls) call.trace.begin(first?.trace);
}

/** The attempts of those that have a result have ended with it. */
export function endUnsettled(calls: readonly { isSettled(): boolean; readonly trace: Attempts }[], outcome: string): void {
  for (const call of calls) if (!call.isSettled()) call.trace.end(outcome);
}

/**
 * Logs of this library, switched by `AZURE_LOG_LEVEL` or `setLogLevel` as those of the SDKs. Lost races are
 * verbose, errors that a caller gets are warnings. Never a payload, a key or a SAS.
 */
export const logger: AzureLogger = createClientLogger("storage-concurrency");

/**
 * What may be said of any error in logs and on spans: its name, code and status. Never its message: that of a
 * caller's function may speak of payloads, and that of the SDK may quote the URL of the request with its SAS (in a
 * browser it does).
 */
export function errorLabel(error: unknown): string {
  const { code, statusCode } = factsOf(error);
  const facts = [code, statusCode].filter((fact) => isLabel(fact) || typeof fact === "number");
  return facts.length > 0 ? `${errorType(error)} (${facts.join(", ")})` : errorType(error);
}

/** The name of an error; for what is no error, its type. */
export function errorType(error: unknown): string {
  const { name } = factsOf(error);
  return isLabel(name) ? name : typeof error;
}

/** Whether the caller got this from the library or the service, and not from a function or a signal of its own. */
export function isOfStorage(error: unknown): boolean {
  const { name, code, statusCode } = factsOf(error);
  return typeof statusCode === "number" || name === "RestError" || (isLabel(code) && name !== "AbortError");
}

/** Names and codes are single words. Whatever else a caller has put there is not repeated. */
function isLabel(value: unknown): value is string {
  return typeof value === "string" && /^[\w.:-]{1,80}$/.test(value);
}

function factsOf(error: unknown): { name?: unknown; code?: unknown; statusCode?: unknown } {
  return typeof error === "object" && error !== null ? error : {};
}

/** A URL as it may appear in messages, spans and logs: without the query, where a SAS has its signature. */
export function redactUrl(url: string): string {
  const query = url.indexOf("?");
  return query < 0 ? url : url.slice(0, query);
}
