import type { OperationTracingOptions } from "@azure/core-tracing";
import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { checkDrainTimeout, defaultDrainTimeoutInMs, ServiceRunner } from "../core/background-service.js";
import type { BackgroundService, ServiceRun, StopOptions } from "../core/background-service.js";
import { delay, isAborted, onAbort } from "../core/deadline.js";
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
import type { AcquireLockOptions, LockStatus } from "./lock-options.js";
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
  /** Aborts when the term ends: lost, resigned, or stopped. The next leader waits for the lease only, not for this work. */
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
   * How long `stop` waits for the work of a term to end.
   * @defaultValue 25_000: orchestrators end a process 30 seconds after SIGTERM
   */
  drainTimeoutInMs?: number | undefined;
}

/** The events of {@link LeaderElection}, with their details. */
export interface LeaderElectionEvents {
  /** This candidate is the leader now. */
  elected: LeadershipTerm;
  /** The work of a term has ended, and its lease is released. `failed`: the work threw. */
  ended: { readonly epoch: number; readonly reason: "lost" | "resigned" | "stopped" | "failed" };
  /** The work of a term threw, or this candidate could not take part. It tries again. */
  error: unknown;
}

const optionNames: OptionNames<LeaderElectionOptions> = {
  durationInSeconds: 1,
  renewIntervalInMs: 1,
  safetyMarginInMs: 1,
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
  readonly #events: EventDispatcher<LeaderElectionEvents>;
  readonly #service: ServiceRunner;
  #current: CurrentTerm | undefined;

  /**
   * Sends no request: the candidate takes part from {@link LeaderElection.start} on.
   * @param onElected - The leader's work. It must end when `term.signal` aborts; only then is the lease released. If it ends
   * earlier, the term continues; if it throws, the term ends, and the error is an `error` event.
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
    this.#locks = locks;
    this.name = name;
    this.#onElected = onElected;
    this.#cooldownInMs = checkNumber("cooldownInMs", cooldownInMs, { min: 0, max: 2 ** 31 - 1 });
    const component = `LeaderElection ${JSON.stringify(name)}`;
    this.#events = new EventDispatcher(component, eventNames);
    this.#service = new ServiceRunner({
      name: component,
      drainTimeoutInMs: checkDrainTimeout(drainTimeoutInMs),
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
    return this.#current !== undefined && !this.#current.over.signal.aborted && this.#current.lock.remainingInMs > 0;
  }

  /**
   * Checks that the container of the locks exists, and takes part in the election from now on. Costs 1 request.
   * @throws {@link TargetNotFoundError} if the container does not exist.
   */
  start(options?: CallOptions): Promise<void> {
    return this.#service.start(options);
  }

  /**
   * Ends the term, if there is one, waits for its work, releases the lease, and no longer takes part. If the work has not ended
   * after `drainTimeoutInMs`, the lease is kept until it ends: another leader must not work at the same time.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  stop(options?: StopOptions): Promise<void> {
    return this.#service.stop(options);
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
   * the leader. The work itself may call it, but must not await it: it would wait for its own end.
   * @throws nothing: the term ends even if its work fails, or its lease cannot be released and has to expire.
   */
  async resign(): Promise<void> {
    if (!this.#current) return;
    this.#current.end("resigned", new DOMException("The leader resigned", "AbortError"));
    await this.#current.ended;
  }

  /**
   * Yields the leader whenever it changes: `state` is `"leased"` while there is a leader. Polls every `pollIntervalInMs` (default
   * 1_000), and ends when `abortSignal` aborts or the iterator returns. Polls that fail transiently are repeated for at least ten
   * seconds. After that, and after a permanent failure, the error is thrown.
   * @throws {@link TargetNotFoundError} if the container does not exist.
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
        let off: (() => void) | undefined;
        await Promise.race([ended, new Promise<void>((resolve) => (off = onAbort(hurry, resolve)))]);
        off?.();
      },
    };
  }

  async #takePart(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
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

  /** Resolves when the work of the term has ended and the lease is released. */
  async #term(lock: LockHandleImpl, stopped: AbortSignal, tracingOptions: OperationTracingOptions, span: CallSpan): Promise<EndReason> {
    lock.setTracingParent(tracingOptions);
    const current = new CurrentTerm(lock);
    const offLost = onAbort(lock.signal, () => current.end("lost", lock.signal.reason));
    const offStopped = onAbort(stopped, () => current.end("stopped", stopped.reason));
    this.#current = current;
    if (!current.over.signal.aborted) await this.#work(current, tracingOptions, span);
    describeSpan(span, { outcome: current.reason });
    offLost();
    offStopped();
    await lock[Symbol.asyncDispose]();
    if (this.#current === current) this.#current = undefined;
    current.settle();
    this.#events.emit("ended", { epoch: lock.epoch, reason: current.reason });
    return current.reason;
  }

  /** Resolves when the term is over and its work has ended. */
  async #work(current: CurrentTerm, tracingOptions: OperationTracingOptions, span: CallSpan): Promise<void> {
    const { lock, over } = current;
    const { signal } = over;
    const assertHeld = (): void => {
      if (signal.aborted) throw signal.reason;
      lock.assertHeld();
    };
    const term: LeadershipTerm = { signal, assertHeld, epoch: lock.epoch, tracingOptions };
    this.#events.emit("elected", term);
    try {
      await this.#onElected(term);
      await new Promise<void>((resolve) => onAbort(signal, resolve));
    } catch (error) {
      // An error that the work throws because its term was over is not reported.
      if (signal.aborted) return;
      current.end("failed", error);
      failSpan(span, error);
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    logger.warning(`election ${JSON.stringify(this.name)}: ${errorLabel(error)}`);
    this.#events.emit("error", error);
  }
}

type EndReason = LeaderElectionEvents["ended"]["reason"];

class CurrentTerm {
  readonly lock: LockHandleImpl;
  readonly over = new AbortController();
  /** Settles when the work has ended and the lease is released. */
  readonly ended: Promise<void>;
  settle!: () => void;
  reason: EndReason = "stopped";

  constructor(lock: LockHandleImpl) {
    this.lock = lock;
    this.ended = new Promise((resolve) => (this.settle = resolve));
  }

  /** The first reason counts. */
  end(reason: EndReason, error: unknown): void {
    if (this.over.signal.aborted) return;
    this.reason = reason;
    this.over.abort(error);
  }
}
