import * as asc from "azure-storage-concurrency";
import type { JobContext, JobStatus, PurgeResult, ScheduledJob, ScheduledRun } from "azure-storage-concurrency";

import { typeOf } from "./expect.js";
import { container, queue, table } from "./storage.js";

export async function runSchedule(): Promise<void> {
  const locks = new asc.BlobLocks(container);
  const schedule = new asc.Schedule(table, locks, {
    billing: { cron: "0 3 * * *", timeZone: "Europe/Berlin", missed: "latest", run: async ({ dueOn, epoch, commit }) => { typeOf(dueOn).is<Date>(); typeOf(epoch).is<number>(); await commit("p", [["create", { rowKey: "a" }]]); } }, // prettier-ignore
    sweep: { everyInMs: 60_000, overlap: "queue", onCrash: "fail", maxAttempts: 2, maxRunTimeInMs: 1, jitterInMs: 1, run: (context) => void typeOf(context).is<JobContext>() },
    own: { nextRun: (after) => new Date(after.getTime() + 1), run: () => 1 },
  }, { name: "a", pollIntervalInMs: 1_000, takeoverIntervalInMs: 1_000, historyLimit: 5, drainTimeoutInMs: 1 }); // prettier-ignore
  const service: asc.BackgroundService = schedule;
  typeOf(service.isRunning).is<boolean>();
  typeOf(await schedule.trigger("billing", { idempotencyKey: "k" })).is<ScheduledRun>();
  typeOf(await schedule.status()).is<readonly JobStatus[]>();
  for await (const run of schedule.history("sweep")) typeOf(run).is<ScheduledRun>();
  schedule.on("finished", (run) => void typeOf(run).is<ScheduledRun>()).once("error", (error) => void typeOf(error).is<unknown>());
  await schedule.pause("own");
  await schedule.resume("own");
  typeOf(await schedule.purge({ olderThanInMs: 1 })).is<PurgeResult>();
  typeOf(new asc.ConcurrentTable(table, { locks }).schedule({ a: { everyInMs: 1, run: () => 1 } })).is<asc.Schedule<"a">>();
  const job: ScheduledJob = { everyInMs: 1, run: () => undefined };
  typeOf(job.missed).is<"latest" | "all" | "skip" | undefined>();
  // @ts-expect-error There is no such job.
  await schedule.trigger("biling");
  // @ts-expect-error A job needs a trigger.
  new asc.Schedule(table, locks, { a: { run: () => 1 } });
  // @ts-expect-error A queue is no table.
  new asc.Schedule(queue, locks, { a: job });
}
