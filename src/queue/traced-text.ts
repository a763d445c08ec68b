import type { OperationTracingOptions } from "@azure/core-tracing";
import { traceparentOf } from "../core/trace-context.js";
import { byteLength, findEnvelope, maxMessageBytes, sealEnvelope } from "./envelope.js";

/**
 * The text of a message with the `traceparent` of the span that sends it, so that producer, message and handler are one trace. Without
 * an instrumenter, and if there is no room for it, the text stays as it is: a message that can be sent is never rejected for its trace.
 */
export function withTraceparent(text: string, tracingOptions: OperationTracingOptions | undefined): string {
  const traceparent = traceparentOf(tracingOptions);
  const found = traceparent === undefined ? undefined : findEnvelope(text);
  if (!found) return text;
  try {
    const traced = sealEnvelope({ ...found.envelope, traceparent }, found.encoding);
    return byteLength(traced) <= maxMessageBytes ? traced : text;
  } catch {
    // Nested so deeply that it can just be written with less on the stack.
    return text;
  }
}
