import { machineTime } from "../claims.js";
import { networkFailures, outOfTime, updateFailures } from "../expected-errors.js";
import type { OperationLog } from "../operation-log.js";
import type { Scenario, Storage } from "../scenario.js";

const name = "watches";

interface Settings {
  n: number;
}

/** A watch has yielded this number; undefined: the blob does not exist. */
interface Note {
  readonly seen: number | undefined;
}

class WatchEnded extends Error {
  override readonly name = "WatchEnded";
}

/** Larger than all before, also after the blob was deleted. */
const nextNumber = (before: number): number => Math.max(before + 1, Math.floor(machineTime()));

/** The first task of a worker changes, deletes and creates a blob, the second watches it. */
export const watches: Scenario = {
  name,
  invariant: "a watch never goes back to an older state, and sees the last one (watch)",
  tasks: 2,
  expects: [...updateFailures, ...networkFailures, ...outOfTime],
  lanes: ["writes", "states"],
  unhurried: [1],
  work: async (task) => {
    const { jsonBlob, optimisticUpdate, watch } = task.library;
    const target = jsonBlob<Settings>(task.storage.container.getBlockBlobClient("watched.json"));
    if (task.id.endsWith("/1")) {
      const stop = { abortSignal: task.stop, pollIntervalInMs: 200, maxPollIntervalInMs: 1_000, onError: (error: unknown) => task.reportError(error) };
      try {
        for await (const { value } of watch<Settings>(target, stop)) {
          task.note({ seen: value?.n } satisfies Note);
          task.progress("states");
        }
      } catch (error) {
        // Polls that fail are reported to `onError`, and repeated: none of the errors that are expected there ends a watch.
        if (!task.stop.aborted) task.reportError(new WatchEnded("the watch has ended", { cause: error }));
      }
      return;
    }
    while (!task.finish.aborted) {
      await task.operation(
        () => optimisticUpdate(target, (draft) => {
          if (task.random.between(1, 20) === 1) return task.library.DELETE;
          draft.n = nextNumber(draft.n);
          return undefined;
        }, { initial: { n: 0 }, timeoutInMs: 8_000 }), "writes"); // prettier-ignore
      await task.pause(50, 300);
    }
  },
  /** Every watch of a process that is alive has seen what is there now. A watch that has ended is a failure of the run in any case. */
  isDrained: async (storage, operationLog, isAlive) => {
    const stored = await storedNumber(storage);
    return watchesOf(operationLog).every(({ task, seen }) => !isAlive(task) || seen.at(-1)?.seen === stored);
  },
  check: (_, operationLog) =>
    Promise.resolve(
      watchesOf(operationLog).flatMap(({ task, seen }) => {
        // The same number may come again: it was not seen that the blob did not exist in between.
        const numbers = seen.flatMap(({ seen: n }) => (n === undefined ? [] : [n]));
        return numbers.flatMap((n, i) => (n < (numbers[i - 1] ?? 0) ? [`${task} saw ${n} after ${numbers[i - 1] ?? 0}`] : []));
      }),
    ),
};

function watchesOf(operationLog: OperationLog): { readonly task: string; readonly seen: readonly Note[] }[] {
  return [...operationLog.tasksOf(name)].filter(([task]) => task.endsWith("/1")).map(([task, { notes }]) => ({ task, seen: notes as Note[] }));
}

async function storedNumber({ container }: Storage): Promise<number | undefined> {
  const blob = container.getBlockBlobClient("watched.json");
  if (!(await blob.exists())) return undefined;
  return (JSON.parse((await blob.downloadToBuffer()).toString()) as Settings).n;
}
