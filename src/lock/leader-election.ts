import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike } from "../clients/call.js";
import { delay, isAborted, onAbort } from "../core/deadline.js";
import { jitter } from "../core/retry.js";
import { isTransient } from "../core/storage-errors.js";
import { describeSpan, errorLabel, failSpan, inSpan, logger } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { isLeaseLostError } from "../errors.js";
import type { LockGuard } from "../lease/lease-guard.js";
import { checkLeaseOptions } from "../lease/lease-options.js";
import { FailureStreak } from "../lease/poll-pacing.js";
import type { BlobLocks, LockInfo, LockOptions } from "./blob-locks.js";

/** One time of being the leader. */
export interface Term {
  /** Larger than that of every term before, of whomever: pass it along with what the leader does, as a fencing token. */
  readonly epoch: number;
  /** Aborts when the term ends: lost, resigned, or stopped. The next leader waits for nobody but the lease. */
  readonly signal: AbortSignal;
  /** Parent for the spans of what the leader does: the span of the term. */
  readonly tracingOptions: OperationTracingOptions | undefined;
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
  #stop: AbortController | undefined;
  #running: Promise<void> = Promise.resolve();
  #present: PresentTerm | undefined;

  constructor(locks: BlobLocks, name: string, options: LeaderElectionOptions) {
    if (typeof (options as Partial<LeaderElectionOptions> | undefined)?.onElected !== "function") {
      throw new TypeError("onElected must be a function");
    }
    locks.blobOf(name); // A bad name is found out now: it depends on the prefix how long it may be.
    checkLeaseOptions(locks.withDefaults(this.#lockOptions(options)));
    this.#locks = locks;
    this.name = name;
    this.#options = options;
    this.#stayAwayInMs = checkNumber("stayAwayInMs", options.stayAwayInMs ?? 5_000, { min: 0, max: 2 ** 31 - 1 });
  }

  /** Whether this is the leader at this moment. */
  get isLeader(): boolean {
    return this.#present !== undefined && !this.#present.over.signal.aborted && this.#present.lock.remainingInMs > 0;
  }

  /** Takes part from now on. */
  start(): void {
    if (this.#stop && !this.#stop.signal.aborted) return;
    const { signal } = (this.#stop = new AbortController());
    // The term that a stop has ended may still be at work.
    this.#running = this.#running.then(() => this.#takePart(signal));
  }

  /**
   * Ends the term, if there is one, waits for its work, releases the lease, and takes part no more. The work itself
   * may call it, but not wait for it: it would wait for its own end.
   */
  async stop(): Promise<void> {
    this.#stop?.abort(new DOMException("the election was stopped", "AbortError"));
    await this.#running;
  }

  /**
   * Ends the term, waits for its work and releases the lease; stays away for a while, then takes part again. The work
   * itself may call it, but not wait for it.
   */
  async resign(): Promise<void> {
    if (!this.#present) return;
    this.#present.next = "stay away";
    this.#present.over.abort(new DOMException("the leader resigned", "AbortError"));
    await this.#present.ended;
  }

  /**
   * Who leads, whenever that changes: `state` is `"leased"` while there is a leader. Looks every `intervalInMs`
   * (default 1_000), and ends when `abortSignal` aborts. Looks that fail in a way that may pass are repeated, for ten
   * seconds at least; then, and if it will not pass, the failure is thrown.
   */
  async *observe(options: { intervalInMs?: number; abortSignal?: AbortSignalLike } = {}): AsyncIterableIterator<LockInfo & { isSelf: boolean }> {
    const intervalInMs = checkNumber("intervalInMs", options.intervalInMs ?? 1_000, { min: 10, max: 2 ** 31 - 1 });
    const { abortSignal } = options;
    const failures = new FailureStreak();
    let last = "";
    while (!abortSignal?.aborted) {
      let info: LockInfo | undefined;
      try {
        info = await this.#locks.inspect(this.name, { abortSignal });
        failures.end();
      } catch (error) {
        if (isAborted(abortSignal)) return;
        if (!isTransient(error) || failures.add()) throw error;
      }
      if (info) {
        const isSelf = info.state === "leased" && this.#isTermOf(info.epoch);
        const seen = JSON.stringify([info.state, info.epoch, isSelf]);
        if (seen !== last) yield { ...info, isSelf };
        last = seen;
      }
      await delay(intervalInMs, abortSignal).catch(() => undefined);
    }
  }

  #isTermOf(epoch: number | undefined): boolean {
    return this.isLeader && this.#present?.lock.epoch === epoch;
  }

  async #takePart(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      try {
        const lock = await this.#locks.acquireVisibly(this.name, { ...this.#lockOptions(this.#options), abortSignal: stopped });
        if ((await this.#lead(lock, stopped)) === "go on") continue;
      } catch (error) {
        if (isAborted(stopped)) return;
        this.#report(error);
      }
      // Others have their turn.
      await delay(jitter(this.#stayAwayInMs * 0.75, 1 / 3), stopped).catch(() => undefined);
    }
  }

  /** One term in a span of its own, which says by its outcome how the term ended. Never rejects. */
  #lead(lock: LockGuard, stopped: AbortSignal): Promise<"stay away" | "go on"> {
    const { tracingOptions } = this.#options;
    const facts = { targetKind: "election", url: lock.url, epoch: lock.epoch };
    return inSpan("LeaderElection.term", { tracingOptions }, (term, span) => this.#term(lock, stopped, term, span), facts);
  }

  /** Until its work has ended and the lease is released. */
  async #term(
    lock: LockGuard,
    stopped: AbortSignal,
    tracingOptions: OperationTracingOptions | undefined,
    span: CallSpan,
  ): Promise<"stay away" | "go on"> {
    lock.setTracingParent(tracingOptions);
    let ended!: () => void;
    const over = new AbortController();
    const present: PresentTerm = { lock, over, next: "go on", ended: new Promise((resolve) => (ended = resolve)) };
    const offLost = onAbort(lock.signal, () => over.abort(lock.signal.reason));
    const offStopped = onAbort(stopped, () => over.abort(stopped.reason));
    this.#present = present;
    const failure = over.signal.aborted ? undefined : await this.#work(present, tracingOptions);
    if (failure) failSpan(span, failure.error);
    describeSpan(span, { outcome: failure ? "failed" : isLeaseLostError(over.signal.reason) ? "lost" : "resigned" });
    offLost();
    offStopped();
    await lock[Symbol.asyncDispose]();
    this.#present = undefined;
    ended();
    return present.next;
  }

  /** Until the term is over. Returns what the work threw, if that is what ended it. */
  async #work(present: PresentTerm, tracingOptions: OperationTracingOptions | undefined): Promise<{ error: unknown } | undefined> {
    const { lock, over } = present;
    const { signal } = over;
    const assertLeader = (): void => {
      if (signal.aborted) throw signal.reason;
      lock.assertHeld();
    };
    try {
      await this.#options.onElected({ epoch: lock.epoch, signal, tracingOptions, assertLeader });
      await new Promise<void>((resolve) => onAbort(signal, resolve));
      return undefined;
    } catch (error) {
      // What the work throws because its term was over is no news.
      if (signal.aborted) return undefined;
      present.next = "stay away";
      over.abort(error);
      this.#report(error);
      return { error };
    }
  }

  #lockOptions(options: LeaderElectionOptions): LockOptions {
    const { durationInSeconds, renewEveryInMs, safetyMarginInMs, tracingOptions } = options;
    return { durationInSeconds, renewEveryInMs, safetyMarginInMs, tracingOptions, autoRenew: true, waitInMs: Infinity };
  }

  #report(error: unknown): void {
    try {
      if (this.#options.onError) this.#options.onError(error);
      else logger.warning(`election ${JSON.stringify(this.name)}: ${errorLabel(error)}`);
    } catch (onErrorFailed) {
      // Nobody is left to be told; the election has to go on.
      logger.warning(`election ${JSON.stringify(this.name)}: onError threw ${errorLabel(onErrorFailed)}`);
    }
  }
}

interface PresentTerm {
  readonly lock: LockGuard;
  readonly over: AbortController;
  /** Settles when the work has ended and the lease is released. */
  readonly ended: Promise<void>;
  next: "stay away" | "go on";
}
