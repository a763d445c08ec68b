import type { OperationTracingOptions } from "@azure/core-tracing";
import { errorLabel, logger } from "../core/telemetry.js";
import { isLeaseLostError, LeaseLostError } from "../errors.js";
import { checkLeaseId } from "./held-lease.js";
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

/** A lease that is held, by one holder. Made by `acquireLease`, and given to the function of `withLease`. */
export class LeaseGuard implements AsyncDisposable {
  readonly url: string;
  readonly #lease: HeldLease;
  readonly #controller = new AbortController();
  readonly #release: () => Promise<void>;
  readonly #offLost: () => void;
  #released = false;
  #releasing: Promise<void> | undefined;
  /** @internal */
  onReleased: (() => void) | undefined;
  /** @internal Whether it was taken over from a holder that died. */
  wasTakenOver = false;

  /** @internal */
  constructor(lease: HeldLease, release: () => Promise<void>) {
    this.url = lease.url;
    this.#lease = lease;
    this.#release = release;
    this.#offLost = lease.onLost((error) => this.#controller.abort(error));
    // It may have been lost on the way here, when nobody listened yet.
    const lost = lease.check();
    if (lost) this.#controller.abort(lost);
  }

  /** @internal Whose renewals and release these are, for the traces: not those of the call that acquired it. */
  setTracingParent(tracingOptions: OperationTracingOptions | undefined): void {
    this.#lease.tracingOptions = tracingOptions;
  }

  get leaseId(): string {
    return this.#lease.leaseId;
  }

  /** What a request has to carry: pass it as its `conditions`; with Azure Files, as its `leaseAccessConditions`. */
  get conditions(): { leaseId: string } {
    return { leaseId: this.leaseId };
  }

  /** Aborts when the lease is lost, a margin before it can have expired. Its `reason` is the `LeaseLostError`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** How long the lease is certainly held if it is not renewed; 0 once it is lost or released. */
  get remainingInMs(): number {
    return this.#released ? 0 : this.#lease.remainingInMs;
  }

  /** Throws the `LeaseLostError` if the lease is not held at this moment. Asks the clock, not the network. */
  assertHeld(): void {
    const lost = this.#lease.check();
    if (lost) throw lost;
    if (this.#released) {
      throw new LeaseLostError(`the lease on ${this.url} was released`, { url: this.url, reason: "expired" });
    }
  }

  /** Extends the lease now. For `autoRenew: false`, or before something that takes long. */
  async renew(): Promise<void> {
    this.assertHeld();
    await this.#lease.renew();
  }

  /** Gives the lease another id, a fresh one by default; whoever has the old one can do nothing with it any more. */
  async change(proposedLeaseId: string = crypto.randomUUID()): Promise<void> {
    checkLeaseId("proposedLeaseId", proposedLeaseId);
    this.assertHeld();
    await this.#lease.change(proposedLeaseId);
  }

  /** @internal It will be released, and not handed on: what was sent under its id, and may still arrive, is refused then. */
  doNotReuse(): void {
    this.#lease.reusable = false;
  }

  /**
   * Gives the lease back, or on to the next one who waits for it in this process. Again and again is the same as
   * once. Rejects if the service could not be told (the lease runs out then; if it never does, that is a
   * `LeaseLeftError`, and it is tried again in the background), or with the `LeaseLostError`, if it turns out that the
   * lease had been lost before.
   */
  release(): Promise<void> {
    this.#releasing ??= this.#releaseOnce().catch((error: unknown) => {
      // The service could not be told: whoever wants to can try again. An infinite lease would stay for ever.
      if (!isLeaseLostError(error)) this.#releasing = undefined;
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
      // What happens to the lease in the hands of the next one is not this holder's business.
      this.#offLost();
      this.onReleased?.();
    }
    if (lost && !known) throw lost;
  }
}

/** A named lock that is held. */
export class LockGuard extends LeaseGuard {
  readonly name: string;
  /**
   * The fencing token: larger than that of every holder before. Whatever remembers the largest it has seen, and
   * refuses smaller ones, is safe from a holder that does not know yet that it lost the lock.
   */
  readonly epoch: number;
  /**
   * The smallest epoch that the holder before may have had; 0 if there was none. Numbers are reserved for those who
   * wait in a process, and not all of them are used.
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
