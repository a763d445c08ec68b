import type { AbortSignalLike } from "../clients.js";
import { onAbort } from "../internal/abort.js";
import { delay } from "../internal/delay.js";
import { logger } from "../internal/log.js";
import { checkNumber } from "../internal/validate.js";
import type { BlobLocks, LockInfo, LockOptions } from "./blob-locks.js";
import type { LockGuard } from "./lock-guard.js";

/** One time of being the leader. */
export interface Term {
  /** Larger than that of every term before, of whomever: pass it along with what the leader does, as a fencing token. */
  readonly epoch: number;
  /** Aborts when the term ends: lost, resigned, or stopped. The next leader waits for nobody but the lease. */
  readonly signal: AbortSignal;
  /** Throws if this is not the leader at this moment. Asks the clock, not the network. */
  assertLeader(): void;
}

/** Options of {@link LeaderElection}. */
export interface LeaderElectionOptions extends Omit<LockOptions, "waitInMs" | "abortSignal" | "autoRenew"> {
  /**
   * The leader's work. It has to end when `term.signal` aborts; only then the lease is released. If it ends earlier,
   * the term goes on; if it throws, the term is over and the error goes to `onError`.
   */
  onElected: (term: Term) => Promise<void> | void;
  /** What the work threw, and what kept this candidate from taking part. @defaultValue a warning in the log */
  onError?: ((error: unknown) => void) | undefined;
  /**
   * How long this candidate stays away after it resigned, or after its work failed, so that others have their turn.
   * @defaultValue 5_000
   */
  stayAwayInMs?: number | undefined;
}

/** Of all who run it under one name, one is the leader. */
export class LeaderElection {
  readonly name: string;
  readonly #locks: BlobLocks;
  readonly #options: LeaderElectionOptions;
  readonly #stayAwayInMs: number;
  #running: Promise<void> | undefined;
  #stop = new AbortController();
  #lock: LockGuard | undefined;
  #endTerm: ((reason: string) => void) | undefined;
  #termOver: Promise<void> = Promise.resolve();

  constructor(locks: BlobLocks, name: string, options: LeaderElectionOptions) {
    if (typeof (options as Partial<LeaderElectionOptions>).onElected !== "function") throw new TypeError("onElected must be a function");
    this.#locks = locks;
    this.name = name;
    this.#options = options;
    this.#stayAwayInMs = checkNumber("stayAwayInMs", options.stayAwayInMs ?? 5_000, { min: 0, max: 2 ** 31 - 1 });
  }

  /** Whether this is the leader at this moment. */
  get isLeader(): boolean {
    return this.#lock !== undefined && this.#lock.remainingInMs > 0;
  }

  /** Takes part from now on. */
  start(): void {
    if (this.#running) return;
    this.#stop = new AbortController();
    this.#running = this.#takePart(this.#stop.signal);
  }

  /** Ends the term, if there is one, waits for its work, releases the lease, and takes part no more. */
  async stop(): Promise<void> {
    this.#stop.abort(new DOMException("the election was stopped", "AbortError"));
    await this.#running;
    this.#running = undefined;
  }

  /** Ends the term, waits for its work and releases the lease; stays away for a while, then takes part again. */
  async resign(): Promise<void> {
    if (!this.#endTerm) return;
    this.#endTerm("resigned");
    await this.#termOver;
  }

  /** Who leads, whenever that changes: `state` is `"leased"` while there is a leader. Looks every `intervalInMs`. */
  async *observe(options: { intervalInMs?: number; abortSignal?: AbortSignalLike } = {}): AsyncIterableIterator<LockInfo & { isSelf: boolean }> {
    const intervalInMs = checkNumber("intervalInMs", options.intervalInMs ?? 1_000, { min: 10, max: 2 ** 31 - 1 });
    const { abortSignal } = options;
    let last = "";
    while (!abortSignal?.aborted) {
      const info = await this.#locks.inspect(this.name, { abortSignal });
      const seen = JSON.stringify([info.state, info.epoch]);
      if (seen !== last) yield { ...info, isSelf: this.isLeader && this.#lock?.epoch === info.epoch };
      last = seen;
      await delay(intervalInMs, abortSignal).catch(() => undefined);
    }
  }

  async #takePart(stopped: AbortSignal): Promise<void> {
    const { onElected, durationInSeconds, renewEveryInMs, safetyMarginInMs, tracingOptions } = this.#options;
    const lockOptions = { durationInSeconds, renewEveryInMs, safetyMarginInMs, tracingOptions, abortSignal: stopped };
    while (!stopped.aborted) {
      let lock: LockGuard;
      try {
        lock = await this.#locks.acquire(this.name, lockOptions);
      } catch (error) {
        if (isAborted(stopped)) return;
        this.#report(error);
        await this.#stayAway(stopped);
        continue;
      }
      const term = this.#lead(lock, stopped, onElected);
      this.#termOver = term.then(() => undefined);
      if ((await term) === "stay away") await this.#stayAway(stopped);
    }
  }

  /** One term, until its work has ended and the lease is released. Never rejects. */
  async #lead(lock: LockGuard, stopped: AbortSignal, onElected: LeaderElectionOptions["onElected"]): Promise<"stay away" | "go on"> {
    const over = new AbortController();
    const end = (reason: unknown): void => over.abort(reason);
    const offLost = onAbort(lock.signal, () => end(lock.signal.reason));
    const offStopped = onAbort(stopped, () => end(stopped.reason));
    let next: "stay away" | "go on" = "go on";
    this.#endTerm = (reason) => {
      next = "stay away";
      end(new DOMException(`the leader ${reason}`, "AbortError"));
    };
    this.#lock = lock;
    try {
      await onElected({ epoch: lock.epoch, signal: over.signal, assertLeader: () => assertLeader(lock, over.signal) });
      await ended(over.signal);
    } catch (error) {
      // What the work throws because its term was over is no news.
      if (!over.signal.aborted) {
        this.#report(error);
        next = "stay away";
        end(error);
      }
    }
    offLost();
    offStopped();
    this.#lock = undefined;
    this.#endTerm = undefined;
    await lock[Symbol.asyncDispose]();
    return next;
  }

  #stayAway(stopped: AbortSignal): Promise<void> {
    return delay(this.#stayAwayInMs * (0.5 + Math.random() / 2), stopped).catch(() => undefined);
  }

  #report(error: unknown): void {
    if (this.#options.onError) this.#options.onError(error);
    else logger.warning(`election ${JSON.stringify(this.name)}: ${String(error)}`);
  }
}

function assertLeader(lock: LockGuard, over: AbortSignal): void {
  if (over.aborted) throw over.reason;
  lock.assertHeld();
}

function ended(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => onAbort(signal, resolve));
}

/** Asked anew after an await. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
