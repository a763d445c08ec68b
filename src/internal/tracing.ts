import { createTracingClient } from "@azure/core-tracing";
import type { OperationTracingOptions, TracingSpan } from "@azure/core-tracing";
import type { CallOptions } from "../clients.js";

const client = createTracingClient({
  namespace: "Microsoft.Storage",
  packageName: "azure-storage-concurrency",
});

/** Runs `fn` in a span, which costs next to nothing while no instrumenter is registered. */
export function withSpan<R>(
  name: string,
  options: CallOptions,
  fn: (tracingOptions: OperationTracingOptions | undefined, span: Omit<TracingSpan, "end">) => Promise<R>,
): Promise<R> {
  const { tracingOptions } = options;
  return client.withSpan(name, tracingOptions ? { tracingOptions } : {}, (traced, span) => fn(traced.tracingOptions, span));
}
