import type { OperationTracingOptions } from "@azure/core-tracing";
import { RenewalLoop } from "../core/renewal.js";
import type { Renewal } from "../core/renewal.js";
import { fullJitter, retry } from "../core/retry.js";
import { startStopwatch } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { checkClaimResult } from "./claim-batch.js";
import { callInbox } from "./inbox/call-inbox.js";
import type { InboxClaim, InboxDelivery, InboxHandOver } from "./inbox/inbox.js";
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
  /** Completed, or a release was sent. */
  #settled = false;
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
   * Retries as long as the message is held: work that is done must not be repeated because the inbox cannot be reached. Undefined: another
   * consumer has taken over, or the time is over.
   * @param next - Another message of the group, to be claimed in the same step if the inbox can do that.
   */
  async complete(remainingInMs: () => number, onFailure: (error: unknown) => void, next?: InboxDelivery): Promise<InboxHandOver | undefined> {
    try {
      const completeOnce = async (): Promise<InboxHandOver | undefined> => {
        const timeoutInMs = Math.max(1, Math.min(completeTimeoutInMs, remainingInMs() / 2));
        const result = await this.#call<"completed" | "lost" | InboxHandOver>(
          (claim, request) => (next && claim.completeAndClaim ? claim.completeAndClaim(next, request) : claim.complete(request)),
          timeoutInMs,
        );
        if (typeof result === "object") return checkHandOver(result);
        return check("complete", "completed", result) ? { next: undefined } : undefined;
      };
      const result = await retry(completeOnce, {
        maxAttempts: Infinity,
        onFailure,
        shouldRetry: () => remainingInMs() > 0,
        backoff: (attempt) => fullJitter(attempt - 1, 100, 5_000),
        abortSignal: this.#options.dropAll,
      });
      this.#settled = result !== undefined;
      return result;
    } catch {
      return undefined;
    }
  }

  /** Lets other messages with the same key start at once. Best effort: the claim expires otherwise. */
  async release(failed: boolean): Promise<void> {
    this.#settled = true;
    this.#loop.stop();
    await this.#call((claim, request) => claim.release(failed, request), releaseTimeoutInMs);
  }

  /**
   * Releases it unless it was completed or released: for a claim with a group, for which other messages wait. (A claim without one stays:
   * the next delivery of its message takes it over.)
   */
  async releaseUnsettled(): Promise<void> {
    if (!this.#settled) await this.release(false);
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

/** No message may be handled on a claim that is not there. */
function checkHandOver({ next }: InboxHandOver): InboxHandOver {
  return { next: next && checkClaimResult("completeAndClaim", next) };
}

/** An inbox without types may return anything. What it means is unknown, so it is a failure, which is retried. */
function check<R extends string>(method: string, success: R, result: R | "lost"): boolean {
  if (result === success || result === "lost") return result === success;
  throw new TypeError(`Inbox: ${method} of a claim must return "${success}" or "lost"; got ${JSON.stringify(result)}`);
}
