import type { Command } from "commander";
import { historyOf, triggerJob } from "../../schedule/job-calls.js";
import { paused, resumed } from "../../schedule/job-state.js";
import type { JobState } from "../../schedule/job-state.js";
import { JobStore } from "../../schedule/job-store.js";
import type { FoundJob } from "../../schedule/job-store.js";
import { runsOf } from "../../schedule/run-info.js";
import type { ScheduledRun } from "../../schedule/schedule-options.js";
import { contextOf } from "../connect.js";
import type { CommandContext } from "../connect.js";
import { CommandError, exitCodes } from "../exit-codes.js";
import { ago, oneLine, printOutcome, printRows } from "../print.js";
import type { Terminal } from "../terminal.js";
import { runWatched, watchable } from "../watch.js";
import type { WatchOptions } from "../watch.js";

interface ScheduleOptions {
  schedule: string;
}

/** `schedule list`, `history`, `trigger`, `pause`, `resume`: the jobs of a schedule. They run in the instances of the application, not here. */
export function addSchedule(program: Command, terminal: Terminal): void {
  const schedule = program.command("schedule").description("inspect, trigger, pause and resume the jobs of a schedule");

  watchable(withTable(schedule.command("list")))
    .description("list the jobs, also those that the code does not have any more")
    .action((table: string, options: ScheduleOptions & WatchOptions, command: Command) => runWatched(terminal, command, options, async (context) => {
      const store = await storeOf(context, table, options);
      const rows = [...(await store.look({})).values()].map((found) => ({ job: found.name, ...statusIn(found.name, () => store.stateOf(found)) }));
      printRows(context, rows, {
        job: ({ job }) => job,
        trigger: ({ trigger }) => oneLine(trigger),
        state: ({ state }) => state,
        "next due": ({ nextDueOn }) => nextDueOn,
        "last run": ({ lastRun }) => lastRun?.state,
        due: ({ lastRun }) => lastRun?.dueOn,
        holder: ({ lastRun }) => oneLine(lastRun?.holder, 40),
      }, "There are no jobs.");
    }));

  watchable(withTable(schedule.command("history")))
    .description("list the last runs of a job, the newest one first")
    .argument("<job>", "name of the job")
    .action((table: string, job: string, options: ScheduleOptions & WatchOptions, command: Command) => runWatched(terminal, command, options, async (context) => {
      const store = await storeOf(context, table, options);
      await requireJob(store, job);
      const runs: ScheduledRun[] = [];
      for await (const run of historyOf(store, job, {})) runs.push(run);
      printRows(context, runs, {
        due: ({ dueOn }) => dueOn,
        state: ({ state }) => state,
        started: ({ startedOn }) => ago(startedOn),
        "duration in ms": ({ durationInMs }) => durationInMs,
        attempt: ({ attempt }) => attempt,
        holder: ({ holder }) => oneLine(holder, 40),
        error: ({ error }) => oneLine(error),
      }, "The job has not run yet.");
    }));

  withTable(schedule.command("trigger"))
    .description("have an instance run a job once, as soon as it reads the table")
    .argument("<job>", "name of the job")
    .option("--key <key>", "idempotency key: a repetition with the same key is not another run")
    .action(async (table: string, job: string, options: ScheduleOptions & { key?: string }, command: Command) => {
      const context = contextOf(terminal, command);
      const store = await storeOf(context, table, options);
      await requireJob(store, job);
      const run = await triggerJob(store, job, options.key, {});
      printOutcome(context, `The job ${quote(job)} was triggered: the run of ${run.dueOn.toISOString()} is ${run.state}.`, run);
    });

  for (const [name, transition, done] of [
    ["pause", paused, "is paused: none of its due times runs. A run in progress goes on."],
    ["resume", resumed, "runs from now on. Due times that passed during the pause do not run."],
  ] as const) {
    withTable(schedule.command(name))
      .description(`${name} a job on all instances`)
      .argument("<job>", "name of the job")
      .action(async (table: string, job: string, options: ScheduleOptions, command: Command) => {
        const context = contextOf(terminal, command);
        const store = await storeOf(context, table, options);
        await requireJob(store, job);
        await store.write(job, transition);
        printOutcome(context, `The job ${quote(job)} ${done}`, { job, paused: name === "pause" });
      });
  }
}

/** A damaged row is shown as one, and does not hide the others. */
export function statusIn(job: string, read: () => JobState): { trigger?: string; state: string; nextDueOn?: Date | undefined; lastRun?: ScheduledRun | undefined } {
  try {
    const state = read();
    const nextDueOn = state.nextDue === undefined || state.paused ? undefined : new Date(state.nextDue);
    return { trigger: state.trigger, state: state.run ? "running" : state.paused ? "paused" : "idle", nextDueOn, lastRun: runsOf(job, state)[0] };
  } catch {
    return { state: "damaged" };
  }
}

/** An instance registers a job. Reads the time of the service as well. */
export async function requireJob(store: JobStore, job: string): Promise<FoundJob> {
  const found = (await store.look({})).get(job);
  if (!found) throw new CommandError(exitCodes.notFound, `The schedule ${quote(store.name)} has no job ${quote(job)}.`);
  return found;
}

function withTable(command: Command): Command {
  return command.argument("<table>", "table of the schedule").option("--schedule <name>", "name of the schedule", "default");
}

async function storeOf(context: CommandContext, table: string, { schedule }: ScheduleOptions): Promise<JobStore> {
  return new JobStore(await context.account.table(table), schedule);
}

function quote(name: string): string {
  return JSON.stringify(name);
}
