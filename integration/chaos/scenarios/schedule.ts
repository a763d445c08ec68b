import type { Scenario } from "../scenario.js";

const everyInMs = 1_000;
const partitionKey = "schedule-effects";

/** A run of a job: that it has begun, and between which times it acted while it was held. */
interface Note {
  readonly job: string;
  readonly due: number;
  readonly from: number;
  readonly to?: number;
}

/** Each worker is an instance of one schedule: a job that commits, and one that starts at most once. */
export const schedule: Scenario = {
  name: "scheduled jobs",
  invariant: "a due time has one effect, none is left out, runs of a job do not overlap (Schedule)",
  tasks: 1,
  work: async (task) => {
    const { BlobLocks, Schedule } = task.library;
    const note = (value: Note): void => task.note(value);
    const instance = new Schedule(task.storage.table, new BlobLocks(task.storage.container, { defaults: { durationInSeconds: 15 } }), {
      commit: {
        everyInMs, missed: "all", overlap: "queue", maxAttempts: 1_000,
        run: async ({ dueOn, commit, assertHeld }) => {
          const from = Date.now();
          await task.mayFaint();
          await commit(partitionKey, [["create", { rowKey: `${dueOn.getTime()}-${crypto.randomUUID()}` }]]);
          assertHeld();
          note({ job: "commit", due: dueOn.getTime(), from, to: Date.now() });
        },
      },
      fail: {
        everyInMs, missed: "all", overlap: "queue", onCrash: "fail",
        run: async ({ dueOn, assertHeld }) => {
          const from = Date.now();
          note({ job: "fail", due: dueOn.getTime(), from });
          await task.pause(5, 100);
          await task.mayFaint();
          assertHeld();
          note({ job: "fail-acted", due: dueOn.getTime(), from, to: Date.now() });
        },
      },
    }, { pollIntervalInMs: 1_000, takeoverIntervalInMs: 2_000, drainTimeoutInMs: 5_000 }); // prettier-ignore
    instance.on("error", () => undefined);
    while (!task.finish.aborted && !(await task.operation(() => instance.start()))) await task.pause(100, 500);
    while (!task.finish.aborted) await task.pause(200, 400);
    await instance.stop();
  },
  // Due times that ran, not instances that were started.
  done: (operationLog) => new Set(operationLog.notesOf<Note>("scheduled jobs").flatMap(({ job, due, to }) => (job === "commit" && to !== undefined ? [due] : []))).size,
  check: async ({ table }, operationLog) => {
    const notes = operationLog.notesOf<Note>("scheduled jobs");
    const effects: number[] = [];
    for await (const { rowKey } of table.listEntities<{ rowKey: string }>({ queryOptions: { filter: `PartitionKey eq '${partitionKey}' and RowKey lt '~'` } })) effects.push(Number(rowKey.split("-")[0]));
    const gaps = effects.filter((due, i) => i > 0 && due !== effects[i - 1]! + everyInMs);
    const starts = notes.filter(({ job }) => job === "fail").map(({ due }) => due);
    const acted = notes.filter((entry): entry is Note & { to: number } => entry.to !== undefined);
    const overlaps = acted.flatMap((a) => acted.filter((b) => a !== b && a.job === b.job && b.from > a.from && b.from < a.to));
    return [
      ...gaps.map((due) => `the effect of ${due} follows one that is not ${everyInMs} ms earlier`),
      ...(new Set(starts).size === starts.length ? [] : [`${starts.length} starts for ${new Set(starts).size} due times that start at most once`]),
      ...overlaps.map(({ job, due }) => `two runs of ${job} acted at a time, at ${due}`),
      ...(effects.length > 0 ? [] : ["no due time ran"]),
    ];
  },
};
