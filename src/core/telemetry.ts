import { createTracingClient } from "@azure/core-tracing";
import type { OperationTracingOptions, TracingClient, TracingSpan, TracingSpanOptions } from "@azure/core-tracing";
import { createClientLogger } from "@azure/logger";
import type { AzureLogger } from "@azure/logger";
import type { CallOptions } from "../clients/call.js";

/** For this file and trace-context.ts. */
export const tracingClient: TracingClient = createTracingClient({
  namespace: "Microsoft.Storage",
  packageName: "azure-storage-concurrency",
});

/** The details of a span; see {@link spanAttributes}. */
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

/** The attributes of the library's spans. */
export const spanAttributes: Readonly<Record<keyof SpanDetails | "errorType", string>> = Object.freeze({
  /** The kind of target: `jsonBlob`, `tableEntity`, `lease`, `lock`, `queue`, ... */
  targetKind: "azsc.target.kind",
  /** The URL of the target, without the query. */
  url: "url.full",
  /** Of a call: the number of its attempts. */
  attempts: "azsc.attempts",
  /** Of an attempt: its number, from 1. */
  attempt: "azsc.attempt",
  /** How the call or the attempt ended. */
  outcome: "azsc.outcome",
  /** The number of requests, without the SDK's own retries. A shared request counts for each call that shares it. */
  requests: "azsc.requests",
  /** Of a call: the time in which none of its attempts was in progress, because it backed off or was queued. */
  waitInMs: "azsc.wait_ms",
  /** Of a lock or a term: its epoch. */
  epoch: "azsc.epoch",
  /** Of a message: the id that the queue assigned to it. */
  messageId: "azsc.message.id",
  /** The name of the error that a call threw. */
  errorType: "error.type",
});

/** A span that its creator ends; undefined if the tracer failed to make one. */
export type CallSpan = Omit<TracingSpan, "end"> | undefined;

/**
 * Runs a public call in a span, at almost no cost while no instrumenter is registered. Logs the error that the call throws.
 */
export async function withSpan<R>(
  name: string,
  options: CallOptions,
  fn: (tracingOptions: OperationTracingOptions | undefined, span: CallSpan) => Promise<R>,
  details: SpanDetails = {},
  spanOptions?: TracingSpanOptions,
): Promise<R> {
  try {
    return await inSpan(name, options, fn, details, spanOptions);
  } catch (error) {
    logThrown(name, error);
    throw error;
  }
}

/** Frozen: the SDK spreads it into another object, see {@link withMembers}. */
const internalSpan: TracingSpanOptions = Object.freeze({ spanKind: "internal" });

/** The same for background work: no caller gets the error, and it is not logged here. */
export async function inSpan<R>(
  name: string,
  options: CallOptions,
  fn: (tracingOptions: OperationTracingOptions | undefined, span: CallSpan) => Promise<R>,
  details: SpanDetails = {},
  spanOptions?: TracingSpanOptions,
): Promise<R> {
  // A caller without TypeScript may pass anything: `fn` rejects what is no object of options.
  const given = options as CallOptions | null | undefined;
  const { span, tracingOptions } = startSpan(name, given?.tracingOptions, spanOptions ? { spanKind: "internal", ...spanOptions } : internalSpan);
  describeSpan(span, details);
  try {
    // The status of a success stays unset, as OpenTelemetry recommends. A message whose handler failed counts as processed.
    return await inContext(tracingOptions, () => fn(tracingOptions, span));
  } catch (error) {
    describeSpan(span, { outcome: given?.abortSignal?.aborted ? "aborted" : "failed" });
    failSpan(span, error);
    throw error;
  } finally {
    guard(() => span?.end());
  }
}

/** Runs `fn` with the span as the active one, as far as the tracer lets it. */
function inContext<R>(tracingOptions: OperationTracingOptions | undefined, fn: () => Promise<R>): Promise<R> {
  if (!tracingOptions?.tracingContext) return fn();
  const { tracingContext } = tracingOptions;
  let running: Promise<R> | undefined;
  return guard(() => tracingClient.withContext(tracingContext, () => (running = fn()))) ?? running ?? fn();
}

/** A span that the caller has to end, and the tracing options of the work inside it. */
export function startSpan(
  name: string,
  parent: OperationTracingOptions | undefined,
  options: TracingSpanOptions = {},
): { span: TracingSpan | undefined; tracingOptions: OperationTracingOptions | undefined } {
  const started = guard(() => tracingClient.startSpan(name, parent ? { tracingOptions: parent } : {}, options));
  return { span: started?.span, tracingOptions: started?.updatedOptions.tracingOptions ?? parent };
}

/** Calls the tracer, or the meter: one that throws must change neither the result of a call nor what the library does next. */
export function guard<R>(use: () => R): R | undefined {
  try {
    return use();
  } catch (error) {
    logger.warning(`the tracer or the meter threw: ${errorLabel(error)}`);
    return undefined;
  }
}

export function describeSpan(span: CallSpan, details: SpanDetails): void {
  guard(() => {
    if (!span?.isRecording()) return;
    for (const [name, value] of Object.entries(details) as [keyof SpanDetails, string | number | undefined][]) {
      if (value === undefined) continue;
      // Redacted again, even if the caller has done so: a URL with its SAS must never reach a trace.
      span.setAttribute(spanAttributes[name], name === "url" ? redactUrl(String(value)) : value);
    }
  });
}

/**
 * Marks the span as failed. Does not record the error itself, as the SDK's tracing client would: its message and stack may
 * contain confidential data.
 */
export function failSpan(span: CallSpan, error: unknown): void {
  guard(() => {
    span?.setAttribute(spanAttributes.errorType, errorType(error));
    span?.setStatus({ status: "error", error: errorLabel(error) });
  });
}

const logged = new WeakSet();

/** Logs each error once, although it may pass through several nested calls. */
function logThrown(name: string, error: unknown): void {
  if (typeof error === "object" && error !== null) {
    if (logged.has(error)) return;
    logged.add(error);
  }
  const message = `${name} failed: ${errorLabel(error)}`;
  // The caller knows the errors of its own function and the reason of its own signal.
  if (isStorageError(error) || error instanceof TypeError || error instanceof RangeError) logger.warning(message);
  else logger.verbose(message);
}

/** Measures a call. Neither of its functions throws. */
export interface AttemptObserver {
  attemptEnded(attempts: Attempts, outcome: string, error: unknown): void;
  callEnded(attempts: Attempts, failed: { readonly error: unknown } | undefined): void;
}

/** Runs a call that makes attempts: a span for the call, and one inside it for each attempt. */
export function withAttempts<R>(
  name: string,
  options: CallOptions,
  fn: (attempts: Attempts, span: CallSpan) => Promise<R>,
  details: SpanDetails = {},
  observer?: AttemptObserver,
): Promise<R> {
  return withSpan(
    name,
    options,
    async (tracingOptions, span) => {
      const attempts = new Attempts(name, tracingOptions, span);
      attempts.targetKind = details.targetKind;
      attempts.observer = observer;
      let failed: { readonly error: unknown } | undefined;
      try {
        return await fn(attempts, span);
      } catch (error) {
        failed = { error };
        attempts.end("failed", error);
        throw error;
      } finally {
        attempts.end("done");
        observer?.callEnded(attempts, failed);
        describeSpan(span, attempts.details());
      }
    },
    details,
  );
}

/**
 * The attempts of one call, one after the other. Each has its own span, which contains the SDK's spans of its requests.
 *
 * Calls that are carried out together share an attempt. Its requests can be in one trace only: that of the first call. Each
 * of the other calls also has a span for the attempt, which links to the first call's. So every trace is complete by itself,
 * shows how often its call was attempted, and leads to the requests.
 */
export class Attempts {
  /** Of the call. */
  readonly name: string;
  /** Once the call knows it. */
  targetKind: string | undefined;
  /** Measures the call. */
  observer: AttemptObserver | undefined;
  readonly #call: OperationTracingOptions | undefined;
  readonly #recording: boolean;
  readonly #started = performance.now();
  #count = 0;
  #requests = 0;
  #requestsBefore = 0;
  #inAttemptsInMs = 0;
  /** When the attempt in progress began. */
  #begun: number | undefined;
  #span: TracingSpan | undefined;
  #attempt: OperationTracingOptions | undefined;

  constructor(name: string, call: OperationTracingOptions | undefined, span: CallSpan) {
    this.name = name;
    this.#call = call;
    this.#recording = guard(() => span?.isRecording()) ?? false;
  }

  /** The parent of the next request. */
  get tracingOptions(): OperationTracingOptions | undefined {
    return this.#attempt ?? this.#call;
  }

  /** Whether an attempt is in progress. */
  get isOpen(): boolean {
    return this.#begun !== undefined;
  }

  /** Begins an attempt, unless one is in progress. `shared`: the attempts of the call whose requests also serve this call. */
  begin(shared?: Attempts): void {
    if (this.#begun !== undefined) return;
    this.#begun = performance.now();
    this.#count++;
    this.#requestsBefore = this.#requests;
    if (!this.#recording) return;
    const tracingContext = shared === this ? undefined : shared?.tracingOptions?.tracingContext;
    const { span, tracingOptions } = startSpan(`${this.name}.attempt`, this.#call, tracingContext ? { spanLinks: [{ tracingContext }] } : {});
    describeSpan(span, { attempt: this.#count });
    this.#span = span;
    this.#attempt = tracingOptions;
  }

  /** Ends the attempt in progress, if there is one. A conflict is an outcome, not an error. */
  end(outcome: string, error?: unknown): void {
    if (this.#begun === undefined) return;
    this.#inAttemptsInMs += performance.now() - this.#begun;
    this.#begun = undefined;
    this.observer?.attemptEnded(this, outcome, error);
    const span = this.#span;
    if (!span) return;
    this.#span = undefined;
    this.#attempt = undefined;
    describeSpan(span, { outcome, requests: this.#requests - this.#requestsBefore });
    if (error !== undefined) failSpan(span, error);
    guard(() => span.end());
  }

  /** A request is made for this call. */
  countRequest(): void {
    this.#requests++;
  }

  details(): SpanDetails {
    const waitInMs = Math.max(0, Math.round(performance.now() - this.#started - this.#inAttemptsInMs));
    return { attempts: this.#count, requests: this.#requests, waitInMs };
  }
}

/** Begins a shared attempt of calls that are carried out together. The first call's span contains the requests. */
export function beginTogether(calls: readonly { readonly trace: Attempts }[]): void {
  const [first] = calls;
  for (const call of calls) call.trace.begin(first?.trace);
}

/** Ends the attempts of the calls that are not settled. A settled call has ended its attempt itself. */
export function endUnsettled(calls: readonly { isSettled(): boolean; readonly trace: Attempts }[], outcome: string): void {
  for (const call of calls) if (!call.isSettled()) call.trace.end(outcome);
}

/**
 * The logger of this library, controlled by `AZURE_LOG_LEVEL` or `setLogLevel` like those of the SDKs. Conflicts are verbose,
 * errors that a caller gets are warnings. Logs never contain a payload, a key or a SAS.
 *
 * @example
 * ```ts
 * import { setLogLevel } from "@azure/logger";
 * setLogLevel("verbose"); // also of the SDKs
 * ```
 */
export const logger: AzureLogger = createClientLogger("storage-concurrency");

/**
 * The description of an error in logs and on spans: its name, code and status. Never its message: that of a caller's function
 * may contain payloads, and that of the SDK may contain the URL of the request with its SAS (in a browser it does).
 */
export function errorLabel(error: unknown): string {
  const { code, statusCode } = detailsOf(error);
  const details = [code, statusCode].filter((detail) => isLabel(detail) || typeof detail === "number");
  return details.length > 0 ? `${errorType(error)} (${details.join(", ")})` : errorType(error);
}

/** The name of an error; the type of any other value. */
export function errorType(error: unknown): string {
  const { name } = detailsOf(error);
  return isLabel(name) ? name : typeof error;
}

/** Whether an error comes from the library or the service, and not from the caller's function or signal. */
export function isStorageError(error: unknown): boolean {
  const { name, code, statusCode } = detailsOf(error);
  return typeof statusCode === "number" || name === "RestError" || (isLabel(code) && name !== "AbortError");
}

/** Names and codes are single words. Any other value comes from a caller and is not repeated. */
function isLabel(value: unknown): value is string {
  return typeof value === "string" && /^[\w.:-]{1,80}$/.test(value);
}

function detailsOf(error: unknown): { name?: unknown; code?: unknown; statusCode?: unknown } {
  if (typeof error !== "object" || error === null) return {};
  try {
    const { name, code, statusCode } = error as { name?: unknown; code?: unknown; statusCode?: unknown };
    return { name, code, statusCode };
  } catch {
    // A getter that throws, or a revoked proxy: an application may throw anything.
    return {};
  }
}

/** A URL for messages, spans and logs: without the query, which contains the signature of a SAS. */
export function redactUrl(url: string): string {
  const query = url.indexOf("?");
  return query < 0 ? url : url.slice(0, query);
}
