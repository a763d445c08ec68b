import { randomUUID } from "node:crypto";

import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type FileShareServer, type SmbAccess, startFileShareServer } from "../../src/testing.js";
import { accountSas, answerOf, freshShare } from "./support.js";

/**
 * The tables of Microsoft's article "Manage file locks", one test for each cell: 8 share modes and the 8 operations that the article rejects in one
 * of them, and the 3 that it always allows; 8 kinds of access for acquiring a lease, and for opening a file that is leased.
 */
let server: FileShareServer;
let share: ShareClient;

beforeAll(async () => {
  server = await startFileShareServer();
  share = await freshShare(server);
});
afterAll(() => server.stop());

/** A request that the SDK does not have, in the shape of its responses. */
async function sendAsSdk(method: string, path: string): Promise<{ _response: { status: number } }> {
  const response = await fetch(`${server.url}/${share.name}${path}&${accountSas(server, "rwdl")}`, { method, headers: { "x-ms-version": "2021-10-04" } });
  return { _response: { status: response.status } };
}

async function subject(): Promise<ShareFileClient> {
  const file = share.rootDirectoryClient.getFileClient(randomUUID());
  await file.uploadData(Buffer.from("content"));
  return file;
}

const operations = {
  "Create File": (file: ShareFileClient) => file.create(1),
  "Get File": (file: ShareFileClient) => file.download(0, 1).then((response) => (response.readableStreamBody?.resume(), response)),
  "Set File Properties": (file: ShareFileClient) => file.setHttpHeaders({ fileContentType: "text/plain" }),
  // Neither reads content: Microsoft's text says that they succeed in every share mode.
  "Get File Metadata": (file: ShareFileClient) => sendAsSdk("GET", `/${file.path}?comp=metadata`),
  "List Directories and Files": () => sendAsSdk("GET", "?restype=directory&comp=list"),
  "Get File Properties": (file: ShareFileClient) => file.getProperties(),
  "Set File Metadata": (file: ShareFileClient) => file.setMetadata({ a: "1" }),
  "Delete File": (file: ShareFileClient) => file.delete(),
  "Put Range": (file: ShareFileClient) => file.uploadRange("x", 0, 1),
  "List Ranges": (file: ShareFileClient) => file.getRangeList(),
  "Lease File": (file: ShareFileClient) => file.getShareLeaseClient().acquireLease(-1),
} as const;
type OperationName = keyof typeof operations;
const names = Object.keys(operations) as OperationName[];

const writes: OperationName[] = ["Create File", "Set File Properties", "Set File Metadata", "Delete File", "Put Range", "Lease File"];
const reads: OperationName[] = ["Get File", "List Ranges"];
const shareModes: [mode: string, shares: SmbAccess[], rejected: OperationName[]][] = [
  ["None", [], [...writes, ...reads]],
  ["Read", ["read"], writes],
  ["Write", ["write"], ["Create File", "Delete File", "Lease File", ...reads]],
  ["Delete", ["delete"], [...writes, ...reads]],
  ["Read/Write", ["read", "write"], ["Create File", "Delete File", "Lease File"]],
  ["Read/Delete", ["read", "delete"], writes],
  ["Write/Delete", ["write", "delete"], ["Delete File", "Lease File", ...reads]],
  ["Read/Write/Delete", ["read", "write", "delete"], ["Delete File"]],
];

describe.each(shareModes)("an SMB client that shares %s", (_mode, shares, rejected) => {
  it.each(names.map((name) => [name, rejected.includes(name) ? "rejects" : "allows"] as const))("%s: %s", async (name, expected) => {
    const file = await subject();
    server.smb.open(share.name, file.name, { access: ["read"], shares });
    const answer = await answerOf(operations[name](file));
    if (expected === "rejects") expect(answer).toBe("409 SharingViolation");
    else expect(answer).toMatch(/^2\d\d$/);
  });
});

const accesses: [access: SmbAccess[], excludesLease: boolean][] = [
  [[], false],
  [["read"], false],
  [["write"], true],
  [["delete"], true],
  [["read", "write"], true],
  // The table for acquiring names it, the one for opening does not; a lease protects from deletion, too.
  [["read", "delete"], true],
  [["write", "delete"], true],
  [["read", "write", "delete"], true],
];
const all: SmbAccess[] = ["read", "write", "delete"];

describe("an SMB client that shares everything", () => {
  it.each(accesses)("with access %j: acquiring a lease is rejected: %s", async (access, rejected) => {
    const file = await subject();
    server.smb.open(share.name, file.name, { access, shares: all });
    expect(await answerOf(operations["Lease File"](file))).toBe(rejected ? "409 SharingViolation" : "201");
  });

  it.each(accesses)("with access %j: opening a leased file is rejected: %s", async (access, rejected) => {
    const file = await subject();
    const lease = file.getShareLeaseClient();
    await lease.acquireLease(-1);
    const open = (): void => server.smb.open(share.name, file.name, { access, shares: all }).close();
    if (rejected) expect(open).toThrow(/leased/);
    else open();
    await lease.breakLease();
    open();
    await lease.releaseLease();
    open();
  });
});
