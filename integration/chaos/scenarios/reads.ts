import { networkFailures, outOfTime, updateFailures } from "../expected-errors.js";
import type { Scenario, Task } from "../scenario.js";

const blockSizeInBytes = 32 * 1024;

/** Empty, a byte, a part of a block, whole blocks, and one byte more or less. */
const sizes = [0, 1, 1_000, blockSizeInBytes, blockSizeInBytes + 1, 3 * blockSizeInBytes - 1, 6 * blockSizeInBytes] as const;

/** The first task of a worker rewrites and deletes a blob, the others read it, whole or as a stream. Each version tells its size in each byte. */
export const reads: Scenario = {
  name: "reads",
  invariant: "no download is part old, part new, or of another length than its version (downloadConsistent, downloadConsistentStream)",
  tasks: 3,
  expects: [...updateFailures, ...networkFailures, ...outOfTime, "CONTENT_CHANGED", "TARGET_NOT_FOUND", "RestError/400 InvalidBlockList"],
  lanes: ["writes", "downloads", "streams"],
  prepare: async ({ container }) => {
    await container.getBlockBlobClient("picture").upload(new Uint8Array(), 0);
  },
  work: async (task) => {
    const blob = task.storage.container.getBlockBlobClient("picture");
    while (!task.finish.aborted) {
      if (task.id.endsWith("/0")) await task.operation(() => rewrite(task), "writes");
      else {
        const isStream = task.id.endsWith("/2");
        await task.operation(async () => {
          const options = { blockSizeInBytes, concurrency: 2, abortSignal: AbortSignal.timeout(8_000) };
          const parts: Uint8Array[] = [];
          let sizeInBytes: number;
          if (isStream) {
            const download = await task.library.downloadConsistentStream(blob, options);
            ({ sizeInBytes } = download);
            for await (const part of download.content) parts.push(part);
          } else {
            const download = await task.library.downloadConsistent(blob, options);
            ({ sizeInBytes } = download);
            parts.push(download.content);
          }
          const problem = damageOf(Buffer.concat(parts), sizeInBytes);
          if (problem !== undefined) task.note(problem);
        }, isStream ? "streams" : "downloads");
      }
      await task.pause(20, 150);
    }
  },
  check: (_, operationLog) => Promise.resolve(operationLog.notesOf<string>("reads").map((note) => `a download was ${note}`)),
};

/** The number of the size is in every byte, beside a random one: versions of all sizes, and of one size, can be told apart. */
async function rewrite(task: Task): Promise<void> {
  const blob = task.storage.container.getBlockBlobClient("picture");
  const abortSignal = AbortSignal.timeout(8_000);
  const index = task.random.between(0, sizes.length - 1);
  const size = sizes[index] ?? 0;
  const byte = index * 32 + task.random.between(0, 31);
  if (task.random.between(1, 6) === 1) await blob.deleteIfExists({ abortSignal });
  // In several writes: the content is never seen without the last one.
  await blob.uploadData(Buffer.alloc(size, byte), { abortSignal, blockSize: 64 * 1024, maxSingleShotSize: task.random.pick([1_000, 1_000_000]), concurrency: 2 });
}

/** What is wrong with a download, if anything. */
export function damageOf(content: Uint8Array, sizeInBytes: number): string | undefined {
  if (content.length !== sizeInBytes) return `${content.length} bytes long, its version has ${sizeInBytes}`;
  const [first] = content;
  if (first === undefined) return undefined;
  if (content.some((byte) => byte !== first)) return "mixed";
  const size = sizes[Math.floor(first / 32)];
  return size === content.length ? undefined : `${content.length} bytes long, the content is that of ${size ?? "no"} bytes`;
}
