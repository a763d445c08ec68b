import type { Clock } from "./clock.js";

/** What came of one renewal. */
export type Renewal =
  /** Good for another `holdInMs`, counted by `clock`. */
  | { readonly kind: "renewed"; readonly clock: Clock; readonly holdInMs: number }
  /** As `renewed`, but it was the last one. */
  | { readonly kind: "last"; readonly clock: Clock; readonly holdInMs: number }
  /** Gone. */
  | { readonly kind: "lost"; readonly error: unknown }
  /** No answer, or one that says nothing: try again. */
  | { readonly kind: "failed"; readonly error: unknown };

/** What {@link KeepAlive} keeps. */
export interface Keepable {
  /** Asks for more time. Must settle within about `boundInMs`. */
  renew(boundInMs: number): Promise<Renewal>;
  /** Called once, if the time is over or a renewal says that it is gone. */
  lost(error: unknown, expired: boolean): void;
}

/**
 * Renews something that is held for a limited time, at half of that time, and says when it is lost: at the end of the
 * time that is certain, less a margin, whatever a renewal in flight is doing. A renewal that fails is tried again
 * about once a second, and no single one may take more than half of what is left: enough for another, but no less, as one
 * that is cut off leaves open whether it was carried out.
 */
export class KeepAlive {
  readonly #keepable: Keepable;
  #clock: Clock;
  #holdInMs: number;
  #renewTimer: ReturnType<typeof setTimeout> | undefined;
  #deadlineTimer: ReturnType<typeof setTimeout> | undefined;
  #renewing = true;
  #ended = false;
  #lastError: unknown;

  constructor(keepable: Keepable, clock: Clock, holdInMs: number) {
    this.#keepable = keepable;
    this.#clock = clock;
    this.#holdInMs = holdInMs;
    this.#schedule(this.#holdInMs / 2 - clock());
  }

  /** How long nobody else can have it, less the margin for a late timer. */
  get remainingInMs(): number {
    return this.#ended ? 0 : this.#holdInMs - marginOf(this.#holdInMs) - this.#clock();
  }

  /** Takes over what a renewal outside of this loop has brought. */
  adopt(renewal: Renewal): void {
    if (this.#ended) return;
    switch (renewal.kind) {
      case "renewed":
      case "last":
        this.#clock = renewal.clock;
        this.#holdInMs = renewal.holdInMs;
        this.#lastError = undefined;
        clearTimeout(this.#deadlineTimer);
        this.#deadlineTimer = undefined;
        if (renewal.kind === "last") this.#renewing = false;
        if (this.#renewing) this.#schedule(this.#holdInMs / 2 - this.#clock());
        else this.#watchDeadline();
        break;
      case "lost":
        this.#end(renewal.error, false);
        break;
      case "failed":
        this.#lastError = renewal.error;
        this.#schedule(Math.min(1_000, this.#holdInMs / 10));
        break;
    }
  }

  /** No more renewals. What is held runs out by itself, and its end is still told. */
  letRunOut(): void {
    if (this.#ended) return;
    this.#renewing = false;
    clearTimeout(this.#renewTimer);
    this.#watchDeadline();
  }

  /** Neither renews nor tells from now on. */
  stop(): void {
    this.#ended = true;
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#deadlineTimer);
  }

  #schedule(inMs: number): void {
    clearTimeout(this.#renewTimer);
    if (!this.#renewing) return;
    this.#renewTimer = setTimeout(() => void this.#renew(), Math.max(0, inMs));
  }

  async #renew(): Promise<void> {
    // One timer is enough until here; from now on a renewal may hang, so the end is watched besides.
    this.#watchDeadline();
    if (this.#ended) return;
    const renewal = await this.#keepable.renew(Math.max(1, this.remainingInMs / 2)).catch((error: unknown) => ({ kind: "failed" as const, error }));
    this.adopt(renewal);
  }

  #watchDeadline(): void {
    clearTimeout(this.#deadlineTimer);
    const remaining = this.remainingInMs;
    if (remaining <= 0) this.#end(this.#lastError, true);
    // setTimeout takes no more than 24 days.
    else this.#deadlineTimer = setTimeout(() => this.#watchDeadline(), Math.min(Math.ceil(remaining), 0x7fff_ffff));
  }

  #end(error: unknown, expired: boolean): void {
    if (this.#ended) return;
    this.stop();
    this.#keepable.lost(error, expired);
  }
}

/** A timer fires late when the event loop is busy; the holder must be told before anybody else can get it. */
function marginOf(holdInMs: number): number {
  return Math.min(1_000, holdInMs / 10);
}
