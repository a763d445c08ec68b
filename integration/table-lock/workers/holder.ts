import { BlobLocks, TableLock } from "../../../src/index.js";
import type { FencedPartition } from "../../../src/index.js";
import { fastContainer, fastTable } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface HolderJob {
  connectionString: string;
  table: string;
  container: string;
  /** Whether it writes through the partitions that the lock gives it, or past it with the bare SDK. */
  fenced: boolean;
}

/** The writes of the holder, each in a partition of its own. */
export const writes = ["update", "submit", "delete", "create"] as const;

export interface HolderReport {
  /** What became of each write: "written", or the name of the error. */
  readonly outcomes: Record<string, string>;
  /** The service's answers to the requests that arrived after the pause. */
  readonly statuses: readonly number[];
}

/**
 * Takes the lock of a table, and is stopped when its requests have left: they arrive at the service after the pause. Nothing in
 * the process can hold them back any more, neither the clock nor the signal of the lock.
 */
runWorker(async (job: HolderJob, parent): Promise<HolderReport> => {
  const table = fastTable(job.connectionString, job.table);
  const locks = new BlobLocks(fastContainer(job.connectionString, job.container));
  const held = await new TableLock(table, locks).acquire({ durationInSeconds: 15 });
  const keys = (partitionKey: string, rowKey = "r") => ({ partitionKey, rowKey });
  const bare = {
    update: () => table.updateEntity({ ...keys("update"), n: 2 }, "Merge"),
    submit: () => table.submitTransaction([["update", { ...keys("submit"), n: -1 }, "Merge"]]),
    delete: () => table.deleteEntity("delete", "r"),
    create: () => table.createEntity({ ...keys("create", "new"), n: -1 }),
  };
  const fenced = {
    update: (partition: FencedPartition) => partition.update<{ n: number }>("r", (entity) => { entity.n += 1; }),
    submit: (partition: FencedPartition) => partition.submit([["upsert", { rowKey: "r", n: -1 }, "Replace"], ["create", { rowKey: "new", n: -1 }]]),
    delete: (partition: FencedPartition) => partition.delete("r"),
    create: (partition: FencedPartition) => partition.create({ rowKey: "new", n: -1 }),
  };
  const partitions = new Map<string, FencedPartition>();
  if (job.fenced) for (const name of writes) partitions.set(name, await held.partition(name));

  const statuses: number[] = [];
  let left = 0;
  let pause: () => void;
  const allLeft = new Promise<void>((resolve) => (pause = resolve));
  let resume: () => void;
  const resumed = new Promise<void>((resolve) => (resume = resolve));
  const isLate = ({ method, url }: { method: string; url: string }): boolean => method !== "GET" && (!job.fenced || url.includes("$batch"));
  table.pipeline.addPolicy({
    name: "network that delivers late",
    sendRequest: async (request, next) => {
      if (!isLate(request)) return next(request);
      if (++left === writes.length) pause();
      await resumed;
      // It has left: an abort does not bring it back.
      delete request.abortSignal;
      const response = await next(request);
      // The answer to a batch says in its body what became of its parts.
      statuses.push(Number(/^HTTP\/1.1 (\d+)/m.exec(response.bodyAsText ?? "")?.[1] ?? response.status));
      return response;
    },
  }, { afterPhase: "Retry" });
  const outcomes = writes.map(async (name) => [name, await outcomeOf(() => (job.fenced ? fenced[name](partitions.get(name)!) : bare[name]()))] as const);
  await allLeft;
  parent.send("holding");
  await parent.receive();
  resume!();
  const report = Object.fromEntries(await Promise.all(outcomes));
  while (statuses.length < writes.length) await new Promise((resolve) => setTimeout(resolve, 10));
  return { outcomes: report, statuses };
});

async function outcomeOf(write: () => Promise<unknown>): Promise<string> {
  try {
    await write();
    return "written";
  } catch (error) {
    return (error as Error).name;
  }
}
