import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { checkDrainTimeout, defaultDrainTimeoutInMs, ServiceRunner } from "../core/background-service.js";
import type { BackgroundService, ServiceRun, StopOptions } from "../core/background-service.js";
import { delay, isAborted, onAbort } from "../core/deadline.js";
import { createError, OperationTimeoutError } from "../errors.js";
import { EventDispatcher } from "../core/typed-events.js";
import type { EventNames, TypedEvents } from "../core/typed-events.js";
import { jitter } from "../core/retry.js";
import { describeSpan, errorLabel, failSpan, inSpan, logger } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import { checkLeaseOptions } from "../lease/lease-options.js";
import type { BlobLocks } from "./blob-locks.js";
import { CurrentTerm, settledOrAborted } from "./current-term.js";
import type { EndReason } from "./current-term.js";
import type { AcquireLockOptions, LockStatus } from "./lock-options.js";
import { checkData } from "./lock-record.js";
import { observeLock } from "./observe-lock.js";
import type { ObserveOptions } from "./observe-lock.js";

/**
 * One term as the leader.
 * @example
 * ```ts
 * new LeaderElection(locks, "scheduler", async (term) => {
 *   while (!term.signal.aborted) await runDueJobs({ epoch: term.epoch, signal: term.signal });
 * });
 * ```
 */
export interface LeadershipTerm {
  /**
   * Aborts when the term ends: lost, resigned, or stopped. The work must end then: after `drainTimeoutInMs` the lease is not renewed
   * any more, and the next leader does not wait for this work.
   */
  readonly signal: AbortSignal;
  /**
   * Throws if this is not the leader at this moment. Reads the clock, and sends no request.
   * @throws {@link LeaseLostError} if the lease was lost. If the term ended otherwise, the reason of `signal`.
   */
  assertHeld(): void;
  /** Larger than that of every earlier term of any candidate: send it with the leader's operations, as a fencing token. */
  readonly epoch: number;
  /** Parent for the spans of the leader's operations: the span of the term. */
  readonly tracingOptions: OperationTracingOptions;
}

/** Options of {@link LeaderElection}. */
export interface LeaderElectionOptions extends Omit<AcquireLockOptions, "waitInMs" | "autoRenew" | keyof CallOptions> {
  /**
   * How long this candidate does not take part after it resigned, or after its work failed.
   * @defaultValue 5_000: long enough for another candidate to be elected
   */
  cooldownInMs?: number | undefined;
  /**
   * How long the work of a term may take to end after its signal has aborted; `stop` and `resign` wait for it. Then it is abandoned:
   * its lease is not renewed any more, so that another candidate can lead. `Infinity`: never, the lease is kept until the work ends.
   * @defaultValue 25_000: orchestrators end a process 30 seconds after SIGTERM
   */
  drainTimeoutInMs?: number | undefined;
}

/** The events of {@link LeaderElection}, with their details. */
export interface LeaderElectionEvents {
  /** This candidate is the leader now. */
  elected: LeadershipTerm;
  /**
   * The work of a term has ended, and its lease is released. `failed`: the work threw. `abandoned`: the work has not ended within
   * `drainTimeoutInMs`; its lease is not released, but not renewed any more.
   */
  ended: { readonly epoch: number; readonly reason: "lost" | "resigned" | "stopped" | "failed" | "abandoned" };
  /**
   * The work of a term threw, or this candidate could not take part. It tries again. An {@link OperationTimeoutError}: the work of a
   * term was abandoned. This candidate takes part again when that work has ended.
   */
  error: unknown;
}

const optionNames: OptionNames<LeaderElectionOptions> = {
  durationInSeconds: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
  data: 1,
  maxHoldInMs: 1,
  cooldownInMs: 1,
  drainTimeoutInMs: 1,
};
const eventNames: EventNames<LeaderElectionEvents> = { elected: 1, ended: 1, error: 1 };

/**
 * Elects one leader among all candidates with the same name.
 * @example
 * ```ts
 * const election = new LeaderElection(locks, "scheduler", async ({ signal, epoch }) => runScheduler({ signal, epoch }));
 * election.on("error", (error) => console.error(error));
 * await election.start();
 * ```
 */
export class LeaderElection implements BackgroundService, TypedEvents<LeaderElectionEvents> {
  /** The name of the lock that the leader holds. */
  readonly name: string;
  readonly #locks: BlobLocks;
  readonly #onElected: (term: LeadershipTerm) => Promise<void> | void;
  readonly #lockOptions: AcquireLockOptions;
  readonly #cooldownInMs: number;
  readonly #drainTimeoutInMs: number;
  readonly #events: EventDispatcher<LeaderElectionEvents>;
  readonly #service: ServiceRunner;
  #current: CurrentTerm | undefined;
  /** Resolves when the work of the last term has ended. It may have been abandoned. */
  #lastWork: Promise<void> = Promise.resolve();

  /**
   * Sends no request: the candidate takes part from {@link LeaderElection.start} on.
   * @param onElected - The leader's work. It must end when `term.signal` aborts; only then is the lease released. If it has not ended
   * after `drainTimeoutInMs`, the lease is left to expire. If it ends before its term, the term continues; if it throws, the term
   * ends, and the error is an `error` event.
   * @throws `TypeError` or `RangeError` if an argument is wrong.
   */
  constructor(locks: BlobLocks, name: string, onElected: (term: LeadershipTerm) => Promise<void> | void, options: LeaderElectionOptions = {}) {
    checkOptions("LeaderElection", options, optionNames);
    if (typeof (locks as Partial<BlobLocks> | null | undefined)?.acquireVisibly !== "function") throw new TypeError("LeaderElection needs BlobLocks");
    if (typeof onElected !== "function") throw new TypeError("LeaderElection: onElected must be a function");
    locks.blobOf(name); // Rejects an invalid name now: how long it may be depends on the prefix.
    const { cooldownInMs = 5_000, drainTimeoutInMs = defaultDrainTimeoutInMs, ...lockOptions } = options;
    this.#lockOptions = { ...lockOptions, autoRenew: true, waitInMs: Infinity };
    checkLeaseOptions(locks.withDefaults(this.#lockOptions));
    checkData(options.data);
    this.#locks = locks;
    this.name = name;
    this.#onElected = onElected;
    this.#cooldownInMs = checkNumber("cooldownInMs", cooldownInMs, { min: 0, max: 2 ** 31 - 1 });
    this.#drainTimeoutInMs = checkDrainTimeout(drainTimeoutInMs);
    const component = `LeaderElection ${JSON.stringify(name)}`;
    this.#events = new EventDispatcher(component, eventNames);
    this.#service = new ServiceRunner({
      name: component,
      drainTimeoutInMs: this.#drainTimeoutInMs,
      prepare: async (request) => {
        await locks.inspect(name, request);
      },
      launch: () => this.#launch(),
    });
  }

  /** Whether it takes part in the election. */
  get isRunning(): boolean {
    return this.#service.isRunning;
  }

  /** Whether this is the leader at this moment. */
  get isLeader(): boolean {
    return this.#current !== undefined && !this.#current.signal.aborted && this.#current.lock.remainingInMs > 0;
  }

  /**
   * Checks that the container of the locks exists, and takes part in the election from now on. Costs 1 request.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   * @throws {@link OperationTimeoutError} if the service does not respond within 30 seconds.
   */
  start(options?: CallOptions): Promise<void> {
    return this.#service.start(options);
  }

  /**
   * Ends the term, if there is one, waits for its work, releases the lease, and no longer takes part. Work that has not ended after
   * `drainTimeoutInMs` is abandoned: its lease is not renewed any more. Called by the work itself, it does not wait: the work would
   * wait for its own end. It resolves when the signal of the term has aborted, and the lease is released when the work has ended.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  async stop(options?: StopOptions): Promise<void> {
    const term = this.#current?.isCalledByWork() ? this.#current : undefined;
    const stopped = this.#service.stop(options);
    // The stop comes first: if its options are wrong, it has rejected already, and the term goes on.
    await (term ? Promise.race([stopped, new Promise<void>((resolve) => onAbort(term.signal, resolve))]) : stopped);
  }

  /**
   * Starts, takes part until the signal aborts or `stop` is called, and stops. Rejects only if it could not start.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  run(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void> {
    return this.#service.run(options);
  }

  /**
   * Ends the term, waits for its work and releases the lease; takes part again after `cooldownInMs`. Does nothing if this is not
   * the leader. Work that has not ended after `drainTimeoutInMs` is abandoned. Called by the work itself, it does not wait: the work
   * would wait for its own end. The lease is then released when the work has ended. (In browsers, which have no async context, such a
   * call waits for `drainTimeoutInMs`.)
   * @throws nothing: the term ends even if its work fails, or its lease cannot be released and has to expire.
   */
  async resign(): Promise<void> {
    const term = this.#current;
    if (!term) return;
    term.end("resigned", new DOMException("The leader resigned", "AbortError"));
    if (!term.isCalledByWork()) await term.ended;
  }

  /**
   * Yields the leader whenever it changes: `state` is `"leased"` while there is a leader. Polls every `pollIntervalInMs` (default
   * 1_000), and ends when `abortSignal` aborts or the iterator returns. Polls that fail transiently, or take longer than
   * `tryTimeoutInMs`, are repeated for at least ten seconds. After that, and after a permanent failure, the error is thrown.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   * @throws {@link OperationTimeoutError} if the service has not responded for that long.
   */
  observe(options?: ObserveOptions): AsyncIterableIterator<LockStatus & { readonly isSelf: boolean }> {
    return observeLock(this.#locks, this.name, (epoch) => this.isLeader && this.#current?.lock.epoch === epoch, options);
  }

  /** Adds a listener. A listener that throws has no effect on the election. */
  on<K extends keyof LeaderElectionEvents>(event: K, listener: (detail: LeaderElectionEvents[K]) => void): this {
    this.#events.add(event, listener);
    return this;
  }

  /** Adds a listener for the next event only. */
  once<K extends keyof LeaderElectionEvents>(event: K, listener: (detail: LeaderElectionEvents[K]) => void): this {
    this.#events.add(event, listener, true);
    return this;
  }

  /** Removes a listener. */
  off<K extends keyof LeaderElectionEvents>(event: K, listener: (detail: LeaderElectionEvents[K]) => void): this {
    this.#events.remove(event, listener);
    return this;
  }

  /** Stops, as {@link LeaderElection.stop} does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #launch(): ServiceRun {
    const stopped = new AbortController();
    const ended = this.#takePart(stopped.signal);
    return {
      stop: async (hurry) => {
        stopped.abort(new DOMException("The election was stopped", "AbortError"));
        const off = onAbort(hurry, () => this.#current?.abandon());
        await settledOrAborted(ended, hurry);
        off();
      },
    };
  }

  async #takePart(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      // Abandoned work may still run, and must not run beside that of a new term.
      if (!(await settledOrAborted(this.#lastWork, stopped))) return;
      try {
        const lock = await this.#locks.acquireVisibly(this.name, { ...this.#lockOptions, abortSignal: stopped });
        const reason = await this.#lead(lock, stopped);
        if (reason === "lost" || reason === "stopped") continue;
      } catch (error) {
        if (isAborted(stopped)) return;
        this.#report(error);
      }
      // Lets another candidate be elected.
      await delay(jitter(this.#cooldownInMs * 0.75, 1 / 3), stopped).catch(() => undefined);
    }
  }

  /** Runs one term in its own span, whose outcome says how the term ended. Never rejects. */
  #lead(lock: LockHandleImpl, stopped: AbortSignal): Promise<EndReason> {
    const details = { targetKind: "election", url: lock.url, epoch: lock.epoch };
    return inSpan("LeaderElection.term", {}, (tracingOptions = {}, span) => this.#term(lock, stopped, tracingOptions, span), details);
  }

  /** Resolves when the work of the term has ended and the lease is released, or when the work is abandoned. */
  async #term(lock: LockHandleImpl, stopped: AbortSignal, tracingOptions: OperationTracingOptions, span: CallSpan): Promise<EndReason> {
    lock.setTracingParent(tracingOptions);
    const current = new CurrentTerm(lock, this.#drainTimeoutInMs);
    const offLost = onAbort(lock.signal, () => current.end("lost", lock.signal.reason));
    const offStopped = onAbort(stopped, () => current.end("stopped", stopped.reason));
    this.#current = current;
    const work = current.signal.aborted ? Promise.resolve() : this.#work(current, tracingOptions, span);
    this.#lastWork = work;
    const hasEnded = await current.drained(work);
    offLost();
    offStopped();
    if (hasEnded) await lock[Symbol.asyncDispose]();
    else this.#abandon(current, work, span);
    describeSpan(span, { outcome: current.reason });
    if (this.#current === current) this.#current = undefined;
    current.settle();
    this.#events.emit("ended", { epoch: lock.epoch, reason: current.reason });
    return current.reason;
  }

  /** Resolves when the term is over and its work has ended. */
  async #work(current: CurrentTerm, tracingOptions: OperationTracingOptions, span: CallSpan): Promise<void> {
    const { lock, signal } = current;
    const assertHeld = (): void => {
      if (signal.aborted) throw signal.reason;
      lock.assertHeld();
    };
    const term: LeadershipTerm = { signal, assertHeld, epoch: lock.epoch, tracingOptions };
    this.#events.emit("elected", term);
    try {
      await current.work(() => this.#onElected(term));
      await new Promise<void>((resolve) => onAbort(signal, resolve));
    } catch (error) {
      // An error that the work throws because its term was over is not reported.
      if (signal.aborted) return;
      current.end("failed", error);
      failSpan(span, error);
      this.#report(error);
    }
  }

  /**
   * The work takes no notice of its signal. Renewed for ever, its lease would leave the election without a leader. The lease is left
   * to expire rather than released: if the work ends by then, it has not run beside that of the next leader.
   */
  #abandon(current: CurrentTerm, work: Promise<void>, span: CallSpan): void {
    const { lock, overForInMs } = current;
    current.reason = "abandoned";
    lock.letExpire();
    void work.then(() => lock[Symbol.asyncDispose]());
    const message = `The work of the leader of ${JSON.stringify(this.name)} (epoch ${lock.epoch}) has not ended ${overForInMs} ms after its signal aborted (drainTimeoutInMs). Its lease is not renewed any more: another candidate may lead while that work still runs. End the work when term.signal aborts.`;
    const error = createError(OperationTimeoutError, message, { url: lock.url, elapsedInMs: overForInMs, committed: "unknown" });
    failSpan(span, error);
    this.#report(error);
  }

  #report(error: unknown): void {
    logger.warning(`election ${JSON.stringify(this.name)}: ${errorLabel(error)}`);
    this.#events.emit("error", error);
  }
}
