/* One of several schedulers, in a process of its own: takes part in an election, and runs the jobs while it leads. */
import { setTimeout as pause } from "node:timers/promises";
import { ContainerClient } from "@azure/storage-blob";
import { BlobLocks, LeaderElection, optimisticUpdate } from "azure-storage-concurrency";
import type { LeadershipTerm } from "azure-storage-concurrency";

/** What has been done, in the order in which it was done. */
export interface Schedule {
  runs: { term: number; by: string }[];
}

/** What a scheduler tells whoever started it. */
export type Report = { elected: number } | { ran: number };

const [containerName = "", name = ""] = process.argv.slice(2);
const container = new ContainerClient(process.env["AZURE_STORAGE_CONNECTION_STRING"] ?? "", containerName);
const tell = (report: Report): void => void process.send?.(report);

const election = new LeaderElection(new BlobLocks(container, { holder: name }), "scheduler", lead, {
  durationInSeconds: 15, // the least that Azure allows
});
await election.start();

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

// An orderly end: the lease is given back, and the next one leads at once.
process.on("message", () => void election.stop().then(() => process.disconnect()));
// Without whoever started it, there is nobody to schedule for, and maybe no storage either.
process.on("disconnect", () => process.exit());
// It may have gone while this file was being loaded, before anybody listened.
if (!process.connected) process.exit();
