import { type ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { bytesFile, createIfNotExists, fileMetadata, type LeasedTarget, isConcurrencyError, jsonFile, leasedUpdate, optimisticUpdate, overwrite, readTarget, deleteIfUnchanged, retryWhileInUse, shareMetadata, textFile } from "../../src/index.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { accountSas, freshShare } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let file: ShareFileClient;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  file = share.rootDirectoryClient.getFileClient("file");
});

/** Nothing was written, nothing is left beside the file, and its lease is free. */
async function expectUntouched(content: string): Promise<void> {
  expect((await file.downloadToBuffer()).toString()).toBe(content);
  const names: string[] = [];
  for await (const entry of share.rootDirectoryClient.listFilesAndDirectories()) names.push(entry.name);
  expect(names).toEqual(["file"]);
  expect((await file.getProperties()).leaseState).toBe("available");
}

describe("before any request", () => {
  it.each([
    ["optimisticUpdate of a file", () => optimisticUpdate(jsonFile(file) as never, () => 1), /use leasedUpdate/],
    ["deleteIfUnchanged of a file", () => deleteIfUnchanged(jsonFile(file) as never, '"0x1"'), /use leasedUpdate/],
    ["optimisticUpdate of a share's metadata", () => optimisticUpdate(shareMetadata(share) as never, () => ({})), /use leasedUpdate/],
    ["a directory client", async () => leasedUpdate(jsonFile(share.rootDirectoryClient as never), () => 1), /ShareFileClient/],
    ["a share client", async () => leasedUpdate(jsonFile(share as never), () => 1), /ShareFileClient/],
    ["a file client as a share", async () => leasedUpdate(shareMetadata(file as never), () => ({})), /ShareClient/],
    ["no mutator", () => leasedUpdate(jsonFile(file), undefined as never), /mutator must be a function/],
    ["createIfNotExists", () => leasedUpdate(jsonFile(file), () => 1, { createIfNotExists: true } as never), /pass initial/],
    ["conditions", () => leasedUpdate(jsonFile(file), () => 1, { conditions: { leaseId: "x" } } as never), /pass initial, or the lease/],
    ["a lock for what has a lease", () => leasedUpdate(jsonFile(file), () => 1, { lock: { locks: {} as never, name: "x" } }), /has a lease, which the service enforces/],
    ["a duration of a file's lease", () => leasedUpdate(jsonFile(file), () => 1, { durationInSeconds: 30 }), /never expires/],
    ["a lease of something else", () => leasedUpdate(jsonFile(file), () => 1, { lease: { url: "http://x" } as never }), /lease must be a lease that acquireLease has returned/],
    ["maxSizeInBytes of 0", async () => jsonFile(file, { maxSizeInBytes: 0 }), /maxSizeInBytes/],
    ["a name that leaves no room", async () => jsonFile(share.rootDirectoryClient.getFileClient("n".repeat(250))), /too long/],
    ["no target", () => leasedUpdate({} as never, () => 1), /Not a target/],
  ])("refuses %s", async (_, call, message) => {
    const before = server.requests;
    const error = await (async () => call())().catch((e: unknown) => e);
    expect(error).toSatisfy((e) => e instanceof TypeError || e instanceof RangeError);
    expect(String(error)).toMatch(message);
    expect(server.requests).toBe(before);
  });

  it("does not compile to update what has no If-Match optimistically", () => {
    // @ts-expect-error -- a file has no If-Match
    const wrong = (): unknown => optimisticUpdate(jsonFile(file), () => 1);
    // @ts-expect-error -- nor has the metadata of a share
    const alsoWrong = (): unknown => optimisticUpdate(shareMetadata(share), () => ({}));
    const right: LeasedTarget<number> = jsonFile<number>(file);
    expect([wrong, alsoWrong, right]).toHaveLength(3);
  });
});

describe("what is stored", () => {
  it("is no file but a directory", async () => {
    await share.createDirectory("file");
    for (const call of [
      () => leasedUpdate(jsonFile(file), () => 1, { initial: 0 }),
      () => readTarget(jsonFile(file)),
      () => overwrite(jsonFile(file), 1),
      () => createIfNotExists(jsonFile(file), 1),
    ]) {
      await expect(call()).rejects.toMatchObject({ name: "TargetNotFoundError", message: expect.stringContaining("directory") as string });
    }
    const names: string[] = [];
    for await (const entry of share.rootDirectoryClient.listFilesAndDirectories()) names.push(entry.name);
    expect(names).toEqual(["file"]);
  });

  it("is no JSON", async () => {
    for (const content of ["{", "", "\u0000"]) {
      await file.uploadData(Buffer.from(content));
      await expect(leasedUpdate(jsonFile(file), () => 1)).rejects.toMatchObject({ name: "SchemaError", phase: "read" });
      await expectUntouched(content);
    }
  });

  it("is no UTF-8", async () => {
    await file.uploadData(Buffer.from([0xff, 0xfe, 0xff]));
    await expect(leasedUpdate(textFile(file), () => "x")).rejects.toMatchObject({ name: "SchemaError", phase: "read" });
    expect([...(await file.downloadToBuffer())]).toEqual([0xff, 0xfe, 0xff]);
  });

  it("is larger than maxSizeInBytes, before or after", async () => {
    await file.uploadData(Buffer.from("12345"));
    await expect(leasedUpdate(textFile(file, { maxSizeInBytes: 4 }), () => "x")).rejects.toMatchObject({ code: "CONTENT_TOO_LARGE", sizeInBytes: 5, maxSizeInBytes: 4 });
    await expect(leasedUpdate(textFile(file, { maxSizeInBytes: 5 }), () => "123456")).rejects.toMatchObject({ code: "CONTENT_TOO_LARGE", sizeInBytes: 6, maxSizeInBytes: 5 });
    await expect(overwrite(textFile(file, { maxSizeInBytes: 5 }), "123456")).rejects.toMatchObject({ code: "CONTENT_TOO_LARGE", sizeInBytes: 6, maxSizeInBytes: 5 });
    await expectUntouched("12345");
  });

  it("is larger than what is held in memory without being asked", async () => {
    await file.create(65 * 1024 ** 2);
    await expect(leasedUpdate(bytesFile(file), () => new Uint8Array(1))).rejects.toMatchObject({ code: "CONTENT_TOO_LARGE", sizeInBytes: 65 * 1024 ** 2 });
    expect((await file.getProperties()).contentLength).toBe(65 * 1024 ** 2);
  });

  it("has the attribute ReadOnly", async () => {
    await file.uploadData(Buffer.from("old"));
    await file.setProperties({ fileAttributes: "ReadOnly" as never });
    await expect(leasedUpdate(textFile(file), () => "new")).rejects.toMatchObject({ name: "SchemaError", message: expect.stringContaining("ReadOnly") as string });
    await expect(leasedUpdate(textFile(file), () => "newer")).rejects.toMatchObject({ name: "SchemaError" });
    await expectUntouched("old");
  });

  it("is in a share or a directory that does not exist", async () => {
    const lost = share.getDirectoryClient("nowhere").getFileClient("file");
    await expect(leasedUpdate(jsonFile(lost), () => 1, { initial: 0 })).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await expect(overwrite(jsonFile(lost), 1)).rejects.toMatchObject({ name: "TargetNotFoundError" });
    await share.delete();
    await expect(leasedUpdate(shareMetadata(share), () => ({}))).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });
});

describe("what is to be stored", () => {
  it.each([
    ["NaN", () => NaN],
    ["a function", () => () => 1],
    ["a circle", () => { const a: unknown[] = []; a.push(a); return a; }], // prettier-ignore
  ])("is %s, which is no JSON", async (_, mutator) => {
    await file.uploadData(Buffer.from("{}"));
    await expect(leasedUpdate(jsonFile(file), mutator as () => unknown)).rejects.toThrow(TypeError);
    await expectUntouched("{}");
  });

  it("are metadata that HTTP cannot carry", async () => {
    await file.uploadData(Buffer.from("{}"));
    await expect(leasedUpdate(fileMetadata(file), () => ({ "not a name": "x" }))).rejects.toThrow(TypeError);
    await expect(leasedUpdate(fileMetadata(file), () => ({ a: "ä" }))).rejects.toThrow(TypeError);
    await expectUntouched("{}");
  });
});

it.each(["a b", "ü é 漢字", "100%", "a%20b", "#1 [x] {y} & co; =+,~!@$'()", "..hidden", "UPPER.json", "n".repeat(247)])("updates a file with the name %j", async (name) => {
  const directory = share.getDirectoryClient("a dir #%ü");
  await directory.create();
  const odd = directory.getFileClient(name);
  await leasedUpdate(textFile(odd), () => "made", { initial: "" });
  await leasedUpdate(textFile(odd), (text) => `${text} and changed`);
  await overwrite(textFile(odd), (await readTarget(textFile(odd))).value.toUpperCase());
  expect((await odd.downloadToBuffer()).toString()).toBe("MADE AND CHANGED");
  const names: string[] = [];
  for await (const entry of directory.listFilesAndDirectories()) names.push(entry.name);
  expect(names).toEqual([name]);
});

describe("rights", () => {
  const withSas = (permissions: string): ShareFileClient => new ShareFileClient(`${file.url}?${accountSas(server, permissions)}`, undefined, { retryOptions: { maxTries: 1 } });

  it("to read only are not enough, and nothing is lost", async () => {
    await file.uploadData(Buffer.from("old"));
    for (const content of ["new", "of another length"]) {
      await expect(leasedUpdate(textFile(withSas("r")), () => content)).rejects.toMatchObject({ statusCode: 403 });
      await expect(overwrite(textFile(withSas("r")), content)).rejects.toMatchObject({ statusCode: 403 });
    }
    expect((await readTarget(textFile(withSas("r")))).value).toBe("old");
    await expectUntouched("old");
  });

  it("to write without reading are not enough either", async () => {
    await file.uploadData(Buffer.from("old"));
    await expect(leasedUpdate(textFile(withSas("w")), () => "of another length")).rejects.toMatchObject({ statusCode: 403 });
    await expectUntouched("old");
  });

  it("to read, create, write and delete are enough, by a token in the URL", async () => {
    await file.uploadData(Buffer.from("old"));
    await leasedUpdate(textFile(withSas("rcwd")), () => "of another length");
    await expectUntouched("of another length");
  });
});

describe("SMB clients", () => {
  it("that have the file open make an update fail as the service says, and nothing is lost", async () => {
    await file.uploadData(Buffer.from("old"));
    const handle = server.smb.open(share.name, "file", { shares: ["read"] });
    for (const content of ["new", "of another length"]) {
      await expect(leasedUpdate(textFile(file), () => content)).rejects.toMatchObject({ statusCode: 409, code: "SharingViolation" });
    }
    handle.close();
    await expectUntouched("old");
  });

  it("are waited for with retryWhileInUse, after which the update lands once", async () => {
    await file.uploadData(Buffer.from("1"));
    const handle = server.smb.open(share.name, "file", { shares: ["read"] });
    let refusals = 0;
    const result = await retryWhileInUse(
      async ({ attempt }) => {
        refusals = attempt - 1;
        if (attempt === 3) handle.close();
        return leasedUpdate(textFile(file), (text) => `${text}2`);
      },
      { retryDelayInMs: 1 },
    );
    expect([result.value, refusals]).toEqual(["12", 2]);
    await expectUntouched("12");
  });

  it("that delay a flush make an update slower, and it lands once", async () => {
    await file.uploadData(Buffer.from("1"));
    server.smb.delayFlush(share.name, "file", 1, 408);
    const result = await retryWhileInUse(() => leasedUpdate(textFile(file), (text) => `${text}2`), { retryDelayInMs: 1 });
    expect(result.value).toBe("12");
    await expectUntouched("12");
  });

  it("that never let go end in a clear error", async () => {
    await file.uploadData(Buffer.from("1"));
    const handle = server.smb.open(share.name, "file", { shares: ["read"] });
    const error = await retryWhileInUse(() => leasedUpdate(textFile(file), () => "x"), { maxAttempts: 3, retryDelayInMs: 1 }).catch((e: unknown) => e);
    expect(isConcurrencyError(error, "FILE_IN_USE") && error.attempts).toBe(3);
    handle.close();
    await expectUntouched("1");
  });

  it("that have deleted the file, but not closed it, make the update wait; it is created anew when it is gone", async () => {
    await file.uploadData(Buffer.from("1"));
    const handle = server.smb.open(share.name, "file", { access: ["read", "delete"], shares: ["read", "write", "delete"] });
    handle.markForDeletion();
    const result = await retryWhileInUse(
      ({ attempt }) => {
        if (attempt === 3) handle.close();
        return leasedUpdate(textFile(file), (text) => `${text}!`, { initial: "new" });
      },
      { retryDelayInMs: 1 },
    );
    expect(result).toMatchObject({ value: "new!", outcome: "created" });
    await expectUntouched("new!");
  });
});
