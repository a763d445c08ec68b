import type { OperationTracingOptions, TracingSpanOptions } from "@azure/core-tracing";
import { guard, tracingClient } from "./telemetry.js";

/** W3C Trace Context, version 00. Its writers must write lower case; ids of zeros are invalid. */
const format = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** What follows of a trace across processes: the `traceparent` of the span in these options. Undefined: no instrumenter is registered, or it does not tell. */
export function traceparentOf(tracingOptions: OperationTracingOptions | undefined): string | undefined {
  const tracingContext = tracingOptions?.tracingContext;
  return tracingContext && checked(guard(() => tracingClient.createRequestHeaders(tracingContext)["traceparent"]));
}

/**
 * The options of a span that continues the trace of another process. Any program may have written the `traceparent`: one that does not
 * have the format is ignored, and no tracer gets to see it.
 *
 * If a span is active already, the new span links to it: a span has one parent.
 */
export function continueTrace(traceparent: unknown): { readonly tracingOptions?: OperationTracingOptions; readonly spanLinks?: TracingSpanOptions["spanLinks"] } {
  const valid = checked(traceparent);
  const tracingContext = valid === undefined ? undefined : contextOf(valid);
  if (!tracingContext) return {};
  const active = checked(guard(() => tracingClient.createRequestHeaders()["traceparent"]));
  const activeContext = active === undefined ? undefined : contextOf(active);
  return { tracingOptions: { tracingContext }, ...(activeContext && { spanLinks: [{ tracingContext: activeContext }] }) };
}

function contextOf(traceparent: string): OperationTracingOptions["tracingContext"] {
  return guard(() => tracingClient.parseTraceparentHeader(traceparent));
}

function checked(traceparent: unknown): string | undefined {
  return typeof traceparent === "string" && traceparent.length === 55 && format.test(traceparent) ? traceparent : undefined;
}
