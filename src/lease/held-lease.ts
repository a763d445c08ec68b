import type { OperationTracingOptions } from "@azure/core-tracing";
import type { LeaseResponseLike } from "../clients/blob.js";
import { RenewalLoop } from "../core/renewal.js";
import type { Renewal, RenewalDependency } from "../core/renewal.js";
import { request } from "../core/request.js";
import type { RequestOutcome } from "../core/request.js";
import { RequestTimeoutError, startStopwatch, startTimer } from "../core/deadline.js";
import type { Clock } from "../core/deadline.js";
import { isConditionNotMet, isDefinitive, isUnauthorized, leaseLossOf, toTimeoutError } from "../core/storage-errors.js";
import { describeSpan, failSpan, inSpan, logger } from "../core/telemetry.js";
import { createError, isConcurrencyError, LeaseReleaseError, LeaseLostError } from "../errors.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import { LeaseIds } from "./lease-adapters.js";
import { releaseAfterLateAcquire, releaseInBackground, releaseLost, releaseUnlessExpired } from "./orphaned-lease.js";
import type { BackgroundRelease } from "./orphaned-lease.js";

/** The times of a lease, after defaults and checks. */
export interface LeaseTimes {
  /** Infinity: it does not expire. */
  readonly durationInMs: number;
  readonly safetyMarginInMs: number;
  readonly renewIntervalInMs: number;
  readonly autoRenew: boolean;
  /** How long one holder may hold it, renewed or not. */
  readonly maxHoldInMs?: number | undefined;
  /** The caller chose the id of the lease, and may use it again: it is not released in the background. */
  readonly isIdChosen?: boolean | undefined;
}

/** After a failed renewal: short enough to use a brief recovery of the service, long enough not to add to its load. */
const retryRenewalInMs = 1_000;
/** A release only helps the next holder: it must not delay the caller for long. */
const releaseTimeoutInMs = 5_000;
/** A timer does not count time while the machine is suspended, so the clock is read at least this often. */
const maxTickInMs = 1_000;

/** A write under the lease whose response has not arrived yet. */
export interface PendingWrite {
  /** The ETag of what it replaces. */
  readonly replaces: string;
  /** Resolves when the write is settled, or was waited for long enough. */
  settled(): Promise<void>;
}

/** A lease of this process: its id, its renewal, and whether it is held at this moment. */
export class HeldLease {
  readonly url: string;
  /** Parent of the spans of future requests: that of the current holder. */
  tracingOptions: OperationTracingOptions | undefined;
  /** False: the lease is not handed over to another caller, as a request that carries its id may still be in flight. */
  reusable = true;
  /** Of the leased blob when the lease was acquired. Leasing does not change it. */
  readonly etag: string | undefined;
  /** Since a request that acquires it was given up, or sent again by the SDK: it may still arrive. */
  sinceUnanswered: Clock | undefined;
  readonly #adapter: LeaseAdapter;
  readonly #times: LeaseTimes;
  readonly #ids: LeaseIds;
  readonly #loop: RenewalLoop;
  #hasDependency = false;
  #lost: LeaseLostError | undefined;
  /** Parent of the span of the next renewal, if a caller asked for it. */
  #renewTracing: OperationTracingOptions | undefined;
  /** A release was sent, and its outcome is unknown. */
  #releaseSent = false;
  #backgroundReleases: readonly BackgroundRelease[] = [];
  /** How long the current holder may still hold it. */
  #holdLeftInMs: () => number = () => Infinity;
  #stopHoldTimer: (() => void) | undefined;
  /** Requests are sent one at a time: a renewal that overlaps a change of the id, or a release, would appear to be a loss. */
  #lastRequest: Promise<unknown> = Promise.resolve();
  readonly #lossListeners = new Set<(error: LeaseLostError) => void>();

  /** @param clock - Started before the request that acquired the lease was sent. */
  constructor(adapter: LeaseAdapter, leaseId: string, clock: Clock, times: LeaseTimes, etag?: string) {
    this.url = adapter.url;
    this.etag = etag;
    this.#adapter = adapter;
    this.#ids = new LeaseIds(leaseId);
    this.#times = times;
    this.#loop = new RenewalLoop(
      {
        renew: (timeoutInMs) => this.#serialize(() => this.#renewOnce(timeoutInMs)),
        onLost: (error, expired) => this.#onLost(error, expired),
      },
      clock,
      times.durationInMs,
      {
        marginInMs: () => times.safetyMarginInMs,
        renewAfterInMs: () => (times.autoRenew ? times.renewIntervalInMs : Infinity),
        timeoutInMs: (remainingInMs) => this.#requestTimeout(remainingInMs),
        retryAfterInMs: () => (times.autoRenew ? retryRenewalInMs : Infinity),
      },
    );
  }

  get leaseId(): string {
    return this.#ids.current;
  }

  /** The time until the lease counts as lost unless it is renewed; 0 if it is lost. */
  get remainingInMs(): number {
    return this.check() ? 0 : Math.max(0, Math.min(this.#loop.remainingInMs, this.#holdLeftInMs()));
  }

  /** How long ago the service last confirmed that this process holds the lease. */
  get unconfirmedForInMs(): number {
    return this.#loop.unconfirmedForInMs;
  }

  /** The loss, if the lease is lost. Reads the clock, not the timers: correct even if the event loop was blocked. */
  check(): LeaseLostError | undefined {
    if (this.#loop.isHeld() && this.#holdLeftInMs() <= 0) this.#lose(this.#lossOf("maxHold", undefined));
    return this.#lost;
  }

  /** Certain: neither lost nor in doubt. A lease that is in doubt is not given to a new holder. */
  isHeld(): boolean {
    return !this.check() && this.#loop.isHeld();
  }

  /** Not lost, but not certain either: the clock of this machine was set forward, and the service is asked. */
  get isInDoubt(): boolean {
    return !this.#lost && this.#loop.isInDoubt;
  }

  /** A holder begins: the time of the one before it does not count. */
  beginHold(): void {
    const { maxHoldInMs = Infinity } = this.#times;
    if (maxHoldInMs === Infinity) return;
    const heldForInMs = startStopwatch();
    this.#holdLeftInMs = () => maxHoldInMs - heldForInMs();
    const tick = (): void => {
      if (!this.check()) this.#stopHoldTimer = startTimer(Math.min(maxTickInMs, Math.ceil(this.#holdLeftInMs())), tick);
    };
    tick();
  }

  /** The work of the holder is over. */
  endHold(): void {
    this.#holdLeftInMs = () => Infinity;
    this.#stopHoldTimer?.();
  }

  /** Calls `listener` as soon as the loss is detected. Returns a function that removes it. */
  onLost(listener: (error: LeaseLostError) => void): () => void {
    this.#lossListeners.add(listener);
    return () => this.#lossListeners.delete(listener);
  }

  /** From now on the loss of the crash guard's lock is the loss of this lease. */
  dependOn(lock: RenewalDependency): void {
    this.#hasDependency = true;
    this.#loop.dependOn(lock);
  }

  /** Extends the lease now. Rejects with the loss, or with the error of the renewal. */
  async renew(tracingOptions?: OperationTracingOptions): Promise<void> {
    this.#renewTracing = tracingOptions;
    const renewal = await this.#loop.renew();
    this.#throwIfLost();
    if (renewal.kind === "failed") throw this.#toCallError(renewal.error);
  }

  /** Changes the id of the lease. Afterwards the service rejects the old one. */
  async change(proposedLeaseId: string, tracingOptions?: OperationTracingOptions): Promise<void> {
    // After a crash, the successor would not recognise the lease.
    if (this.#hasDependency) throw new TypeError("change: the id of a lease with a crashGuard identifies its holder, and cannot be changed");
    await this.#serialize(() => this.#changeOnce(proposedLeaseId, tracingOptions));
    this.#throwIfLost();
  }

  /**
   * Stops renewing, and releases the lease unless it is known to be lost. Rejects if the release failed, or with the loss if
   * the service reports it only now.
   * @param after - The service carries out the release only after this write.
   */
  async release(after?: PendingWrite): Promise<void> {
    // The holder of a lost lease has ended: it needs the rest of the safety margin no more.
    for (const release of this.#backgroundReleases) if (this.#lost) release.now();
    if (this.#lost) return;
    this.#throwIfLost();
    this.endHold();
    // From here on, passing the deadline is not a loss: the work under the lease is over. Only the service can still report one.
    this.#loop.stop();
    // The service would reject a renewal that arrives after the release (409), and one in flight must not be cut off midway.
    await this.#lastRequest;
    this.#throwIfLost();
    await this.#releaseOnce(after).finally(() => this.#releaseLateAcquires());
  }

  /** Stops renewing: the lease expires by itself, and its end is still reported. */
  letExpire(): void {
    this.#loop.letExpire();
  }

  /** Resolves when no request is in flight. */
  async whenIdle(): Promise<void> {
    await this.#lastRequest;
  }

  #throwIfLost(): void {
    const lost = this.check();
    if (lost) throw lost;
  }

  #serialize<R>(run: () => Promise<R>): Promise<R> {
    const result = this.#lastRequest.then(run);
    this.#lastRequest = result.catch(() => undefined);
    return result;
  }

  async #renewOnce(timeoutInMs: number): Promise<Renewal> {
    // An earlier change may have found the lease lost, or used up the remaining time.
    const lost = this.check();
    if (lost) return { kind: "lost", error: lost };
    const clock = startStopwatch();
    const renewed = await this.#ids.use((leaseId) => this.#renewAs(leaseId, timeoutInMs));
    this.#renewTracing = undefined;
    if (renewed.kind !== "ok") {
      const reason = this.#lossReasonOf(renewed.error);
      if (reason) return { kind: "lost", error: this.#lose(this.#lossOf(reason, renewed.error)) };
      logger.verbose(`a renewal of the lease on ${this.url} failed; trying again`);
      return { kind: "failed", error: renewed.error };
    }
    const reason = lossIn(renewed.value, this.leaseId);
    if (reason) return { kind: "lost", error: this.#lose(this.#lossOf(reason, undefined)) };
    return { kind: "renewed", clock, claimDurationInMs: this.#times.durationInMs };
  }

  async #changeOnce(proposedLeaseId: string, tracingOptions: OperationTracingOptions | undefined): Promise<void> {
    this.#throwIfLost();
    const clock = startStopwatch();
    const timeoutInMs = this.#requestTimeout(this.#loop.untilDeadlineInMs);
    const changed = await this.#ids.use((leaseId) =>
      this.#request("change", timeoutInMs, (options) => this.#adapter.change(leaseId, proposedLeaseId, options), tracingOptions),
    );
    if (changed.kind !== "ok") {
      const { error } = changed;
      if (changed.kind === "rejected") {
        const reason = this.#lossReasonOf(error);
        throw reason ? this.#lose(this.#lossOf(reason, error)) : error;
      }
      // The response was lost: the lease may have either id now. A renewal with the new one shows which.
      const renewed = await this.#renewAs(proposedLeaseId, this.#requestTimeout(this.#loop.untilDeadlineInMs));
      if (renewed.kind !== "ok" || lossIn(renewed.value, proposedLeaseId) !== undefined) {
        // The response to the renewal may have been lost, too: the next request finds out.
        this.#ids.mayBecome(proposedLeaseId);
        throw this.#toCallError(error);
      }
      this.#loop.adopt({ kind: "renewed", clock, claimDurationInMs: this.#times.durationInMs });
    }
    this.#ids.becomes(proposedLeaseId);
  }

  async #releaseOnce(after: PendingWrite | undefined): Promise<void> {
    for (const release of this.#backgroundReleases) release.stop();
    let released = await this.#sendRelease(after?.replaces);
    if (after && released.kind !== "ok" && isConditionNotMet(released.error)) {
      // It has overtaken the write. Another send of it may still arrive after that.
      this.#releaseSent ||= released.kind === "unknown";
      await after.settled();
      released = await this.#sendRelease();
    }
    if (released.kind === "ok") return;
    const { error } = released;
    const reason = this.#lossReasonOf(error);
    // The target was deleted, most likely by the holder: there is nothing left to release.
    if (reason === "deleted") return;
    if (!reason) throw this.#releaseFailed(error);
    // Sent more than once: an earlier send released it, and this one found no lease.
    if (released.kind === "rejected" && !this.#releaseSent) throw this.#lose(this.#lossOf(reason, error));
  }

  #sendRelease(ifNoneMatch?: string): Promise<RequestOutcome<unknown>> {
    return this.#ids.use((leaseId) => this.#request("release", releaseTimeoutInMs, (options) => this.#adapter.release(leaseId, { ifNoneMatch, ...options })));
  }

  /** A lease must not stay because of a temporary outage, least of all an infinite one. */
  #releaseFailed(error: unknown): unknown {
    this.#releaseSent = true;
    // Credentials that are rejected now may be valid again soon, after a token was renewed.
    if (isDefinitive(error) && !isUnauthorized(error)) return this.#toCallError(error);
    const { durationInMs, isIdChosen } = this.#times;
    if (durationInMs !== Infinity) {
      // The next holder need not wait until it has expired because one request was throttled.
      if (!isIdChosen) this.#backgroundReleases = this.#ids.all.map((leaseId) => releaseUnlessExpired(this.#adapter, leaseId, durationInMs));
      return this.#toCallError(error);
    }
    this.#backgroundReleases = this.#ids.all.map((leaseId) => releaseInBackground(this.#adapter, leaseId));
    const message = `The lease on ${this.url} could not be released, and it never expires. The release is retried in the background for two minutes. If that fails, release it by its id, or call breakLease.`;
    logger.warning(message);
    return createError(LeaseReleaseError, message, { url: this.url, leaseId: this.leaseId, cause: error });
  }

  /** Of a request that may have been carried out. */
  #toCallError(error: unknown): unknown {
    return error instanceof RequestTimeoutError ? toTimeoutError(error, this.url, "unknown") : error;
  }

  #renewAs(leaseId: string, timeoutInMs: number): Promise<RequestOutcome<LeaseResponseLike>> {
    const duration = this.#times.durationInMs === Infinity ? -1 : this.#times.durationInMs / 1_000;
    return this.#request("renew", timeoutInMs, (options) => this.#adapter.renew(leaseId, duration, options), this.#renewTracing);
  }

  /** Sends one request, in its own span: it belongs to the time during which the lease is held, not to a call of the holder. */
  #request<R>(
    name: "renew" | "change" | "release",
    timeoutInMs: number,
    call: (options: LeaseRequest) => Promise<R>,
    parent: OperationTracingOptions | undefined = this.tracingOptions,
  ): Promise<RequestOutcome<R>> {
    return inSpan(
      `LeaseHandle.${name}`,
      { tracingOptions: parent },
      async (tracingOptions, span) => {
        const outcome = await request((abortSignal) => call({ abortSignal, tracingOptions }), { timeoutInMs });
        if (outcome.kind !== "ok") {
          describeSpan(span, { outcome: "failed" });
          failSpan(span, outcome.error);
        }
        return outcome;
      },
      { targetKind: "lease", url: this.url, requests: 1 },
    );
  }

  /** Well before the deadline, so that there is time for another attempt. */
  #requestTimeout(remainingInMs: number): number {
    return Math.min(Math.max(remainingInMs, 1), Math.min(this.#times.durationInMs, 60_000) / 6);
  }

  #lossReasonOf(error: unknown): LeaseLostError["reason"] | undefined {
    const reason = leaseLossOf(error);
    // The service has one code for both. By this clock the lease cannot have expired yet, as the service's clock started later.
    return reason === "expired" && this.#loop.isHeld() ? "broken" : reason;
  }

  #onLost(error: unknown, expired: boolean): void {
    if (expired) this.#lose(this.#lossOf(error === undefined ? "expired" : "unreachable", error));
    else if (isConcurrencyError(error, "LEASE_LOST") && error.url === this.url) this.#lose(error);
    else {
      const reason = isConcurrencyError(error, "LEASE_LOST") ? error.reason : "expired";
      this.#lose(this.#lossOf(reason, error, "its crash-guard lock was lost, so another process may take over."));
    }
  }

  #lossOf(reason: LeaseLostError["reason"], cause: unknown, why: string = explanations[reason]): LeaseLostError {
    return createError(LeaseLostError, `Lease on ${this.url} lost: ${why}`, { url: this.url, reason, cause });
  }

  #lose(loss: LeaseLostError): LeaseLostError {
    if (this.#lost) return this.#lost;
    this.#lost = loss;
    logger.warning(loss.message);
    this.#loop.stop();
    this.endHold();
    this.#releaseAfterLoss(loss);
    for (const listener of this.#lossListeners) listener(loss);
    this.#lossListeners.clear();
    return loss;
  }

  /** The service does not know of these losses: for all other clients the lease would stay until it expires. */
  #releaseAfterLoss({ reason }: LeaseLostError): void {
    this.#releaseLateAcquires();
    const { durationInMs, safetyMarginInMs, isIdChosen } = this.#times;
    // The lease of a crash guard is released, or taken over by the next holder of its lock.
    if (isIdChosen || this.#hasDependency || (reason !== "maxHold" && reason !== "unreachable")) return;
    this.#backgroundReleases = [releaseLost(this.#adapter, this.leaseId, safetyMarginInMs, durationInMs)];
  }

  #releaseLateAcquires(): void {
    const since = this.sinceUnanswered;
    this.sinceUnanswered = undefined;
    if (!since || this.#times.isIdChosen) return;
    for (const leaseId of this.#ids.all) releaseAfterLateAcquire(this.#adapter, leaseId, since);
  }
}

/** The loss that a response reports although the request succeeded. */
function lossIn({ leaseId: actualLeaseId, leaseState }: LeaseResponseLike, leaseId: string): LeaseLostError["reason"] | undefined {
  if (leaseState !== undefined && leaseState !== "leased") return leaseState === "expired" ? "expired" : "broken";
  // Azurite renews an expired lease for any client, and returns the id of its holder.
  return actualLeaseId && actualLeaseId.toLowerCase() !== leaseId.toLowerCase() ? "stolen" : undefined;
}

const explanations: Record<LeaseLostError["reason"], string> = {
  stolen: "another client holds it.",
  broken: "it was broken.",
  expired: "it was not renewed in time.",
  deleted: "the leased resource does not exist any more.",
  unreachable: "the service could not be reached until the lease was about to expire.",
  maxHold: "it was held for longer than maxHoldInMs.",
};
