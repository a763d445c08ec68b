import { onAbort, RequestTimeoutError, startStopwatch, startTimer, wallClockOffset } from "./deadline.js";
import type { Clock } from "./deadline.js";
import { logger } from "./telemetry.js";

/** The result of one renewal. */
export type Renewal =
  /** Held for another `claimDurationInMs`, counted by `clock`. */
  | { readonly kind: "renewed"; readonly clock: Clock; readonly claimDurationInMs: number }
  /** As `renewed`, but no further renewal is possible. */
  | { readonly kind: "last"; readonly clock: Clock; readonly claimDurationInMs: number }
  /** Not held any more. */
  | { readonly kind: "lost"; readonly error: unknown }
  /** No response, or an inconclusive one: try again. */
  | { readonly kind: "failed"; readonly error: unknown };

/** What a {@link RenewalLoop} renews: a lease, a received message, an inbox claim. */
export interface Renewable {
  /** Extends the hold. Settles within about `timeoutInMs`. */
  renew(timeoutInMs: number): Promise<Renewal>;
  /**
   * Called once, when the time is over or a renewal reports the loss. `expired`: the time is over; `error` is then the error
   * of the last renewal, if one was attempted.
   */
  onLost(error: unknown, expired: boolean): void;
}

/** The times of a {@link RenewalLoop}, each as a function of the duration, which may change with each renewal. */
export interface RenewalTimes {
  /** How long before its end the hold counts as lost: covers late timers, clock drift and the time that work needs to stop. */
  readonly marginInMs: (durationInMs: number) => number;
  /** When to renew, counted from the last renewal. `Infinity`: no automatic renewal. */
  readonly renewAfterInMs: (durationInMs: number) => number;
  /** The time for one renewal. */
  readonly timeoutInMs: (remainingInMs: number, durationInMs: number) => number;
  /** The delay after a failed renewal: short enough to use a brief recovery of the service, long enough not to add to its load. */
  readonly retryAfterInMs: (durationInMs: number) => number;
}

/** A hold that another hold depends on: if the dependency is lost, so is the dependent. */
export interface RenewalDependency {
  readonly signal: AbortSignal;
  readonly remainingInMs: number;
  /** No time remains, but it is not lost yet: see {@link RenewalLoop}. */
  readonly isInDoubt?: boolean;
}

/** A timer does not count time while the machine is suspended, so the clock is read at least this often. */
const maxTickInMs = 1_000;

/** How long the service may take to confirm a hold whose time is over only if the wall clock is right. */
const maxDoubtInMs = 2_000;
/** Also the least time that must remain without the step: with less, no response can be expected. */
const doubtTickInMs = 250;
/** Some systems tell their uptime in whole seconds. */
const offsetToleranceInMs = 1_500;

/**
 * Renews a hold of limited duration, and can tell from the clock at any moment whether it is still held.
 *
 * The duration counts from before the request was sent: the service starts counting between that moment and its response,
 * so the holder never overestimates the remaining time. The hold counts as lost a margin before it can have expired, even
 * while a renewal is in flight. One timer drives the loop. It fires at least once a second, so a suspension of the machine
 * is detected within a second of its end.
 *
 * | the time is over by the                  | which is                            | then                                            |
 * |------------------------------------------|-------------------------------------|-------------------------------------------------|
 * | monotonic clock                          | the truth                           | lost                                            |
 * | wall clock, which agrees with the uptime | a suspension                        | lost                                            |
 * | wall clock alone                         | a step of the clock, or a pause of  | in doubt: it does not count as held, and is     |
 * |                                          | a virtual machine                   | renewed at once; lost unless that succeeds soon |
 *
 * The service renews only what no other client has taken since: what it confirms was held all the time. Without doubt, a time server that
 * sets the clocks of a fleet forward would end all its holds at once.
 */
export class RenewalLoop {
  readonly #renewable: Renewable;
  readonly #times: RenewalTimes;
  #clock: Clock;
  /**
   * Of the wall clock when `#clock` was started, or at the first tick after it: reading it costs more than all else that a short hold
   * needs. A step before it is read counts as a suspension, and ends the hold.
   */
  #clockOffset: number | undefined;
  /** Since when it has been in doubt whether it is held. */
  #doubt: Clock | undefined;
  #durationInMs: number;
  #renewAtInMs: number;
  #renewing: Promise<Renewal> | undefined;
  #lastError: unknown;
  #stopTimer: (() => void) | undefined;
  #renews = true;
  #stopped = false;
  /** Stopped because of a loss, and not by its owner. */
  #lost = false;
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

  /** How long it is certainly held, minus the margin; 0 or less once it is lost. Reports a loss that it detects. */
  get remainingInMs(): number {
    return this.isHeld() ? this.#untilDeadline() : 0;
  }

  /** The same from the clock alone, also after `stop`: for requests that end the hold. */
  get untilDeadlineInMs(): number {
    return this.#durationInMs - this.#times.marginInMs(this.#durationInMs) - this.#clock();
  }

  /** How long ago the service last confirmed it. */
  get unconfirmedForInMs(): number {
    return this.#clock();
  }

  /** Correct even if the event loop was blocked and no timer has fired. False while it is in doubt. */
  isHeld(): boolean {
    if (this.#stopped) return false;
    const isHeld = this.#untilDeadline() > 0;
    if (isHeld) this.#doubt = undefined;
    else if (!this.#mayBeHeld()) this.#lose(this.#lastError, true);
    else if (!this.#doubt) this.#beginDoubt();
    return isHeld;
  }

  /** Whether the service is asked at the moment if it is still held. */
  get isInDoubt(): boolean {
    return !this.isHeld() && !this.#stopped;
  }

  /** From now on the loss of `dependency` is also the loss of this hold. */
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

  /** Applies the result of a renewal that was made outside this loop. */
  adopt(renewal: Renewal): void {
    if (this.#stopped) return;
    switch (renewal.kind) {
      case "renewed":
      case "last":
        this.#clock = renewal.clock;
        this.#clockOffset = undefined;
        this.#doubt = undefined;
        this.#durationInMs = renewal.claimDurationInMs;
        this.#renewAtInMs = this.#times.renewAfterInMs(renewal.claimDurationInMs);
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

  /** Stops renewing. The hold expires by itself, and its end is still reported. */
  letExpire(): void {
    this.#renews = false;
    this.#arm();
  }

  /** From now on neither renews nor reports. */
  stop(): void {
    this.#stopped = true;
    this.#stopTimer?.();
    this.#offDependency?.();
  }

  async #renew(): Promise<Renewal> {
    // After a suspension past the deadline, the renewal may be the first timer to fire.
    if (!this.isHeld() && this.#lost) return { kind: "failed", error: this.#lastError };
    const remainingInMs = this.#doubt ? Math.min(this.#untilDeadlineWithoutStep(), maxDoubtInMs - this.#doubt()) : this.#untilDeadline();
    const timeoutInMs = Math.max(1, this.#times.timeoutInMs(remainingInMs, this.#durationInMs));
    const clockOffset = wallClockOffset();
    // If the hold expires before a response arrives, this is the error that onLost gets.
    this.#lastError ??= new RequestTimeoutError(timeoutInMs, "a renewal got no response");
    const renewal = await this.#renewable.renew(timeoutInMs).catch((error: unknown) => ({ kind: "failed" as const, error }));
    if (!this.isHeld() && this.#lost && (renewal.kind === "renewed" || renewal.kind === "last")) return { kind: "failed", error: this.#lastError };
    this.adopt(renewal);
    // Read before its clock was started: a step since then is known as one.
    if (renewal.kind === "renewed" || renewal.kind === "last") this.#clockOffset = clockOffset;
    return renewal;
  }

  /** Its time is over by a wall clock that was set forward, and by nothing else; or that is so of what it depends on. */
  #mayBeHeld(): boolean {
    if (this.#doubt && this.#doubt() >= maxDoubtInMs) return false;
    if (this.untilDeadlineInMs > 0) return this.#dependency?.isInDoubt === true;
    return this.#renews && this.#times.renewAfterInMs(this.#durationInMs) !== Infinity && this.#untilDeadlineWithoutStep() >= doubtTickInMs;
  }

  #beginDoubt(): void {
    this.#doubt = startStopwatch();
    logger.info(`the wall clock was set forward, or the machine was paused: the service is asked whether a hold is still held`);
    // After the current call: it may be the check of a renewal.
    void Promise.resolve().then(() => this.#tick());
  }

  #untilDeadlineWithoutStep(): number {
    const { monotonic } = this.#clock;
    const offset = wallClockOffset();
    if (!monotonic || offset === undefined || this.#clockOffset === undefined) return this.untilDeadlineInMs;
    const stepInMs = Math.max(0, offset - this.#clockOffset - offsetToleranceInMs);
    const elapsedInMs = Math.max(monotonic(), this.#clock() - stepInMs);
    return this.untilDeadlineInMs + this.#clock() - elapsedInMs;
  }

  #untilDeadline(): number {
    return Math.min(this.untilDeadlineInMs, this.#dependency?.remainingInMs ?? Infinity);
  }

  #arm(): void {
    this.#stopTimer?.();
    if (this.#stopped) return;
    const untilRenewal = this.#renews && !this.#renewing && !this.#doubt ? this.#renewAtInMs - this.#clock() : Infinity;
    // A hold that never expires needs no check of the clock.
    const untilTick = this.#durationInMs === Infinity ? Infinity : Math.min(maxTickInMs, this.#doubt ? doubtTickInMs : Math.ceil(this.#untilDeadline()));
    this.#stopTimer = startTimer(Math.max(0, Math.min(untilRenewal, untilTick)), () => this.#tick());
  }

  #tick(): void {
    const isDue = !this.isHeld() || this.#clock() >= this.#renewAtInMs;
    if (this.#stopped) return;
    this.#clockOffset ??= wallClockOffset();
    if (this.#renews && !this.#renewing && isDue) void this.renew();
    // A renewal may hang: keep checking the deadline meanwhile.
    this.#arm();
  }

  #lose(error: unknown, expired: boolean): void {
    if (this.#stopped) return;
    this.#lost = true;
    this.stop();
    this.#renewable.onLost(error, expired);
  }
}
