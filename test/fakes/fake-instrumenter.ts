import type { Instrumenter, InstrumenterSpanOptions, SpanStatus, TracingContext, TracingSpan } from "@azure/core-tracing";

export interface FakeSpan {
  readonly name: string;
  readonly parent: FakeSpan | undefined;
  readonly links: readonly (FakeSpan | undefined)[];
  readonly kind: string | undefined;
  readonly attributes: Record<string, unknown>;
  status: SpanStatus | undefined;
  ended: boolean;
}

class FakeContext implements TracingContext {
  readonly span: FakeSpan | undefined;
  readonly #values: ReadonlyMap<symbol, unknown>;

  constructor(span: FakeSpan | undefined, values: ReadonlyMap<symbol, unknown> = new Map()) {
    this.span = span;
    this.#values = values;
  }

  setValue(key: symbol, value: unknown): FakeContext {
    return new FakeContext(this.span, new Map(this.#values).set(key, value));
  }
  getValue(key: symbol): unknown {
    return this.#values.get(key);
  }
  deleteValue(): this {
    return this;
  }
}

/** Keeps all spans in memory. */
export class FakeInstrumenter implements Instrumenter {
  readonly spans: FakeSpan[] = [];
  recording = true;

  startSpan(name: string, options: InstrumenterSpanOptions): { span: TracingSpan; tracingContext: TracingContext } {
    const span: FakeSpan = {
      name,
      parent: spanOf(options.tracingContext),
      links: (options.spanLinks ?? []).map((link) => spanOf(link.tracingContext)),
      kind: options.spanKind,
      attributes: { ...options.spanAttributes },
      status: undefined,
      ended: false,
    };
    this.spans.push(span);
    const handle: TracingSpan = {
      setStatus: (status) => (span.status = status),
      setAttribute: (key, value) => (span.attributes[key] = value),
      end: () => (span.ended = true),
      recordException: () => undefined,
      isRecording: () => this.recording,
    };
    return { span: handle, tracingContext: new FakeContext(span) };
  }
  withContext<A extends unknown[], C extends (...args: A) => ReturnType<C>>(_context: TracingContext, callback: C, ...args: A): ReturnType<C> {
    return callback(...args);
  }
  parseTraceparentHeader(): undefined {
    return undefined;
  }
  createRequestHeaders(): Record<string, string> {
    return {};
  }
}

function spanOf(context: TracingContext | undefined): FakeSpan | undefined {
  return context instanceof FakeContext ? context.span : undefined;
}
