import type { OperationTracingOptions } from "@azure/core-tracing";
import type { CallOptions } from "../clients/call.js";
import type { TableAction } from "../clients/table.js";
import { checkDrainTimeout, defaultDrainTimeoutInMs } from "../core/background-service.js";
import type { EventNames } from "../core/typed-events.js";
import { checkNumber, checkOneOf, checkOptions } from "../core/validate.js";
import type { OptionNames } from "../core/validate.js";
import type { LockHandleLike } from "../lease/lease-handle.js";
import type { CommitResult } from "../queue/inbox/commit-inbox.js";
import { quotedText } from "../errors.js";

/**
 * When a job of a {@link Schedule} is due. All instances must compute the same due times.
 * - `cron`: an expression of 5 to 7 fields for `croner`, an optional peer dependency; `timeZone` is an IANA name, by default UTC.
 * - `everyInMs`: the multiples of this time since 1970, so that all instances agree.
 * - `nextRun`: the first due time after `after`; undefined if there is none. `after` may be any time.
 */
export type JobTrigger =
  | { readonly cron: string; readonly timeZone?: string | undefined }
  | { readonly everyInMs: number }
  | { readonly nextRun: (after: Date) => Date | undefined };

/** The argument of the function of a job of a {@link Schedule}. Its functions do not depend on `this`. */
export interface JobContext extends Pick<LockHandleLike, "signal" | "assertHeld"> {
  /** The name of the job. */
  readonly name: string;
  /** The due time, which identifies the run; of a manual run, the time of its {@link Schedule.trigger}. */
  readonly dueOn: Date;
  /** The fencing token: larger than that of every earlier run of the job. */
  readonly epoch: number;
  /** 1 plus the number of earlier processes that have crashed during this run. */
  readonly attempt: number;
  /** The parent for the spans of the job's own requests. */
  readonly tracingOptions: OperationTracingOptions;
  /**
   * Writes entities of one partition of the schedule's table, and the record that this run is done, in one transaction: the effect is
   * committed once, whatever happens to this process. Once for each run, with at most 99 actions. The run has succeeded from then on, even if the function
   * throws afterwards; and it has failed if no commit succeeded, even if the function returns. Costs 3 requests more than a run without it.
   * @throws {@link LeaseLostError} if another instance has taken over the run: nothing was written.
   * @throws {@link CommitUnknownError} if the outcome cannot be determined. Throw it: it is determined before the run is recorded.
   * @throws `TypeError` if a commit has succeeded before, or is in progress.
   * @throws `RangeError` if an entity is of another partition or has a row key of the library, or there are more than 99 actions.
   */
  readonly commit: (partitionKey: string, actions: readonly TableAction[], options?: CallOptions) => Promise<CommitResult>;
}

/** A job of a {@link Schedule}: when it is due, and what it does. */
export type ScheduledJob = JobTrigger & {
  /** Called once for each due time. If it throws, the run has failed; the next one is that of the next due time. */
  readonly run: (context: JobContext) => Promise<unknown> | unknown; // eslint-disable-line @typescript-eslint/no-redundant-type-constituents -- says that it may be async
  /**
   * Which of the due times that passed while no instance could run them are made up for: the latest, all of them one after the other,
   * or none (a due time is missed one minute after it).
   * @defaultValue "latest": the state is brought up to date, and no burst of runs follows an outage
   */
  readonly missed?: "latest" | "all" | "skip" | undefined;
  /**
   * What becomes of due times that pass while the job runs: they are skipped, or wait for its end. Then `missed` decides which of them run.
   * @defaultValue "skip": a job that takes longer than its interval never falls behind
   */
  readonly overlap?: "skip" | "queue" | undefined;
  /**
   * After a crash during a run: another instance runs it again, or marks it as failed (at most once).
   * @defaultValue "retry": no due time is lost; the function must tolerate a second run, or use `commit`
   */
  readonly onCrash?: "retry" | "fail" | undefined;
  /** How many processes may crash during one run before it is marked as failed. @defaultValue 3: a run that ends its process would end all of them */
  readonly maxAttempts?: number | undefined;
  /** After this time the signal of a run aborts. If the function throws then, the run has failed. @defaultValue Infinity */
  readonly maxRunTimeInMs?: number | undefined;
  /** Each due time is run up to so much later, by the same delay on all instances. @defaultValue 0 */
  readonly jitterInMs?: number | undefined;
};

/** One run of a job of a {@link Schedule}. */
export interface ScheduledRun {
  /** The name of the job. */
  readonly job: string;
  /** The due time; of a manual run, the time of its {@link Schedule.trigger}. */
  readonly dueOn: Date;
  /** `"pending"`: triggered, and not started yet. `"skipped"`: it did not run; `error` says why, and how far the due times reach that it stands for. */
  readonly state: "pending" | "running" | "succeeded" | "failed" | "skipped";
  /** When its last attempt started, by the clock of the service. */
  readonly startedOn: Date | undefined;
  /** How long its last attempt took. */
  readonly durationInMs: number | undefined;
  /** Name and message of the error of a failed run, at most 300 characters. */
  readonly error: string | undefined;
  /** The process that runs it, or has run it. */
  readonly holder: string | undefined;
  /** 1 plus the number of processes that have crashed during it. */
  readonly attempt: number;
  /** That of {@link Schedule.trigger}, or undefined. */
  readonly idempotencyKey: string | undefined;
}

/** The state of a job of a {@link Schedule}. */
export interface JobStatus {
  /** The name of the job. */
  readonly name: string;
  /** Whether it is paused. */
  readonly paused: boolean;
  /** The next due time, jitter not included. Undefined: there is none, or it is paused. */
  readonly nextDueOn: Date | undefined;
  /** The run in progress, or the last one. Undefined: it has never run. */
  readonly lastRun: ScheduledRun | undefined;
}

/** Options of {@link Schedule}. */
export interface ScheduleOptions {
  /** Separates schedules that share a table: letters, digits, `.`, `_` and `-`. @defaultValue "default" */
  name?: string | undefined;
  /**
   * How often the table is read between due times. It bounds how long a manual trigger, the release of a run by a stopped instance and a job that
   * another version of the code has added wait.
   * @defaultValue 15_000: 4 requests a minute for each instance
   */
  pollIntervalInMs?: number | undefined;
  /**
   * While another instance runs a job: how often this one checks, with 1 request, whether it is alive.
   * @defaultValue 30_000: as long as the lease of a lock, so that a crash is noticed within a minute
   */
  takeoverIntervalInMs?: number | undefined;
  /** How many runs of each job are kept. @defaultValue 20: they are stored with the job, and read with it */
  historyLimit?: number | undefined;
  /**
   * How long `stop` waits for runs in progress, and how long a run may continue after `maxRunTimeInMs`.
   * @defaultValue 25_000: orchestrators end a process 30 seconds after SIGTERM
   */
  drainTimeoutInMs?: number | undefined;
}

/** Options of {@link Schedule.trigger}. */
export interface TriggerOptions extends CallOptions {
  /** A repetition with the same key, while its run is pending, in progress or in the history, returns that run. @defaultValue none: each call is a run */
  idempotencyKey?: string | undefined;
}

/** The events of {@link Schedule}, with their details. */
export interface ScheduleEvents {
  /** This instance has started a run. */
  started: ScheduledRun;
  /** This instance has recorded the end of a run, or that due times are skipped. */
  finished: ScheduledRun;
  /** Something failed: a request, a record that cannot be read, a lock that was lost. It is tried again. */
  error: unknown;
}

export const eventNames: EventNames<ScheduleEvents> = { started: 1, finished: 1, error: 1 };
export const triggerOptionNames: OptionNames<TriggerOptions> = { abortSignal: 1, tracingOptions: 1, idempotencyKey: 1 };

const optionNames: OptionNames<ScheduleOptions> = { name: 1, pollIntervalInMs: 1, takeoverIntervalInMs: 1, historyLimit: 1, drainTimeoutInMs: 1 };

const triggerNames = ["cron", "everyInMs", "nextRun"] as const;
const jobNames = { cron: 1, timeZone: 1, everyInMs: 1, nextRun: 1, run: 1, missed: 1, overlap: 1, onCrash: 1, maxAttempts: 1, maxRunTimeInMs: 1, jitterInMs: 1 } as const;

/** Options after defaults and checks. */
export type ScheduleSettings = { readonly [name in keyof ScheduleOptions]-?: NonNullable<ScheduleOptions[name]> };

/** What a job does in each case, after defaults and checks. */
export interface JobPolicy {
  readonly missed: "latest" | "all" | "skip";
  readonly overlap: "skip" | "queue";
  readonly onCrash: "retry" | "fail";
  readonly maxAttempts: number;
  readonly maxRunTimeInMs: number;
  readonly jitterInMs: number;
}

export function checkScheduleOptions(options: ScheduleOptions): ScheduleSettings {
  checkOptions("Schedule", options, optionNames);
  const { name = "default", pollIntervalInMs = 15_000, takeoverIntervalInMs = 30_000, historyLimit = 20, drainTimeoutInMs = defaultDrainTimeoutInMs } = options;
  return {
    name: checkName("name", name),
    pollIntervalInMs: checkNumber("pollIntervalInMs", pollIntervalInMs, { min: 100, max: 2 ** 31 - 1 }),
    takeoverIntervalInMs: checkNumber("takeoverIntervalInMs", takeoverIntervalInMs, { min: 1_000, max: 2 ** 31 - 1 }),
    historyLimit: checkNumber("historyLimit", historyLimit, { min: 1, max: 100, integer: true }),
    drainTimeoutInMs: checkDrainTimeout(drainTimeoutInMs),
  };
}

/** Names are parts of row keys, of the names of locks and of command lines. */
export function checkName(what: string, name: string): string {
  if (typeof name !== "string" || !/^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/.test(name)) {
    throw new RangeError(`Schedule: ${what} must have 1 to 100 letters, digits, ".", "_" and "-"; got ${quotedText(name)}`);
  }
  return name;
}

export function checkJob(name: string, job: ScheduledJob): JobPolicy {
  checkName("the name of a job", name);
  const call = `Schedule: job ${quotedText(name)}`;
  if (typeof job !== "object" || (job as ScheduledJob | null) === null) throw new TypeError(`${call} must be an object.`);
  checkOptions<Record<string, unknown>>(call, job, jobNames);
  const given = triggerNames.filter((trigger) => (job as Readonly<Record<string, unknown>>)[trigger] !== undefined);
  if (given.length !== 1) throw new TypeError(`${call} needs one of cron, everyInMs and nextRun; got ${given.join(" and ") || "none"}.`);
  if (typeof job.run !== "function") throw new TypeError(`${call}: run must be a function.`);
  const { missed = "latest", overlap = "skip", onCrash = "retry", maxAttempts = 3, maxRunTimeInMs = Infinity, jitterInMs = 0 } = job;
  return {
    missed: checkOneOf(`${call}: missed`, missed, ["latest", "all", "skip"]),
    overlap: checkOneOf(`${call}: overlap`, overlap, ["skip", "queue"]),
    onCrash: checkOneOf(`${call}: onCrash`, onCrash, ["retry", "fail"]),
    maxAttempts: checkNumber(`${call}: maxAttempts`, maxAttempts, { min: 1, integer: true }),
    maxRunTimeInMs: checkNumber(`${call}: maxRunTimeInMs`, maxRunTimeInMs, { min: 1 }),
    jitterInMs: checkNumber(`${call}: jitterInMs`, jitterInMs, { min: 0, max: 86_400_000 }),
  };
}
