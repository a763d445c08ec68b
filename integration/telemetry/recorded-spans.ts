import * as coreTracing from "@azure/core-tracing";
import { createAzureSdkInstrumentation } from "@azure/opentelemetry-instrumentation-azure-sdk";
import { context, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { suppressTracing } from "@opentelemetry/core";
import { InMemorySpanExporter, NodeTracerProvider, type ReadableSpan, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";

/** What the instrumentation does to the module once it is loaded. */
interface Patching {
  init(): { patch(module: unknown): void };
}

/** What a real OpenTelemetry SDK saw. */
export class RecordedSpans {
  readonly #exporter = new InMemorySpanExporter();
  readonly #provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(this.#exporter)] });

  constructor() {
    this.#provider.register();
    // What `registerInstrumentations` does as soon as @azure/core-tracing is loaded, which a test runner does in its own way.
    const instrumentation = createAzureSdkInstrumentation({ enabled: false }) as unknown as Patching;
    instrumentation.init().patch(coreTracing);
  }

  /** Forgets all. */
  clear(): void {
    this.#exporter.reset();
  }

  get all(): readonly ReadableSpan[] {
    return this.#exporter.getFinishedSpans();
  }

  named(name: string): ReadableSpan[] {
    return this.all.filter((span) => span.name === name);
  }

  childrenOf(parent: ReadableSpan): ReadableSpan[] {
    return this.all
      .filter((span) => span.parentSpanContext?.spanId === parent.spanContext().spanId)
      .sort((a, b) => a.startTime[0] - b.startTime[0] || a.startTime[1] - b.startTime[1]);
  }

  /** A span and all that is in it, one per line, indented, with its outcome. Of the SDK's own, only the HTTP requests. */
  tree(root: ReadableSpan, depth = 0): string[] {
    const own = isOurs(root);
    const line = own ? `${root.name}: ${String(root.attributes["azsc.outcome"] ?? "-")}` : root.name;
    const shown = own || root.name.startsWith("HTTP");
    const below = this.childrenOf(root).flatMap((child) => this.tree(child, shown ? depth + 1 : depth));
    return shown ? [`${"  ".repeat(depth)}${line}`, ...below] : below;
  }

  /** The tree of the one span of this name. */
  treeOf(name: string): string[] {
    const [span, ...others] = this.named(name);
    if (!span || others.length > 0) throw new Error(`${others.length + (span ? 1 : 0)} spans are called ${name}`);
    return this.tree(span);
  }

  async stop(): Promise<void> {
    await this.#provider.shutdown();
    trace.disable();
    context.disable();
    coreTracing.useInstrumenter(undefined as never);
  }
}

export function isOurs(span: ReadableSpan): boolean {
  return span.instrumentationScope.name === "azure-storage-concurrency";
}

/** Runs something that no trace is to know of: what somebody else does meanwhile. */
export function unseen<R>(fn: () => R): R {
  return context.with(suppressTracing(context.active()), fn);
}

/** Runs something that is part of no other trace. */
export function alone<R>(fn: () => R): R {
  return context.with(ROOT_CONTEXT, fn);
}
