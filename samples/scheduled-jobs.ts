/* Four instances of a service have the same jobs. Each due time runs once, and the effect of one that fails half-way is never half there. */
import { setTimeout as pause } from "node:timers/promises";
import { BlobLocks, Schedule } from "azure-storage-concurrency";
import { check } from "./support/check.js";
import { say } from "./support/narrator.js";
import { runIfStarted } from "./support/sample.js";
import type { Sample } from "./support/sample.js";

export const scheduledJobs: Sample = {
  name: "scheduled-jobs",
  title: "Cron jobs of a fleet",
  helper: "Schedule",
  section: "docs/schedule.md#quick-example",
  plan: "Four instances start the same schedule: a job is due every second, for six seconds. Its effect, a row for each due time, is committed together with the record that the run is done. One instance leaves in between.",
  lesson: "The due time, not the clock of an instance, is the key: it is claimed once in the table. Which instance runs it does not matter, and one that leaves is not missed.",
  async run(storage) {
    const [table, container] = [await storage.table(), await storage.container()];
    const ran: string[] = [];
    const instances = await Promise.all(
      ["Ada", "Grace", "Edsger", "Barbara"].map(async (name) => {
        const locks = new BlobLocks(await storage.container(container.containerName), { holder: name });
        const schedule = new Schedule(await storage.table(table.tableName), locks, {
          report: {
            cron: "* * * * * *",
            missed: "all",
            overlap: "queue",
            run: async ({ dueOn, commit }) => {
              await commit("reports", [["create", { rowKey: dueOn.toISOString(), by: name }]]);
              ran.push(name);
            },
          },
        });
        schedule.on("error", (error) => say.step(String(error)));
        await schedule.start();
        return schedule;
      }),
    );
    const [first, ...others] = instances;
    const started = Date.now();
    await pause(3_000);
    await first?.stop();
    say.step(`one instance has left after ${ran.length} runs`);
    await pause(3_500);
    await Promise.all(others.map((schedule) => schedule.stop()));

    const due: number[] = [];
    for await (const { rowKey } of table.listEntities<{ rowKey: string }>({ queryOptions: { filter: "PartitionKey eq 'reports' and RowKey lt '~'" } })) due.push(Date.parse(rowKey));
    say.step(`${due.length} due times, run by ${new Set(ran).size} instances`);
    check(due.length === ran.length, "each run has committed its effect once");
    check(due.every((time, i) => i === 0 || time === due[i - 1]! + 1_000), "no due time is missing");
    check(due.length >= 5 && due[0]! > started - 2_000, "the due times are those since the start");
    return `${due.length} due times ran once each, on ${new Set(ran).size} of four instances`;
  },
};

await runIfStarted(scheduledJobs, import.meta.url);
