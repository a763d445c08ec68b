import { ShareServiceClient, StorageSharedKeyCredential, type ShareClient, type ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { createIfNotExists, fileMetadata, leasedUpdate, overwrite, DELETE, shareMetadata, textFile } from "../../src/index.js";
import { respondWith, delay, dropResponse, type FaultProxy, type FileShareServer, dropRequest, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { freshShare } from "./support.js";

let server: FileShareServer;
let proxy: FaultProxy;
let share: ShareClient;
let file: ShareFileClient;

beforeAll(async () => {
  server = await startFileShareServer();
  proxy = await startFaultProxy(server.url);
});
afterAll(async () => {
  await proxy.stop();
  await server.stop();
});
beforeEach(async () => {
  proxy.reset();
  share = await freshShare(server);
  file = share.rootDirectoryClient.getFileClient("file");
});

function shareThrough(maxTries: number): ShareClient {
  const credential = new StorageSharedKeyCredential(server.accountName, server.accountKey);
  const retryOptions = { maxTries, retryDelayInMs: 1, maxRetryDelayInMs: 5 };
  return new ShareServiceClient(proxy.url, credential, { retryOptions }).getShareClient(share.name);
}

const faults = {
  "its answer lost": (nth: () => boolean) => dropResponse({ when: nth }),
  "itself lost": (nth: () => boolean) => dropRequest({ when: nth }),
  "an error though it was carried out": (nth: () => boolean) => respondWith(500, { when: nth, at: "response" }),
};

const calls: Record<string, { before: string | undefined; run: (f: ShareFileClient, s: ShareClient) => Promise<unknown>; after: string | undefined }> = {
  "an update that grows": { before: "1", run: (f) => leasedUpdate(textFile(f), (t) => `${t}2`), after: "12" },
  "an update in place": { before: "a", run: (f) => leasedUpdate(textFile(f), (t) => String.fromCharCode(t.charCodeAt(0) + 1)), after: "b" },
  "an update that creates": { before: undefined, run: (f) => leasedUpdate(textFile(f), (t) => `${t}2`, { initial: "1" }), after: "12" },
  "an update that removes": { before: "1", run: (f) => leasedUpdate(textFile(f), () => DELETE), after: undefined },
  "createIfNotExists": {
    before: undefined,
    run: async (f) => expect(await createIfNotExists(textFile(f), "1")).toMatchObject({ outcome: "created" }),
    after: "1",
  },
  "overwrite": { before: "something else", run: (f) => overwrite(textFile(f), "1"), after: "1" },
};

describe.each(Object.entries(faults))("with %s", (_, fault) => {
  describe.each([1, 5])("and a client that tries %i times", (maxTries) => {
    describe.each(Object.entries(calls))("%s", (_name, { before, run, after }) => {
      it.each(Array.from({ length: 8 }, (_empty, i) => i + 1))("at its request %i, lands once or says that it did not", async (n) => {
        if (before !== undefined) await file.uploadData(Buffer.from(before));
        let seen = 0;
        proxy.reset([fault(() => ++seen === n)]);
        const client = shareThrough(maxTries);
        const failed = await run(client.rootDirectoryClient.getFileClient("file"), client).then(
          () => false,
          (error: unknown) => error,
        );
        const content = (await file.exists()) ? (await file.downloadToBuffer()).toString() : undefined;
        if (failed === false) expect(content).toBe(after);
        // A client without retries may give up on a read or a lease; then nothing has happened.
        else expect({ content, failed, maxTries }).toMatchObject({ content: before, maxTries: 1 });
        const names: string[] = [];
        for await (const entry of share.rootDirectoryClient.listFilesAndDirectories()) names.push(entry.name);
        expect(names).toEqual(content === undefined ? [] : ["file"]);
        // A release that was lost itself is repeated after a while.
        if (content !== undefined) await expect.poll(async () => (await file.getProperties()).leaseState, { timeout: 5_000 }).toBe("available");
      });
    });
  });
});

it.each([1, 2])("knows that it has created the file when more than one answer is lost, by a client that tries %i times", async (maxTries) => {
  const client = shareThrough(maxTries).rootDirectoryClient.getFileClient("file");
  proxy.reset([dropResponse({ when: (r) => r.query.get("comp") === "rename", times: 1 }), dropResponse({ when: (r) => r.method === "HEAD", times: 2 })]);
  expect(await createIfNotExists(textFile(client), "1")).toMatchObject({ outcome: "created", value: "1" });
  expect((await file.downloadToBuffer()).toString()).toBe("1");
});

it.each([1, 2])("says that it does not know whether it has overwritten the file when nothing answers after its rename, by a client that tries %i times", async (maxTries) => {
  await file.uploadData(Buffer.from("before"));
  const client = shareThrough(maxTries).rootDirectoryClient.getFileClient("file");
  proxy.reset([dropResponse({ when: (r) => r.query.get("comp") === "rename" }), dropRequest({ when: (r) => r.method === "HEAD" })]);
  await expect(overwrite(textFile(client), "1")).rejects.toMatchObject({ code: "COMMIT_UNKNOWN", committed: "unknown", operationId: expect.any(String) as string });
  expect((await file.downloadToBuffer()).toString()).toBe("1");
});

it("does not create the file after all when the request arrives late", async () => {
  // The connection breaks, but the request goes on: it arrives when the outcome has been found out.
  const client = shareThrough(1).rootDirectoryClient.getFileClient("file");
  proxy.reset([delay(1_000, { name: "late", when: (r) => r.query.get("comp") === "rename", times: 1 })]);
  const controller = new AbortController();
  void proxy.waitFor((r) => r.ruleNames.includes("late")).then(() => controller.abort());
  await expect(overwrite(textFile(client), "late", { abortSignal: controller.signal })).rejects.toMatchObject({ name: "AbortError" });
  await overwrite(textFile(client), "the next");
  const { storageStatus } = await proxy.waitFor((r) => r.ruleNames.includes("late") && r.storageStatus !== undefined);
  expect(storageStatus).toBe(404);
  expect((await file.downloadToBuffer()).toString()).toBe("the next");
});

it("gives the lease another id before it looks whether a write whose answer was lost has landed", async () => {
  await file.uploadData(Buffer.from("a"));
  proxy.reset([dropResponse({ when: (r) => r.query.get("comp") === "range", times: 1 })]);
  await leasedUpdate(textFile(shareThrough(1).rootDirectoryClient.getFileClient("file")), () => "b");
  // Leases of the tests before are released once more in the background, in case that a request arrives late.
  const steps = proxy.log.filter((r) => r.url.includes(share.name)).map((r) => r.headers["x-ms-lease-action"] ?? `${r.method} ${r.query.get("comp") ?? ""}`.trim());
  expect(steps).toEqual(["acquire", "GET", "PUT range", "change", "GET", "release"]);
});

it("keeps the effects of metadata updates apart from each other when every third answer is lost", async () => {
  await file.uploadData(Buffer.from("x"));
  const client = shareThrough(20);
  proxy.reset([dropResponse({ probability: 0.33 })]);
  const count = (m: Record<string, string>): void => void (m["n"] = String(Number(m["n"] ?? 0) + 1));
  const targets = [fileMetadata(client.rootDirectoryClient.getFileClient("file")), shareMetadata(client)];
  await Promise.all(targets.flatMap((target) => Array.from({ length: 20 }, () => leasedUpdate(target, count))));
  expect((await file.getProperties()).metadata).toEqual({ n: "20" });
  expect((await share.getProperties()).metadata).toEqual({ n: "20" });
});
