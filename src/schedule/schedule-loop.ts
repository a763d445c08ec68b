import { delay, isAborted, linkSignals, startStopwatch } from "../core/deadline.js";
import type { ServiceRun } from "../core/background-service.js";
import { jitter } from "../core/retry.js";
import { settledOrAborted } from "../lock/term.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import { fingerprint } from "../queue/envelope.js";
import type { Instance, Job } from "./job-run.js";
import { JobRunner } from "./job-runner.js";
import type { FoundJob } from "./job-store.js";

/** A look that was due to a due time and found nothing to do is not repeated sooner than this. */
const minPauseInMs = 50;

/** One instance from start to stop: looks at the jobs at their due times, and from time to time in between. */
export class ScheduleLoop implements ServiceRun {
  readonly #instance: Instance;
  readonly #runners: readonly JobRunner[];
  readonly #stopped = new AbortController();
  readonly #hurry: AbortController;
  readonly #ended: Promise<void>;
  #wake = new AbortController();
  /** A look is needed before the pause is over. */
  #mustLook = false;

  /** @param hurry - Aborts the signals of the runs. It is that of the instance. */
  constructor(instance: Instance, hurry: AbortController, runners: readonly JobRunner[], found: ReadonlyMap<string, FoundJob>) {
    this.#instance = instance;
    this.#hurry = hurry;
    this.#runners = runners;
    this.#ended = this.#loop(found);
  }

  /** Looks now: a job was triggered, or has more to do. */
  readonly wake = (): void => {
    this.#mustLook = true;
    this.#wake.abort();
  };

  /** A run has ended: the job has more to do, or is due at another time than this loop knows. */
  readonly #onEnd = (mustLook: boolean): void => {
    if (mustLook) this.wake();
    else this.#wake.abort();
  };

  async stop(hurry: AbortSignal): Promise<void> {
    this.#stopped.abort(new DOMException("The schedule was stopped.", "AbortError"));
    const ended = this.#ended.then(() => this.#runs());
    // Signals abort when the time is over: the functions then have the rest of the process's time to end.
    if (!(await settledOrAborted(ended, hurry))) this.#hurry.abort(new DOMException("The schedule was stopped.", "AbortError"));
  }

  async #runs(): Promise<void> {
    for (const { busy } of this.#runners) await busy;
  }

  async #loop(first: ReadonlyMap<string, FoundJob>): Promise<void> {
    const { signal } = this.#stopped;
    let found: ReadonlyMap<string, FoundJob> | undefined = first;
    while (!isAborted(signal)) {
      this.#mustLook = false;
      for (const runner of found ? this.#runners : []) this.#advance(runner, found?.get(runner.job.name));
      await this.#pause();
      if (isAborted(signal)) return;
      found = await this.#look();
    }
  }

  #advance(runner: JobRunner, found: FoundJob | undefined): void {
    const { signal } = this.#stopped;
    if (found) runner.advance(found, signal, this.#onEnd);
    // An operator has deleted the row: the job begins anew.
    else runner.register(undefined, signal).catch((error: unknown) => this.#report(error));
  }

  async #look(): Promise<ReadonlyMap<string, FoundJob> | undefined> {
    try {
      return await this.#instance.store.look({ abortSignal: this.#stopped.signal });
    } catch (error) {
      this.#report(error);
      // Until the next poll, and not at once because a job is due: the table cannot be reached.
      for (const runner of this.#runners) runner.wakeAt = undefined;
      return undefined;
    }
  }

  #report(error: unknown): void {
    if (!isAborted(this.#stopped.signal)) this.#instance.onError(error);
  }

  /** Until a job is due, the next poll, a wake-up or the stop. */
  async #pause(): Promise<void> {
    const pollInMs = jitter(this.#instance.settings.pollIntervalInMs, 0.2);
    const elapsedInMs = startStopwatch();
    for (let waitInMs = Math.max(minPauseInMs, this.#dueInMs()); waitInMs > 0; waitInMs = this.#dueInMs()) {
      if (this.#mustLook || isAborted(this.#stopped.signal) || elapsedInMs() >= pollInMs) return;
      this.#wake = new AbortController();
      const { controller, unlink } = linkSignals(this.#stopped.signal, this.#wake.signal);
      // At least a millisecond: a clock that shows fractions may not have moved after less.
      await delay(Math.max(1, Math.min(pollInMs - elapsedInMs(), waitInMs)), controller.signal).catch(() => undefined);
      unlink();
    }
  }

  /** How long it takes until the first job is due; 0 or less: one is. */
  #dueInMs(): number {
    const { now } = this.#instance.store.clock;
    return Math.min(...this.#runners.map(({ wakeAt, busy }) => (wakeAt === undefined || busy ? Infinity : wakeAt - now)));
  }
}

/** The loop of an instance, once its jobs are registered. */
export async function startLoop(instance: Instance, hurry: AbortController, locks: BlobLocks, jobs: readonly Job[], abortSignal: AbortSignal): Promise<() => ScheduleLoop> {
  // Each instance begins with another job: of many that are due at once, each claims others.
  const start = Number.parseInt(fingerprint(locks.holder).slice(0, 8), 16) % jobs.length;
  const runners = [...jobs.slice(start), ...jobs.slice(0, start)].map((job) => new JobRunner(instance, locks, job));
  const found = await instance.store.look({ abortSignal });
  let isNew = false;
  for (const runner of runners) {
    const row = found.get(runner.job.name);
    try {
      isNew ||= row === undefined;
      await runner.register(row, abortSignal);
    } catch (error) {
      if (isAborted(abortSignal)) throw error;
      // A damaged row keeps its own job from running, and no other.
      instance.onError(error);
    }
  }
  const current = isNew ? await instance.store.look({ abortSignal }) : found;
  return () => new ScheduleLoop(instance, hurry, runners, current);
}
