import {
  FileSASPermissions,
  ShareClient,
  ShareDirectoryClient,
  ShareFileClient,
  ShareSASPermissions,
  ShareServiceClient,
  StorageSharedKeyCredential,
} from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { type FileShareServer, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { accountSas, answerOf, freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let file: ShareFileClient;
const once = { retryOptions: { maxTries: 1 } };
const tomorrow = (): Date => new Date(server.clock.now() + 86_400_000);

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  file = share.rootDirectoryClient.getFileClient("it's a 100% file #1");
  await file.uploadData(Buffer.from("content"));
});

describe("the account key", () => {
  it("lets in who has the connection string", async () => {
    const service = ShareServiceClient.fromConnectionString(server.connectionString, once);
    expect(await service.getShareClient(share.name).exists()).toBe(true);
  });

  it("keeps out who has another key, or another name", async () => {
    const otherKey = new StorageSharedKeyCredential(server.accountName, Buffer.from("wrong").toString("base64"));
    expect(await answerOf(new ShareFileClient(file.url, otherKey, once).getProperties())).toBe("403 AuthenticationFailed");
    expect(await answerOf(new ShareFileClient(file.url, otherKey, once).delete())).toBe("403 AuthenticationFailed");
    const otherName = new StorageSharedKeyCredential("somebody", server.accountKey);
    expect(await answerOf(new ShareFileClient(file.url, otherName, once).getProperties())).toBe("403 AuthenticationFailed");
    expect(await file.exists()).toBe(true);
  });

  it("keeps out who has none", async () => {
    expect(await answerOf(new ShareFileClient(file.url, undefined, once).getProperties())).toBe("401 NoAuthenticationInformation");
  });

  it("signs every header: one that is changed on the way is noticed", async () => {
    await using proxy = await startFaultProxy(server.url);
    await serviceOf(server, proxy.url).getShareClient(share.name).rootDirectoryClient.getFileClient("signed").create(5);
    const { url, headers } = proxy.log[0]!;
    const send = (changed: Record<string, string>): Promise<Response> => {
      const signed = new Headers({ ...(headers as Record<string, string>), ...changed });
      for (const name of ["host", "connection", "content-length"]) signed.delete(name);
      return fetch(new URL(url, server.url), { method: "PUT", headers: signed });
    };
    expect((await send({})).status).toBe(201);
    expect((await send({ "x-ms-content-length": "6" })).status).toBe(403);
    expect((await share.rootDirectoryClient.getFileClient("signed").getProperties()).contentLength).toBe(5);
  });

  it("may be of an account of one's own", async () => {
    const key = Buffer.from("a key of my own").toString("base64");
    await using own = await startFileShareServer({ accountName: "mine", accountKey: key });
    expect(own.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mine$/);
    expect(await serviceOf(own).getShareClient("share").createIfNotExists()).toMatchObject({ succeeded: true });
    expect(own.requests).toBe(1);
  });
});

describe("a SAS", () => {
  const opened = (sasUrl: string): ShareFileClient => new ShareFileClient(sasUrl, undefined, once);

  it("for reading a file reads it, and does nothing else", async () => {
    const reader = opened(file.generateSasUrl({ permissions: FileSASPermissions.parse("r"), expiresOn: tomorrow() }));
    expect((await reader.downloadToBuffer()).toString()).toBe("content");
    expect((await reader.getProperties()).leaseState).toBe("available");
    for (const write of [
      () => reader.uploadRange("x", 0, 1),
      () => reader.create(1),
      () => reader.setMetadata({ a: "1" }),
      () => reader.setHttpHeaders({}),
      () => reader.resize(1),
      () => reader.delete(),
      () => reader.getShareLeaseClient().acquireLease(-1),
      () => reader.getShareLeaseClient().breakLease(),
    ]) {
      expect(await answerOf(write())).toBe("403 AuthorizationPermissionMismatch");
    }
    expect((await file.downloadToBuffer()).toString()).toBe("content");
  });

  it("for a file is for no other", async () => {
    const url = file.generateSasUrl({ permissions: FileSASPermissions.parse("r"), expiresOn: tomorrow() });
    const other = share.rootDirectoryClient.getFileClient("other");
    await other.create(1);
    expect(await answerOf(opened(other.url + new URL(url).search).getProperties())).toBe("403 AuthenticationFailed");
  });

  it("for a share reads, lists and renames as it says, but leaves the share itself alone", async () => {
    const url = share.generateSasUrl({ permissions: ShareSASPermissions.parse("rwdlc"), expiresOn: tomorrow() });
    const client = new ShareClient(url, undefined, once);
    const names: string[] = [];
    for await (const { name } of client.rootDirectoryClient.listFilesAndDirectories()) names.push(name);
    expect(names).toEqual([file.name]);
    await client.rootDirectoryClient.getFileClient(file.name).rename("renamed");
    expect((await client.rootDirectoryClient.getFileClient("renamed").downloadToBuffer()).toString()).toBe("content");
    expect(await answerOf(client.setMetadata({ a: "1" }))).toBe("403 AuthorizationFailure");
    expect(await answerOf(client.delete())).toBe("403 AuthorizationFailure");
  });

  it("that may create does not replace", async () => {
    const url = share.generateSasUrl({ permissions: ShareSASPermissions.parse("c"), expiresOn: tomorrow() });
    const directory = new ShareDirectoryClient(url, undefined, once);
    expect(await answerOf(directory.getFileClient("fresh").create(1))).toBe("201");
    expect(await answerOf(directory.getFileClient("fresh").create(1))).toBe("403 AuthorizationPermissionMismatch");
  });

  it("ends with its time, by the server's clock", async () => {
    const own = await startFileShareServer();
    try {
      const ownShare = await freshShare(own);
      const expiresOn = new Date(own.clock.now() + 60_000);
      const url = ownShare.rootDirectoryClient.getFileClient("f").generateSasUrl({ permissions: FileSASPermissions.parse("rw"), expiresOn });
      expect(await answerOf(opened(url).create(1))).toBe("201");
      own.clock.advance(61_000);
      expect(await answerOf(opened(url).getProperties())).toBe("403 AuthenticationFailed");
    } finally {
      await own.stop();
    }
  });

  it("with a forged permission is refused", async () => {
    const url = file.generateSasUrl({ permissions: FileSASPermissions.parse("r"), expiresOn: tomorrow() });
    expect(await answerOf(opened(url.replace("sp=r", "sp=rwd")).delete())).toBe("403 AuthenticationFailed");
  });

  it("of the account is for its kinds of resources", async () => {
    const objects = `${server.url}/${share.name}?${accountSas(server, "rwdlc", "o")}`;
    expect(await answerOf(new ShareClient(objects, undefined, once).getProperties())).toBe("403 AuthorizationResourceTypeMismatch");
    const everything = `${server.url}/${share.name}?${accountSas(server, "rwdlc")}`;
    expect(await answerOf(new ShareClient(everything, undefined, once).setMetadata({ a: "1" }))).toBe("200");
    const reading = new ShareClient(`${server.url}/${share.name}?${accountSas(server, "rl")}`, undefined, once);
    expect(await reading.exists()).toBe(true);
    expect(await answerOf(reading.setMetadata({}))).toBe("403 AuthorizationPermissionMismatch");
  });
});

it("works through a fault proxy, rename and copy included", async () => {
  await using proxy = await startFaultProxy(server.url);
  const through = serviceOf(server, proxy.url).getShareClient(share.name).rootDirectoryClient;
  const source = through.getFileClient("source");
  await source.uploadData(Buffer.from("through"));
  await source.rename("renamed");
  await through.getFileClient("copy").startCopyFromURL(through.getFileClient("renamed").url);
  expect((await through.getFileClient("copy").downloadToBuffer()).toString()).toBe("through");
  expect(proxy.forwarded).toBe(proxy.requests);
  expect(proxy.requests).toBeGreaterThanOrEqual(5);
});
