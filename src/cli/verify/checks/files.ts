import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import type { Check } from "../check.js";
import { outcome, removal } from "../check.js";
import { exchange } from "../exchange.js";
import type { FileOptions, FileRow } from "../rows/file.js";
import { fileRows } from "../rows/file.js";
import type { ShareRow } from "../rows/share.js";
import { shareLeaseResponses, shareRows } from "../rows/share.js";
import type { Workspace } from "../workspace.js";
import { expiryPolls, untilExpired } from "./expiry.js";

const ownId = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d11";
const anotherId = "2f0f2d4e-64fd-4d0a-8f77-6a0f4a3e1d12";
const withId = (leaseId: string | undefined): FileOptions => (leaseId === undefined ? {} : { leaseAccessConditions: { leaseId } });
const notTaken = { conditions: { ifMatch: '"0x8D0000000000000"' } };

/** A new file of one byte. Two requests. */
export async function createFile(workspace: Workspace): Promise<ShareFileClient> {
  const file = (await workspace.files()).rootDirectoryClient.getFileClient(workspace.name());
  await file.create(1);
  await file.uploadRange("0", 0, 1);
  return file;
}

type Part = Pick<Check, "name" | "expected" | "requests" | "polls" | "slow" | "run">;

function fileParts(row: FileRow): Part[] {
  const run = (options: FileOptions, leased: boolean) => async (workspace: Workspace): Promise<string> => {
    const file = await createFile(workspace);
    if (leased) await file.getShareLeaseClient(ownId).acquireLease(-1);
    return outcome((await exchange(() => row.call(file, options, "1"))).response, undefined);
  };
  return [
    {
      name: "the response",
      expected: `passes, ${row.returnsETag ? "with" : "without"} an ETag`,
      requests: 3,
      run: async (workspace) => responseOf(await createFile(workspace), row),
    },
    { name: "If-Match", expected: "not sent, passes", requests: 3, run: async (workspace) => ifMatchOf(await createFile(workspace), row) },
    { name: "leased, no id", expected: row.lease === "required" ? "412 LeaseIdMissing" : "passes", requests: 4, run: run({}, true) },
    { name: "leased, another id", expected: "412 LeaseIdMismatchWithFileOperation", requests: 4, run: run(withId(anotherId), true) },
    { name: "leased, its id", expected: "passes", requests: 4, run: run(withId(ownId), true) },
    ...lastWriterPart(row, createFile, 2),
  ];
}

interface Call<T> {
  readonly call: (target: T, options: FileOptions, value: string) => Promise<object>;
  readonly read?: (target: T) => Promise<string | undefined>;
}

async function responseOf<T>(target: T, { call }: Call<T>): Promise<string> {
  const { response, etag } = await exchange(() => call(target, {}, "7"));
  return `${outcome(response, undefined)}, ${etag === undefined ? "without" : "with"} an ETag`;
}

async function ifMatchOf<T>(target: T, { call }: Call<T>): Promise<string> {
  const { response, sent } = await exchange(() => call(target, notTaken, "7"));
  return `${sent("if-match") === undefined ? "not sent" : "sent"}, ${outcome(response, undefined)}`;
}

function lastWriterPart<T>({ call, read }: Call<T>, create: (workspace: Workspace) => Promise<T>, around: number): Part[] {
  if (!read) return [];
  const run = async (workspace: Workspace): Promise<string> => {
    const target = await create(workspace);
    await read(target); // by two clients, which then write in turn
    const responses: string[] = [];
    for (const value of ["2", "3"]) responses.push(outcome((await exchange(() => call(target, {}, value))).response, undefined));
    return `${responses.join(", ")}, leaves ${(await read(target)) ?? "nothing"}`;
  };
  return [{ name: "two writers", expected: "passes, passes, leaves 3", requests: around + 4, run }];
}

const deletedAtOnce: Check = {
  service: "file",
  group: "Files",
  name: "Delete File: is complete with its response",
  source: "documented",
  expected: "404 ResourceNotFound",
  requests: 4,
  run: async (workspace) => {
    const file = await createFile(workspace);
    await file.delete();
    return (await exchange(() => file.getProperties())).response;
  },
};

function shareParts(row: ShareRow): Part[] {
  const subject = (workspace: Workspace): Promise<ShareClient> => workspace.share({ leased: true, missing: row.given === "missing" });
  const around = (row.given === "missing" ? 0 : 1) + removal.leased;
  const changed: Part = {
    name: "the ETag afterwards",
    expected: row.changesETag ? "another ETag" : "the same ETag",
    requests: around + 3,
    run: async (workspace) => {
      const share = await subject(workspace);
      const { etag } = await share.getProperties();
      await row.call(share, {}, "7");
      return (await share.getProperties()).etag === etag ? "the same ETag" : "another ETag";
    },
  };
  return [
    { name: "the response", expected: `passes, ${row.returnsETag ? "with" : "without"} an ETag`, requests: around + 1, run: async (workspace) => responseOf(await subject(workspace), row) },
    ...(row.changesETag === undefined ? [] : [changed]),
    { name: "If-Match", expected: "not sent, passes", requests: around + 1, run: async (workspace) => ifMatchOf(await subject(workspace), row) },
    ...(row.lease === undefined ? [] : shareLeaseParts(row, subject, around)),
    ...lastWriterPart(row, subject, around),
  ];
}

function shareLeaseParts(row: ShareRow, subject: (workspace: Workspace) => Promise<ShareClient>, around: number): Part[] {
  const run = (leaseId: string | undefined, seconds: number | undefined) => async (workspace: Workspace): Promise<string> => {
    const share = await subject(workspace);
    if (seconds !== undefined) await share.getShareLeaseClient(ownId).acquireLease(seconds);
    if (seconds !== undefined && seconds > 0) await untilExpired(share, workspace);
    const { response, sent } = await exchange(() => row.call(share, withId(leaseId), "7"));
    return outcome(response, undefined) + (sent("x-ms-lease-id") === leaseId ? "" : " (the id is not sent as given)");
  };
  const { missing, mismatch, neverLeased, expired } = shareLeaseResponses;
  const late = { requests: around + 3, slow: true, polls: expiryPolls };
  return [
    { name: "leased, no id", expected: row.lease === "required" ? missing : "passes", requests: around + 2, run: run(undefined, -1) },
    { name: "leased, its id", expected: "passes", requests: around + 2, run: run(ownId, -1) },
    { name: "leased, another id", expected: mismatch, requests: around + 2, run: run(anotherId, -1) },
    { name: "never leased, an id", expected: neverLeased, requests: around + 1, run: run(ownId, undefined) },
    { name: "expired, its id", expected: expired, ...late, run: run(ownId, 15) },
    { name: "expired, no id", expected: "passes", ...late, run: run(undefined, 15) },
  ];
}

export const fileChecks: readonly Check[] = [
  ...fileRows.flatMap((row) => fileParts(row).map((part): Check => named(row, "Files", part))),
  deletedAtOnce,
  ...shareRows.flatMap((row) => shareParts(row).map((part): Check => ({ ...named(row, "Shares", part), needsKey: row.operation.endsWith("ACL") }))),
];

function named({ operation, source = "recorded", helper }: FileRow | ShareRow, group: string, part: Part): Check {
  return { service: "file", group, source, helper, ...part, name: `${operation}: ${part.name}` };
}
