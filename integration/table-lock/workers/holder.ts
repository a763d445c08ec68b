import { BlobLocks, TableLock } from "../../../src/index.js";
import { fastContainer, fastTable } from "../../support/fast-clients.js";
import { runWorker } from "../../support/worker-process.js";

export interface HolderJob {
  connectionString: string;
  table: string;
  container: string;
  /** Whether it writes through the partition that the lock gives it, or past it with the bare SDK. */
  fenced: boolean;
}

/** What became of each write that the holder tried after it had been paused: "written", or the name of the error. */
export type HolderReport = Record<"update" | "submit" | "delete" | "create", string>;

/** Takes the lock of a table, is stopped in the middle of an update, and goes on as if nothing had happened. */
runWorker(async (job: HolderJob, parent): Promise<HolderReport> => {
  const table = fastTable(job.connectionString, job.table);
  const locks = new BlobLocks(fastContainer(job.connectionString, job.container));
  const held = await new TableLock(table, locks).acquire({ durationInSeconds: 15 });
  const beingStopped = async (): Promise<void> => {
    parent.send("holding");
    await parent.receive();
  };
  const keys = (rowKey: string) => ({ partitionKey: "p", rowKey });

  if (!job.fenced) {
    return {
      update: await outcomeOf(async () => {
        const { n } = await table.getEntity<{ n: number }>("p", "updated");
        await beingStopped();
        await table.updateEntity({ ...keys("updated"), n: n + 1 }, "Merge");
      }),
      submit: await outcomeOf(() => table.submitTransaction([["update", { ...keys("submitted"), n: -1 }, "Merge"]])),
      delete: await outcomeOf(() => table.deleteEntity("p", "deleted")),
      create: await outcomeOf(() => table.createEntity({ ...keys("created"), n: -1 })),
    };
  }
  const partition = await held.partition("p");
  return {
    update: await outcomeOf(() =>
      partition.update<{ n: number }>("updated", async (entity) => {
        await beingStopped();
        entity.n += 1;
      }),
    ),
    submit: await outcomeOf(() => partition.submit([["update", { rowKey: "submitted", n: -1 }], ["create", { rowKey: "created-too", n: -1 }]])),
    delete: await outcomeOf(() => partition.delete("deleted")),
    create: await outcomeOf(() => partition.create({ rowKey: "created", n: -1 })),
  };
});

async function outcomeOf(write: () => Promise<unknown>): Promise<string> {
  try {
    await write();
    return "written";
  } catch (error) {
    return (error as Error).name;
  }
}
