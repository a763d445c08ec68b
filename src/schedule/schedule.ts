import type { AbortSignalLike, AdapterRequest, CallOptions, PurgeOptions, PurgeResult } from "../clients/call.js";
import type { TableLike } from "../clients/table.js";
import { ServiceRunner } from "../core/background-service.js";
import type { BackgroundService, StopOptions } from "../core/background-service.js";
import { recorder } from "../core/measure.js";
import { check } from "../core/request.js";
import { errorLabel, logger, withSpan } from "../core/telemetry.js";
import { EventDispatcher } from "../core/typed-events.js";
import type { TypedEvents } from "../core/typed-events.js";
import { checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import { quotedText } from "../errors.js";
import type { BlobLocks } from "../lock/blob-locks.js";
import { Capacity } from "../queue/capacity.js";
import { requireClient } from "../target/target.js";
import { dueTimesOf } from "./due-times.js";
import type { Instance, Job } from "./job-run.js";
import { lockNameOf } from "./job-runner.js";
import { historyOf, triggerJob } from "./job-calls.js";
import { newJob, paused, resumed, withNextDue } from "./job-state.js";
import type { JobState } from "./job-state.js";
import { JobStore } from "./job-store.js";
import { purgeReceipts } from "./run-commit.js";
import { runsOf } from "./run-info.js";
import { checkJob, checkScheduleOptions, eventNames, triggerOptionNames } from "./schedule-options.js";
import type { JobStatus, ScheduledJob, ScheduledRun, ScheduleEvents, ScheduleOptions, ScheduleSettings, TriggerOptions } from "./schedule-options.js";
import { startLoop } from "./schedule-loop.js";
import type { ScheduleLoop } from "./schedule-loop.js";

const callNames: OptionNames<CallOptions> = { abortSignal: 1, tracingOptions: 1 };
const purgeNames: OptionNames<PurgeOptions> = { ...callNames, olderThanInMs: 1 };

/** So many jobs of an instance are claimed at a time: some hundred a second, at a few milliseconds for a request. */
const maxClaims = 32;

/**
 * Jobs that run once for each due time, over all processes that start a schedule with the same name on the same table. Which of them
 * runs a due time is decided in the table; the clocks of the processes may differ.
 * @example
 * ```ts
 * const schedule = new Schedule(table, locks, {
 *   billing: { cron: "0 3 * * *", timeZone: "Europe/Berlin", run: ({ dueOn, signal }) => bill(dueOn, signal) },
 *   sweep: { everyInMs: 60_000, run: sweep },
 * });
 * schedule.on("error", (error) => console.error(error));
 * await schedule.start();
 * ```
 */
export class Schedule<J extends string = string> implements BackgroundService, TypedEvents<ScheduleEvents> {
  readonly #locks: BlobLocks;
  readonly #jobs: Readonly<Record<J, ScheduledJob>>;
  readonly #settings: ScheduleSettings;
  readonly #store: JobStore;
  readonly #events: EventDispatcher<ScheduleEvents>;
  readonly #service: ServiceRunner;
  #loaded: Promise<readonly Job[]> | undefined;
  #loop: ScheduleLoop | undefined;

  /**
   * Sends no request.
   * @param table - Stores one row for each job. Effects that are to be committed with a run are in the same table.
   * @param locks - Each run holds a lock: a process that has crashed is noticed by it.
   * @param jobs - By name. Names are stored: a job with another name is another job.
   * @throws `TypeError` or `RangeError` if an argument is wrong. Expressions are checked by `start`.
   */
  constructor(table: TableLike, locks: BlobLocks, jobs: Readonly<Record<J, ScheduledJob>>, options: ScheduleOptions = {}) {
    requireClient("Schedule", table, "a TableClient", ["listEntities", "submitTransaction"]);
    if (typeof (locks as Partial<BlobLocks> | null | undefined)?.tryAcquireFor !== "function") throw new TypeError("Schedule needs BlobLocks");
    if (typeof jobs !== "object" || (jobs as object | null) === null || Object.keys(jobs).length === 0) throw new TypeError("Schedule needs an object with at least one job");
    for (const [name, job] of Object.entries<ScheduledJob>(jobs)) checkJob(name, job);
    this.#settings = checkScheduleOptions(options);
    this.#locks = locks;
    this.#jobs = { ...jobs };
    this.#store = new JobStore(table, this.#settings.name);
    const component = `Schedule ${quotedText(this.#settings.name)}`;
    this.#events = new EventDispatcher(component, eventNames);
    let launch: (() => ScheduleLoop) | undefined;
    this.#service = new ServiceRunner({
      name: component,
      drainTimeoutInMs: this.#settings.drainTimeoutInMs,
      prepare: async (request) => {
        launch = await this.#prepare(request);
      },
      launch: () => (this.#loop = (launch as () => ScheduleLoop)()),
    });
  }

  /** Whether it runs jobs. */
  get isRunning(): boolean {
    return this.#service.isRunning;
  }

  /**
   * Checks expressions, table and container, registers the jobs, and runs them from now on. Due times before a job was first registered do not count.
   * Costs 2 requests, and for each new job 2 more.
   * @throws {@link TargetNotFoundError} if the table, or the container of the locks, does not exist.
   * @throws `TypeError` or `RangeError` if an expression is wrong, or `croner` is needed and not installed.
   */
  start(options?: CallOptions): Promise<void> {
    return this.#service.start(options);
  }

  /**
   * Starts no more runs, and waits for those in progress. After `drainTimeoutInMs` their signals abort, and it resolves; a run that ends then is given
   * back to the other instances (`onCrash: "retry"`).
   * @throws `TypeError` or `RangeError` if an option is wrong.
   */
  stop(options?: StopOptions): Promise<void> {
    return this.#service.stop(options);
  }

  /**
   * Starts, runs jobs until the signal aborts or `stop` is called, and stops. Rejects only if it could not start.
   * @throws {@link TargetNotFoundError} if the table, or the container of the locks, does not exist.
   */
  run(options: CallOptions & { abortSignal: AbortSignalLike }): Promise<void> {
    return this.#service.run(options);
  }

  /**
   * Has the job run once, on any instance, after a run in progress, and also if it is paused. Resolves when that is stored, and does not wait for the run: call it again with the same
   * `idempotencyKey`, or see {@link Schedule.history}. Costs 2 requests, and 1 more if this object is not started.
   * @throws `RangeError` if there is no such job, or 100 manual runs of it are pending.
   * @throws {@link CommitUnknownError} if the outcome of the write cannot be determined.
   */
  trigger(job: J, options: TriggerOptions = {}): Promise<ScheduledRun> {
    return this.#call("Schedule.trigger", job, options, triggerOptionNames, async (call) => {
      const run = await triggerJob(this.#store, job, options.idempotencyKey, { ...call, initial: await this.#initial(job) });
      this.#loop?.wake();
      return run;
    });
  }

  /**
   * No due time of the job runs from now on, on any instance. A run in progress goes on. Idempotent. Costs 2 requests, and 1 more if this object is not started.
   * @throws `RangeError` if there is no such job.
   */
  pause(job: J, options: CallOptions = {}): Promise<void> {
    return this.#call("Schedule.pause", job, options, callNames, async (call) => {
      await this.#store.write(job, paused, { ...call, initial: await this.#initial(job) });
    });
  }

  /**
   * Due times of the job run again, from now on: those that passed during the pause do not. Idempotent. Costs 2 requests, and 1 more if this object is not started.
   * @throws `RangeError` if there is no such job.
   */
  resume(job: J, options: CallOptions = {}): Promise<void> {
    return this.#call("Schedule.resume", job, options, callNames, async (call) => {
      await this.#store.write(job, resumed, { ...call, initial: await this.#initial(job) });
      this.#loop?.wake();
    });
  }

  /**
   * The state of all jobs of this object. Costs 1 request.
   * @throws {@link SchemaError} if another program has damaged the row of a job.
   * @throws {@link OperationTimeoutError} if the table does not respond within 30 seconds.
   */
  status(options: CallOptions = {}): Promise<readonly JobStatus[]> {
    return withSpan("Schedule.status", options, async (tracingOptions) => {
      checkOptions("Schedule.status", options, callNames);
      const jobs = await this.#load();
      const rows = await this.#store.look({ ...options, tracingOptions });
      return jobs.map((job) => {
        const found = rows.get(job.name);
        const state = found ? this.#store.stateOf(found) : newJob(job.times.text, this.#store.clock.now);
        const { nextDue } = withNextDue(state, job.times);
        return { name: job.name, paused: state.paused, nextDueOn: nextDue === undefined || state.paused ? undefined : new Date(nextDue), lastRun: runsOf(job.name, state)[0] };
      });
    }, { targetKind: "schedule", url: this.#store.url });
  }

  /**
   * The run in progress and the last `historyLimit` runs of the job, the newest one first. Costs 1 request.
   * @throws `RangeError` if there is no such job.
   * @throws {@link SchemaError} if another program has damaged the row of the job.
   */
  history(job: J, options: CallOptions = {}): AsyncIterableIterator<ScheduledRun> {
    checkOptions("Schedule.history", options, callNames);
    this.#checkJob("Schedule.history", job);
    return historyOf(this.#store, job, options);
  }

  /**
   * Deletes the receipts of commits, by default those that are older than 8 days. Those of runs in progress are kept. Call it from time to time, by any process, if jobs use `commit`: it scans the
   * table. Costs 1 request for every 1,000 rows of the table that match, 1 for each that is deleted, and 1.
   * @throws `RangeError` if `olderThanInMs` is less than an hour: a transaction may still be in flight.
   * @throws {@link TargetNotFoundError} if the table does not exist.
   * @throws {@link OperationTimeoutError} if a request gets no response within a minute. What was deleted by then stays deleted.
   */
  purge(options: PurgeOptions = {}): Promise<PurgeResult> {
    return withSpan("Schedule.purge", options, (tracingOptions) => {
      checkOptions("Schedule.purge", options, purgeNames);
      return purgeReceipts(this.#store, options.olderThanInMs, { abortSignal: options.abortSignal, tracingOptions });
    }, { targetKind: "schedule", url: this.#store.url });
  }

  /** Adds a listener. A listener that throws has no effect on the schedule. */
  on<K extends keyof ScheduleEvents>(event: K, listener: (detail: ScheduleEvents[K]) => void): this {
    this.#events.add(event, listener);
    return this;
  }

  /** Adds a listener for the next event only. */
  once<K extends keyof ScheduleEvents>(event: K, listener: (detail: ScheduleEvents[K]) => void): this {
    this.#events.add(event, listener, true);
    return this;
  }

  /** Removes a listener. */
  off<K extends keyof ScheduleEvents>(event: K, listener: (detail: ScheduleEvents[K]) => void): this {
    this.#events.remove(event, listener);
    return this;
  }

  /** Stops, as {@link Schedule.stop} does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #prepare(request: AdapterRequest): Promise<() => ScheduleLoop> {
    const jobs = await this.#load();
    await this.#locks.inspect(lockNameOf(this.#store, (jobs[0] as Job).name), request);
    const hurry = new AbortController();
    const instance: Instance = {
      store: this.#store,
      settings: this.#settings,
      claims: new Capacity(maxClaims),
      hurry: hurry.signal,
      onStarted: (run) => {
        recorder?.countRun(this.#settings.name, run);
        this.#events.emit("started", run);
      },
      onFinished: (run, failure) => {
        recorder?.countRun(this.#settings.name, run);
        this.#events.emit("finished", run, failure);
      },
      onError: (error) => {
        logger.warning(`schedule ${quotedText(this.#settings.name)}: ${errorLabel(error)}`);
        this.#events.emit("error", error);
      },
    };
    return check(this.#store.url, ({ abortSignal }) => startLoop(instance, hurry, this.#locks, jobs, abortSignal), request);
  }

  /** Loads and checks the triggers. A failure is not kept: `croner` may be installed, or the time zone data, before the next call. */
  #load(): Promise<readonly Job[]> {
    const load = async (): Promise<readonly Job[]> =>
      Promise.all(
        Object.entries<ScheduledJob>(this.#jobs).map(async ([name, job]) => {
          const { name: schedule } = this.#settings;
          return { name, key: `${schedule}/${name}`, policy: checkJob(name, job), fn: job.run, times: await dueTimesOf(name, job) };
        }),
      );
    this.#loaded ??= load().catch((error: unknown) => {
      this.#loaded = undefined;
      throw error;
    });
    return this.#loaded;
  }

  /** The state of a job that no instance has registered yet. */
  async #initial(name: J): Promise<(now: number) => JobState> {
    const job = (await this.#load()).find((known) => known.name === name) as Job;
    return (now) => withNextDue(newJob(job.times.text, now), job.times);
  }

  #checkJob(call: string, job: string): void {
    if (typeof job !== "string" || !Object.hasOwn(this.#jobs, job)) throw new RangeError(`${call}: there is no job ${quotedText(job)}. Known jobs: ${Object.keys(this.#jobs).join(", ")}.`);
  }

  #call<O extends TriggerOptions, R>(name: string, job: string, options: O, names: OptionNames<O>, run: (call: CallOptions) => Promise<R>): Promise<R> {
    return withSpan(name, options, async (tracingOptions) => {
      checkOptions(name, options, names);
      this.#checkJob(name, job);
      const { idempotencyKey: key } = options;
      if (key !== undefined && (typeof key !== "string" || key === "" || key.length > 200)) throw new RangeError(`${name}: idempotencyKey must be a text of 1 to 200 characters`);
      const call = { abortSignal: options.abortSignal, tracingOptions };
      // Wrong expressions are rejected before a request is sent.
      await this.#load();
      // The loop of an instance that runs knows the time of the service. Without it, the clock of this host would decide which due times count.
      if (!this.isRunning) await this.#store.look(call);
      return run(call);
    }, { targetKind: "schedule", url: this.#store.url });
  }
}
