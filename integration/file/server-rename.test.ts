import { randomUUID } from "node:crypto";

import { FileSystemAttributes, type ShareClient, type ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { answerOf, freshShare } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let source: ShareFileClient;
let target: ShareFileClient;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  source = await filled("source", "new");
  target = share.rootDirectoryClient.getFileClient("target");
});

async function filled(name: string, content: string): Promise<ShareFileClient> {
  const file = share.rootDirectoryClient.getFileClient(name);
  await file.uploadData(Buffer.from(content));
  return file;
}

async function contentOf(file: ShareFileClient): Promise<string> {
  return (await file.exists()) ? (await file.downloadToBuffer()).toString() : "(none)";
}

const renamed = (options = {}): Promise<string> => answerOf(source.rename("target", options).then((answer) => answer.fileRenameResponse));

it("moves content, properties and metadata, and changes the ETag", async () => {
  await source.setProperties({ fileHttpHeaders: { fileContentType: "text/plain" } });
  await source.setMetadata({ a: "1" });
  const before = await source.getProperties();
  expect(await renamed()).toBe("200");
  const after = await target.getProperties();
  expect(after).toMatchObject({ contentType: "text/plain", metadata: { a: "1" }, contentLength: 3, fileId: before.fileId });
  expect(after.etag).not.toBe(before.etag);
  expect(await source.exists()).toBe(false);
});

it("sets metadata and content type on the way if they are given", async () => {
  expect(await renamed({ metadata: { b: "2" }, contentType: "a/b" })).toBe("200");
  expect(await target.getProperties()).toMatchObject({ metadata: { b: "2" }, contentType: "a/b" });
});

it("replaces an existing file only if it may", async () => {
  await filled("target", "old");
  expect(await renamed()).toBe("409 ResourceAlreadyExists");
  expect([await contentOf(source), await contentOf(target)]).toEqual(["new", "old"]);
  expect(await renamed({ replaceIfExists: true })).toBe("200");
  expect([await contentOf(source), await contentOf(target)]).toEqual(["(none)", "new"]);
});

it("replaces a read-only file only if it is told to ignore that", async () => {
  await filled("target", "old");
  await target.setProperties({ fileAttributes: FileSystemAttributes.parse("ReadOnly") });
  expect(await renamed({ replaceIfExists: true })).toBe("409 ReadOnlyAttribute");
  expect(await renamed({ replaceIfExists: true, ignoreReadOnly: true })).toBe("200");
  expect(await contentOf(target)).toBe("new");
});

it("needs the lease of the source, and takes it along", async () => {
  const lease = source.getShareLeaseClient();
  await lease.acquireLease(-1);
  expect(await renamed()).toBe("412 LeaseIdMissing");
  expect(await renamed({ sourceLeaseAccessConditions: { leaseId: randomUUID() } })).toBe("412 LeaseIdMismatchWithFileOperation");
  expect(await renamed({ sourceLeaseAccessConditions: { leaseId: lease.leaseId } })).toBe("200");
  expect(await target.getProperties()).toMatchObject({ leaseState: "leased", leaseDuration: "infinite" });
  expect(await answerOf(target.delete())).toBe("412 LeaseIdMissing");
  expect(await answerOf(target.delete({ leaseAccessConditions: { leaseId: lease.leaseId } }))).toBe("202");
});

it("needs the lease of the file that it replaces, which ends with that file", async () => {
  await filled("target", "old");
  const lease = target.getShareLeaseClient();
  await lease.acquireLease(-1);
  expect(await renamed({ replaceIfExists: true })).toBe("412 LeaseIdMissing");
  expect(await renamed({ replaceIfExists: true, destinationLeaseAccessConditions: { leaseId: randomUUID() } })).toBe("412 LeaseIdMismatchWithFileOperation");
  expect(await contentOf(target)).toBe("old");
  expect(await renamed({ replaceIfExists: true, destinationLeaseAccessConditions: { leaseId: lease.leaseId } })).toBe("200");
  expect(await contentOf(target)).toBe("new");
  expect((await target.getProperties()).leaseState).toBe("available");
});

it("refuses an id for a target that is not leased", async () => {
  expect(await renamed({ destinationLeaseAccessConditions: { leaseId: randomUUID() } })).toBe("412 LeaseNotPresentWithFileOperation");
});

it("finds out what is missing", async () => {
  const missing = share.rootDirectoryClient.getFileClient("missing");
  expect(await answerOf(missing.rename("x").then((answer) => answer.fileRenameResponse))).toBe("404 ResourceNotFound");
  expect(await answerOf(source.rename("no/x").then((answer) => answer.fileRenameResponse))).toBe("404 ParentNotFound");
  await share.createDirectory("directory");
  const onto = source.rename("directory", { replaceIfExists: true }).then((answer) => answer.fileRenameResponse);
  expect(await answerOf(onto)).toBe("409 ResourceTypeMismatch");
  expect(await contentOf(source)).toBe("new");
});

it("changes the case of a name", async () => {
  expect(await answerOf(source.rename("SOURCE").then((answer) => answer.fileRenameResponse))).toBe("200");
  expect(await contentOf(source)).toBe("new");
});

it("has exactly one winner when many rename onto one name", async () => {
  const files = await Promise.all(Array.from({ length: 12 }, (_, i) => filled(`f${i}`, String(i))));
  const answers = await Promise.all(files.map((file) => answerOf(file.rename("one").then((answer) => answer.fileRenameResponse))));
  expect(answers.filter((answer) => answer === "200")).toHaveLength(1);
  expect(answers.filter((answer) => answer === "409 ResourceAlreadyExists")).toHaveLength(11);
});
