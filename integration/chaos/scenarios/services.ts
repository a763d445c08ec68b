import { claimWhileHeld, overlapsOf } from "../claims.js";
import type { Claim } from "../claims.js";
import { isExpected, labelOf, lockFailures, networkFailures, outOfTime } from "../expected-errors.js";
import type { Scenario, Task } from "../scenario.js";

/** What a service with leases says in its `error` events in a storm, and the failures that the work of the run has on purpose. */
const serviceFailures = [...lockFailures, ...networkFailures, "COMMIT_UNKNOWN", "CONFLICT", "WorkFailure"];

class WorkFailure extends Error {
  override readonly name = "WorkFailure";
}

/** The compiler takes a signal that has not aborted for one that never does. */
function isFinished({ finish }: Task): boolean {
  return finish.aborted;
}

/** The check of the container may fail: the network is disturbed. */
async function start(task: Task, service: { readonly isRunning: boolean; start(options: { abortSignal: AbortSignal }): Promise<void> }): Promise<void> {
  while (!service.isRunning && !task.finish.aborted) {
    try {
      await service.start({ abortSignal: task.finish });
    } catch (error) {
      if (isFinished(task)) return;
      if (!isExpected(labelOf(error), ["OPERATION_TIMEOUT", ...networkFailures])) throw error;
      await task.pause(10, 100);
    }
  }
}

/** What observers of the election see, in the time of the machine. */
type ElectionNote = Claim | { readonly observed: number };

const isClaim = (note: ElectionNote): note is Claim => "epoch" in note;

export const election: Scenario = {
  name: "election",
  invariant: "never two leaders at once, terms only increase, candidates that stop, start and fail lead again (LeaderElection)",
  tasks: 1,
  expects: serviceFailures,
  lanes: ["terms", "observations"],
  takesOver: true,
  work: async (task) => {
    const blobLocks = new task.library.BlobLocks(task.storage.container);
    const candidate = new task.library.LeaderElection(blobLocks, "leader", (term) =>
      task.holding("leader", async () => {
        const end = performance.now() + task.random.between(200, 1_500);
        await claimWhileHeld("leader", term.epoch, () => term.assertHeld(), (claim) => task.note(claim), async () => {
          await task.pause(1, 10);
          return term.signal.aborted || performance.now() > end;
        });
        task.progress("terms");
        // Each way in which a term may end, besides those that happen to it.
        const way = task.random.between(1, 4);
        if (way === 1) throw new WorkFailure("the work of a leader fails");
        if (way === 2) await candidate.stop();
        else void candidate.resign();
      }), { durationInSeconds: 15, cooldownInMs: 200 });
    candidate.on("error", (error) => task.reportError(error));
    const observing = observe(task, candidate);
    while (!task.finish.aborted) {
      await start(task, candidate);
      await task.pause(50, 150);
    }
    await candidate.stop();
    await observing;
  },
  done: (operationLog) => new Set(operationLog.notesOf<ElectionNote>("election").filter(isClaim).map(({ epoch }) => epoch)).size,
  check: (_, operationLog) => {
    const notes = operationLog.notesOf<ElectionNote>("election");
    const claims = notes.filter(isClaim);
    const led = new Set(claims.map(({ epoch }) => epoch));
    const known = notes.flatMap((note) => (isClaim(note) ? [] : [note.observed]));
    const largest = Math.max(0, ...led);
    return Promise.resolve([
      ...overlapsOf(claims, 1),
      // Observers see leaders that were killed before they could claim anything, but none of the future.
      ...known.filter((epoch) => epoch > largest + 1_000).map((epoch) => `an observer saw epoch ${epoch}, the largest is ${largest}`),
      ...(led.size > 2 && !known.some((epoch) => led.has(epoch)) ? ["no observer saw any of the leaders"] : []),
    ]);
  },
};

/** As a process that follows the leader does: when its view ends with an error, it begins again. */
async function observe(task: Task, candidate: InstanceType<Task["library"]["LeaderElection"]>): Promise<void> {
  while (!task.finish.aborted) {
    let last = 0;
    try {
      for await (const { epoch, state } of candidate.observe({ pollIntervalInMs: 300, abortSignal: task.finish })) {
        if (state !== "leased" || epoch === undefined) continue;
        if (epoch < last) throw new RangeError(`an observer saw epoch ${epoch} after ${last}`);
        last = epoch;
        task.note({ observed: epoch } satisfies ElectionNote);
        // It is the candidates that have to recover after the storm.
        if (!task.calm.aborted) task.progress("observations");
      }
    } catch (error) {
      if (isFinished(task)) return;
      if (!isExpected(labelOf(error), ["OPERATION_TIMEOUT", ...networkFailures, ...outOfTime])) task.reportError(error);
      await task.pause(50, 200);
    }
  }
}

const shards = 6;

export const balancer: Scenario = {
  name: "balancer",
  invariant: "a shard never has two owners at once, terms only increase (WorkBalancer)",
  tasks: 1,
  expects: serviceFailures,
  lanes: ["terms"],
  takesOver: true,
  work: async (task) => {
    const blobLocks = new task.library.BlobLocks(task.storage.container);
    const worker = new task.library.WorkBalancer(blobLocks, "shards", shards, (context) =>
      task.holding(`shard-${context.shard}`, async () => {
        const { shard, epoch, signal } = context;
        const end = performance.now() + task.random.between(500, 5_000);
        await claimWhileHeld(`shard-${shard}`, epoch, () => context.assertHeld(), (claim) => task.note(claim), async () => {
          await task.pause(5, 20);
          return signal.aborted || performance.now() > end;
        });
        task.progress("terms");
        // Now and then a shard moves although no worker comes or goes.
        if (!signal.aborted && task.random.between(1, 2) === 1) throw new WorkFailure("the work of a shard fails");
      }), { durationInSeconds: 15, rebalanceIntervalInMs: 1_000 });
    worker.on("error", (error) => task.reportError(error));
    await start(task, worker);
    await new Promise<void>((resolve) => {
      if (task.finish.aborted) resolve();
      task.finish.addEventListener("abort", () => resolve(), { once: true });
    });
    await worker.stop();
  },
  done: (operationLog) => new Set(operationLog.notesOf<Claim>("balancer").map(({ resource, epoch }) => `${resource} ${epoch}`)).size,
  check: (_, operationLog) => Promise.resolve(overlapsOf(operationLog.notesOf<Claim>("balancer"), 1)),
};
