import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients.js";
import { PendingCall } from "../core/pending-call.js";
import { startStopwatch } from "../core/stopwatch.js";
import type { Attempts } from "../core/telemetry.js";
import { LeaseUnavailableError } from "../errors.js";
import type { HeldLease } from "./held-lease.js";

/** The number of one holder of a named lock. */
export interface FencingToken {
  readonly epoch: number;
  /** The smallest number that the holder before may have had: not all reserved numbers were used. */
  readonly previousEpoch: number;
}

/** A lease that a caller has been given: the lease, its fencing token if it has one, and how to release it. */
export interface LeaseGrant {
  readonly lease: HeldLease;
  readonly token: FencingToken | undefined;
  readonly release: () => Promise<void>;
}

/** What to acquire, and how long to wait for it: `"try"` makes one attempt and does not wait. */
export interface AcquireRequest extends CallOptions {
  /** For messages: `the lease on ...`. */
  readonly what: string;
  readonly url: string;
  /** What to do about a holder that does not release it. */
  readonly advice?: string | undefined;
  readonly waitInMs: number | "try";
  /** Records the attempts that are made for this request. */
  readonly trace?: Attempts | undefined;
  /** Parent of the requests that renew and release the lease later. */
  readonly holderTracing?: OperationTracingOptions | undefined;
}

/** One caller that wants a lease: settles with the lease, without it (undefined), or with an error. */
export class LeaseWaiter extends PendingCall<LeaseGrant | undefined> {
  readonly holderTracing: OperationTracingOptions | undefined;
  readonly #request: AcquireRequest;
  readonly #waitedInMs = startStopwatch();
  #attempted = false;
  #overdue = false;
  #lastFailure: unknown;

  constructor(request: AcquireRequest) {
    const { waitInMs, abortSignal, tracingOptions, trace } = request;
    super({ timeoutInMs: waitInMs === "try" ? Infinity : waitInMs, abortSignal, tracingOptions, trace });
    this.#request = request;
    this.holderTracing = request.holderTracing ?? tracingOptions;
  }

  /** An attempt was made for all waiters, and did not acquire the lease: it is taken, or the request failed. */
  attempted(failure?: unknown): void {
    this.#attempted = true;
    this.#lastFailure = failure;
    if (this.#overdue) this.#giveUp();
    else if (this.#request.waitInMs === "try") {
      if (failure !== undefined) this.reject(failure);
      else this.resolve(undefined, "taken");
    }
  }

  /** `waitInMs` is for a lease that another client holds: whether one does is not known before the first response. */
  protected override onTimeout(): void {
    if (this.#attempted) this.#giveUp();
    else this.#overdue = true;
  }

  #giveUp(): void {
    const { what, url, waitInMs, advice } = this.#request;
    const why =
      this.#lastFailure === undefined
        ? `somebody else holds ${what}, and still did after ${waitInMs} ms (waitInMs)${advice ? `: ${advice}` : ""}`
        : `${what} could not be acquired within ${waitInMs} ms (waitInMs): the last request failed`;
    this.reject(new LeaseUnavailableError(why, { url, waitedInMs: this.#waitedInMs(), cause: this.#lastFailure }));
  }
}
