import { onAbort, RequestTimeoutError, startTimer } from "./deadline.js";
import type { Clock } from "./deadline.js";

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
}

/** A timer does not count time while the machine is suspended, so the clock is read at least this often. */
const maxTickInMs = 1_000;

/**
 * Renews a hold of limited duration, and can tell from the clock at any moment whether it is still held.
 *
 * The duration counts from before the request was sent: the service starts counting between that moment and its response,
 * so the holder never overestimates the remaining time. The hold counts as lost a margin before it can have expired, even
 * while a renewal is in flight. One timer drives the loop. It fires at least once a second, so a suspension of the machine
 * is detected within a second of its end.
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

  /** Correct even if the event loop was blocked and no timer has fired. */
  isHeld(): boolean {
    if (!this.#stopped && this.#untilDeadline() <= 0) this.#lose(this.#lastError, true);
    return !this.#stopped;
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
    const timeoutInMs = Math.max(1, this.#times.timeoutInMs(this.#untilDeadline(), this.#durationInMs));
    // If the hold expires before a response arrives, this is the error that onLost gets.
    this.#lastError ??= new RequestTimeoutError(timeoutInMs, "a renewal got no response");
    const renewal = await this.#renewable.renew(timeoutInMs).catch((error: unknown) => ({ kind: "failed" as const, error }));
    if (!this.isHeld() && this.#lost && (renewal.kind === "renewed" || renewal.kind === "last")) return { kind: "failed", error: this.#lastError };
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
    // A hold that never expires needs no check of the clock.
    const untilTick = this.#durationInMs === Infinity ? Infinity : Math.min(maxTickInMs, Math.ceil(this.#untilDeadline()));
    this.#stopTimer = startTimer(Math.max(0, Math.min(untilRenewal, untilTick)), () => this.#tick());
  }

  #tick(): void {
    if (!this.isHeld()) return;
    if (this.#renews && !this.#renewing && this.#clock() >= this.#renewAtInMs) void this.renew();
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
