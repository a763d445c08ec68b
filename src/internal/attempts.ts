import type { OperationTracingOptions, TracingSpan } from "@azure/core-tracing";
import type { CallOptions } from "../clients.js";
import { describeSpan, failSpan, startSpan, withSpan } from "./tracing.js";
import type { CallSpan, SpanFacts } from "./tracing.js";

/** Runs a call that makes attempts: a span for the call, and one inside it for each attempt. */
export function withAttempts<R>(
  name: string,
  options: CallOptions,
  fn: (attempts: Attempts, span: CallSpan) => Promise<R>,
  facts: SpanFacts = {},
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

  /** Begins an attempt, unless one is under way. `shared`: the one whose requests are for this one, too. */
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

  facts(): SpanFacts {
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
export function endUnsettled(calls: readonly { readonly settled: boolean; readonly trace: Attempts }[], outcome: string): void {
  for (const call of calls) if (!call.settled) call.trace.end(outcome);
}
