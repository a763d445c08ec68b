import { FileSASPermissions, FileSystemAttributes, type ShareClient, type ShareDirectoryClient, ShareFileClient, ShareSASPermissions } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { accountSas, answerOf, freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let root: ShareDirectoryClient;
let file: ShareFileClient;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  root = share.rootDirectoryClient;
  file = root.getFileClient("file");
});

/** A request with headers that the SDK would not send. */
async function send(method: string, path: string, headers: Record<string, string> = {}, body?: string): Promise<Response> {
  const url = `${server.url}/${share.name}${path}${path.includes("?") ? "&" : "?"}${accountSas(server, "rwdlc")}`;
  return fetch(url, { method, headers: { "x-ms-version": "2021-10-04", ...headers }, ...(body === undefined ? {} : { body }) });
}

const put = (headers: Record<string, string>, path = "/file"): Promise<Response> => send("PUT", path, { "x-ms-type": "file", "x-ms-content-length": "3", ...headers });
const headerOf = async (name: string): Promise<string | null> => (await send("HEAD", "/file")).headers.get(name);

describe("file attributes", () => {
  it.each([
    ["None", "Archive"],
    ["Archive", "Archive"],
    ["Temporary", "Archive | Temporary"],
    ["Archive|Hidden", "Hidden | Archive"],
    ["hidden | READONLY", "ReadOnly | Hidden | Archive"],
    ["NoScrubData|NotContentIndexed|Offline|System", "System | Archive | Offline | NotContentIndexed | NoScrubData"],
  ])("%s in Create File are stored as %s", async (sent, stored) => {
    const created = await put({ "x-ms-file-attributes": sent });
    expect([created.status, created.headers.get("x-ms-file-attributes")]).toEqual([201, stored]);
    expect(await headerOf("x-ms-file-attributes")).toBe(stored);
  });

  it.each([
    ["ReadOnly|Hidden", "ReadOnly | Hidden"],
    ["none", "None"],
    ["Preserve", "Archive"],
    ["system", "System"],
  ])("%s in Set File Properties and in Rename File are stored as %s", async (sent, stored) => {
    await put({});
    const set = await send("PUT", "/file?comp=properties", { "x-ms-file-attributes": sent });
    expect([set.status, set.headers.get("x-ms-file-attributes")]).toEqual([200, stored]);
    await put({}, "/source");
    const source = `${server.url}/${share.name}/source?${accountSas(server, "rwdlc")}`;
    const renamed = await send("PUT", "/renamed?comp=rename", { "x-ms-file-rename-source": source, "x-ms-file-attributes": sent });
    expect([renamed.status, renamed.headers.get("x-ms-file-attributes")]).toEqual([200, stored]);
  });

  it.each(["Nonsense", "None|Hidden", "Hidden||System"])("%s are rejected", async (sent) => {
    const created = await put({ "x-ms-file-attributes": sent });
    expect([created.status, created.headers.get("x-ms-error-code")]).toEqual([400, "InvalidHeaderValue"]);
  });

  it("of a directory always contain Directory", async () => {
    const created = await send("PUT", "/dir?restype=directory", { "x-ms-file-attributes": "Hidden" });
    expect(created.headers.get("x-ms-file-attributes")).toBe("Hidden | Directory");
  });
});

describe("file times", () => {
  it("have a resolution of 100 ns", async () => {
    const time = "2020-02-03T04:05:06.1234567Z";
    await put({ "x-ms-file-creation-time": time, "x-ms-file-last-write-time": time, "x-ms-file-change-time": time });
    expect(await Promise.all(["creation", "last-write", "change"].map((name) => headerOf(`x-ms-file-${name}-time`)))).toEqual([time, time, time]);
  });

  it.each(["Now", "now"])("accept %s", async (now) => {
    expect((await put({ "x-ms-file-creation-time": now, "x-ms-file-last-write-time": now })).status).toBe(201);
  });

  it("are preserved in any case of the word, and the last write time not if the size changes", async () => {
    const time = "2020-02-03T04:05:06.1234567Z";
    await put({ "x-ms-file-creation-time": time, "x-ms-file-last-write-time": time });
    await send("PUT", "/file?comp=properties", { "x-ms-file-creation-time": "Preserve", "x-ms-file-last-write-time": "Preserve" });
    expect([await headerOf("x-ms-file-creation-time"), await headerOf("x-ms-file-last-write-time")]).toEqual([time, time]);
    await send("PUT", "/file?comp=range", { "x-ms-write": "update", "x-ms-range": "bytes=0-2", "x-ms-file-last-write-time": "PRESERVE" }, "abc");
    expect(await headerOf("x-ms-file-last-write-time")).toBe(time);
    await send("PUT", "/file?comp=properties", { "x-ms-content-length": "2", "x-ms-file-last-write-time": "preserve" });
    expect([await headerOf("x-ms-file-creation-time"), await headerOf("x-ms-file-last-write-time")]).not.toEqual([time, time]);
  });
});

describe("HTTP headers", () => {
  it("are all cleared by Set File Properties without any: there is no Content-Type then", async () => {
    await put({});
    expect(await headerOf("content-type")).toBe("application/octet-stream");
    await file.setHttpHeaders({});
    expect(await headerOf("content-type")).toBeNull();
  });

  it("stay if only the size is set", async () => {
    await file.create(10, { fileHttpHeaders: { fileContentType: "text/plain", fileContentLanguage: "en" } });
    await file.resize(5);
    expect(await file.getProperties()).toMatchObject({ contentLength: 5, contentType: "text/plain", contentLanguage: "en" });
  });

  it("of a response are those that the SAS names", async () => {
    await file.uploadData(Buffer.from("abc"));
    const url = file.generateSasUrl({
      permissions: FileSASPermissions.parse("r"),
      expiresOn: new Date(server.clock.now() + 60_000),
      contentType: "text/css",
      cacheControl: "no-store",
      contentDisposition: "attachment",
      contentEncoding: "identity",
      contentLanguage: "de",
    });
    const { contentType, cacheControl, contentDisposition, contentEncoding, contentLanguage } = await new ShareFileClient(url).getProperties();
    expect([contentType, cacheControl, contentDisposition, contentEncoding, contentLanguage]).toEqual(["text/css", "no-store", "attachment", "identity", "de"]);
    expect((await fetch(url)).headers.get("content-type")).toBe("text/css");
    expect((await file.getProperties()).contentType).toBe("application/octet-stream");
  });
});

describe("a read-only file", () => {
  it("accepts neither metadata nor HTTP headers, until its attributes are set", async () => {
    await file.create(1, { fileAttributes: FileSystemAttributes.parse("ReadOnly") });
    expect(await answerOf(file.setMetadata({ a: "1" }))).toBe("409 ReadOnlyAttribute");
    expect(await answerOf(file.setHttpHeaders({ fileContentType: "text/plain" }))).toBe("409 ReadOnlyAttribute");
    expect(await answerOf(file.resize(2))).toBe("409 ReadOnlyAttribute");
    expect(await answerOf(file.setProperties({ fileAttributes: FileSystemAttributes.parse("None") }))).toBe("200");
    expect(await answerOf(file.setMetadata({ a: "1" }))).toBe("200");
  });
});

describe("ranges", () => {
  it("beyond the file are answered with its size", async () => {
    await put({});
    const response = await send("GET", "/file", { "x-ms-range": "bytes=3-" });
    expect([response.status, response.headers.get("x-ms-error-code"), response.headers.get("content-range")]).toEqual([416, "InvalidRange", "bytes */3"]);
  });

  it("of a Create File with content are checked by Content-MD5", async () => {
    const content = { "content-type": "application/octet-stream", "x-ms-type": "file", "x-ms-content-length": "3" };
    const wrong = await send("PUT", "/file", { ...content, "content-md5": Buffer.alloc(16).toString("base64") }, "abc");
    expect([wrong.status, wrong.headers.get("x-ms-error-code")]).toEqual([400, "Md5Mismatch"]);
    const right = await send("PUT", "/file", { ...content, "content-md5": "kAFQmDzST7DWlj99KOF/cg==" }, "abc");
    expect([right.status, right.headers.get("content-md5")]).toEqual([201, "kAFQmDzST7DWlj99KOF/cg=="]);
  });
});

describe("paths", () => {
  it("have a slash for %2F", async () => {
    await share.createDirectory("a");
    expect((await put({}, "/a%2Fb")).status).toBe(201);
    expect(await root.getDirectoryClient("a").getFileClient("b").exists()).toBe(true);
  });
});

describe("shares", () => {
  it("that were deleted accept another deletion, while everything else finds none", async () => {
    expect(await answerOf(share.delete())).toBe("202");
    expect(await answerOf(share.delete())).toBe("202");
    expect(await answerOf(share.getProperties())).toBe("404 ShareNotFound");
    expect(await answerOf(serviceOf(server).getShareClient("never-created").delete())).toBe("404 ShareNotFound");
  });

  it("have an access tier", async () => {
    expect((await share.getProperties()).accessTier).toBe("TransactionOptimized");
    await share.setProperties({ accessTier: "Hot" });
    const { accessTier, accessTierChangeTime } = await share.getProperties();
    expect([accessTier, accessTierChangeTime instanceof Date]).toEqual(["Hot", true]);
    const cool = serviceOf(server).getShareClient(`cool-${share.name}`);
    await cool.create({ accessTier: "Cool" });
    expect((await cool.getProperties()).accessTier).toBe("Cool");
    expect((await send("PUT", "?restype=share&comp=properties", { "x-ms-access-tier": "Lukewarm" })).status).toBe(400);
  });
});

describe("copies", () => {
  const time = "2020-02-03T04:05:06.1230000Z";
  beforeEach(async () => {
    await put({ "x-ms-file-attributes": "Hidden", "x-ms-file-creation-time": time, "x-ms-file-last-write-time": time, "x-ms-file-change-time": time });
  });
  const copy = async (headers: Record<string, string>): Promise<string[]> => {
    const response = await send("PUT", "/copy", { "x-ms-copy-source": `${server.url}/${share.name}/file?${accountSas(server, "r")}`, ...headers });
    if (response.status !== 202) return [String(response.status), response.headers.get("x-ms-error-code") ?? ""];
    const { headers: stored } = await send("HEAD", "/copy");
    return ["attributes", "creation-time", "last-write-time", "change-time"].map((name) => stored.get(`x-ms-file-${name}`) ?? "");
  };

  it("take attributes and times of the source if they are told to", async () => {
    const source = "Source";
    const copied = await copy({ "x-ms-file-attributes": source, "x-ms-file-creation-time": source, "x-ms-file-last-write-time": source, "x-ms-file-change-time": source });
    expect(copied).toEqual(["Hidden | Archive", time, time, time]);
  });

  it("get other ones, or new ones", async () => {
    const [attributes, created] = await copy({ "x-ms-file-attributes": "System", "x-ms-file-copy-set-archive": "true", "x-ms-file-creation-time": time });
    expect([attributes, created]).toEqual(["System | Archive", time]);
    const [cleared, now] = await copy({ "x-ms-file-attributes": "none" });
    expect([cleared, now === time]).toEqual(["None", false]);
    expect((await copy({}))[0]).toBe("Archive");
  });

  it("replace a read-only file only if they are told to ignore that", async () => {
    await put({ "x-ms-file-attributes": "ReadOnly" }, "/copy");
    expect(await copy({})).toEqual(["409", "ReadOnlyAttribute"]);
    expect((await copy({ "x-ms-file-copy-ignore-readonly": "true" }))[0]).toBe("Archive");
  });

  it("have ended when they could be aborted", async () => {
    const id = "e9890485-bf47-4d9a-b3d0-aceb18506124";
    expect(await answerOf(file.abortCopyFromURL(id))).toBe("409 NoPendingCopyOperation");
    expect(await answerOf(file.abortCopyFromURL("id"))).toBe("400 InvalidQueryParameterValue");
    expect(await answerOf(root.getFileClient("none").abortCopyFromURL(id))).toBe("404 ResourceNotFound");
    await file.getShareLeaseClient().acquireLease(-1);
    expect(await answerOf(file.abortCopyFromURL(id))).toBe("412 LeaseIdMissing");
  });
});

it("renames with a SAS for reading the source", async () => {
  await put({});
  const expiresOn = new Date(server.clock.now() + 60_000);
  const source = file.generateSasUrl({ permissions: FileSASPermissions.parse("r"), expiresOn });
  const target = `${share.generateSasUrl({ permissions: ShareSASPermissions.parse("rwd"), expiresOn }).replace("?", "/target?")}&comp=rename`;
  const renamed = await fetch(target, { method: "PUT", headers: { "x-ms-version": "2021-10-04", "x-ms-file-rename-source": source } });
  expect(renamed.status).toBe(200);
});

describe("metadata alone", () => {
  it.each([
    ["a share", "?restype=share&"],
    ["a directory", "/dir?restype=directory&"],
    ["a file", "/file?"],
  ])("of %s is read with the ETag of the properties", async (_what, path) => {
    await root.getDirectoryClient("dir").create();
    await put({});
    await send("PUT", `${path}comp=metadata`, { "x-ms-meta-a": "1" });
    const properties = await send("HEAD", path);
    for (const method of ["GET", "HEAD"]) {
      const { status, headers } = await send(method, `${path}comp=metadata`);
      expect([status, headers.get("x-ms-meta-a"), headers.get("etag")]).toEqual([200, "1", properties.headers.get("etag")]);
    }
  });
});

describe("a request that is not well-formed", () => {
  it("for a share, with the path of a file, does not reach the share", async () => {
    await put({});
    for (const [method, query] of [["DELETE", ""], ["PUT", "&comp=metadata"], ["GET", ""]] as const) {
      const response = await send(method, `/file?restype=share${query}`);
      expect([response.status, response.headers.get("x-ms-error-code")], method).toEqual([400, "InvalidQueryParameterValue"]);
    }
    expect((await send("GET", "?restype=service&comp=properties")).status).toBe(400);
    expect(await share.exists()).toBe(true);
  });

  it.each(["0", "-1", "102401", "many"])("with a quota of %s is rejected", async (quota) => {
    const response = await send("PUT", "?restype=share&comp=properties", { "x-ms-share-quota": quota });
    expect([response.status, response.headers.get("x-ms-error-code")]).toEqual([400, "InvalidHeaderValue"]);
    expect((await share.getProperties()).quota).toBe(5_120);
  });

  it("with access policies that are none is rejected", async () => {
    const response = await send("PUT", "?restype=share&comp=acl", {}, "policies");
    expect([response.status, response.headers.get("x-ms-error-code")]).toEqual([400, "InvalidXmlDocument"]);
    expect((await share.getAccessPolicy()).signedIdentifiers).toEqual([]);
  });
});

it("Create File takes the content type with and without the prefix of the service", async () => {
  await put({ "content-type": "text/plain", "content-language": "en" });
  expect([await headerOf("content-type"), await headerOf("content-language")]).toEqual(["text/plain", "en"]);
  await put({ "content-type": "text/plain", "x-ms-content-type": "text/html" });
  expect(await headerOf("content-type")).toBe("text/html");
});

it("a read that is too large for one response is answered 501, and a part of the same file is read", async () => {
  await file.create(2 * 1024 ** 3);
  for (const headers of [{}, { "x-ms-range": "bytes=1-" }]) {
    const response = await send("GET", "/file", headers);
    expect([response.status, await response.text()]).toEqual([501, expect.stringContaining("more than 1 GiB")]);
  }
  expect((await file.downloadToBuffer(2 * 1024 ** 3 - 3, 3)).equals(Buffer.alloc(3))).toBe(true);
});

describe("what the server does not do is answered 501, with its name", () => {
  it.each<[method: string, path: string, headers: Record<string, string>, name: RegExp]>([
    ["PUT", "?restype=share&comp=snapshot", {}, /share snapshots/],
    ["GET", "/file?sharesnapshot=2021-05-05T20:19:43.0000000Z", {}, /share snapshots/],
    ["GET", "/file?comp=rangelist&prevsharesnapshot=2021-05-05T20:19:43.0000000Z", {}, /share snapshots/],
    ["PUT", "?restype=share&comp=undelete", {}, /Restore Share/],
    ["GET", "?restype=share&comp=stats", {}, /Get Share Stats/],
    ["PUT", "?restype=share&comp=filepermission", {}, /Create Permission/],
    ["GET", "?restype=share&comp=filepermission", {}, /Get Permission/],
    ["PUT", "/dir?restype=directory&comp=rename", {}, /Rename Directory/],
    ["PUT", "/dir?restype=directory&comp=properties", {}, /Set Directory Properties/],
    ["GET", "/dir?comp=listhandles", {}, /List Handles/],
    ["PUT", "/file?comp=forceclosehandles", {}, /Force Close Handles/],
    ["PUT", "/file?restype=symboliclink", {}, /Create Symbolic Link/],
    ["GET", "/file?restype=symboliclink", {}, /Get Symbolic Link/],
    ["PUT", "/file?restype=hardlink", {}, /Create Hard Link/],
    ["PUT", "/file?comp=range", { "x-ms-copy-source": "http://127.0.0.1/a/b" }, /Put Range from URL/],
    ["PUT", "/file?comp=range", { "x-ms-structured-body": "XSM/1.0; properties=crc64" }, /x-ms-structured-body/],
    ["PUT", "/file", { "x-ms-copy-source": "https://other.file.core.windows.net/share/file" }, /copies from other accounts/],
    ["PUT", "/file", { "x-ms-file-permission": "O:S-1-5-21" }, /x-ms-file-permission\b/],
    ["PUT", "/file", { "x-ms-file-permission-key": "1*2" }, /x-ms-file-permission-key/],
    ["PUT", "/file", { "x-ms-file-permission-copy-mode": "source" }, /x-ms-file-permission-copy-mode/],
    ["PUT", "/file", { "x-ms-mode": "0777" }, /x-ms-mode/],
    ["PUT", "?restype=share", { "x-ms-enabled-protocols": "NFS" }, /x-ms-enabled-protocols/],
    ["PUT", "?restype=share", { "x-ms-root-squash": "RootSquash" }, /x-ms-root-squash/],
    ["PUT", "?restype=share&comp=properties", { "x-ms-share-provisioned-iops": "500" }, /x-ms-share-provisioned-iops/],
    ["PUT", "?restype=share&comp=properties", { "x-ms-share-paid-bursting-enabled": "true" }, /x-ms-share-paid-bursting-enabled/],
    ["GET", "/file", { authorization: "Bearer token" }, /token credentials/],
    ["GET", "/file", { authorization: "SharedKeyLite devstoreaccount1:signature" }, /Shared Key Lite/],
    ["OPTIONS", "/file", {}, /CORS/],
    ["OPTIONS", "/dir?restype=directory", {}, /CORS/],
    ["GET", "/file?si=policy", {}, /stored access policies/],
    ["GET", "/file?skoid=11111111-1111-1111-1111-111111111111", {}, /user delegation/],
    ["GET", "/file?sip=127.0.0.1", {}, /IP range/],
    ["PATCH", "/file", {}, /PATCH file/],
    ["PUT", "/file?comp=nonsense", {}, /PUT file nonsense/],
  ])("%s %s %j", async (method, path, headers, name) => {
    const response = await send(method, path, headers);
    expect([response.status, response.headers.get("x-ms-error-code")]).toEqual([501, "NotImplemented"]);
    expect(await response.text()).toMatch(name);
  });

  it.each([
    ["GET", "restype=service&comp=properties", /Get File Service Properties/],
    ["PUT", "restype=service&comp=properties", /Set File Service Properties/],
    ["POST", "restype=service&comp=userdelegationkey", /user delegation/],
  ])("%s of the service: %s", async (method, query, name) => {
    const response = await fetch(`${server.url}/?${query}&${accountSas(server, "rwdlc")}`, { method, headers: { "x-ms-version": "2021-10-04" } });
    expect([response.status, await response.text()]).toEqual([501, expect.stringMatching(name)]);
  });
});
