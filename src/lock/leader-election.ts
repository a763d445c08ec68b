import type { AbortSignalLike, CallOptions } from "../clients/call.js";
import { checkDrainTimeout, defaultDrainTimeoutInMs, ServiceRunner } from "../core/background-service.js";
import type { BackgroundService, ServiceRun, StopOptions } from "../core/background-service.js";
import { delay, isAborted, onAbort } from "../core/deadline.js";
import { EventDispatcher } from "../core/typed-events.js";
import type { EventNames, TypedEvents } from "../core/typed-events.js";
import { observed } from "../core/measure.js";
import { jitter } from "../core/retry.js";
import { errorLabel, logger } from "../core/telemetry.js";
import { checkNumber, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import { checkLeaseOptions } from "../lease/lease-options.js";
import type { BlobLocks } from "./blob-locks.js";
import type { AcquireLockOptions, LockStatus } from "./lock-options.js";
import { checkData } from "./lock-record.js";
import { observeLock } from "./observe-lock.js";
import type { ObserveOptions } from "./observe-lock.js";
import { endOrSignal, settledOrAborted, Term } from "./term.js";
import type { LeadershipTerm, TermEnd, TermParts } from "./term.js";
import { quotedText } from "../errors.js";

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

type EndReason = TermEnd<"resigned">;

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
  readonly #lockOptions: AcquireLockOptions;
  readonly #cooldownInMs: number;
  readonly #termParts: TermParts;
  readonly #events: EventDispatcher<LeaderElectionEvents>;
  readonly #service: ServiceRunner;
  #current: Term<"resigned"> | undefined;
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
    this.#cooldownInMs = checkNumber("cooldownInMs", cooldownInMs, { min: 0, max: 2 ** 31 - 1 });
    const component = `LeaderElection ${quotedText(name)}`;
    this.#events = new EventDispatcher(component, eventNames);
    this.#termParts = {
      component: "LeaderElection",
      targetKind: "election",
      holder: `the leader of ${JSON.stringify(name)}`,
      successor: "another candidate may lead",
      drainTimeoutInMs: checkDrainTimeout(drainTimeoutInMs),
      onBegin: (term) => this.#events.emit("elected", term),
      work: onElected,
      onError: (error) => this.#report(error),
    };
    this.#service = new ServiceRunner({
      name: component,
      drainTimeoutInMs,
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
    return this.#current?.isHeld ?? false;
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
    const inside = this.#current?.isCalledByWork() ? this.#current : undefined;
    // The stop comes first: if its options are wrong, it has rejected already, and the term goes on.
    await endOrSignal(this.#service.stop(options), inside);
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
    observed.elections.add(this);
    const ended = this.#takePart(stopped.signal);
    return {
      stop: async (hurry) => {
        stopped.abort(new DOMException("The election was stopped", "AbortError"));
        const off = onAbort(hurry, () => this.#current?.abandon());
        await settledOrAborted(ended, hurry);
        off();
        observed.elections.delete(this);
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

  async #lead(lock: LockHandleImpl, stopped: AbortSignal): Promise<EndReason> {
    const term = new Term<"resigned">(lock, this.#termParts);
    this.#current = term;
    this.#lastWork = term.workEnded;
    const reason = await term.run(stopped);
    if (this.#current === term) this.#current = undefined;
    this.#events.emit("ended", { epoch: lock.epoch, reason });
    return reason;
  }

  #report(error: unknown): void {
    logger.warning(`election ${quotedText(this.name)}: ${errorLabel(error)}`);
    this.#events.emit("error", error);
  }
}
