import type { OperationTracingOptions } from "@azure/core-tracing";
import type { LeaseAnswerLike } from "../clients.js";
import { onAbort } from "../core/abort.js";
import { bounded, RequestTimeout, wasSentOnce } from "../core/bounded.js";
import { startStopwatch } from "../core/stopwatch.js";
import type { Stopwatch } from "../core/stopwatch.js";
import { isDefinitive, isOtherLease, leaseLossOf } from "../core/storage-errors.js";
import { inSpan, logger } from "../core/telemetry.js";
import { isLeaseLostError, LeaseLostError } from "../errors.js";
import type { LeaseLossReason } from "../errors.js";
import type { LeaseAdapter, LeaseRequest } from "./lease-adapters.js";
import { LeaseRelease } from "./lease-release.js";

/** The times of a lease, after defaults and checks. */
export interface LeaseTimes {
  /** Infinity: it does not expire. */
  readonly durationInMs: number;
  readonly safetyMarginInMs: number;
  readonly renewEveryInMs: number;
  readonly autoRenew: boolean;
}

/** What a lease stands and falls with. */
export interface LeaseBacking {
  readonly signal: AbortSignal;
  readonly remainingInMs: number;
}

/** After a failed renewal: often enough to use a short break in the trouble, seldom enough not to add to it. */
const retryRenewalInMs = 1_000;
/** A timer may be set for the deadline, but a suspended machine does not count for it: look at the clock this often. */
const lookInMs = 1_000;

/**
 * Keeps one lease: renews it, and knows at any moment whether it is still held.
 *
 * The lease runs from the moment at which its request was *sent*: the service starts counting at some time between
 * that and the answer, so counting from here is never too generous. It counts as lost a margin before it can have
 * run out, whatever a renewal that is under way is doing.
 */
export class LeaseKeeper {
  readonly url: string;
  /** Parent of the spans of what is requested from now on: that of the present holder. */
  tracingOptions: OperationTracingOptions | undefined;
  /** Nobody gets it after the present holder: something that was sent under its id may still be on its way. */
  retired = false;
  readonly #adapter: LeaseAdapter;
  readonly #times: LeaseTimes;
  readonly #identity: LeaseIdentity;
  readonly #release: LeaseRelease;
  /** Since the last request that certainly established or extended the lease was sent. */
  #since: Stopwatch;
  #lost: LeaseLostError | undefined;
  #backing: LeaseBacking | undefined;
  #offBacking: (() => void) | undefined;
  #lastFailure: unknown;
  #renewing: Promise<boolean> | undefined;
  /** One request at a time: a renewal that overlaps a change of the id, or a release, would look like a loss. */
  #line: Promise<unknown> = Promise.resolve();
  /** Lost, or about to be released: neither timers nor the clock count any more. */
  #closed = false;
  #deadlineTimer: ReturnType<typeof setTimeout> | undefined;
  #renewTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #lossListeners = new Set<(error: LeaseLostError) => void>();

  constructor(adapter: LeaseAdapter, leaseId: string, since: Stopwatch, times: LeaseTimes) {
    this.url = adapter.url;
    this.#adapter = adapter;
    this.#identity = new LeaseIdentity(leaseId);
    this.#release = new LeaseRelease(adapter, this.#identity, times.durationInMs === Infinity);
    this.#since = since;
    this.#times = times;
    this.#watchDeadline();
    this.#renewIn(times.renewEveryInMs - since.elapsedInMs());
  }

  get leaseId(): string {
    return this.#identity.current;
  }

  /** Until the lease counts as lost unless it is renewed; 0 if it does. */
  get remainingInMs(): number {
    return this.check() ? 0 : this.#untilDeadline();
  }

  /** How long ago the service last said that the lease is ours. */
  get unconfirmedForInMs(): number {
    return this.#since.elapsedInMs();
  }

  /** The loss, if the lease is lost. Asks the clock, not the timers: right even if the event loop was blocked. */
  check(): LeaseLostError | undefined {
    // Looking at the clock may make what backs it notice its own loss, and this one's with it.
    if (!this.#lost && !this.#closed && this.#untilDeadline() <= 0 && !this.#isLost()) {
      if (this.#lastFailure === undefined) this.#lose("expired", undefined);
      else this.#lose("unreachable", this.#lastFailure);
    }
    return this.#lost;
  }

  /** Calls `listener` in the moment in which the loss is noticed. Returns what takes it off again. */
  onLost(listener: (error: LeaseLostError) => void): () => void {
    this.#lossListeners.add(listener);
    return () => this.#lossListeners.delete(listener);
  }

  /** From now on the loss of `backing` is the loss of this lease. */
  backBy(backing: LeaseBacking): void {
    this.#backing = backing;
    this.#offBacking = onAbort(backing.signal, () => this.#loseWith(backing.signal.reason));
  }

  /** Extends the lease now. Rejects with the loss, or with what kept the request from being answered. */
  async renew(): Promise<void> {
    const renewed = await this.#startRenewal();
    this.#throwIfLost();
    if (!renewed) throw this.#lastFailure;
  }

  /** Gives the lease another id. Afterwards the old one is worth nothing. */
  async change(proposedLeaseId: string): Promise<void> {
    // Its successor would not recognise what is left of it after a crash.
    if (this.#backing) throw new TypeError("the id of a lease with a crashGuard says whose it is, and cannot be changed");
    await this.#inLine(() => this.#changeOnce(proposedLeaseId));
    this.#throwIfLost();
  }

  /**
   * Stops renewing, and gives the lease back unless it is known to be lost. Rejects if that could not be done, or with
   * the loss if it turns up only now.
   */
  async release(): Promise<void> {
    if (this.#lost) return;
    this.#throwIfLost();
    // From here on the deadline is no loss: the work under the lease is over. Only the service can still tell of one.
    this.#close();
    // A renewal that arrived after the release would be answered 409, and one before it must not be cut off midway.
    await this.#line;
    this.#throwIfLost();
    const loss = await this.#release.run((limitInMs, call) => this.#request("release", limitInMs, call));
    if (loss) throw this.#lose(loss.reason, loss.cause);
  }

  /** Resolves when no request is under way. */
  async whenIdle(): Promise<void> {
    await this.#line;
  }

  #throwIfLost(): void {
    const lost = this.check();
    if (lost) throw lost;
  }

  #inLine<R>(run: () => Promise<R>): Promise<R> {
    const result = this.#line.then(run);
    this.#line = result.catch(() => undefined);
    return result;
  }

  #close(): void {
    this.#closed = true;
    this.#offBacking?.();
    clearTimeout(this.#deadlineTimer);
    clearTimeout(this.#renewTimer);
  }

  #untilDeadline(): number {
    const own = this.#times.durationInMs - this.#times.safetyMarginInMs - this.#since.elapsedInMs();
    return Math.min(own, this.#backing?.remainingInMs ?? Infinity);
  }

  #isLost(): boolean {
    return this.#lost !== undefined;
  }

  #watchDeadline(): void {
    if (this.#times.durationInMs === Infinity) return;
    this.#deadlineTimer = setTimeout(
      () => {
        if (!this.check()) this.#watchDeadline();
      },
      Math.min(lookInMs, Math.max(0, this.#untilDeadline())),
    );
  }

  #renewIn(ms: number): void {
    if (!this.#times.autoRenew || this.#lost || this.#closed) return;
    clearTimeout(this.#renewTimer);
    this.#renewTimer = setTimeout(() => void this.#startRenewal(), Math.max(0, ms));
  }

  #startRenewal(): Promise<boolean> {
    return (this.#renewing ??= this.#inLine(() => this.#renewOnce()).finally(() => (this.#renewing = undefined)));
  }

  /** One renewal; false if it failed in a way that leaves everything open. Never rejects. */
  async #renewOnce(): Promise<boolean> {
    try {
      // Stopped past the deadline and woken up: the timer of the renewal may well be the first to run.
      if (this.check()) return false;
      // Until there is an answer, that there is none is what keeps the lease from being renewed.
      this.#lastFailure ??= new RequestTimeout("a renewal was not answered in time");
      const since = startStopwatch();
      const answer = await this.#identity.use((leaseId) => this.#renewAs(leaseId));
      // Too late: the loss has been reported, and nothing is re-established behind anybody's back.
      if (this.check()) return false;
      const loss = lossIn(answer, this.leaseId);
      if (loss) {
        this.#lose(loss, undefined);
        return false;
      }
      this.#since = since;
      this.#lastFailure = undefined;
      this.#renewIn(this.#times.renewEveryInMs - since.elapsedInMs());
      return true;
    } catch (error) {
      this.#lastFailure = error;
      if (this.#lossFrom(error) ?? this.check()) return false;
      logger.verbose(`a renewal of the lease on ${this.url} failed; trying again`);
      this.#renewIn(retryRenewalInMs);
      return false;
    }
  }

  async #changeOnce(proposedLeaseId: string): Promise<void> {
    this.#throwIfLost();
    const since = startStopwatch();
    try {
      await this.#identity.use((leaseId) =>
        this.#request("change", this.#requestLimit(), (request) => this.#adapter.change(leaseId, proposedLeaseId, request)),
      );
    } catch (error) {
      if (isDefinitive(error) && wasSentOnce(error)) throw this.#lossFrom(error) ?? error;
      // The answer was lost: the lease may have either id now. Renewing with the new one tells.
      const changed = await this.#renewAs(proposedLeaseId).then(
        (answer) => lossIn(answer, proposedLeaseId) === undefined,
        () => false,
      );
      if (!changed) {
        // That could have been lost too: whatever comes next finds out.
        this.#identity.mayBecome(proposedLeaseId);
        throw error;
      }
      this.#since = since;
    }
    this.#identity.becomes(proposedLeaseId);
  }

  #renewAs(leaseId: string): Promise<LeaseAnswerLike> {
    const duration = this.#times.durationInMs === Infinity ? -1 : this.#times.durationInMs / 1_000;
    return this.#request("renew", this.#requestLimit(), (request) => this.#adapter.renew(leaseId, duration, request));
  }

  /** One request, in a span of its own: it belongs to none of the holder's calls, but to the time of holding. */
  #request<R>(name: "renew" | "change" | "release", limitInMs: number, call: (request: LeaseRequest) => Promise<R>): Promise<R> {
    return inSpan(
      `LeaseGuard.${name}`,
      { tracingOptions: this.tracingOptions },
      async (tracingOptions) => (await bounded(limitInMs, undefined, (abortSignal) => call({ abortSignal, tracingOptions }))).answer,
      { targetKind: "lease", url: this.url, requests: 1 },
    );
  }

  /** Well before the deadline, so that there is time for another try. */
  #requestLimit(): number {
    return Math.min(Math.max(this.#untilDeadline(), 1), Math.min(this.#times.durationInMs, 60_000) / 6);
  }

  #lossFrom(error: unknown): LeaseLostError | undefined {
    const reason = leaseLossOf(error);
    // The service has one code for both; but by this clock it cannot have expired yet, as the service's started later.
    if (reason === "expired" && !this.check()) return this.#lose("broken", error);
    return reason && this.#lose(reason, error);
  }

  #loseWith(loss: unknown): void {
    const reason = isLeaseLostError(loss) ? loss.reason : "expired";
    this.#lose(reason, loss, "its crash guard is lost, so that another may take it over any moment");
  }

  #lose(reason: LeaseLossReason, cause: unknown, why: string = explanations[reason]): LeaseLostError {
    if (this.#lost) return this.#lost;
    this.#lost = new LeaseLostError(`the lease on ${this.url} is lost: ${why}`, { url: this.url, reason, cause });
    logger.warning(this.#lost.message);
    this.#close();
    for (const listener of this.#lossListeners) listener(this.#lost);
    this.#lossListeners.clear();
    return this.#lost;
  }
}

/** What an answer says that is a success and all the same a loss. */
function lossIn({ leaseId: answered, leaseState }: LeaseAnswerLike, leaseId: string): LeaseLossReason | undefined {
  if (leaseState !== undefined && leaseState !== "leased") return leaseState === "expired" ? "expired" : "broken";
  // Azurite renews an expired lease for anybody, and tells by the id whose it is.
  return answered && answered.toLowerCase() !== leaseId.toLowerCase() ? "stolen" : undefined;
}

const explanations: Record<LeaseLossReason, string> = {
  stolen: "somebody else holds it",
  broken: "it was broken",
  expired: "it was not renewed in time",
  deleted: "what was leased does not exist any more",
  unreachable: "the service could not be reached until it was about to expire",
};

/** The id of a lease; two of them, after a change whose outcome could not be found out. */
export class LeaseIdentity {
  #current: string;
  #other: string | undefined;

  constructor(leaseId: string) {
    this.#current = leaseId;
  }

  get current(): string {
    return this.#current;
  }

  get all(): string[] {
    return this.#other === undefined ? [this.#current] : [this.#current, this.#other];
  }

  /** The lease has this id. The other one is kept: a request that was given up may still arrive. */
  becomes(leaseId: string): void {
    this.#other = this.#current;
    this.#current = leaseId;
  }

  mayBecome(leaseId: string): void {
    this.#other = leaseId;
  }

  /** Runs an operation under the id that the lease has: if the service knows it by the other one, under that. */
  async use<R>(run: (leaseId: string) => Promise<R>): Promise<R> {
    try {
      return await run(this.#current);
    } catch (error) {
      if (this.#other === undefined || !isOtherLease(error)) throw error;
      const other = this.#other;
      const outcome = await run(other).then(
        (result) => ({ result }),
        () => undefined,
      );
      // Neither: then what was said of the id that it should have counts.
      if (!outcome) throw error;
      this.becomes(other);
      return outcome.result;
    }
  }
}
