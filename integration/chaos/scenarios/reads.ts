import type { Scenario } from "../scenario.js";

const size = 192 * 1024;

/** The first task of a worker rewrites a blob with one byte from end to end, the second reads it in parts. */
export const reads: Scenario = {
  name: "reads",
  invariant: "no download is part old, part new (downloadConsistent)",
  tasks: 2,
  prepare: async ({ container }) => {
    await container.getBlockBlobClient("picture").upload(new Uint8Array(size), size);
  },
  work: async (task) => {
    const blob = task.storage.container.getBlockBlobClient("picture");
    while (!task.finish.aborted) {
      const abortSignal = AbortSignal.timeout(8_000);
      await task.operation(async () => {
        if (task.id.endsWith("/0")) await blob.upload(new Uint8Array(size).fill(task.random.between(0, 255)), size, { abortSignal });
        else {
          const { content } = await task.library.downloadConsistent(blob, { blockSizeInBytes: 32 * 1024, concurrency: 2, abortSignal });
          if (content.length !== size || content.some((byte) => byte !== content[0])) task.note("mixed");
        }
      });
      await task.pause(50, 300);
    }
  },
  check: (_, operationLog) => Promise.resolve(operationLog.notesOf<string>("reads").map((note) => `a download was ${note}`)),
};
