import type { AbortSignalLike, AdapterRequest, CallOptions } from "../clients/call.js";
import { abortReason, Deadline, isAborted, onAbort, startTimer, throwIfAborted } from "./deadline.js";
import { checkNumber, checkOptions } from "./validate.js";
import type { OptionNames } from "./validate.js";

/**
 * A component that works in the background until it is stopped: `QueueConsumer`, `LeaderElection`, `Schedule`, `WorkBalancer`, `Outbox`.
 * @example
 * ```ts
 * const services: BackgroundService[] = [consumer, election];
 * await Promise.all(services.map((service) => service.start()));
 * process.once("SIGTERM", () => void Promise.all(services.map((service) => service.stop())));
 * ```
 */
export interface BackgroundService extends AsyncDisposable {
  /** Whether it has started, and `stop` has not been called since. */
  readonly isRunning: boolean;
  /**
   * Checks the configuration and the resources, then works in the background. Rejects if a check fails, or if `stop` is called
   * meanwhile. Idempotent: concurrent calls share one start, and a start during a stop follows it. If the signal of one caller cancels the
   * start that they share, the others start again.
   * @throws {@link TargetNotFoundError} if a resource that it needs does not exist.
   * @throws `AbortError` if `stop` is called before it has started.
   */
  start(options?: CallOptions): Promise<void>;
  /**
   * Ends the work in progress, and releases what it holds. Idempotent. Errors of the work do not make it reject.
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  stop(options?: StopOptions): Promise<void>;
  /**
   * Starts, waits until the signal aborts or `stop` is called, and stops. Does not reject if the signal aborts.
   * @throws {@link TargetNotFoundError} if a resource that it needs does not exist.
   * @throws `TypeError` if there is no `abortSignal`, or an option is unknown.
   */
  run(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void>;
}

/**
 * Options of {@link BackgroundService.stop}.
 * @example
 * ```ts
 * await consumer.stop({ drainTimeoutInMs: 5_000 });
 * ```
 */
export interface StopOptions {
  /**
   * How long work in progress may take to end. A later call with a shorter time shortens the wait of an earlier one.
   * @defaultValue the option of the component
   */
  drainTimeoutInMs?: number | undefined;
}

/** The time that orchestrators give a process between SIGTERM and SIGKILL is 30 seconds by default. */
export const defaultDrainTimeoutInMs: number = 25_000;

/** One run of a component, from start to stop. */
export interface ServiceRun {
  /** Ends the run. `hurry` aborts when the drain timeout is over: what still runs is to be aborted or abandoned then. */
  stop(hurry: AbortSignal): Promise<void>;
}

/** What a {@link ServiceRunner} starts and stops. */
export interface ServiceParts {
  /** The name of the component in messages. */
  readonly name: string;
  readonly drainTimeoutInMs: number;
  /** Checks the resources. */
  readonly prepare: (request: AdapterRequest) => Promise<void>;
  /** Starts the work. Called only if `prepare` has ended and the start was not cancelled. */
  readonly launch: () => ServiceRun;
}

const callNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };
const stopNames: OptionNames<StopOptions> = { drainTimeoutInMs: 1 };

/** A start, and the run that it led to. */
interface Phase {
  readonly started: Promise<void>;
  readonly cancel: (reason: unknown) => void;
  readonly ended: AbortController;
  /** The signal of the caller that began it has cancelled it. */
  cancelled: boolean;
  run: ServiceRun | undefined;
}

/** Start, stop and run, as every {@link BackgroundService} has them. */
export class ServiceRunner {
  readonly #parts: ServiceParts;
  /** The last start that was not followed by a stop. */
  #phase: Phase | undefined;
  #stopped: Promise<void> = Promise.resolve();
  /** How often `stop` was called. */
  #stops = 0;
  /** One for each run that still ends. Aborts when the drain timeout of a stop is over. */
  readonly #ending = new Set<AbortController>();

  constructor(parts: ServiceParts) {
    this.#parts = parts;
  }

  get isRunning(): boolean {
    return this.#phase?.run !== undefined;
  }

  async start(options: CallOptions = {}): Promise<void> {
    checkOptions("start", options, callNames);
    const { abortSignal } = options;
    const stops = this.#stops;
    for (;;) {
      throwIfAborted(abortSignal);
      const phase = (this.#phase ??= this.#newPhase(options));
      // Raced: another caller may have begun this start, with another signal or without one.
      const limit = new Deadline(Infinity, () => undefined, abortSignal);
      try {
        await limit.race(phase.started);
        return;
      } catch (error) {
        if (abortSignal && isAborted(abortSignal)) throw abortReason(abortSignal);
        if (!phase.cancelled) throw error;
        if (stops !== this.#stops) throw this.#stoppedError();
      } finally {
        limit.dispose();
      }
    }
  }

  async stop(options: StopOptions = {}): Promise<void> {
    checkOptions("stop", options, stopNames);
    const drainTimeoutInMs = checkDrainTimeout(options.drainTimeoutInMs ?? this.#parts.drainTimeoutInMs);
    const phase = this.#phase;
    this.#stops++;
    if (phase) {
      this.#phase = undefined;
      const hurry = new AbortController();
      this.#ending.add(hurry);
      phase.ended.abort();
      this.#stopped = this.#end(phase, this.#stopped, hurry.signal).finally(() => this.#ending.delete(hurry));
    }
    // All of them: a start between two stops has not launched anything while the first run still ends.
    const ending = [...this.#ending];
    const stopTimer = startTimer(drainTimeoutInMs, () => {
      for (const hurry of ending) hurry.abort();
    });
    await this.#stopped.finally(stopTimer);
  }

  async run(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void> {
    checkOptions("run", options, callNames);
    const given = options as Partial<typeof options> | undefined;
    if (typeof (given?.abortSignal as Partial<AbortSignalLike> | undefined)?.addEventListener !== "function") {
      throw new TypeError("run: abortSignal must be an AbortSignal. To start without one, call start.");
    }
    try {
      if (!options.abortSignal.aborted) await this.#runUntil(options);
    } finally {
      await this.stop();
    }
  }

  async #runUntil(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void> {
    const stops = this.#stops;
    try {
      await this.start(options);
    } catch (error) {
      if (options.abortSignal.aborted || stops !== this.#stops) return;
      throw error;
    }
    if (stops !== this.#stops) return;
    const ended = this.#phase?.ended.signal;
    const offs: (() => void)[] = [];
    await new Promise<void>((resolve) => {
      for (const signal of [options.abortSignal, ended]) offs.push(onAbort(signal, resolve));
    });
    for (const off of offs) off();
  }

  #newPhase({ abortSignal, tracingOptions = {} }: CallOptions): Phase {
    const limit = new Deadline(Infinity, () => undefined, abortSignal);
    const start = async (): Promise<void> => {
      try {
        // What stopped before may still use the same resources.
        await limit.race(this.#stopped);
        // Raced: an adapter may ignore its signal. A check that ends late has no effect.
        await limit.race(this.#parts.prepare({ abortSignal: limit.signal, tracingOptions }));
        phase.run = this.#parts.launch();
      } catch (error) {
        phase.cancelled = isAborted(abortSignal);
        if (this.#phase === phase) this.#phase = undefined;
        throw error;
      } finally {
        limit.dispose();
      }
    };
    const phase: Phase = { started: Promise.resolve().then(start), cancel: (reason) => limit.abort(reason), ended: new AbortController(), cancelled: false, run: undefined };
    phase.started.catch(() => undefined);
    return phase;
  }

  async #end(phase: Phase, previous: Promise<void>, hurry: AbortSignal): Promise<void> {
    if (!phase.run) phase.cancel(this.#stoppedError());
    await phase.started.catch(() => undefined);
    await phase.run?.stop(hurry);
    await previous;
  }

  #stoppedError(): DOMException {
    return new DOMException(`${this.#parts.name} was stopped while it started`, "AbortError");
  }
}

export function checkDrainTimeout(value: number): number {
  return checkNumber("drainTimeoutInMs", value, { min: 0 });
}
