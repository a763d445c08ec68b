import type { OperationTracingOptions } from "@azure/core-tracing";
import { errorLabel, logger } from "../core/telemetry.js";
import { createError, isConcurrencyError, LeaseLostError } from "../errors.js";
import { checkLeaseId } from "./held-lease.js";
import type { HeldLease } from "./held-lease.js";

/** Identifies one holder of a named lock. */
export interface FencingToken {
  readonly epoch: number;
  /** The smallest epoch that the previous holder may have had: not all reserved epochs are used. */
  readonly previousEpoch: number;
}

/** A lease granted to a caller: the lease, its fencing token if it has one, and how to release it. */
export interface LeaseGrant {
  readonly lease: HeldLease;
  readonly token: FencingToken | undefined;
  readonly release: () => Promise<void>;
}

/** A lease that one holder has acquired. Returned by `acquireLease`, and passed to the function of `withLease`. */
export class LeaseHandle implements AsyncDisposable {
  readonly url: string;
  readonly #lease: HeldLease;
  readonly #controller = new AbortController();
  readonly #release: () => Promise<void>;
  readonly #offLost: () => void;
  #released = false;
  #releasing: Promise<void> | undefined;
  /** @internal */
  onReleased: (() => void) | undefined;
  /** @internal Whether it may have been taken over from a holder that died. */
  wasTakenOver = false;

  /** @internal */
  constructor(lease: HeldLease, release: () => Promise<void>) {
    this.url = lease.url;
    this.#lease = lease;
    this.#release = release;
    this.#offLost = lease.onLost((error) => this.#controller.abort(error));
    // It may have been lost before the listener was added.
    const lost = lease.check();
    if (lost) this.#controller.abort(lost);
  }

  /** @internal The parent of the spans of renewals and of the release: not the call that acquired the lease. */
  setTracingParent(tracingOptions: OperationTracingOptions | undefined): void {
    this.#lease.tracingOptions = tracingOptions;
  }

  get leaseId(): string {
    return this.#lease.leaseId;
  }

  /** The condition that a request must carry: pass it as `conditions`; with Azure Files, as `leaseAccessConditions`. */
  get conditions(): { leaseId: string } {
    return { leaseId: this.leaseId };
  }

  /** Aborts when the lease is lost, a safety margin before it can have expired. Its `reason` is the `LeaseLostError`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** How long the lease is certainly held if it is not renewed; 0 once it is lost or released. */
  get remainingInMs(): number {
    return this.#released ? 0 : this.#lease.remainingInMs;
  }

  /** Throws the `LeaseLostError` if the lease is not held at this moment. Reads the clock, and sends no request. */
  assertHeld(): void {
    const lost = this.#lease.check();
    if (lost) throw lost;
    if (this.#released) {
      throw createError(LeaseLostError, `the lease on ${this.url} was released`, { url: this.url, reason: "expired" });
    }
  }

  /** Extends the lease now. For `autoRenew: false`, or before a long operation. */
  async renew(): Promise<void> {
    this.assertHeld();
    await this.#lease.renew();
  }

  /** Changes the id of the lease, to a new random one by default. Afterwards the service rejects requests with the old id. */
  async change(proposedLeaseId: string = crypto.randomUUID()): Promise<void> {
    checkLeaseId("proposedLeaseId", proposedLeaseId);
    this.assertHeld();
    await this.#lease.change(proposedLeaseId);
  }

  /** @internal The lease will be released, not handed over: the service then rejects late requests that carry its id. */
  doNotReuse(): void {
    this.#lease.reusable = false;
  }

  /**
   * Releases the lease, or hands it over to the next waiter in this process. Idempotent. Rejects if the release failed (the
   * lease then expires; if it never expires, the error is a `LeaseReleaseError`, and the release is retried in the background),
   * or with the `LeaseLostError` if it turns out that the lease had been lost before.
   */
  release(): Promise<void> {
    this.#releasing ??= this.#releaseOnce().catch((error: unknown) => {
      // The release failed: the caller may try again. An infinite lease would stay forever.
      if (!isConcurrencyError(error, "LEASE_LOST")) this.#releasing = undefined;
      throw error;
    });
    this.#released = true;
    return this.#releasing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => {
      logger.warning(`the lease on ${this.url} could not be released: ${errorLabel(error)}`);
    });
  }

  async #releaseOnce(): Promise<void> {
    const known = this.#controller.signal.aborted;
    const lost = this.#lease.check();
    try {
      await this.#release();
    } finally {
      // A later loss concerns the next holder, not this one.
      this.#offLost();
      this.onReleased?.();
    }
    if (lost && !known) throw lost;
  }
}

/** A named lock that is held. */
export class LockHandle extends LeaseHandle {
  readonly name: string;
  /**
   * The fencing token: larger than that of every earlier holder. A receiver that remembers the largest token it has seen, and
   * rejects smaller ones, is safe from a holder that does not know yet that it lost the lock.
   */
  readonly epoch: number;
  /**
   * The smallest epoch that the previous holder may have had; 0 if there was none. Epochs are reserved for the waiters of a
   * process, and not all of them are used.
   */
  readonly previousEpoch: number;

  /** @internal */
  constructor(name: string, grant: LeaseGrant) {
    super(grant.lease, grant.release);
    this.name = name;
    if (!grant.token) throw new TypeError("a lock without a number");
    this.epoch = grant.token.epoch;
    this.previousEpoch = grant.token.previousEpoch;
  }
}
