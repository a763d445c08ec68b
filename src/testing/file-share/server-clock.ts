/** The clock of a file-share server: leases and SAS tokens expire by it. */
export interface FileShareClock {
  /** The server's time, in milliseconds since 1970. */
  now(): number;
  /**
   * Moves the clock forward at once.
   * @throws `RangeError` if `ms` is negative.
   */
  advance(ms: number): void;
  /** Stops the clock, so that only `advance` moves it and remaining times are exact. */
  pause(): void;
  /** Lets the clock run again, from the time that it shows. Does nothing if it is not paused. */
  resume(): void;
}

/** Runs with real time, but is monotonic: a correction of the machine's clock must not end a lease. */
export class ServerClock implements FileShareClock {
  readonly #origin = Date.now() - performance.now();
  #offset = 0;
  #pausedAt: number | undefined;

  now(): number {
    return (this.#pausedAt ?? this.#real()) + this.#offset;
  }

  advance(ms: number): void {
    if (!(ms >= 0)) throw new RangeError(`the clock only goes forward, not by ${ms} ms`);
    this.#offset += ms;
  }

  pause(): void {
    this.#pausedAt ??= this.#real();
  }

  resume(): void {
    if (this.#pausedAt === undefined) return;
    this.#offset -= this.#real() - this.#pausedAt;
    this.#pausedAt = undefined;
  }

  #real(): number {
    return this.#origin + performance.now();
  }
}
