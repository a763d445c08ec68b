import type { TableLike } from "../../clients/table.js";
import { JobStore } from "../../schedule/job-store.js";
import type { FoundJob } from "../../schedule/job-store.js";
import { runsOf } from "../../schedule/run-info.js";
import type { ScheduledRun } from "../../schedule/schedule-options.js";
import { statusIn } from "../commands/schedule.js";
import type { JobView, RunView, ScheduleView } from "./snapshot.js";

/** Reads the jobs of a schedule. Costs 1 request. */
export async function collectSchedule(table: TableLike, schedule: string, abortSignal: AbortSignal): Promise<ScheduleView> {
  const store = new JobStore(table, schedule);
  const jobs = [...(await store.look({ abortSignal })).values()].map((found) => jobView(store, found));
  return { table: table.tableName, schedule, jobs: jobs.sort((a, b) => (a.name < b.name ? -1 : 1)) };
}

function jobView(store: JobStore, found: FoundJob): JobView {
  const { trigger, state, nextDueOn } = statusIn(found.name, () => store.stateOf(found));
  const runs = state === "damaged" ? [] : runsOf(found.name, store.stateOf(found));
  return { name: found.name, trigger, state, nextDueOn: nextDueOn?.toISOString(), runs: runs.map(runView) };
}

function runView({ dueOn, state, startedOn, durationInMs, error, holder, attempt }: ScheduledRun): RunView {
  return { dueOn: dueOn.toISOString(), state, startedOn: startedOn?.toISOString(), durationInMs, error, holder, attempt };
}
