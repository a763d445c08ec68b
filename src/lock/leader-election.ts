import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike } from "../clients/call.js";
import { delay, isAborted, onAbort } from "../core/deadline.js";
import { jitter } from "../core/retry.js";
import { isTransient } from "../core/storage-errors.js";
import { describeSpan, errorLabel, failSpan, inSpan, logger } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { checkNumber } from "../core/validate.js";
import { isConcurrencyError } from "../errors.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import { checkLeaseOptions } from "../lease/lease-options.js";
import { FailureStreak } from "../lease/poll-pacing.js";
import type { BlobLocks } from "./blob-locks.js";
import type { AcquireLockOptions, LockStatus } from "./lock-options.js";

/** One term as the leader. */
export interface LeadershipTerm {
  /** Larger than that of every earlier term of any candidate: send it with the leader's operations, as a fencing token. */
  readonly epoch: number;
  /** Aborts when the term ends: lost, resigned, or stopped. The next leader waits for the lease only, not for this work. */
  readonly signal: AbortSignal;
  /** Parent for the spans of the leader's operations: the span of the term. */
  readonly tracingOptions: OperationTracingOptions | undefined;
  /** Throws if this is not the leader at this moment. Reads the clock, and sends no request. */
  assertLeader(): void;
}

/** Options of {@link LeaderElection}. */
export interface LeaderElectionOptions extends Omit<AcquireLockOptions, "waitInMs" | "abortSignal" | "autoRenew"> {
  /**
   * The leader's work. It must end when `term.signal` aborts; only then is the lease released. If it ends earlier, the term
   * continues; if it throws, the term ends and the error is passed to `onError`.
   */
  onElected: (term: LeadershipTerm) => Promise<void> | void;
  /** Receives the errors of the work, and those that kept this candidate from taking part. @defaultValue a warning in the log */
  onError?: ((error: unknown) => void) | undefined;
  /**
   * How long this candidate does not take part after it resigned, or after its work failed, so that another candidate is elected.
   * @defaultValue 5_000
   */
  cooldownInMs?: number | undefined;
}

/** Elects one leader among all candidates with the same name. */
export class LeaderElection {
  readonly name: string;
  readonly #locks: BlobLocks;
  readonly #options: LeaderElectionOptions;
  readonly #cooldownInMs: number;
  #stop: AbortController | undefined;
  #running: Promise<void> = Promise.resolve();
  #current: CurrentTerm | undefined;

  constructor(locks: BlobLocks, name: string, options: LeaderElectionOptions) {
    if (typeof (options as Partial<LeaderElectionOptions> | undefined)?.onElected !== "function") {
      throw new TypeError("onElected must be a function");
    }
    locks.blobOf(name); // Rejects an invalid name now: how long it may be depends on the prefix.
    checkLeaseOptions(locks.withDefaults(this.#lockOptions(options)));
    this.#locks = locks;
    this.name = name;
    this.#options = options;
    this.#cooldownInMs = checkNumber("cooldownInMs", options.cooldownInMs ?? 5_000, { min: 0, max: 2 ** 31 - 1 });
  }

  /** Whether this is the leader at this moment. */
  get isLeader(): boolean {
    return this.#current !== undefined && !this.#current.over.signal.aborted && this.#current.lock.remainingInMs > 0;
  }

  /** Takes part in the election from now on. */
  start(): void {
    if (this.#stop && !this.#stop.signal.aborted) return;
    const { signal } = (this.#stop = new AbortController());
    // The work of a term that was stopped may not have ended yet.
    this.#running = this.#running.then(() => this.#takePart(signal));
  }

  /**
   * Ends the term, if there is one, waits for its work, releases the lease, and no longer takes part. The work itself may call
   * it, but must not await it: it would wait for its own end.
   */
  async stop(): Promise<void> {
    this.#stop?.abort(new DOMException("the election was stopped", "AbortError"));
    await this.#running;
  }

  /**
   * Ends the term, waits for its work and releases the lease; takes part again after `cooldownInMs`. The work itself may call
   * it, but must not await it.
   */
  async resign(): Promise<void> {
    if (!this.#current) return;
    this.#current.next = "cool down";
    this.#current.over.abort(new DOMException("the leader resigned", "AbortError"));
    await this.#current.ended;
  }

  /**
   * Yields the leader whenever it changes: `state` is `"leased"` while there is a leader. Polls every `pollIntervalInMs` (default
   * 1_000), and ends when `abortSignal` aborts. Polls that fail transiently are repeated for at least ten seconds. After that,
   * and after a permanent failure, the error is thrown.
   */
  async *observe(options: { pollIntervalInMs?: number; abortSignal?: AbortSignalLike } = {}): AsyncIterableIterator<LockStatus & { isSelf: boolean }> {
    const pollIntervalInMs = checkNumber("pollIntervalInMs", options.pollIntervalInMs ?? 1_000, { min: 10, max: 2 ** 31 - 1 });
    const { abortSignal } = options;
    const failures = new FailureStreak();
    let last = "";
    while (!abortSignal?.aborted) {
      let info: LockStatus | undefined;
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
      await delay(pollIntervalInMs, abortSignal).catch(() => undefined);
    }
  }

  #isTermOf(epoch: number | undefined): boolean {
    return this.isLeader && this.#current?.lock.epoch === epoch;
  }

  async #takePart(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      try {
        const lock = await this.#locks.acquireVisibly(this.name, { ...this.#lockOptions(this.#options), abortSignal: stopped });
        if ((await this.#lead(lock, stopped)) === "continue") continue;
      } catch (error) {
        if (isAborted(stopped)) return;
        this.#report(error);
      }
      // Lets another candidate be elected.
      await delay(jitter(this.#cooldownInMs * 0.75, 1 / 3), stopped).catch(() => undefined);
    }
  }

  /** Runs one term in its own span, whose outcome says how the term ended. Never rejects. */
  #lead(lock: LockHandleImpl, stopped: AbortSignal): Promise<"cool down" | "continue"> {
    const { tracingOptions } = this.#options;
    const details = { targetKind: "election", url: lock.url, epoch: lock.epoch };
    return inSpan("LeaderElection.term", { tracingOptions }, (term, span) => this.#term(lock, stopped, term, span), details);
  }

  /** Resolves when the work of the term has ended and the lease is released. */
  async #term(
    lock: LockHandleImpl,
    stopped: AbortSignal,
    tracingOptions: OperationTracingOptions | undefined,
    span: CallSpan,
  ): Promise<"cool down" | "continue"> {
    lock.setTracingParent(tracingOptions);
    let ended!: () => void;
    const over = new AbortController();
    const current: CurrentTerm = { lock, over, next: "continue", ended: new Promise((resolve) => (ended = resolve)) };
    const offLost = onAbort(lock.signal, () => over.abort(lock.signal.reason));
    const offStopped = onAbort(stopped, () => over.abort(stopped.reason));
    this.#current = current;
    const failure = over.signal.aborted ? undefined : await this.#work(current, tracingOptions);
    if (failure) failSpan(span, failure.error);
    describeSpan(span, { outcome: failure ? "failed" : isConcurrencyError(over.signal.reason, "LEASE_LOST") ? "lost" : "resigned" });
    offLost();
    offStopped();
    await lock[Symbol.asyncDispose]();
    this.#current = undefined;
    ended();
    return current.next;
  }

  /** Resolves when the term is over, with the error of the work if that ended the term. */
  async #work(current: CurrentTerm, tracingOptions: OperationTracingOptions | undefined): Promise<{ error: unknown } | undefined> {
    const { lock, over } = current;
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
      // An error that the work throws because its term was over is not reported.
      if (signal.aborted) return undefined;
      current.next = "cool down";
      over.abort(error);
      this.#report(error);
      return { error };
    }
  }

  #lockOptions(options: LeaderElectionOptions): AcquireLockOptions {
    const { durationInSeconds, renewIntervalInMs, safetyMarginInMs, tracingOptions } = options;
    return { durationInSeconds, renewIntervalInMs, safetyMarginInMs, tracingOptions, autoRenew: true, waitInMs: Infinity };
  }

  #report(error: unknown): void {
    try {
      if (this.#options.onError) this.#options.onError(error);
      else logger.warning(`election ${JSON.stringify(this.name)}: ${errorLabel(error)}`);
    } catch (onErrorFailed) {
      // There is no other place to report it, and the election must continue.
      logger.warning(`election ${JSON.stringify(this.name)}: onError threw ${errorLabel(onErrorFailed)}`);
    }
  }
}

interface CurrentTerm {
  readonly lock: LockHandleImpl;
  readonly over: AbortController;
  /** Settles when the work has ended and the lease is released. */
  readonly ended: Promise<void>;
  next: "cool down" | "continue";
}
