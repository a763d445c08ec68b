import { onAbort, startTimer } from "./deadline.js";
import { RequestTimeoutError } from "./request.js";
import type { Clock } from "./stopwatch.js";

/** What came of one renewal. */
export type Renewal =
  /** Held for another `holdInMs`, counted by `clock`. */
  | { readonly kind: "renewed"; readonly clock: Clock; readonly holdInMs: number }
  /** As `renewed`, but it was the last one. */
  | { readonly kind: "last"; readonly clock: Clock; readonly holdInMs: number }
  /** Not held any more. */
  | { readonly kind: "lost"; readonly error: unknown }
  /** No response, or one that says nothing: try again. */
  | { readonly kind: "failed"; readonly error: unknown };

/** What a {@link RenewalLoop} renews: a lease, a received message, an inbox claim. */
export interface Renewable {
  /** Asks for more time. Settles within about `timeoutInMs`. */
  renew(timeoutInMs: number): Promise<Renewal>;
  /**
   * Called once, when the time is over or a renewal says that it is lost. `expired`: the time is over; `error` is then
   * what kept the last renewal from succeeding, if one was tried.
   */
  onLost(error: unknown, expired: boolean): void;
}

/** The times of a {@link RenewalLoop}, each as a function of the duration, which may change with each renewal. */
export interface RenewalTimes {
  /** How long before its end it counts as lost: covers late timers, differing clocks and the time that work needs to stop. */
  readonly marginInMs: (durationInMs: number) => number;
  /** When to renew, counted from the last renewal. `Infinity`: not by itself. */
  readonly renewAfterInMs: (durationInMs: number) => number;
  /** The time for one renewal. */
  readonly timeoutInMs: (remainingInMs: number, durationInMs: number) => number;
  /** The wait after a renewal that failed: short enough to use a break in the trouble, long enough not to add to it. */
  readonly retryAfterInMs: (durationInMs: number) => number;
}

/** Something that a held resource depends on: its loss is the loss of the resource. */
export interface RenewalDependency {
  readonly signal: AbortSignal;
  readonly remainingInMs: number;
}

/** A timer does not count the time for which the machine is suspended: the clock is read at least this often. */
const maxTickInMs = 1_000;

/**
 * Renews something that is held for a limited time, and knows at any moment by the clock whether it is still held.
 *
 * The time counts from before the request was sent: the service starts counting at some moment between that and its
 * response, so the holder never overestimates what is left. It counts as lost a margin before it can have run out, whatever
 * a renewal in flight is doing. One timer drives it all; it fires at least once a second, so that a suspension of the
 * machine is noticed within a second of its end.
 */
export class RenewalLoop {
  readonly #renewable: Renewable;
  readonly #times: RenewalTimes;
  #clock: Clock;
  #durationInMs: number;
  #renewAtInMs: number;
  #renewing: Promise<Renewal> | undefined;
  #lastError: unknown;
  #stopTimer: (() => void) | undefined;
  #renews = true;
  #stopped = false;
  #dependency: RenewalDependency | undefined;
  #offDependency: (() => void) | undefined;

  /** @param clock - Started before the request was sent that established the hold. */
  constructor(renewable: Renewable, clock: Clock, durationInMs: number, times: RenewalTimes) {
    this.#renewable = renewable;
    this.#times = times;
    this.#clock = clock;
    this.#durationInMs = durationInMs;
    this.#renewAtInMs = times.renewAfterInMs(durationInMs);
    this.#arm();
  }

  /** How long it is certainly held, less the margin; 0 or less once it is not. Reads the clock, and reports a loss that it finds. */
  get remainingInMs(): number {
    return this.isHeld() ? this.#untilDeadline() : 0;
  }

  /** The same by the clock alone, also after `stop`: for requests that end the hold. */
  get untilDeadlineInMs(): number {
    return this.#durationInMs - this.#times.marginInMs(this.#durationInMs) - this.#clock();
  }

  /** How long ago the service last confirmed it. */
  get unconfirmedForInMs(): number {
    return this.#clock();
  }

  /** Right even if the event loop was blocked and no timer has fired. */
  isHeld(): boolean {
    if (!this.#stopped && this.#untilDeadline() <= 0) this.#lose(this.#lastError, true);
    return !this.#stopped;
  }

  /** From now on the loss of `dependency` is the loss of this. */
  dependOn(dependency: RenewalDependency): void {
    this.#dependency = dependency;
    this.#offDependency = onAbort(dependency.signal, () => this.#lose(dependency.signal.reason, false));
  }

  /** Renews now, or waits for the renewal in flight. */
  renew(): Promise<Renewal> {
    return (this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
      this.#arm();
    }));
  }

  /** Takes over the result of a renewal that was made outside of this loop. */
  adopt(renewal: Renewal): void {
    if (this.#stopped) return;
    switch (renewal.kind) {
      case "renewed":
      case "last":
        this.#clock = renewal.clock;
        this.#durationInMs = renewal.holdInMs;
        this.#renewAtInMs = this.#times.renewAfterInMs(renewal.holdInMs);
        this.#lastError = undefined;
        if (renewal.kind === "last") this.#renews = false;
        break;
      case "lost":
        this.#lose(renewal.error, false);
        return;
      case "failed":
        this.#lastError = renewal.error;
        this.#renewAtInMs = this.#clock() + this.#times.retryAfterInMs(this.#durationInMs);
        break;
    }
    this.#arm();
  }

  /** No more renewals. What is held expires by itself, and its end is still reported. */
  letExpire(): void {
    this.#renews = false;
    this.#arm();
  }

  /** Neither renews nor reports from now on. */
  stop(): void {
    this.#stopped = true;
    this.#stopTimer?.();
    this.#offDependency?.();
  }

  async #renew(): Promise<Renewal> {
    // Suspended past the deadline and woken up: the timer of the renewal may well be the first to fire.
    if (!this.isHeld()) return { kind: "failed", error: this.#lastError };
    // Until there is a response, its absence is what keeps the hold from being renewed.
    this.#lastError ??= new RequestTimeoutError("a renewal got no response in time");
    const timeoutInMs = Math.max(1, this.#times.timeoutInMs(this.#untilDeadline(), this.#durationInMs));
    const renewal = await this.#renewable.renew(timeoutInMs).catch((error: unknown) => ({ kind: "failed" as const, error }));
    // Too late: the loss has been reported, and nothing is re-established silently.
    if (!this.isHeld()) return renewal.kind === "renewed" || renewal.kind === "last" ? { kind: "failed", error: this.#lastError } : renewal;
    this.adopt(renewal);
    return renewal;
  }

  #untilDeadline(): number {
    return Math.min(this.untilDeadlineInMs, this.#dependency?.remainingInMs ?? Infinity);
  }

  #arm(): void {
    this.#stopTimer?.();
    if (this.#stopped) return;
    const untilRenewal = this.#renews && !this.#renewing ? this.#renewAtInMs - this.#clock() : Infinity;
    // What never expires needs no look at the clock.
    const untilTick = this.#durationInMs === Infinity ? Infinity : Math.min(maxTickInMs, Math.ceil(this.#untilDeadline()));
    this.#stopTimer = startTimer(Math.max(0, Math.min(untilRenewal, untilTick)), () => this.#tick());
  }

  #tick(): void {
    if (!this.isHeld()) return;
    if (this.#renews && !this.#renewing && this.#clock() >= this.#renewAtInMs) void this.renew();
    // A renewal may hang: the deadline is watched meanwhile.
    this.#arm();
  }

  #lose(error: unknown, expired: boolean): void {
    if (this.#stopped) return;
    this.stop();
    this.#renewable.onLost(error, expired);
  }
}
