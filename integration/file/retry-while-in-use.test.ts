import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";

import { retryWhileInUse } from "../../src/index.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshShare } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let file: ShareFileClient;
const fast = { retryDelayInMs: 5, maxRetryDelayInMs: 20 };

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  file = share.rootDirectoryClient.getFileClient("file");
  await file.uploadData(Buffer.from("0123456789"));
});

/** Calls `then` in the third attempt: no clock is involved. */
function onThirdAttempt<R>(then: () => void, call: (options: { abortSignal: AbortSignal }) => Promise<R>): Promise<R> {
  return retryWhileInUse(({ attempt, requestOptions }) => {
    if (attempt === 3) then();
    return call(requestOptions);
  }, fast);
}

it("writes once the SMB client has closed the file", async () => {
  const handle = server.smb.open(share.name, "file");
  await onThirdAttempt(() => handle.close(), (options) => file.uploadRange("x", 0, 1, options));
  expect((await file.downloadToBuffer()).toString()).toBe("x123456789");
});

it("reads once the SMB client has given its lock back", async () => {
  const handle = server.smb.open(share.name, "file", { access: ["read", "write"], shares: ["read", "write", "delete"] });
  handle.lock(0, 10);
  expect(await onThirdAttempt(() => handle.unlock(), (options) => file.downloadToBuffer(0, 3, options)).then(String)).toBe("012");
  handle.close();
});

it("goes on with a file that was marked for deletion and came back", async () => {
  const handle = server.smb.open(share.name, "file", { access: ["delete"], shares: ["read", "write", "delete"] });
  handle.markForDeletion();
  const properties = await onThirdAttempt(() => handle.undelete(), (options) => file.getProperties(options));
  expect(properties.contentLength).toBe(10);
  handle.close();
});

it("ends with the 404 of a file that was marked for deletion and is gone", async () => {
  const handle = server.smb.open(share.name, "file", { access: ["delete"], shares: ["read", "write", "delete"] });
  handle.markForDeletion();
  await expect(onThirdAttempt(() => handle.close(), (options) => file.getProperties(options))).rejects.toMatchObject({ statusCode: 404 });
});

it("waits for a cache to be flushed", async () => {
  server.smb.delayFlush(share.name, "file", 3, 408);
  let attempts = 0;
  await retryWhileInUse(({ attempt, requestOptions }) => {
    attempts = attempt;
    return file.setMetadata({ a: "1" }, requestOptions);
  }, fast);
  expect(attempts).toBe(4);
});

it("gives up after its bound, with a clear error, and nothing is lost", async () => {
  const handle = server.smb.open(share.name, "file");
  const before = server.requests;
  await expect(retryWhileInUse(({ requestOptions }) => file.delete(requestOptions), { ...fast, maxAttempts: 4 })).rejects.toMatchObject({
    name: "FileInUseError",
    attempts: 4,
    reason: "SharingViolation",
    cause: { statusCode: 409, code: "SharingViolation" },
  });
  expect(server.requests - before).toBe(4);
  handle.close();
  expect((await file.downloadToBuffer()).toString()).toBe("0123456789");
});
