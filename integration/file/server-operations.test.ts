import { randomUUID } from "node:crypto";

import { FileSystemAttributes, type ShareClient, type ShareDirectoryClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { answerOf, freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let root: ShareDirectoryClient;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  root = share.rootDirectoryClient;
});

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("shares", () => {
  it("are created, described, changed and deleted", async () => {
    const created = serviceOf(server).getShareClient(`s${randomUUID()}`);
    const { etag } = await created.create({ metadata: { a: "1" }, quota: 7 });
    expect(await created.getProperties()).toMatchObject({ etag, metadata: { a: "1" }, quota: 7, leaseState: "available", leaseStatus: "unlocked" });
    const changed = await created.setMetadata({ b: "2" });
    expect(changed.etag).not.toBe(etag);
    await created.setProperties({ quotaInGB: 9 });
    expect(await created.getProperties()).toMatchObject({ metadata: { b: "2" }, quota: 9 });
    await created.delete();
    expect(await created.exists()).toBe(false);
    expect(await answerOf(created.getProperties())).toBe("404 ShareNotFound");
  });

  it("have a name that the service would take", async () => {
    for (const name of ["ab", "Upper", "a--b", "-ab"]) {
      expect(await answerOf(serviceOf(server).getShareClient(name).create()), name).toBe("400 InvalidResourceName");
    }
  });

  it("keep access policies", async () => {
    const policy = { id: "one", accessPolicy: { permissions: "r", startsOn: new Date(0), expiresOn: new Date(1_000) } };
    await share.setAccessPolicy([policy]);
    expect((await share.getAccessPolicy()).signedIdentifiers).toMatchObject([{ id: "one", accessPolicy: { permissions: "r" } }]);
  });

  it("are listed by prefix, in pages, with metadata", async () => {
    const prefix = `p${randomUUID()}`;
    for (const i of [2, 0, 1]) await serviceOf(server).getShareClient(`${prefix}${i}`).create({ metadata: { i: String(i) } });
    const pages = await collect(serviceOf(server).listShares({ prefix, includeMetadata: true }).byPage({ maxPageSize: 2 }));
    expect(pages.map((page) => page.shareItems?.map((item) => item.name))).toEqual([[`${prefix}0`, `${prefix}1`], [`${prefix}2`]]);
    expect(pages[1]?.shareItems?.[0]).toMatchObject({ metadata: { i: "2" }, properties: { leaseState: "available", quota: 5_120 } });
  });
});

describe("directories", () => {
  it("are created, described, changed and deleted", async () => {
    const directory = root.getDirectoryClient("a");
    const { etag } = await directory.create({ metadata: { m: "1" } });
    expect(await directory.getProperties()).toMatchObject({ etag, metadata: { m: "1" }, fileAttributes: "Directory" });
    await directory.setMetadata({ m: "2" });
    const changed = await directory.getProperties();
    expect(changed.metadata).toEqual({ m: "2" });
    expect(changed.etag).not.toBe(etag);
    await directory.delete();
    expect(await directory.exists()).toBe(false);
  });

  it("refuse what has no place", async () => {
    const { directoryClient: directory } = await share.createDirectory("a");
    await directory.createFile("f", 0);
    expect(await answerOf(directory.create())).toBe("409 ResourceAlreadyExists");
    expect(await answerOf(directory.delete())).toBe("409 DirectoryNotEmpty");
    expect(await answerOf(share.getDirectoryClient("x/y").create())).toBe("404 ParentNotFound");
    expect(await answerOf(share.getDirectoryClient("x").getProperties())).toBe("404 ResourceNotFound");
    expect(await answerOf(root.getFileClient("a").getProperties())).toBe("409 ResourceTypeMismatch");
    expect(await answerOf(root.getFileClient("a").create(1))).toBe("409 ResourceTypeMismatch");
    expect(await answerOf(root.getFileClient("x/y").create(1))).toBe("404 ParentNotFound");
    expect(await answerOf(serviceOf(server).getShareClient("no-such-share").getDirectoryClient("a").create())).toBe("404 ShareNotFound");
  });

  it("list what is in them, in pages, by prefix, with what is asked for", async () => {
    for (const name of ["b.txt", "A.txt", "c"]) await root.createFile(name, 3);
    await share.createDirectory("sub");
    const options = { includeEtag: true, includeTimestamps: true, includeAttributes: true };
    const pages = await collect(root.listFilesAndDirectories(options).byPage({ maxPageSize: 2 }));
    expect(pages).toHaveLength(2);
    const items = pages.flatMap(({ segment }) => [...segment.fileItems, ...segment.directoryItems]);
    expect(items.map((item) => item.name)).toEqual(["A.txt", "b.txt", "c", "sub"]);
    const { etag } = await root.getFileClient("b.txt").getProperties();
    expect(items[1]).toMatchObject({ attributes: "Archive", properties: { contentLength: 3, etag } });
    expect(items[1]?.properties?.lastModified).toBeInstanceOf(Date);
    const some = await collect(root.listFilesAndDirectories({ prefix: "B" }));
    expect(some.map(({ kind, name }) => `${kind} ${name}`)).toEqual(["file b.txt"]);
    expect(await collect(root.getDirectoryClient("sub").listFilesAndDirectories())).toEqual([]);
  });
});

describe("files", () => {
  it("are created with a size, and filled and read by ranges", async () => {
    const file = root.getFileClient("f");
    await file.create(10, { metadata: { m: "1" }, fileHttpHeaders: { fileContentType: "text/plain", fileCacheControl: "no-cache" } });
    const { etag } = await file.uploadRange("hello", 0, 5);
    await file.uploadRange("world", 5, 5);
    expect((await file.downloadToBuffer()).toString()).toBe("helloworld");
    expect((await file.downloadToBuffer(3, 4)).toString()).toBe("lowo");
    const tail = await file.download(6);
    expect([tail.contentLength, tail.contentRange]).toEqual([4, "bytes 6-9/10"]);
    tail.readableStreamBody?.resume();
    const properties = await file.getProperties();
    expect(properties).toMatchObject({ contentLength: 10, contentType: "text/plain", cacheControl: "no-cache", metadata: { m: "1" }, fileType: "File" });
    expect(properties.etag).not.toBe(etag);
    expect((await file.getRangeList()).rangeList).toEqual([{ start: 0, end: 9 }]);
    await file.delete();
    expect(await answerOf(file.delete())).toBe("404 ResourceNotFound");
  });

  it("take an empty content, one of several ranges, and one that is cleared", async () => {
    const empty = root.getFileClient("empty");
    await empty.uploadData(Buffer.alloc(0));
    expect(await empty.downloadToBuffer()).toHaveLength(0);

    const large = root.getFileClient("large");
    const content = Buffer.alloc(9 * 1024 ** 2, "0123456789");
    await large.uploadData(content, { concurrency: 3 });
    expect((await large.downloadToBuffer(0, undefined, { concurrency: 3 })).equals(content)).toBe(true);
    await large.clearRange(0, 1024 ** 2);
    expect((await large.getRangeList()).rangeList).toEqual([{ start: 1024 ** 2, end: content.length - 1 }]);
    expect((await large.downloadToBuffer(0, 100)).equals(Buffer.alloc(100))).toBe(true);
  });

  it("may be huge while they are empty", async () => {
    const file = root.getFileClient("huge");
    await file.create(4 * 1024 ** 4);
    await file.uploadRange("end", 4 * 1024 ** 4 - 3, 3);
    expect((await file.downloadToBuffer(4 * 1024 ** 4 - 4, 4)).toString()).toBe("\0end");
  });

  it("refuse ranges that do not fit", async () => {
    const file = root.getFileClient("f");
    await file.create(10);
    expect(await answerOf(file.uploadRange("hello", 6, 5))).toBe("416 InvalidRange");
    expect(await answerOf(file.clearRange(6, 5))).toBe("416 InvalidRange");
    expect(await answerOf(file.download(10, 1))).toBe("416 InvalidRange");
    expect(await answerOf(file.uploadRange("x", 0, 1, { contentMD5: new Uint8Array(16) }))).toBe("400 Md5Mismatch");
    expect((await file.downloadToBuffer()).equals(Buffer.alloc(10))).toBe(true);
  });

  it("clear the HTTP headers that a change of properties does not name", async () => {
    const file = root.getFileClient("f");
    await file.create(10, { fileHttpHeaders: { fileContentType: "text/plain", fileContentLanguage: "en" } });
    await file.setHttpHeaders({ fileContentType: "text/html" });
    const { contentType, contentLanguage } = await file.getProperties();
    expect([contentType, contentLanguage]).toEqual(["text/html", undefined]);
    await file.uploadRange("helloworld", 0, 10);
    await file.resize(5);
    await file.resize(7);
    expect((await file.downloadToBuffer()).toString()).toBe("hello\0\0");
    await file.setProperties({ fileHttpHeaders: { fileContentType: "a/b" }, fileAttributes: FileSystemAttributes.parse("ReadOnly") });
    expect((await file.getProperties()).fileAttributes).toBe("ReadOnly");
    expect(await answerOf(file.uploadRange("x", 0, 1))).toBe("409 ReadOnlyAttribute");
    expect(await answerOf(file.delete())).toBe("409 CannotDeleteFileOrDirectory");
  });

  it("replace their metadata as a whole", async () => {
    const file = root.getFileClient("f");
    await file.create(0, { metadata: { a: "1", b_1: "2", b1: "3" } });
    await file.setMetadata({ c: "4" });
    expect((await file.getProperties()).metadata).toEqual({ c: "4" });
    await file.setMetadata();
    expect((await file.getProperties()).metadata).toEqual({});
    expect(await answerOf(file.setMetadata({ large: "x".repeat(8_200) }))).toBe("400 MetadataTooLarge");
  });

  it("are copied within the server", async () => {
    const source = root.getFileClient("source");
    await source.uploadData(Buffer.from("content"));
    await source.setMetadata({ a: "1" });
    const copy = root.getFileClient("copy");
    expect(await copy.startCopyFromURL(source.url)).toMatchObject({ copyStatus: "success" });
    expect((await copy.downloadToBuffer()).toString()).toBe("content");
    expect(await copy.getProperties()).toMatchObject({ metadata: { a: "1" }, copyStatus: "success", copySource: source.url });
    await source.uploadRange("X", 0, 1);
    expect((await copy.downloadToBuffer()).toString()).toBe("content");
    expect(await answerOf(copy.startCopyFromURL(`${source.url}x`))).toBe("404 CannotVerifyCopySource");
  });

  it.each(["it's", "a b", "100%", "a#b", "a+b", "a&b=c", "😀", "ä", "%41", "a;b", "a(1)", "~$x", "a@b,c"])(
    "may have the name %s",
    async (name) => {
      const { directoryClient: directory } = await share.createDirectory(`d ${name}`);
      const file = directory.getFileClient(name);
      await file.uploadData(Buffer.from(name));
      expect((await collect(directory.listFilesAndDirectories())).map((item) => item.name)).toEqual([name]);
      expect((await file.downloadToBuffer()).toString()).toBe(name);
      await file.rename(`d ${name}/${name}2`);
      const renamed = directory.getFileClient(`${name}2`);
      const copy = directory.getFileClient(`${name}3`);
      await copy.startCopyFromURL(renamed.url);
      expect((await copy.downloadToBuffer()).toString()).toBe(name);
      await renamed.getShareLeaseClient().acquireLease(-1);
      expect(await answerOf(renamed.delete())).toBe("412 LeaseIdMissing");
    },
  );

  it("are found whatever the case of their name, and keep the one that they were given", async () => {
    await root.createFile("Name.TXT", 1);
    expect(await root.getFileClient("name.txt").exists()).toBe(true);
    expect((await collect(root.listFilesAndDirectories())).map((item) => item.name)).toEqual(["Name.TXT"]);
  });

  it("lose trailing dots of their name, as the service does by default", async () => {
    await root.createFile("a..", 1);
    expect((await collect(root.listFilesAndDirectories())).map((item) => item.name)).toEqual(["a"]);
  });

  it.each(["a|b", "a:b", 'a"b', "a*b", "a<b", "a\\b"])("may not have the name %s", async (name) => {
    expect(await answerOf(root.getFileClient(name).create(1))).toBe("400 InvalidResourceName");
  });
});

it("answers 501 to what it does not do, and says so", async () => {
  await expect(share.createSnapshot()).rejects.toMatchObject({ statusCode: 501, code: "NotImplemented" });
});
