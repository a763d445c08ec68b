import { machineTime } from "../claims.js";
import { networkFailures, outOfTime, updateFailures } from "../expected-errors.js";
import { checkPages } from "../histories/pages.js";
import type { PageEvent } from "../histories/pages.js";
import type { Scenario, Task } from "../scenario.js";

const pageInBytes = 512;

/** Every task claims the same pages, writes some times, and reads what is there. */
export const pages: Scenario = {
  name: "pages",
  invariant: "a writer whose pages another one has claimed is rejected, also its late requests (claimPages, PageWriter)",
  tasks: 2,
  expects: [...updateFailures, ...networkFailures, ...outOfTime, "FENCED"],
  lanes: ["claims", "writes", "reads"],
  prepare: async ({ container }) => {
    await container.getPageBlobClient("pages").create(2 * pageInBytes);
  },
  work: async (task) => {
    const blob = task.storage.container.getPageBlobClient("pages");
    const note = (event: PageEvent): void => task.note(event);
    while (!task.finish.aborted) {
      let writer: Awaited<ReturnType<typeof task.library.claimPages>> | undefined;
      await task.operation(async () => {
        const from = machineTime();
        writer = await task.library.claimPages(blob, { timeoutInMs: 8_000 });
        note({ kind: "claimed", number: writer.sequenceNumber, from, to: machineTime() });
      }, "claims");
      if (!writer) continue;
      await writeSome(task, writer, note);
      await task.pause(5, 50);
    }
  },
  check: (_, operationLog) => Promise.resolve(checkPages(operationLog.notesOf<PageEvent>("pages"))),
};

async function writeSome(task: Task, writer: Awaited<ReturnType<Task["library"]["claimPages"]>>, note: (event: PageEvent) => void): Promise<void> {
  const { sequenceNumber: number } = writer;
  for (let write = 1; write <= 4; write++) {
    // With a time limit that some requests miss: they may arrive later.
    const timeoutInMs = task.random.pick([8_000, 8_000, 100]);
    const isDone = await task.operation(async () => {
      const from = machineTime();
      await writer.write(0, Buffer.alloc(2 * pageInBytes, `${number}/${write} `), { timeoutInMs });
      note({ kind: "written", number, write, from, to: machineTime() });
    }, "writes");
    await task.operation(async () => {
      const from = machineTime();
      const content = (await task.storage.container.getPageBlobClient("pages").downloadToBuffer(0, 2 * pageInBytes, { abortSignal: AbortSignal.timeout(8_000) })).toString();
      const found = /^(\d+)\/(\d+) /.exec(content);
      if (found) note({ kind: "read", number: Number(found[1]), write: Number(found[2]), from, to: machineTime() });
    }, "reads");
    if (!isDone) return;
  }
}
