import { claimWhileHeld, mergeClaims, overlapsOf } from "../claims.js";
import type { Claim } from "../claims.js";
import { isExpected, labelOf, lockFailures, networkFailures, outOfTime } from "../expected-errors.js";
import type { Scenario, Task } from "../scenario.js";

export const lockOptions = { durationInSeconds: 15, waitInMs: 8_000 };

type Use = (epoch: number, assertHeld: () => void, resource?: string) => Promise<void>;

/** Waiting in vain is part of the game: the operation was certainly not done. */
export async function tryToHold(task: Task, resource: string, run: (claim: Use) => Promise<unknown>, lane?: string): Promise<void> {
  await task.operation(
    () =>
      run((epoch, assertHeld, held = resource) =>
        task.holding(held, async () => {
          const end = performance.now() + task.random.between(2, 60);
          await claimWhileHeld(held, epoch, assertHeld, (claim) => task.note(claim), async () => {
            await task.pause(1, 5);
            await task.mayFaint();
            return performance.now() > end;
          });
        }),
      ),
    lane,
  );
  await task.pause(1, 10);
}

export const locks: Scenario = {
  name: "locks",
  invariant: "never two holders at once, epochs only increase, also over purges (BlobLocks, fair and not)",
  tasks: 8,
  expects: lockFailures,
  lanes: ["locks", "fair locks"],
  takesOver: true,
  work: async (task) => {
    const [usual, fair] = [false, true].map((inOrder) => new task.library.BlobLocks(task.storage.container, { fair: inOrder }));
    while (!task.finish.aborted) {
      // Several: one that a killed process held stays taken for 15 s.
      const number = task.random.between(1, 24);
      const name = `mutex-${number}`;
      const isFair = number % 4 === 0;
      const blobLocks = isFair ? fair : usual;
      await tryToHold(task, name, async (claim) => blobLocks?.withLock(name, (lock) => claim(lock.epoch, () => lock.assertHeld()), lockOptions), isFair ? "fair locks" : "locks");
      // All that is not held at this moment, of all scenarios with locks: their epochs have to keep growing.
      if (task.random.between(1, 50) === 1) await purge(task, usual);
    }
  },
  check: (_, operationLog) => Promise.resolve(overlapsOf(operationLog.notesOf<Claim>("locks"), 1)),
};

/** Not an operation: how far it gets in its time depends on how many locks there are. */
async function purge(task: Task, blobLocks: InstanceType<Task["library"]["BlobLocks"]> | undefined): Promise<void> {
  try {
    await blobLocks?.purge({ olderThanInMs: 0, abortSignal: AbortSignal.timeout(5_000) });
  } catch (error) {
    // A request of a purge may fail, and its time may end. Nothing else.
    if (!isExpected(labelOf(error), [...networkFailures, ...outOfTime, "OPERATION_TIMEOUT"])) task.reportError(error);
  }
}

const slots = 2;

export const semaphore: Scenario = {
  name: "semaphore",
  invariant: `never two holders of a slot, never more than ${slots} slots, and all of them in use (Semaphore)`,
  tasks: 3,
  expects: lockFailures,
  takesOver: true,
  enough: 30,
  work: async (task) => {
    const limit = new task.library.Semaphore(new task.library.BlobLocks(task.storage.container), "slots", slots);
    while (!task.finish.aborted) {
      await tryToHold(task, "slots", (claim) => limit.withSlot((slot) => claim(slot.epoch, () => slot.assertHeld(), slot.name), lockOptions));
    }
  },
  check: (_, operationLog) => {
    const claims = operationLog.notesOf<Claim>("semaphore");
    const used = [...new Set(claims.map(({ resource }) => resource))];
    // More than one caller waits at nearly all times.
    const simultaneous = overlapsOf(claims.map((claim) => ({ ...claim, resource: "all slots" })), 1).filter((problem) => problem.includes("held by"));
    return Promise.resolve([
      ...overlapsOf(claims, 1),
      ...(used.length > slots ? [`${used.join(", ")} were held`] : []),
      ...(new Set(claims.map(({ epoch, resource }) => `${resource} ${epoch}`)).size >= 30 && simultaneous.length === 0 ? [`all ${slots} slots were never held at the same time`] : []),
    ]);
  },
};

const readersAndWriter = "readers and writer";

export const readerWriterLock: Scenario = {
  name: readersAndWriter,
  invariant: "never a writer beside another holder, epochs of writers only increase (ReaderWriterLock)",
  tasks: 3,
  expects: lockFailures,
  lanes: ["readers", "writers"],
  takesOver: true,
  work: async (task) => {
    const blobLocks = new task.library.BlobLocks(task.storage.container);
    while (!task.finish.aborted) {
      const name = `document-${task.random.between(1, 4)}`;
      const lock = new task.library.ReaderWriterLock(blobLocks, name);
      if (task.random.between(1, 4) === 1) await tryToHold(task, name, (claim) => lock.withWriteLock((held) => claim(held.epoch, () => held.assertHeld()), lockOptions), "writers");
      else await tryToHold(task, name, (claim) => lock.withReadLock((held) => claim(0, () => held.assertHeld()), lockOptions), "readers");
    }
  },
  check: (_, operationLog) => {
    const claims = operationLog.notesOf<Claim>(readersAndWriter);
    const problems = overlapsOf(claims.filter(({ epoch }) => epoch > 0), 1);
    for (const [resource, ordered] of mergeClaims(claims)) {
      for (const writer of ordered.filter(({ epoch }) => epoch > 0)) {
        const readers = ordered.filter(({ epoch, first, last }) => epoch === 0 && first < writer.last && last > writer.first);
        if (readers.length > 0) problems.push(`${resource}: ${readers.length} readers beside the writer with epoch ${writer.epoch}`);
      }
    }
    return Promise.resolve(problems);
  },
};
