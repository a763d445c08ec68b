import type { ShareFileClient } from "@azure/storage-file-share";
import type { Check } from "../check.js";
import { exchange } from "../exchange.js";
import type { Workspace } from "../workspace.js";
import { groupOf, resultOf } from "./calls.js";
import type { Part } from "./calls.js";

const ownId = "8a0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d41";
const leasedUpdates = "`leasedUpdate(jsonFile | textFile | bytesFile)`";
const pair = ["the new file", "the target"] as const;

interface Pair {
  readonly source: ShareFileClient;
  readonly target: ShareFileClient;
}

/** A staging file with `new` beside a target with `old`, both leased or neither. Four requests, two more if leased. */
async function createPair(workspace: Workspace, leased: readonly (typeof pair)[number][]): Promise<Pair> {
  const directory = (await workspace.files()).rootDirectoryClient;
  const create = async (content: string, isLeased: boolean): Promise<ShareFileClient> => {
    const file = directory.getFileClient(workspace.name());
    await file.create(3);
    await file.uploadRange(content, 0, 3);
    if (isLeased) await file.getShareLeaseClient(ownId).acquireLease(-1);
    return file;
  };
  return { source: await create("new", leased.includes(pair[0])), target: await create("old", leased.includes(pair[1])) };
}

async function rename({ source, target }: Pair, ids: { source?: string; target?: string }): Promise<string> {
  const options = {
    replaceIfExists: true,
    ...(ids.source !== undefined && { sourceLeaseAccessConditions: { leaseId: ids.source } }),
    ...(ids.target !== undefined && { destinationLeaseAccessConditions: { leaseId: ids.target } }),
  };
  return resultOf(await exchange(async () => (await source.rename(target.name, options)).fileRenameResponse));
}

async function contentAndLease({ target }: Pair): Promise<string> {
  const { leaseState } = await target.getProperties();
  return `${(await target.downloadToBuffer(0, 3)).toString()}, ${leaseState ?? "unknown"}`;
}

const renames: readonly Part[] = [
  {
    name: "onto a leased file, with both ids", helper: leasedUpdates, source: "recorded", expected: "passes, new, leased", requests: 9,
    run: async (workspace) => {
      const files = await createPair(workspace, pair);
      return `${await rename(files, { source: ownId, target: ownId })}, ${await contentAndLease(files)}`;
    },
  },
  {
    name: "onto a leased file, without its id", helper: leasedUpdates, source: "recorded", expected: "412 LeaseIdMissing, old, leased", requests: 8,
    run: async (workspace) => {
      const files = await createPair(workspace, ["the target"]);
      return `${await rename(files, {})}, ${await contentAndLease(files)}`;
    },
  },
  {
    name: "of a leased file, without its id", helper: leasedUpdates, source: "recorded", expected: "412 LeaseIdMissing, old, leased", requests: 9,
    run: async (workspace) => {
      const files = await createPair(workspace, pair);
      return `${await rename(files, { target: ownId })}, ${await contentAndLease(files)}`;
    },
  },
  {
    name: "a second time", helper: `${leasedUpdates}: after a lost response`, source: "documented", expected: "passes, then 404 ResourceNotFound, new, leased", requests: 10,
    run: async (workspace) => {
      const files = await createPair(workspace, pair);
      const [first, second] = [await rename(files, { source: ownId, target: ownId }), await rename(files, { source: ownId, target: ownId })];
      return `${first}, then ${second}, ${await contentAndLease(files)}`;
    },
  },
];

/** The largest range that can be put with one request. */
const rangeSize = 4 * 1024 * 1024;
const rounds = 6;
const readersPerRound = 2;

/** Each range is filled with one letter: a read with two of them has seen half a write. */
const atomicity: readonly Part[] = [
  {
    name: "readers of a range of 4 MiB see it before or after a write, never in between", helper: `${leasedUpdates}: content of the same length is written in place`,
    source: "believed", expected: `${rounds * readersPerRound} of ${rounds * readersPerRound} reads are whole`, requests: 2 + rounds * (1 + readersPerRound),
    run: async (workspace) => {
      const file = (await workspace.files()).rootDirectoryClient.getFileClient(workspace.name());
      await file.create(rangeSize);
      await file.uploadRange(Buffer.alloc(rangeSize, "a"), 0, rangeSize);
      let whole = 0;
      const read = async (): Promise<void> => {
        const content = await file.downloadToBuffer(0, rangeSize, { rangeSize });
        if (content.every((byte) => byte === content[0])) whole++;
      };
      for (let round = 0; round < rounds; round++) {
        const letter = String.fromCharCode("b".charCodeAt(0) + round);
        // Sent at the same time, so that the bodies cross.
        await Promise.all([file.uploadRange(Buffer.alloc(rangeSize, letter), 0, rangeSize), ...Array.from({ length: readersPerRound }, read)]);
      }
      return `${whole} of ${rounds * readersPerRound} reads are whole`;
    },
  },
  {
    name: "Create File of a file that exists empties it", helper: "`createIfNotExists(jsonFile)` publishes by a rename", source: "documented", expected: "passes, 3 bytes, all zero", requests: 4,
    run: async (workspace) => {
      const file = (await workspace.files()).rootDirectoryClient.getFileClient(workspace.name());
      await file.create(3);
      await file.uploadRange("old", 0, 3);
      const created = resultOf(await exchange(() => file.create(3)));
      const content = await file.downloadToBuffer(0, 3);
      return `${created}, ${content.length} bytes, ${content.every((byte) => byte === 0) ? "all zero" : content.toString()}`;
    },
  },
];

/** What updates of file content are built on: renames under leases, and ranges that are written in place. */
export const fileContentChecks: readonly Check[] = [...groupOf("file", "Rename File under a lease", renames), ...groupOf("file", "Content of files", atomicity)];
