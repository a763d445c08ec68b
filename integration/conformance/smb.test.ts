import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { outcome } from "../../src/cli/verify/check.js";
import { exchange } from "../../src/cli/verify/exchange.js";
import { type FileRow, fileRows } from "../../src/cli/verify/rows/file.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshShare } from "../file/support.js";
import { freshName } from "../support/clients.js";

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

async function responseOf(row: FileRow, file: ShareFileClient): Promise<string> {
  return outcome((await exchange(() => row.call(file, {}, "1"))).response, undefined);
}

const sharingViolation = "409 SharingViolation";

async function names(): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of share.rootDirectoryClient.listFilesAndDirectories()) found.push(name);
  return found;
}

describe.each(fileRows.map((row) => [row.operation, row] as const))("%s", (_operation, row) => {
  it(row.passesOpen ? "goes through while an SMB client has the file open" : "is refused while an SMB client has the file open", async () => {
    const file = await subject();
    using handle = server.smb.open(share.name, file.name);
    expect(await responseOf(row, file)).toBe(row.passesOpen ? "passes" : sharingViolation);
    handle.close();
    expect(await responseOf(row, await subject())).toBe("passes");
  });

  it(row.passesExclusive ? "goes through even if the SMB client shares nothing" : "is refused if the SMB client shares nothing", async () => {
    const file = await subject();
    using handle = server.smb.open(share.name, file.name, { access: ["read", "write"], shares: [] });
    expect(await responseOf(row, file)).toBe(row.passesExclusive ? "passes" : sharingViolation);
    handle.close();
  });

  it("gets 409, not 404, while an SMB client's deletion is pending, and 404 afterwards", async () => {
    const file = await subject();
    using handle = server.smb.open(share.name, file.name, { access: ["read", "delete"], shares: ["read", "write", "delete"] });
    handle.markForDeletion();
    expect(await responseOf(row, file)).toBe("409 DeletePending");
    handle.close();
    const gone = row.operation === "Create File" ? "passes" : "404 ResourceNotFound";
    expect(await responseOf(row, file)).toBe(gone);
  });
});

describe("a deletion", () => {
  it("by an SMB client takes the file out of the listings while it is pending", async () => {
    const file = await subject();
    using handle = server.smb.open(share.name, file.name, { access: ["read", "delete"], shares: ["read", "write", "delete"] });
    expect(await names()).toContain(file.name);
    handle.markForDeletion();
    expect(await names()).not.toContain(file.name);
    handle.undelete();
    expect(await names()).toContain(file.name);
  });
});
