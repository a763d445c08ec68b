import type { OperationTracingOptions } from "@azure/core-tracing";
import { startStopwatch } from "./deadline.js";
import { read } from "./request.js";
import type { RequestLimits } from "./request.js";

interface Running<R> {
  readonly promise: Promise<R>;
  readonly controller: AbortController;
  callers: number;
  failed: boolean;
}

/**
 * One operation for all callers that need its result at the same time. A caller that is cancelled, or whose time is over, leaves
 * without an effect on the others; when the last one leaves, the operation is aborted. A failure is the error of the caller that
 * started the operation; the next one tries for itself. A result is not kept: a caller that comes after the end starts again.
 */
export class SharedRun<R> {
  readonly #start: (abortSignal: AbortSignal, tracingOptions: OperationTracingOptions | undefined) => Promise<R>;
  #running: Running<R> | undefined;

  /** @param start - Gets the tracing options of the caller that starts it. */
  constructor(start: (abortSignal: AbortSignal, tracingOptions: OperationTracingOptions | undefined) => Promise<R>) {
    this.#start = start;
  }

  async join({ timeoutInMs = Infinity, abortSignal }: Pick<RequestLimits, "timeoutInMs" | "abortSignal">, tracingOptions?: OperationTracingOptions): Promise<R> {
    const elapsedInMs = startStopwatch();
    for (;;) {
      const others = this.#running;
      const running = others ?? (this.#running = this.#begin(tracingOptions));
      running.callers++;
      try {
        return await read(() => running.promise, { abortSignal, timeoutInMs: Math.max(1, timeoutInMs - elapsedInMs()) });
      } catch (error) {
        if (!others || !running.failed) throw error;
      } finally {
        running.callers--;
        if (running.callers === 0) this.#end(running);
      }
    }
  }

  #begin(tracingOptions: OperationTracingOptions | undefined): Running<R> {
    const controller = new AbortController();
    const running = { promise: this.#start(controller.signal, tracingOptions), controller, callers: 0, failed: false };
    running.promise.then(
      () => this.#end(running),
      () => {
        running.failed = true;
        this.#end(running);
      },
    );
    return running;
  }

  /** It has ended, or no caller waits for it any more. */
  #end(running: Running<R>): void {
    if (this.#running === running) this.#running = undefined;
    if (running.callers === 0) running.controller.abort();
  }
}
