import { claimWhileHeld, mergeClaims, overlapsOf } from "../claims.js";
import type { Claim } from "../claims.js";
import type { Scenario, Task } from "../scenario.js";

const lockOptions = { durationInSeconds: 15, waitInMs: 8_000 };

/** Waiting in vain is part of the game: the operation was certainly not done. */
async function tryToHold(task: Task, resource: string, run: (claim: (epoch: number, assertHeld: () => void) => Promise<void>) => Promise<unknown>): Promise<void> {
  await task.operation(() =>
    run(async (epoch, assertHeld) => {
      const end = performance.now() + task.random.between(2, 60);
      await claimWhileHeld(resource, epoch, assertHeld, (claim) => task.note(claim), async () => {
        await task.pause(1, 5);
        await task.mayFaint();
        return performance.now() > end;
      });
    }),
  );
  await task.pause(1, 10);
}

export const locks: Scenario = {
  name: "locks",
  invariant: "never two holders at once, epochs only increase (BlobLocks)",
  tasks: 8,
  work: async (task) => {
    const [usual, fair] = [false, true].map((inOrder) => new task.library.BlobLocks(task.storage.container, { fair: inOrder }));
    while (!task.finish.aborted) {
      // Several: one that a killed process held stays taken for 15 s.
      const number = task.random.between(1, 24);
      const name = `mutex-${number}`;
      const blobLocks = number % 4 === 0 ? fair : usual;
      await tryToHold(task, name, async (claim) => blobLocks?.withLock(name, (lock) => claim(lock.epoch, () => lock.assertHeld()), lockOptions));
      // All that is not held at this moment, of all scenarios with locks: their epochs have to keep growing.
      if (task.random.between(1, 50) === 1) await usual?.purge({ olderThanInMs: 0, abortSignal: AbortSignal.timeout(5_000) }).catch(() => undefined);
    }
  },
  check: (_, operationLog) => Promise.resolve(overlapsOf(operationLog.notesOf<Claim>("locks"), 1)),
};

const slots = 2;

export const semaphore: Scenario = {
  name: "semaphore",
  invariant: `never more than ${slots} holders at once (Semaphore)`,
  tasks: 2,
  work: async (task) => {
    const limit = new task.library.Semaphore(new task.library.BlobLocks(task.storage.container), "slots", slots);
    while (!task.finish.aborted) {
      await tryToHold(task, "slots", (claim) => limit.withSlot((slot) => claim(slot.epoch, () => slot.assertHeld()), lockOptions));
    }
  },
  check: (_, operationLog) => Promise.resolve(overlapsOf(operationLog.notesOf<Claim>("semaphore"), slots)),
};

const readersAndWriter = "readers and writer";

export const readerWriterLock: Scenario = {
  name: readersAndWriter,
  invariant: "never a writer beside another holder, epochs of writers only increase (ReaderWriterLock)",
  tasks: 3,
  work: async (task) => {
    const blobLocks = new task.library.BlobLocks(task.storage.container);
    while (!task.finish.aborted) {
      const name = `document-${task.random.between(1, 4)}`;
      const lock = new task.library.ReaderWriterLock(blobLocks, name);
      if (task.random.between(1, 4) === 1) await tryToHold(task, name, (claim) => lock.withWriteLock((held) => claim(held.epoch, () => held.assertHeld()), lockOptions));
      else await tryToHold(task, name, (claim) => lock.withReadLock((held) => claim(0, () => held.assertHeld()), lockOptions));
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

export const election: Scenario = {
  name: "election",
  invariant: "never two leaders at once, terms only increase (LeaderElection)",
  tasks: 1,
  work: async (task) => {
    const blobLocks = new task.library.BlobLocks(task.storage.container);
    const candidate = new task.library.LeaderElection(blobLocks, "leader", async (term) => {
      const end = performance.now() + task.random.between(200, 2_000);
      await claimWhileHeld("leader", term.epoch, () => term.assertHeld(), (claim) => task.note(claim), async () => {
        await task.pause(1, 10);
        return term.signal.aborted || performance.now() > end;
      });
      void candidate.resign();
    }, { durationInSeconds: 15, cooldownInMs: 200 });
    candidate.on("error", () => undefined);
    // The check of the container may fail: the network is disturbed.
    while (!candidate.isRunning && !task.finish.aborted) await candidate.start({ abortSignal: task.finish }).catch(() => task.pause(10, 100));
    await new Promise<void>((resolve) => {
      if (task.finish.aborted) resolve();
      task.finish.addEventListener("abort", () => resolve(), { once: true });
    });
    await candidate.stop();
  },
  done: (operationLog) => new Set(operationLog.notesOf<Claim>("election").map(({ epoch }) => epoch)).size,
  check: (_, operationLog) => Promise.resolve(overlapsOf(operationLog.notesOf<Claim>("election"), 1)),
};

const shards = 6;

export const balancer: Scenario = {
  name: "balancer",
  invariant: "a shard never has two owners at once, terms only increase (WorkBalancer)",
  tasks: 1,
  work: async (task) => {
    const blobLocks = new task.library.BlobLocks(task.storage.container);
    const worker = new task.library.WorkBalancer(blobLocks, "shards", shards, async (context) => {
      const { shard, epoch, signal } = context;
      const end = performance.now() + task.random.between(500, 5_000);
      await claimWhileHeld(`shard-${shard}`, epoch, () => context.assertHeld(), (claim) => task.note(claim), async () => {
        await task.pause(5, 20);
        return signal.aborted || performance.now() > end;
      });
      // Now and then a shard moves although no worker comes or goes.
      if (!signal.aborted && task.random.between(1, 4) === 1) throw new Error("the work of a shard fails");
    }, { durationInSeconds: 15, rebalanceIntervalInMs: 1_000 });
    worker.on("error", () => undefined);
    // The check of the container may fail: the network is disturbed.
    while (!worker.isRunning && !task.finish.aborted) await worker.start({ abortSignal: task.finish }).catch(() => task.pause(10, 100));
    await new Promise<void>((resolve) => {
      if (task.finish.aborted) resolve();
      task.finish.addEventListener("abort", () => resolve(), { once: true });
    });
    await worker.stop();
  },
  done: (operationLog) => new Set(operationLog.notesOf<Claim>("balancer").map(({ resource, epoch }) => `${resource} ${epoch}`)).size,
  check: (_, operationLog) => Promise.resolve(overlapsOf(operationLog.notesOf<Claim>("balancer"), 1)),
};
