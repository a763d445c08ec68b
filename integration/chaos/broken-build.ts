import { cp, mkdtemp, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** What can be taken out of the library, to see that a chaos run notices. */
export const breakable = {
  // Without it, a loop has to believe the answer to the last try, as loops written by hand do.
  journal: [
    { file: "update/options.js", find: "journaling: journal !== false", put: "journaling: false" },
    { file: "update/commit.js", find: "resend === 0 && counted.sends() === 1 && isDefinitive(error)", put: "isDefinitive(error)" },
  ],
  fence: [
    { file: "lock/fence.js", find: "if (fencedBy > this.#epoch)", put: "if (fencedBy < 0)" },
    { file: "lock/fence.js", find: `["update", entity, "Merge", { etag: row.etag }]`, put: `["upsert", entity, "Merge"]` },
  ],
  deadline: [
    {
      file: "lease/lease-keeper.js",
      find: "const own = this.#times.durationInMs - this.#times.safetyMarginInMs - this.#since.elapsedInMs();",
      put: "const own = this.#times.durationInMs;",
    },
  ],
} as const;

export type Breakable = keyof typeof breakable;

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Where the build is, as a URL to import: `dist`, or a copy of it without one of its guarantees. */
export async function libraryUrl(broken: Breakable | undefined): Promise<string> {
  if (!broken) return pathToFileURL(join(root, "dist", "index.js")).href;
  const folder = await mkdtemp(join(tmpdir(), "azure-storage-concurrency-broken-"));
  await cp(join(root, "dist"), join(folder, "dist"), { recursive: true });
  await cp(join(root, "package.json"), join(folder, "package.json"));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  for (const { file, find, put } of breakable[broken]) {
    const path = join(folder, "dist", file);
    const code = await readFile(path, "utf8");
    // Code that has moved on would leave the build whole, and the run would prove nothing.
    if (code.split(find).length !== 2) throw new Error(`${file} does not have exactly one ${JSON.stringify(find)}: nothing was broken`);
    await writeFile(path, code.replace(find, put));
  }
  return pathToFileURL(join(folder, "dist", "index.js")).href;
}
