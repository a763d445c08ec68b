import type { EndedRun, JobState, ManualRequest, RunState } from "./job-state.js";
import type { ScheduledRun } from "./schedule-options.js";

/** What is known of a run: all of it, or only that it was triggered. */
type KnownRun = ManualRequest & { readonly [name in Exclude<keyof EndedRun, keyof ManualRequest | "state">]?: EndedRun[name] | undefined };

/** What users see of a run. */
export function runInfo(job: string, run: KnownRun, state: ScheduledRun["state"]): ScheduledRun {
  const { due, startedAt, durationInMs, error, holder, attempt = 0, key } = run;
  return { job, dueOn: new Date(due), state, startedOn: startedAt === undefined ? undefined : new Date(startedAt), durationInMs, error, holder, attempt, idempotencyKey: key };
}

/** A run that was found in the state of its job. */
export function foundInfo(job: string, found: ManualRequest | RunState | EndedRun): ScheduledRun {
  const state = "state" in found ? found.state : "id" in found ? "running" : "pending";
  return runInfo(job, found, state);
}

/** The run in progress and those that have ended, the newest one first. */
export function runsOf(job: string, { run, history }: JobState): ScheduledRun[] {
  return [...history, ...(run ? [run] : [])].reverse().map((found) => foundInfo(job, found));
}
