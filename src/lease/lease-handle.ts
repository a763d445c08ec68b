import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients/call.js";
import { recorder } from "../core/measure.js";
import { observed } from "../core/pending-call.js";
import { read } from "../core/request.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { createError, isConcurrencyError, LeaseLostError } from "../errors.js";
import type { HeldLease } from "./held-lease.js";
import type { Hold } from "../core/hold-context.js";
import { checkLeaseId } from "./lease-adapters.js";

/**
 * The common part of everything that is held: leases, locks, sets of locks, locked tables. Locks of other libraries can be used
 * where this type is expected; see {@link LockProviderLike}.
 * @example
 * ```ts
 * async function work(lock: LockHandleLike): Promise<void> {
 *   for (const item of items) {
 *     lock.assertHeld();
 *     await process(item, { abortSignal: lock.signal });
 *   }
 * }
 * ```
 */
export interface LockHandleLike {
  /**
   * Aborts when the lock is lost, a margin before the service can give it to another holder, with the `LeaseLostError` as its
   * reason; and with an `AbortError` when it is released.
   */
  readonly signal: AbortSignal;
  /**
   * Checks the clock, and sends no request.
   * @throws {@link LeaseLostError} if it is not held at this moment: it is lost, or was released.
   */
  assertHeld(): void;
  /**
   * Releases it. Idempotent.
   * @throws {@link LeaseLostError} if it turns out that it had been lost before.
   */
  release(): Promise<void>;
}

/** A lease that is held. Passed to the function of {@link withLease}, and returned by {@link acquireLease}. */
export interface LeaseHandle extends LockHandleLike, AsyncDisposable {
  /** The URL of what is leased, without the query. */
  readonly url: string;
  /** The id of the lease. It changes with {@link LeaseHandle.change}. */
  readonly leaseId: string;
  /** How long the lease is certainly held if it is not renewed; 0 once it is lost or released. */
  readonly remainingInMs: number;
  /** The condition that a request needs: `conditions` of blobs, `leaseAccessConditions` of files. */
  readonly conditions: { readonly leaseId: string };
  /**
   * Everything that a request under the lease needs: pass it to any call of the SDK as it is, for blobs and for files. It has the
   * id that the lease has when the property is read. The request is aborted when the lease is lost, not when it is released: await it before the release.
   */
  readonly requestOptions: {
    /** For blobs and containers. */
    readonly conditions: { leaseId: string };
    /** For files and shares. */
    readonly leaseAccessConditions: { leaseId: string };
    /** Aborts when the lease is lost. */
    readonly abortSignal: AbortSignal;
    /** Those of the call that acquired the lease. */
    readonly tracingOptions: OperationTracingOptions;
  };
  /**
   * Aborts when the lease is lost, a safety margin before it can have expired, with the `LeaseLostError` as its reason; and with
   * an `AbortError` when the lease is released, so that forgotten work stops.
   */
  readonly signal: AbortSignal;
  /**
   * Extends the lease now. For `autoRenew: false`, or before a long operation. A cancelled call stops waiting; the renewal may
   * still take effect.
   * @throws {@link LeaseLostError} if the lease is lost, or was released.
   */
  renew(options?: CallOptions): Promise<void>;
  /**
   * Changes the id of the lease, by default to a new random one. Afterwards the service rejects requests with the old id. A
   * cancelled call stops waiting; the change may still take effect.
   * @throws {@link LeaseLostError} if the lease is lost, or was released.
   */
  change(proposedLeaseId?: string, options?: CallOptions): Promise<void>;
  /**
   * Releases the lease, or hands it over to the next waiter in this process. Idempotent. If the request fails, the lease expires
   * by itself, and the call can be repeated.
   * @throws {@link LeaseLostError} if it turns out that the lease had been lost before.
   * @throws {@link LeaseReleaseError} if a lease that never expires could not be released; the release is retried in the background.
   */
  release(): Promise<void>;
}

/** A named lock that is held. Passed to the function of {@link BlobLocks.withLock}. */
export interface LockHandle extends LeaseHandle {
  /** The name of the lock. */
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
}

/** Identifies one holder of a named lock. */
export interface FencingToken {
  readonly epoch: number;
  /** The smallest epoch that the previous holder may have had: not all reserved epochs are used. */
  readonly previousEpoch: number;
  /** Of a crash guard: no holder with a smaller epoch has the guarded lease any more. */
  readonly lowestGuarding?: number | undefined;
  /** Raises that mark. */
  readonly raiseGuarding?: ((epoch: number) => void) | undefined;
}

/** A lease granted to a caller: the lease, its fencing token if it has one, and how to release it. */
export interface LeaseGrant {
  readonly lease: HeldLease;
  readonly token: FencingToken | undefined;
  readonly release: () => Promise<void>;
  /** What it is of, for metrics. Undefined: it is not counted. */
  readonly kind?: string | undefined;
}

/** The reason of a signal whose lease or lock was released. */
export function releasedReason(): DOMException {
  return new DOMException("The lease was released.", "AbortError");
}

/** One holder's view of a lease. The lease itself may be handed over to other holders, each with a handle of its own. */
export class LeaseHandleImpl implements LeaseHandle, Hold {
  readonly url: string;
  /** Called after the release. */
  onReleased: (() => void) | undefined;
  /** Whether it may have been taken over from a holder that died. */
  wasTakenOver = false;
  readonly #lease: HeldLease;
  readonly #release: () => Promise<void>;
  readonly #offLost: () => void;
  readonly #endCount: ((lostBecause?: string) => void) | undefined;
  /** Created when the signal is first used: most holders of a lock never use it, and an abort is expensive. */
  #controller: AbortController | undefined;
  /** For requests: a release does not abort them. The SDK would destroy the body of a download that the caller reads afterwards, or never. */
  #lossController: AbortController | undefined;
  #tracingOptions: OperationTracingOptions;
  /** The loss, if it was detected before the end of the release. A later one concerns the next holder. */
  #lost: LeaseLostError | undefined;
  #released = false;
  #releasing: Promise<void> | undefined;

  constructor(lease: HeldLease, release: () => Promise<void>, kind?: string) {
    this.url = lease.url;
    this.#lease = lease;
    this.#release = release;
    this.#tracingOptions = lease.tracingOptions ?? {};
    this.#endCount = recorder?.countHolder(kind);
    this.#offLost = lease.onLost((error) => this.#onLost(error));
    lease.beginHold();
    // It may have been lost before the listener was added.
    const lost = lease.check();
    if (lost) this.#onLost(lost);
  }

  get leaseId(): string {
    return this.#lease.leaseId;
  }

  get conditions(): { leaseId: string } {
    return { leaseId: this.leaseId };
  }

  get requestOptions(): LeaseHandle["requestOptions"] {
    const { conditions } = this;
    if (!this.#lossController) {
      this.#lossController = new AbortController();
      if (this.#lost) this.#lossController.abort(this.#lost);
    }
    return { conditions, leaseAccessConditions: { ...conditions }, abortSignal: this.#lossController.signal, tracingOptions: this.#tracingOptions };
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#lost) this.#controller.abort(this.#lost);
      else if (this.#released) this.#controller.abort(releasedReason());
    }
    return this.#controller.signal;
  }

  get remainingInMs(): number {
    return this.#released ? 0 : this.#lease.remainingInMs;
  }

  /** The loss, if the lease was lost while it was held. Reads the clock. */
  get loss(): LeaseLostError | undefined {
    if (!this.#released) this.#lease.check();
    return this.#lost;
  }

  get holds(): readonly Hold[] {
    return [this];
  }

  isHeld(): boolean {
    return !this.loss && !this.#released && !this.isInDoubt;
  }

  /** It does not count as held, and may turn out to be held all the same. */
  get isInDoubt(): boolean {
    return !this.#released && this.#lease.isInDoubt;
  }

  assertHeld(): void {
    if (this.isHeld()) return;
    const why = this.#released ? "was released" : "may be lost: the clock of this machine was set forward, and the service has not confirmed the lease yet";
    throw this.#lost ?? createError(LeaseLostError, `The lease on ${this.url} ${why}.`, { url: this.url, reason: "expired" });
  }

  // Observed: the work of a holder may end, or another part of it fail, before it awaits them.

  renew(options?: CallOptions): Promise<void> {
    return observed(this.#renew(options));
  }

  change(proposedLeaseId: string = crypto.randomUUID(), options?: CallOptions): Promise<void> {
    return observed(this.#change(proposedLeaseId, options));
  }

  async #renew(options: CallOptions | undefined): Promise<void> {
    checkOptions("renew", options, callOptionNames);
    this.assertHeld();
    await read(() => this.#lease.renew(options?.tracingOptions), { abortSignal: options?.abortSignal });
  }

  async #change(proposedLeaseId: string, options: CallOptions | undefined): Promise<void> {
    checkOptions("change", options, callOptionNames);
    checkLeaseId("proposedLeaseId", proposedLeaseId);
    this.assertHeld();
    await read(() => this.#lease.change(proposedLeaseId, options?.tracingOptions), { abortSignal: options?.abortSignal });
  }

  release(): Promise<void> {
    this.#releasing ??= this.#releaseOnce().catch((error: unknown) => {
      // The release failed: the caller may try again. An infinite lease would stay forever.
      if (!isConcurrencyError(error, "LEASE_LOST")) this.#releasing = undefined;
      throw error;
    });
    return observed(this.#releasing);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => {
      logger.warning(`the lease on ${this.url} could not be released: ${errorLabel(error)}`);
    });
  }

  /** The parent of the spans of renewals, of the release and of the holder's requests: not the call that acquired the lease. */
  setTracingParent(tracingOptions: OperationTracingOptions | undefined): void {
    this.#lease.tracingOptions = tracingOptions;
    this.#tracingOptions = tracingOptions ?? {};
  }

  /** The holder still waits for something: its time begins when `start` is called. Returns `start`. */
  suspendHold(): () => void {
    this.#lease.endHold();
    return () => {
      if (this.isHeld()) this.#lease.beginHold();
    };
  }

  /** The lease will be released, not handed over: the service then rejects late requests that carry its id. */
  doNotReuse(): void {
    this.#lease.reusable = false;
  }

  /** The lease is not renewed any more and expires, unless it is released before. It is not handed over: its next holder would lose it. */
  letExpire(): void {
    this.doNotReuse();
    this.#lease.letExpire();
  }

  async #releaseOnce(): Promise<void> {
    const known = this.#lost !== undefined;
    // Reports a loss that only the clock shows so far.
    const lost = this.#lease.check();
    this.#released = true;
    this.#lease.endHold();
    if (this.#controller && !lost) this.#controller.abort(releasedReason());
    try {
      await this.#release();
    } finally {
      // A later loss concerns the next holder, not this one.
      this.#offLost();
      this.#endCount?.();
      this.onReleased?.();
    }
    if (lost && !known) throw lost;
  }

  #onLost(error: LeaseLostError): void {
    this.#lost = error;
    this.#endCount?.(error.reason);
    this.#controller?.abort(error);
    this.#lossController?.abort(error);
  }
}

/** One holder's view of a named lock. */
export class LockHandleImpl extends LeaseHandleImpl implements LockHandle {
  readonly name: string;
  readonly epoch: number;
  readonly previousEpoch: number;
  /** For a crash guard. */
  readonly token: FencingToken;

  constructor(name: string, { lease, release, token, kind }: LeaseGrant) {
    super(lease, release, kind);
    this.name = name;
    if (!token) throw new TypeError("a lock without a fencing token");
    this.token = token;
    this.epoch = token.epoch;
    this.previousEpoch = token.previousEpoch;
  }
}

const callOptionNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };
