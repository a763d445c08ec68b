/** The clock of a file-share server: leases and SAS tokens expire by it. */
export interface FileShareClock {
  /** Milliseconds since 1970, as the server sees it. */
  now(): number;
  /** Moves the clock forward at once. */
  advance(ms: number): void;
  /** Stops it, so that only `advance` moves it and remaining times come out exactly. */
  pause(): void;
  resume(): void;
}

/** Runs with real time, which is monotonic here: a correction of the machine's clock must not end a lease. */
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
