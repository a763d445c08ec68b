/* One of several schedulers, in a process of its own: takes part in an election, and runs the jobs while it leads. */
import { setTimeout as pause } from "node:timers/promises";
import { ContainerClient } from "@azure/storage-blob";
import { BlobLocks, LeaderElection, optimisticUpdate } from "azure-storage-concurrency";
import type { LeadershipTerm } from "azure-storage-concurrency";

/** What has been done, in the order in which it was done. */
export interface Schedule {
  runs: { term: number; by: string }[];
}

/** What a scheduler reports to the process that started it. */
export type Report = { elected: number } | { ran: number };

const [containerName = "", name = ""] = process.argv.slice(2);
const container = new ContainerClient(process.env["AZURE_STORAGE_CONNECTION_STRING"] ?? "", containerName);
const tell = (report: Report): void => void process.send?.(report);

const election = new LeaderElection(new BlobLocks(container, { holder: name }), "scheduler", lead, {
  durationInSeconds: 15, // the least that Azure allows
});

async function lead(term: LeadershipTerm): Promise<void> {
  tell({ elected: term.epoch });
  while (!term.signal.aborted) {
    await optimisticUpdate<Schedule>(
      container.getBlockBlobClient("schedule.json"),
      ({ runs }) => {
        // A leader that was paused does not know that its term is over. The number of the term tells.
        if (runs.some(({ term: other }) => other > term.epoch)) throw new Error("this term is over");
        runs.push({ term: term.epoch, by: name });
      },
      { initial: { runs: [] } },
    );
    tell({ ran: term.epoch });
    await pause(500, undefined, { signal: term.signal }).catch(() => undefined);
  }
}

// An orderly end: the lease is released, and the next scheduler leads at once.
process.on("message", () => void election.stop().then(() => process.disconnect()));
// The process that started it has ended, and the storage with it: nothing is left to schedule.
process.on("disconnect", () => process.exit());
// It may have ended while this file was being loaded, before the listener was there.
if (!process.connected) process.exit();

await election.start().catch(async (error: unknown) => {
  // The storage may be gone because the tour was interrupted: then this process is about to end, and has nothing to report.
  await pause(2_000);
  throw error;
});
