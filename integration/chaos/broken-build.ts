import { cp, mkdtemp, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** A piece of a compiled file, and what replaces it. */
export interface Replacement {
  readonly file: string;
  readonly find: string;
  readonly replaceBy: string;
}

/** The guarantees that can be removed from the library, to prove that a chaos run notices. */
export const breakable = {
  // An update cannot recognise its own write: it believes the response to its last send, as loops on the plain SDK do.
  journal: [
    { file: "update/options.js", find: "journaling: journal !== false", replaceBy: "journaling: false" },
    {
      file: "update/commit.js",
      find: "recognise: (found, reason, error) => recognise(",
      replaceBy: `recognise: (found, reason, error) => error?.statusCode === 412 ? "not committed" : recognise(`,
    },
  ],
  // A holder neither notices the number of its successor, nor makes its writes depend on the fence row.
  fence: [
    { file: "lock/fence.js", find: "if (fencedBy <= epoch)", replaceBy: "if (true)" },
    { file: "lock/fence-row.js", find: `["update", fence, "Merge", { etag: row.etag }]`, replaceBy: `["upsert", fence, "Merge"]` },
  ],
  // A message whose key is completed is handled again.
  inbox: [
    { file: "queue/inbox/commit-once.js", find: `["create", entityOf(`, replaceBy: `["upsert", entityOf(` },
    { file: "queue/inbox/record.js", find: `if (record.state === "done")`, replaceBy: `if (false)` },
  ],
  // A message of a group starts although a handler of another one has the group, or its turn has not come.
  groups: [
    { file: "queue/inbox/group-row.js", find: `return retryAfterInMs > 0 ? { kind: "busy", retryAfterInMs } : { kind: "free" };`, replaceBy: `return { kind: "free" };` },
    { file: "queue/inbox/group-row.js", find: `if (sequence > lastSequence + 1)`, replaceBy: `if (false)` },
  ],
  // A call runs its function although another one has the key, and stores its result over that of the other.
  once: [
    { file: "once/once-record.js", find: "return retryAfterInMs > 0 ?", replaceBy: "return false ?" },
  ],
  // A holder learns that its lease is lost from responses only, not from the clock.
  deadline: [{ file: "lease/held-lease.js", find: "marginInMs: () => times.safetyMarginInMs", replaceBy: "marginInMs: () => -Infinity" }],
} as const satisfies Readonly<Record<string, readonly Replacement[]>>;

export type Breakable = keyof typeof breakable;

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The URL of the build to import: `dist`, or a copy of it without one of its guarantees. */
export async function libraryUrl(broken: Breakable | undefined): Promise<string> {
  if (!broken) return pathToFileURL(join(root, "dist", "index.js")).href;
  const folder = await mkdtemp(join(tmpdir(), "azure-storage-concurrency-broken-"));
  await cp(join(root, "dist"), join(folder, "dist"), { recursive: true });
  await cp(join(root, "package.json"), join(folder, "package.json"));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  for (const replacement of breakable[broken]) {
    const path = join(folder, "dist", replacement.file);
    await writeFile(path, replaced(await readFile(path, "utf8"), replacement));
  }
  return pathToFileURL(join(folder, "dist", "index.js")).href;
}

/** Throws if the code has changed since: it would be left intact, and the run would prove nothing. */
export function replaced(code: string, { file, find, replaceBy }: Replacement): string {
  if (code.split(find).length !== 2) throw new Error(`${file} does not have exactly one ${JSON.stringify(find)}: nothing was broken`);
  return code.replace(find, () => replaceBy);
}
