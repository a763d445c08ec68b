import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { type FileShareServer, type SmbHandle, type SmbOpenOptions, startFileShareServer } from "../../src/testing.js";
import { answerOf, freshShare } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let file: ShareFileClient;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  await share.createDirectory("dir");
  file = share.getDirectoryClient("dir").getFileClient("file");
  await file.uploadData(Buffer.from("0123456789"));
});

const open = (options?: SmbOpenOptions): SmbHandle => server.smb.open(share.name, "dir/file", options);

async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of share.getDirectoryClient(directory).listFilesAndDirectories()) names.push(name);
  return names;
}

describe("a file that an SMB client has open", () => {
  it("can be read, but neither written nor deleted nor renamed, until it is closed", async () => {
    const handle = open();
    expect(await answerOf(file.download(0, 3))).toBe("206");
    expect(await answerOf(file.getProperties())).toBe("200");
    expect(await answerOf(file.uploadRange("x", 0, 1))).toBe("409 SharingViolation");
    expect(await answerOf(file.clearRange(0, 1))).toBe("409 SharingViolation");
    expect(await answerOf(file.create(1))).toBe("409 SharingViolation");
    expect(await answerOf(file.resize(1))).toBe("409 SharingViolation");
    expect(await answerOf(file.delete())).toBe("409 SharingViolation");
    expect(await answerOf(file.rename("other").then((answer) => answer.fileRenameResponse))).toBe("409 SharingViolation");
    expect(await answerOf(file.getShareLeaseClient().acquireLease(-1))).toBe("409 SharingViolation");
    handle.close();
    handle.close();
    expect(await answerOf(file.uploadRange("x", 0, 1))).toBe("201");
    expect(await answerOf(file.delete())).toBe("202");
  });

  it("cannot even be read if it is not shared", async () => {
    const handle = open({ shares: [] });
    expect(await answerOf(file.download())).toBe("409 SharingViolation");
    expect(await answerOf(file.getRangeList())).toBe("409 SharingViolation");
    expect(await answerOf(file.getProperties())).toBe("200");
    handle.close();
    expect(await answerOf(file.download())).toBe("200");
  });

  it("is in use until the last of its handles is closed", async () => {
    const [one, two] = [open(), open()];
    one.close();
    expect(await answerOf(file.uploadRange("x", 0, 1))).toBe("409 SharingViolation");
    two.close();
    expect(await answerOf(file.uploadRange("x", 0, 1))).toBe("201");
  });

  it("can be opened for reading only while a REST client has leased it", async () => {
    await file.getShareLeaseClient().acquireLease(-1);
    expect(() => open({ access: ["read", "write"], shares: ["read"] })).toThrow(/leased/);
    open().close();
  });

  it("must be there", () => {
    expect(() => server.smb.open(share.name, "dir/none")).toThrow(/no file/);
    expect(() => server.smb.open(share.name, "dir")).toThrow(/no file/);
  });
});

describe("bytes that an SMB client has locked", () => {
  it("can neither be read nor written, while the others can", async () => {
    const handle = open({ access: ["read", "write"], shares: ["read", "write", "delete"] });
    handle.lock(4, 2);
    expect(await answerOf(file.uploadRange("xxxx", 0, 4))).toBe("201");
    expect(await answerOf(file.uploadRange("x", 5, 1))).toBe("409 FileLockConflict");
    expect(await answerOf(file.clearRange(0, 5))).toBe("409 FileLockConflict");
    expect(await answerOf(file.resize(5))).toBe("409 FileLockConflict");
    expect(await answerOf(file.resize(6))).toBe("200");
    expect(await answerOf(file.download(0, 4))).toBe("206");
    expect(await answerOf(file.download())).toBe("409 FileLockConflict");
    handle.unlock();
    expect(await answerOf(file.uploadRange("x", 5, 1))).toBe("201");
    handle.lock(0, 1);
    handle.close();
    expect(await answerOf(file.uploadRange("x", 0, 1))).toBe("201");
  });
});

describe("a file that an SMB client marked for deletion", () => {
  it("answers 409, not 404, is in no listing, and is gone when it is closed", async () => {
    const handle = open({ access: ["read", "delete"], shares: ["read", "write", "delete"] });
    handle.markForDeletion();
    expect(await answerOf(file.getProperties())).toBe("409 DeletePending");
    expect(await answerOf(file.download())).toBe("409 DeletePending");
    expect(await answerOf(file.create(1))).toBe("409 DeletePending");
    expect(await answerOf(file.delete())).toBe("409 DeletePending");
    expect(await answerOf(file.getShareLeaseClient().acquireLease(-1))).toBe("409 DeletePending");
    expect(await namesIn("dir")).toEqual([]);
    expect(await answerOf(share.getDirectoryClient("dir").delete())).toBe("409 DirectoryNotEmpty");
    handle.close();
    expect(await answerOf(file.getProperties())).toBe("404 ResourceNotFound");
    expect(await answerOf(share.getDirectoryClient("dir").delete())).toBe("202");
  });

  it("comes back if the client thinks better of it", async () => {
    const handle = open({ access: ["read", "delete"], shares: ["read", "write", "delete"] });
    handle.markForDeletion();
    handle.undelete();
    expect((await file.downloadToBuffer()).toString()).toBe("0123456789");
    expect(await namesIn("dir")).toEqual(["file"]);
    handle.close();
    expect(await file.exists()).toBe(true);
  });

  it("does not take a newer file of its name along", async () => {
    const handle = open({ shares: ["read", "write", "delete"] });
    const other = share.getDirectoryClient("dir").getFileClient("other");
    await other.uploadData(Buffer.from("other"));
    await other.rename("dir/file", { replaceIfExists: true });
    handle.markForDeletion();
    handle.close();
    expect((await file.downloadToBuffer()).toString()).toBe("other");
  });

  it("is never one that a REST client deletes: that is rejected while the file is open", async () => {
    const handle = open({ shares: ["read", "write", "delete"] });
    expect(await answerOf(file.delete())).toBe("409 SharingViolation");
    expect(await namesIn("dir")).toEqual(["file"]);
    handle.close();
    expect(await answerOf(file.delete())).toBe("202");
    expect(await answerOf(file.getProperties())).toBe("404 ResourceNotFound");
  });
});

describe("a cache that an SMB client has not flushed", () => {
  it.each([500, 408] as const)("makes as many requests as asked fail with %i", async (status) => {
    server.smb.delayFlush(share.name, "dir/file", 2, status);
    expect(await answerOf(file.download())).toBe(`${status} ClientCacheFlushDelay`);
    expect(await answerOf(file.uploadRange("x", 0, 1))).toBe(`${status} ClientCacheFlushDelay`);
    expect(await answerOf(file.uploadRange("x", 0, 1))).toBe("201");
  });
});
