import type { Scenario } from "../scenario.js";

const size = 192 * 1024;

/** The first lane of a worker rewrites a blob with one byte from end to end, the second reads it in parts. */
export const reads: Scenario = {
  name: "reads",
  invariant: "no download is part old, part new (downloadConsistent)",
  lanes: 2,
  prepare: async ({ container }) => {
    await container.getBlockBlobClient("picture").upload(new Uint8Array(size), size);
  },
  work: async (lane) => {
    const blob = lane.storage.container.getBlockBlobClient("picture");
    while (!lane.finish.aborted) {
      const abortSignal = AbortSignal.timeout(8_000);
      await lane.operation(async () => {
        if (lane.id.endsWith("/0")) await blob.upload(new Uint8Array(size).fill(lane.random.between(0, 255)), size, { abortSignal });
        else {
          const { content } = await lane.library.downloadConsistent(blob, { blockSizeInBytes: 32 * 1024, concurrency: 2, abortSignal });
          if (content.length !== size || content.some((byte) => byte !== content[0])) lane.note("mixed");
        }
      });
      await lane.pause(50, 300);
    }
  },
  check: (_, ledger) => Promise.resolve(ledger.notesOf<string>("reads").map((note) => `a download was ${note}`)),
};
