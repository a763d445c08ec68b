import type { OperationTracingOptions } from "@azure/core-tracing";
import { clockDriven, linkSignals, onAbort, startStopwatch, startTimer } from "../core/deadline.js";
import { runHolding } from "../core/hold-context.js";
import { describeSpan, failSpan, inSpan } from "../core/telemetry.js";
import type { CallSpan } from "../core/telemetry.js";
import { createError, OperationTimeoutError, quotedText } from "../errors.js";
import type { LockHandleImpl } from "../lease/lease-handle.js";
import type { Capacity } from "../queue/capacity.js";
import { settledOrAborted } from "../lock/term.js";
import { finished, released } from "./job-state.js";
import type { JobRules, JobState, RunOutcome, RunState } from "./job-state.js";
import type { JobStore } from "./job-store.js";
import { RunCommits } from "./run-commit.js";
import type { CommitsResult } from "./run-commit.js";
import type { JobContext, JobPolicy, ScheduledJob, ScheduledRun, ScheduleSettings } from "./schedule-options.js";
import { runInfo } from "./run-info.js";

/** A job of the code. */
export interface Job extends JobRules {
  readonly name: string;
  readonly policy: JobPolicy;
  readonly fn: ScheduledJob["run"];
}

/** What all jobs of an instance share. */
export interface Instance {
  readonly store: JobStore;
  readonly settings: ScheduleSettings;
  /** How many jobs are being claimed: hundreds that are due at once would send thousands of requests at once, whose responses come too late. */
  readonly claims: Capacity;
  /** Aborts when the instance has stopped and does not wait any longer for its runs. */
  readonly hurry: AbortSignal;
  readonly onStarted: (run: ScheduledRun) => void;
  /** `failure`: the error of a run that failed. */
  readonly onFinished: (run: ScheduledRun, failure?: unknown) => void;
  readonly onError: (error: unknown) => void;
}

/** How the function of a job ended. */
type Ended = { readonly kind: "returned" } | { readonly kind: "threw"; readonly error: unknown } | { readonly kind: "abandoned"; readonly error: unknown };

/**
 * One attempt of a run: calls the function under the lock, and records how it ended.
 *
 * | the function               | a commit      | meanwhile                     | recorded                                                        |
 * |----------------------------|---------------|-------------------------------|-----------------------------------------------------------------|
 * | any                        | committed     |                               | succeeded                                                       |
 * | any                        | failed        |                               | failed                                                          |
 * | returned                   | none          | any, lost lock included       | succeeded, unless another instance has taken over               |
 * | threw                      | none          |                               | failed                                                          |
 * | threw                      | not committed | the lock was lost             | nothing: another instance takes over                            |
 * | threw                      | not committed | the instance was stopped      | `onCrash: "retry"`: released; `"fail"`: failed                  |
 * | has not ended in time      | not committed | maxRunTimeInMs is over        | failed; the lock expires, and this instance does not run the job |
 */
export class JobRun {
  readonly #instance: Instance;
  readonly #job: Job;
  readonly #lock: LockHandleImpl;
  readonly #run: RunState;
  readonly #over = new AbortController();
  /** Resolves when the function has ended, which may be after the run was abandoned. */
  work: Promise<void> = Promise.resolve();

  constructor(instance: Instance, job: Job, lock: LockHandleImpl, run: RunState) {
    this.#instance = instance;
    this.#job = job;
    this.#lock = lock;
    this.#run = run;
  }

  /** Returns the state of the job afterwards, if this attempt has recorded one. Never rejects. */
  execute(): Promise<JobState | undefined> {
    const { url, epoch } = this.#lock;
    return inSpan("Schedule.run", {}, (tracingOptions = {}, span) => this.#execute(tracingOptions, span), { targetKind: "schedule", url, epoch }).catch((error: unknown) => {
      this.#instance.onError(error);
      return undefined;
    });
  }

  async #execute(tracingOptions: OperationTracingOptions, span: CallSpan): Promise<JobState | undefined> {
    const { store, onStarted } = this.#instance;
    const elapsedInMs = startStopwatch();
    this.#lock.setTracingParent(tracingOptions);
    onStarted(runInfo(this.#job.name, this.#run, "running"));
    const { controller, unlink } = linkSignals(this.#lock.signal, this.#instance.hurry, this.#over.signal);
    const { maxRunTimeInMs } = this.#job.policy;
    const stopTimer = startTimer(maxRunTimeInMs, () => this.#over.abort(this.#timeoutError(maxRunTimeInMs)));
    const signal = clockDriven(controller.signal, () => this.#lock.isHeld());
    const assertHeld = (): void => {
      if (signal.aborted) throw signal.reason;
      this.#lock.assertHeld();
    };
    const commits = new RunCommits({ store, job: this.#job.name, run: this.#run, signal, assertHeld, tracingOptions });
    const { due, attempt } = this.#run;
    const context: JobContext = { name: this.#job.name, dueOn: new Date(due), epoch: this.#lock.epoch, attempt, signal, assertHeld, tracingOptions, commit: commits.commit };
    const ended = await this.#call(context);
    stopTimer();
    unlink();
    const outcome = this.#outcome(ended, await commits.settle(), elapsedInMs());
    describeSpan(span, { outcome: outcome.kind === "finish" ? outcome.state : outcome.kind });
    if (ended.kind !== "returned") failSpan(span, ended.error);
    switch (outcome.kind) {
      case "finish":
        return this.#finish(outcome, ended);
      case "release":
        return this.#release();
      case "lost":
        this.#instance.onError(this.#lock.loss ?? outcome.error);
        return undefined;
    }
  }

  /**
   * Calls the function, and does not wait for it for ever once it has taken too long. After a stop it does: the function may still act, and
   * the lock keeps other instances from running the job beside it as long as this process lives.
   */
  async #call(context: JobContext): Promise<Ended> {
    let ended: Ended = { kind: "returned" };
    const call = async (): Promise<void> => {
      try {
        await runHolding("Schedule", this.#lock.holds, () => this.#job.fn(context));
      } catch (error) {
        ended = { kind: "threw", error };
      }
    };
    this.work = call();
    const abandoned = new AbortController();
    const { drainTimeoutInMs } = this.#instance.settings;
    let stopTimer: (() => void) | undefined;
    const off = onAbort(this.#over.signal, () => (stopTimer = startTimer(drainTimeoutInMs, () => abandoned.abort())));
    const hasEnded = await settledOrAborted(this.work, abandoned.signal);
    off();
    stopTimer?.();
    if (hasEnded) return ended;
    const message = `The run of the job ${JSON.stringify(context.name)} (epoch ${context.epoch}) has not ended ${drainTimeoutInMs} ms (drainTimeoutInMs) after its signal aborted (maxRunTimeInMs). Its lock is not renewed any more: another instance may run the job while it still runs. End it when signal aborts.`;
    return { kind: "abandoned", error: createError(OperationTimeoutError, message, { url: this.#lock.url, elapsedInMs: drainTimeoutInMs, committed: "unknown", cause: this.#over.signal.reason }) };
  }

  #outcome(ended: Ended, commits: CommitsResult, durationInMs: number): (RunOutcome & { kind: "finish" }) | { kind: "release" } | { kind: "lost"; error: unknown } {
    const { loss } = this.#lock;
    const finish = (error: unknown): RunOutcome & { kind: "finish" } => ({ kind: "finish", state: error === undefined ? "succeeded" : "failed", error: error === undefined ? undefined : errorText(error), durationInMs: Math.round(durationInMs) });
    if (commits.kind === "committed") {
      // It has taken effect: an error after that does not undo it.
      if (ended.kind !== "returned") this.#instance.onError(ended.error);
      return finish(undefined);
    }
    const failure = commits.kind === "failed" ? commits.error : ended.kind === "returned" ? undefined : ended.error;
    if (failure === undefined) return finish(undefined);
    if (loss) return { kind: "lost", error: failure };
    const isStopped = this.#instance.hurry.aborted && !this.#over.signal.aborted;
    if (isStopped && ended.kind === "threw" && this.#job.policy.onCrash === "retry") return { kind: "release" };
    return finish(this.#over.signal.aborted && ended.kind === "threw" ? this.#over.signal.reason : failure);
  }

  async #finish(outcome: RunOutcome, ended: Ended): Promise<JobState | undefined> {
    const { store, settings, onFinished, onError } = this.#instance;
    const { id } = this.#run;
    if (ended.kind === "abandoned") onError(ended.error);
    const transition = (state: JobState, now: number): JobState | undefined =>
      isRecorded(state, this.#run, outcome) ? state : finished(state, id, outcome, this.#job, now, settings.historyLimit);
    const next = await store.persist(this.#job.name, transition, () => this.#lock.isHeld());
    if (ended.kind === "abandoned") this.#lock.letExpire();
    if (!next) {
      onError(this.#lock.loss ?? new Error(`The end of a run of the job ${quotedText(this.#job.name)} is not recorded: another instance has taken it over.`));
      return undefined;
    }
    onFinished(runInfo(this.#job.name, { ...this.#run, ...outcome }, outcome.state), ended.kind === "returned" ? outcome.error : ended.error);
    return next;
  }

  /** Another instance goes on at once. Best effort: after a crash it does so as well, later. */
  async #release(): Promise<undefined> {
    await this.#instance.store.persist(this.#job.name, (state) => released(state, this.#run.id), () => this.#lock.isHeld());
  }

  #timeoutError(maxRunTimeInMs: number): OperationTimeoutError {
    const message = `The run of the job ${JSON.stringify(this.#job.name)} has taken longer than ${maxRunTimeInMs} ms (maxRunTimeInMs).`;
    return createError(OperationTimeoutError, message, { url: this.#lock.url, elapsedInMs: maxRunTimeInMs, committed: "unknown" });
  }
}

/** Whether an earlier write of this attempt was committed, whose response was lost. */
function isRecorded({ history }: JobState, { due, startedAt, holder }: RunState, { state, durationInMs }: RunOutcome): boolean {
  return history.some((ended) => ended.due === due && ended.startedAt === startedAt && ended.holder === holder && ended.state === state && ended.durationInMs === durationInMs);
}

const maxErrorCharacters = 300;

/** Name and message of an error, as they are stored. */
function errorText(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : `thrown: ${typeof error === "string" ? error : typeof error}`;
  return text.length <= maxErrorCharacters ? text : `${text.slice(0, maxErrorCharacters - 1)}…`;
}
