import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, AdapterRequest } from "../../clients/call.js";
import { Deadline, RequestTimeoutError } from "../../core/deadline.js";

/** The limits of one call of an inbox. */
export interface InboxCallLimits {
  readonly timeoutInMs?: number | undefined;
  readonly tracingOptions?: OperationTracingOptions | undefined;
  readonly abortSignals: readonly (AbortSignalLike | undefined)[];
}

/** Calls an inbox that an application may have written. Raced: it may ignore its signal, or never settle. */
export async function callInbox<R>(call: (request: AdapterRequest) => Promise<R>, limits: InboxCallLimits): Promise<R> {
  const { timeoutInMs = Infinity, tracingOptions = {}, abortSignals } = limits;
  const limit = new Deadline(timeoutInMs, () => new RequestTimeoutError(timeoutInMs, "the inbox did not respond"), ...abortSignals);
  if (limit.signal.aborted) throw limit.signal.reason;
  try {
    return await limit.race(call({ abortSignal: limit.signal, tracingOptions }));
  } finally {
    limit.dispose();
  }
}
