import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshShare } from "../file/support.js";
import { freshName } from "../support/clients.js";
import { exchange } from "./exchange.js";
import { fileRows, type FileOptions, type FileRow } from "./file.rows.js";

const another = "9c1f9f0a-0b0d-4a39-8d13-52b4c1bb1c55";

let server: FileShareServer;
let share: ShareClient;
beforeAll(async () => {
  server = await startFileShareServer();
  share = await freshShare(server);
});
afterAll(() => server.stop());

async function subject(): Promise<ShareFileClient> {
  const file = share.rootDirectoryClient.getFileClient(freshName());
  await file.uploadData(Buffer.from("0"));
  return file;
}

async function answerOf(row: FileRow, file: ShareFileClient, options: FileOptions = {}): Promise<string> {
  const { answer } = await exchange(() => row.call(file, options, "1"));
  return /^2\d\d$/.test(answer) ? "passes" : answer;
}

const withId = (leaseId: string): FileOptions => ({ leaseAccessConditions: { leaseId } });
const sharingViolation = "409 SharingViolation";

async function names(): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of share.rootDirectoryClient.listFilesAndDirectories()) found.push(name);
  return found;
}

describe.each(fileRows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
  it(row.returnsETag ? "returns an ETag" : "returns no ETag", async () => {
    const file = await subject();
    const { answer, etag } = await exchange(() => row.call(file, {}, "1"));
    expect(answer).toMatch(/^2\d\d$/);
    if (row.returnsETag) expect(etag).toMatch(/^".+"$/);
    else expect(etag).toBeUndefined();
  });

  it("does not take If-Match: it is not sent, and goes through even if it does not hold", async () => {
    const file = await subject();
    const { answer, sent } = await exchange(() => row.call(file, { conditions: { ifMatch: '"0x8D0000000000000"' } }, "1"));
    expect(answer).toMatch(/^2\d\d$/);
    expect(sent("if-match")).toBeUndefined();
  });

  it(row.lease === "required" ? "is refused on a leased file without the id" : "needs no id on a leased file", async () => {
    const file = await subject();
    await file.getShareLeaseClient().acquireLease(-1);
    expect(await answerOf(row, file)).toBe(row.lease === "required" ? "412 LeaseIdMissing" : "passes");
    expect(await answerOf(row, file, withId(another))).toBe("412 LeaseIdMismatchWithFileOperation");
  });

  it("goes through on a leased file with its id", async () => {
    const file = await subject();
    const lease = file.getShareLeaseClient();
    await lease.acquireLease(-1);
    expect(await answerOf(row, file, withId(lease.leaseId))).toBe("passes");
  });

  it(row.passesOpen ? "goes through while an SMB client has the file open" : "is refused while an SMB client has the file open", async () => {
    const file = await subject();
    using handle = server.smb.open(share.name, file.name);
    expect(await answerOf(row, file)).toBe(row.passesOpen ? "passes" : sharingViolation);
    handle.close();
    expect(await answerOf(row, await subject())).toBe("passes");
  });

  it(row.passesExclusive ? "goes through even if the SMB client shares nothing" : "is refused if the SMB client shares nothing", async () => {
    const file = await subject();
    using handle = server.smb.open(share.name, file.name, { access: ["read", "write"], shares: [] });
    expect(await answerOf(row, file)).toBe(row.passesExclusive ? "passes" : sharingViolation);
    handle.close();
  });

  it("is answered 409, not 404, while an SMB client's deletion is pending, and 404 afterwards", async () => {
    const file = await subject();
    using handle = server.smb.open(share.name, file.name, { access: ["read", "delete"], shares: ["read", "write", "delete"] });
    handle.markForDeletion();
    expect(await answerOf(row, file)).toBe("409 DeletePending");
    handle.close();
    const gone = row.operation === "Create File" ? "passes" : "404 ResourceNotFound";
    expect(await answerOf(row, file)).toBe(gone);
  });

  if (row.read !== undefined) {
    const { read } = row;
    it("lets the last writer win", async () => {
      const file = await subject();
      await read(file); // by both, who then write in turn
      for (const value of ["2", "3"]) expect((await exchange(() => row.call(file, {}, value))).answer).toMatch(/^2\d\d$/);
      expect(await read(file)).toBe("3");
    });
  }
});

describe("deletion", () => {
  it("of an SMB client takes the file out of the listings while it is pending", async () => {
    const file = await subject();
    using handle = server.smb.open(share.name, file.name, { access: ["read", "delete"], shares: ["read", "write", "delete"] });
    expect(await names()).toContain(file.name);
    handle.markForDeletion();
    expect(await names()).not.toContain(file.name);
    handle.undelete();
    expect(await names()).toContain(file.name);
  });

  it("over REST is immediate", async () => {
    const file = await subject();
    await file.delete();
    expect((await exchange(() => file.getProperties())).answer).toBe("404 ResourceNotFound");
    expect(await names()).not.toContain(file.name);
  });
});
