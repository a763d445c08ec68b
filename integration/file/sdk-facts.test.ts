import { randomUUID } from "node:crypto";

import { type ShareClient, ShareLeaseClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, expect, it } from "vitest";

import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshShare } from "./support.js";

// What the SDK does that the library has to work around. If one of these fails, an SDK was repaired: then the
// work-around can go.

let server: FileShareServer;
let share: ShareClient;

beforeAll(async () => {
  server = await startFileShareServer();
  share = await freshShare(server);
});
afterAll(() => server.stop());

it("renewLease of a share throws a RangeError and sends nothing: the test for files is the wrong way round", async () => {
  const lease = new ShareLeaseClient(share);
  await lease.acquireLease(15);
  const before = server.requests;
  await expect(lease.renewLease()).rejects.toBeInstanceOf(RangeError);
  expect(server.requests).toBe(before);
});

it("renewLease of a file throws a TypeError and sends nothing", async () => {
  const file = share.rootDirectoryClient.getFileClient("leased");
  await file.create(1);
  const lease = file.getShareLeaseClient();
  await lease.acquireLease(-1);
  const before = server.requests;
  await expect(lease.renewLease()).rejects.toBeInstanceOf(TypeError);
  expect(server.requests).toBe(before);
});

it("breakLease of a share takes a period that its types do not know", async () => {
  const other = await freshShare(server);
  await new ShareLeaseClient(other).acquireLease(60);
  const options: object = { breakPeriod: 7 };
  expect((await new ShareLeaseClient(other).breakLease(options)).leaseTimeInSeconds).toBe(7);
});

it("getProperties of a share and of a file sends the lease id that it is given", async () => {
  const other = await freshShare(server);
  const file = other.rootDirectoryClient.getFileClient("f");
  await file.create(1);
  const options = { leaseAccessConditions: { leaseId: randomUUID() } };
  await expect(other.getProperties(options)).rejects.toMatchObject({ statusCode: 412 });
  await expect(file.getProperties(options)).rejects.toMatchObject({ statusCode: 412 });
});

it("rename drops the account from an IP-style URL, and returns a client with such a URL", async () => {
  const file = share.rootDirectoryClient.getFileClient("before");
  await file.create(1);
  const { destinationFileClient } = await file.rename("after");
  expect(new URL(destinationFileClient.url).pathname).toBe(`/${share.name}/after`);
  expect(await destinationFileClient.exists()).toBe(true);
});

it("the code of a HEAD that is refused is in details only", async () => {
  const error = await share.rootDirectoryClient.getFileClient("missing").getProperties().catch((e: unknown) => e);
  expect(error).toMatchObject({ statusCode: 404, code: undefined, details: { errorCode: "ResourceNotFound" } });
});
