import { isExpected, labelOf, lockFailures, networkFailures, updateFailures } from "../expected-errors.js";
import { checkDueTimes } from "../histories/due-times.js";
import type { JobRun } from "../histories/due-times.js";
import type { Scenario } from "../scenario.js";
import { wallTime } from "../wall-clock.js";

const name = "scheduled jobs";
const everyInMs = 1_000;
const partitionKey = "schedule-effects";

/** A run of a job: that it has begun, or between which times it acted while it was held. */
interface Note extends JobRun {
  readonly job: "commit" | "fail started" | "fail";
}

/** Each worker is an instance of one schedule: a job that commits, and one that starts at most once. */
export const schedule: Scenario = {
  name,
  invariant: "a due time has one effect, none is left out or early, runs of a job do not overlap (Schedule)",
  tasks: 1,
  expects: [...updateFailures, ...lockFailures, ...networkFailures],
  lanes: ["commits", "runs"],
  takesOver: true,
  // An instance may have no turn for as long as another one has.
  unhurried: [0],
  work: async (task) => {
    const { BlobLocks, Schedule } = task.library;
    const note = (value: Note): void => task.note(value);
    const instance = new Schedule(task.storage.table, new BlobLocks(task.storage.container, { defaults: { durationInSeconds: 15 } }), {
      commit: {
        everyInMs, missed: "all", overlap: "queue", maxAttempts: 1_000,
        run: ({ dueOn, commit, assertHeld }) => task.holding("commit", async () => {
          const from = wallTime();
          assertHeld();
          await task.mayFaint();
          await commit(partitionKey, [["create", { rowKey: `${dueOn.getTime()}-${crypto.randomUUID()}` }]]);
          const to = wallTime();
          assertHeld();
          note({ job: "commit", due: dueOn.getTime(), from, to });
          task.progress("commits");
        }),
      },
      fail: {
        everyInMs, missed: "all", overlap: "queue", onCrash: "fail",
        run: ({ dueOn, assertHeld }) => task.holding("fail", async () => {
          // The time before the check: it was held then, even if the process is suspended in between.
          const from = wallTime();
          assertHeld();
          note({ job: "fail started", due: dueOn.getTime(), from });
          await task.pause(5, 100);
          await task.mayFaint();
          const to = wallTime();
          assertHeld();
          note({ job: "fail", due: dueOn.getTime(), from, to });
          task.progress("runs");
        }),
      },
    }, { pollIntervalInMs: 1_000, takeoverIntervalInMs: 2_000, drainTimeoutInMs: 5_000 }); // prettier-ignore
    instance.on("error", (error) => task.reportError(error));
    while (!task.finish.aborted) {
      try {
        await instance.start();
        break;
      } catch (error) {
        if (!isExpected(labelOf(error), [...updateFailures, ...networkFailures])) throw error;
        await task.pause(100, 500);
      }
    }
    while (!task.finish.aborted) await task.pause(200, 400);
    await instance.stop();
  },
  // Due times that ran, not instances that were started.
  done: (operationLog) => new Set(operationLog.notesOf<Note>(name).flatMap(({ job, due }) => (job === "commit" ? [due] : []))).size,
  check: async ({ table }, operationLog) => {
    const notes = operationLog.notesOf<Note>(name);
    const runsOf = (job: Note["job"]): Note[] => notes.filter((entry) => entry.job === job);
    const effects: number[] = [];
    for await (const { rowKey } of table.listEntities<{ rowKey: string }>({ queryOptions: { filter: `PartitionKey eq '${partitionKey}' and RowKey lt '~'` } })) effects.push(Number(rowKey.split("-")[0]));
    const common = { everyInMs, earlyByInMs: 5 };
    return [
      ...checkDueTimes("commit", { ...common, runs: runsOf("commit"), effects }),
      // A due time whose process was killed is left out, by its option.
      ...checkDueTimes("fail", { ...common, runs: runsOf("fail started"), effects: [], startsOnce: true }),
      ...checkDueTimes("fail", { ...common, runs: runsOf("fail"), effects: [] }),
      ...(effects.length > 0 ? [] : ["no due time ran"]),
    ];
  },
};
