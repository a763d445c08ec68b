import type { OperationTracingOptions } from "@azure/core-tracing";
import { RenewalLoop } from "../core/renewal.js";
import type { Renewal } from "../core/renewal.js";
import { fullJitter, retry } from "../core/retry.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { InboxClaim } from "./inbox/inbox.js";
import { renewHalfway } from "./message-lease.js";

/** The handler has ended: the consumer should not wait long for a response. */
const releaseTimeoutInMs = 5_000;
const completeTimeoutInMs = 30_000;

/** What a {@link ClaimLease} needs besides the claim. */
export interface ClaimLeaseOptions {
  /** Started before the message was received: however long the claim took, it cannot have been written before. */
  readonly clock: Clock;
  readonly claimDurationInMs: number;
  /** Aborts when no request may be in flight any more. */
  readonly dropAll: AbortSignal;
  readonly onLost: (error: unknown) => void;
}

/**
 * A claim in an inbox, renewed until the handler ends. The inbox is only asked; the time is measured here, from before each
 * request was sent, so that a claim never counts as held for longer than the inbox keeps it.
 */
export class ClaimLease {
  tracingOptions: OperationTracingOptions | undefined;
  readonly #claim: InboxClaim;
  readonly #options: ClaimLeaseOptions;
  readonly #loop: RenewalLoop;
  readonly #ended = new AbortController();
  /** Started before the first renewal since the last one that was confirmed. */
  #unconfirmed: Clock | undefined;

  constructor(claim: InboxClaim, options: ClaimLeaseOptions) {
    this.#claim = claim;
    this.#options = options;
    this.#loop = new RenewalLoop(
      { renew: (timeoutInMs) => this.#renew(timeoutInMs), onLost: options.onLost },
      options.clock,
      options.claimDurationInMs,
      renewHalfway,
    );
  }

  /** Reports a loss that it detects from the clock. */
  isHeld(): boolean {
    return this.#loop.isHeld();
  }

  /**
   * Retries as long as the message is held: work that is done must not be repeated because the inbox cannot be reached. False: another
   * consumer has taken over, or the time is over.
   */
  async complete(remainingInMs: () => number, onFailure: (error: unknown) => void): Promise<boolean> {
    try {
      const completeOnce = async (): Promise<boolean> => {
        const timeoutInMs = Math.max(1, Math.min(completeTimeoutInMs, remainingInMs() / 2));
        return check("complete", "completed", await this.#call((claim, request) => claim.complete(request), timeoutInMs));
      };
      return await retry(completeOnce, {
        maxAttempts: Infinity,
        onFailure,
        shouldRetry: () => remainingInMs() > 0,
        backoff: (attempt) => fullJitter(attempt - 1, 100, 5_000),
        abortSignal: this.#options.dropAll,
      });
    } catch {
      return false;
    }
  }

  /** Lets other messages with the same key start at once. Best effort: the claim expires otherwise. */
  async release(failed: boolean): Promise<void> {
    this.#loop.stop();
    await this.#call((claim, request) => claim.release(failed, request), releaseTimeoutInMs);
  }

  /** Stops the renewals, and cuts off the requests in flight. */
  end(): void {
    this.#loop.stop();
    this.#ended.abort();
  }

  /** The next renewal may find that one whose response was lost was carried out: the time counts from the first of them. */
  async #renew(timeoutInMs: number): Promise<Renewal> {
    const clock = (this.#unconfirmed ??= startStopwatch());
    const renewed = check("renew", "renewed", await this.#call((claim, request) => claim.renew(request), timeoutInMs));
    if (!renewed) return { kind: "lost", error: new Error("another consumer has taken over the inbox record") };
    this.#unconfirmed = undefined;
    return { kind: "renewed", clock, claimDurationInMs: this.#options.claimDurationInMs };
  }

  #call<R>(call: (claim: InboxClaim, request: Parameters<InboxClaim["renew"]>[0]) => Promise<R>, timeoutInMs: number): Promise<R> {
    return callInbox((request) => call(this.#claim, request), {
      timeoutInMs,
      tracingOptions: this.tracingOptions,
      abortSignals: [this.#ended.signal, this.#options.dropAll],
    });
  }
}

/** An inbox without types may return anything. What it means is unknown, so it is a failure, which is retried. */
function check<R extends string>(method: string, success: R, result: R | "lost"): boolean {
  if (result === success || result === "lost") return result === success;
  throw new TypeError(`Inbox: ${method} of a claim must return "${success}" or "lost"; got ${JSON.stringify(result)}`);
}
