import { readFileSync } from "node:fs";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type Kind, type PermissionCase } from "../../src/cli/verify/checks/permissions/case.js";
import { permissionCases, permissionChecks, runCase } from "../../src/cli/verify/checks/permissions/checks.js";
import { services } from "../../src/cli/verify/service.js";
import type { Workspace } from "../../src/cli/verify/workspace.js";
import { inParallel } from "../../src/core/parallel.js";
import { type Azurite, type FileShareServer, replaceEndpoints, startAzurite, startFileShareServer } from "../../src/testing.js";
import { workspaceHere } from "../conformance/suite.js";

type Letters = Partial<Record<Kind, string>>;

/**
 * The letters without which a case passes as well, on the emulators. Why:
 * - `c` or `w` of a container or share: one of them is enough to create, and a case may only create or only delete;
 * - `a` of a container: without it, the waiters of a lock have no order;
 * - letters of a table, if the helper uses batches: Azurite does not look at the operations in them. Of `Once` and single entities: the case does not
 *   read a record, insert or delete;
 * - `r` of a queue: the consumer then does not check at its start that the queue exists; `u` of one: Azurite takes `p` for it;
 * - `l` and `d` for readers, and all but `l` for staging files: there was nothing to clear away.
 */
const passesWithout: Readonly<Record<string, Letters>> = {
  "`optimisticUpdate(jsonBlob)` with rwc": { container: "c" },
  "`createIfNotExists(jsonBlob)` with rwc": { container: "rwc" },
  "`deleteIfUnchanged` with rwcd": { container: "wc" },
  "`optimisticUpdate` with `DELETE` with rwcd": { container: "wc" },
  "`optimisticUpdate` of a blob with tags with rwct": { container: "c" },
  "`IdAllocator` with rwc": { container: "wc" },
  "`claimPages` with rw": { container: "r" },
  "`BlobLocks` with rwca": { container: "ca" },
  "`LeaderElection` with rwca": { container: "ca" },
  "`Semaphore` with rwca": { container: "ca" },
  "`ReaderWriterLock.withReadLock` with rwcld": { container: "cld" },
  "`ReaderWriterLock.withWriteLock` with rwcld": { container: "cd" },
  "`WorkBalancer` with rwcl": { container: "c" },
  "`BlobLocks.purge` with rwcld": { container: "wc" },
  "`TableLock` with rau on the table, rwca on the container": { table: "au", container: "ca" },
  "`Schedule` with rau on the table, rwca on the container": { container: "ca" },
  "`Outbox` with locks with raud on the table, rwc on the container, a on the queue": { ownTable: "a", container: "c" },
  "`TableLock.purge` with rd on the table, r on the container": { container: "r" },
  "`optimisticUpdate(tableEntity)` with rau": { table: "a" },
  "`optimisticUpdate(tableEntity)` with `DELETE` with raud": { table: "au" },
  "`runTransaction`, a SAS of the account with raud": { table: "aud" },
  "`Once` with raud": { table: "rd" },
  "`Once.runTransaction` with raud": { table: "aud" },
  "`Outbox` with raud on the table, a on the queue": { table: "a" },
  "`leasedUpdate(queueMetadata)` with a lock, a SAS of the account with rw on the queue, rwca on the container": { container: "ca" },
  "`enqueue` with `overflow` with a on the queue, cw on the container": { container: "cw" },
  "`QueueConsumer` with rpu": { queue: "ru" },
  "`QueueConsumer`, a handler that fails with rpu": { queue: "ru" },
  "`QueueConsumer` with a poison queue with rpu on the queue, a on the poison queue": { queue: "ru" },
  "`QueueConsumer` with `overflow` with rpu on the queue, rd on the container": { queue: "ru" },
  "`QueueConsumer` with a `ClaimInbox` with rpu on the queue, rau on the table": { queue: "ru", table: "au" },
  "`QueueConsumer` with a `CommitInbox` with rpu on the queue, rau on the table": { queue: "ru", table: "au" },
  "`ClaimInbox.get`, `ClaimInbox.forget` with r on the queue, rd on the table": { queue: "r" },
  "`ClaimInbox.purge` with r on the queue, rd on the table": { queue: "r", ownTable: "d" },
  "`Once` with `overflow` with raud on the table, rwd on the container": { table: "d", container: "d" },
  "`CommitInbox.purge` with r on the queue, rd on the table": { queue: "r", ownTable: "d" },
  "`redrive` with pu on the poison queue, a on the queue": { poisonQueue: "u" },
  "`redrive` of a message with a checkpoint with pu on the poison queue, au on the queue": { poisonQueue: "u", queue: "u" },
  "`createIfNotExists(jsonFile)` with rcwd": { share: "rcd" },
  "`leasedUpdate(jsonFile)`, of another length with rcwd": { share: "cd" },
  "`leasedUpdate(jsonFile)` with `DELETE` with rcwd": { share: "c" },
  "`purgeStagingFiles` with lrwd": { share: "rwd" },
};

let azurite: Azurite;
let files: FileShareServer;
let workspace: Workspace;

beforeAll(async () => {
  [azurite, files] = await Promise.all([startAzurite(), startFileShareServer()]);
  workspace = workspaceHere(replaceEndpoints(azurite.connectionString, { fileUrl: files.url }));
  await workspace.open(services);
});
afterAll(async () => {
  expect(await workspace.removeAll()).toEqual([]);
  await Promise.all([azurite.stop(), files.stop()]);
});

/** The cases that pass with what docs/permissions.md names; those of a batch with a SAS of the table cannot, on Azurite. */
const tried = permissionCases.map((each, index) => ({ each, name: permissionChecks[index]!.name })).filter(({ each: { expected, emulator } }) => (expected ?? emulator) === undefined);

describe("without one of its permissions", () => {
  it("each helper fails, unless the emulators do not show that it needs it", { timeout: 240_000 }, async () => {
    const passed: Record<string, Letters> = {};
    const attempts = tried.flatMap(({ each, name }) =>
      (Object.entries(each.grants) as [Kind, string][]).flatMap(([kind, letters]) => Array.from(letters, (letter) => ({ each, name, kind, letter }))));
    await inParallel(attempts, 12, async ({ each, name, kind, letter }) => {
      if ((await resultWithout(each, kind, letter)) === "passes") (passed[name] ??= {})[kind] = `${passed[name][kind] ?? ""}${letter}`;
    });
    const sorted = (all: Record<string, Letters>): unknown => Object.fromEntries(Object.entries(all).map(([name, kinds]) =>
      [name, Object.fromEntries(Object.entries(kinds).map(([kind, letters]) => [kind, Array.from(letters).sort().join("")]))]));
    expect(sorted(passed)).toEqual(sorted(passesWithout));
  });
});

/** A helper may report the rejection as an error without a status of its own. */
async function resultWithout(each: PermissionCase, kind: Kind, letter: string): Promise<string> {
  return runCase(each, { ...each.grants, [kind]: each.grants[kind].replace(letter, "") }, workspace).catch((error: unknown) => String(error));
}

it("every call of docs/permissions.md is tried, but for those that send the requests of another one", () => {
  const page = readFileSync(new URL("../../docs/permissions.md", import.meta.url), "utf8").split("## SAS")[1] ?? "";
  const calls = [...page.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell]) => [...(cell ?? "").matchAll(/`([^`]+)`/g)].map(([, call]) => call ?? ""));
  const helpers = permissionCases.map(({ helper }) => helper).join(" ");
  expect(calls.filter((call) => !helpers.includes(`\`${call}`))).toEqual(["watch", "acquireLease"]);
});
