import { appendFileSync } from "node:fs";

import { BlobLocks, Schedule } from "../../../src/index.js";
import type { JobContext, ScheduledJob } from "../../../src/index.js";
import { fastContainer, fastTable } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface InstanceConfig {
  readonly connectionString: string;
  readonly table: string;
  readonly container: string;
  readonly everyInMs: number;
  /** How far the clock of this process is ahead. */
  readonly skewInMs: number;
  /** Where runs are recorded: a file outlives the process. */
  readonly log: string;
  /** It stops by itself after this time, by the monotonic clock. */
  readonly runForInMs: number;
}

/** One instance of a schedule with jobs of three kinds. Sends the parent the name of each job that it begins to run. */
runWorker(async ({ connectionString, table, container, everyInMs, skewInMs, log, runForInMs }: InstanceConfig, parent) => {
  const now = Date.now.bind(Date);
  Date.now = () => now() + skewInMs;
  const job = (name: string, policy: Partial<ScheduledJob>, work: (context: JobContext) => Promise<unknown>): ScheduledJob => ({
    everyInMs,
    missed: "all",
    overlap: "queue",
    maxAttempts: 100,
    ...policy,
    run: async (context) => {
      const run = crypto.randomUUID();
      const record = (event: string): void => appendFileSync(log, `${JSON.stringify({ job: name, run, due: context.dueOn.getTime(), event, at: now(), epoch: context.epoch })}\n`);
      record("start");
      parent.send(name);
      await work(context);
      // A process that was suspended must notice here, before it acts.
      context.assertHeld();
      record("end");
    },
  }); // prettier-ignore
  const schedule = new Schedule(fastTable(connectionString, table), new BlobLocks(fastContainer(connectionString, container), { defaults: { durationInSeconds: 15 } }), {
    retry: job("retry", {}, async () => new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 200))),
    fail: job("fail", { onCrash: "fail" }, async () => new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 200))),
    commit: job("commit", {}, ({ commit, dueOn }) => commit("effects", [["create", { rowKey: `${dueOn.getTime()}-${crypto.randomUUID()}` }]])),
  }, { pollIntervalInMs: 1_000, takeoverIntervalInMs: 1_500, historyLimit: 50 }); // prettier-ignore
  schedule.on("error", () => undefined);
  await schedule.start();
  await new Promise((resolve) => setTimeout(resolve, runForInMs));
  await schedule.stop();
});
