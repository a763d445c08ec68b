import { type ShareClient, type ShareFileClient, ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { fileMetadata, leasedUpdate, textFile } from "../../src/index.js";
import { delay, type FaultProxy, type FaultRequest, type FileShareServer, startFaultProxy, startFileShareServer } from "../../src/testing.js";
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
  const credential = new StorageSharedKeyCredential(server.accountName, server.accountKey);
  file = new ShareServiceClient(proxy.url, credential, { retryOptions: { maxTries: 1 } })
    .getShareClient(share.name)
    .rootDirectoryClient.getFileClient("file");
  await share.rootDirectoryClient.getFileClient("file").uploadData(Buffer.from("0"));
});

/** The first write is held up on its way, and arrives when nobody waits for its answer any more. */
function holdUpFirst(isIt: (request: FaultRequest) => boolean): void {
  proxy.reset([delay(1_500, { name: "late", when: isIt, times: 1 })]);
}

const isLate = (request: { ruleNames: readonly string[]; storageStatus: number | undefined }): boolean =>
  request.ruleNames.includes("late") && request.storageStatus !== undefined;

type Update = (change: (n: string) => string | Promise<string>, options?: { timeoutInMs?: number; abortSignal?: AbortSignal }) => Promise<unknown>;

const writes: Record<string, { isWrite: (request: FaultRequest) => boolean; update: Update; read: () => Promise<string | undefined> }> = {
  "the content": {
    isWrite: (request) => request.query.get("comp") === "range",
    update: (change, options) => leasedUpdate(textFile(file), change, options),
    read: async () => (await share.rootDirectoryClient.getFileClient("file").downloadToBuffer()).toString(),
  },
  "the metadata": {
    isWrite: (request) => request.query.get("comp") === "metadata",
    update: (change, options) => leasedUpdate(fileMetadata(file), async (m) => ({ n: await change(m["n"] ?? "0") }), options),
    read: async () => (await share.rootDirectoryClient.getFileClient("file").getProperties()).metadata?.["n"],
  },
};

const waysToGiveUp: Record<string, (update: Update) => Promise<unknown>> = {
  "for which the time was over": (update) => update(() => "1", { timeoutInMs: 300 }),
  "that its caller cancelled": (update) => {
    const controller = new AbortController();
    void proxy.waitFor((request) => request.ruleNames.includes("late")).then(() => controller.abort());
    return update(() => "1", { abortSignal: controller.signal });
  },
};

describe.each(Object.entries(writes))("a write of %s", (_, { isWrite, update, read }) => {
  it.each(Object.entries(waysToGiveUp))("%s does not undo what those behind it in this process write", async (_way, giveUp) => {
    holdUpFirst(isWrite);
    const first = giveUp(update).then(
      () => "done",
      () => "given up",
    );
    // In line behind it, so that the lease is handed on to them; and the last one has it when the late write arrives.
    const second = update(() => "2");
    const third = update(async (n) => {
      await proxy.waitFor(isLate);
      return n;
    });
    expect(await first).toBe("given up");
    await second;
    await third;
    expect(proxy.log.find(isLate)?.storageStatus).toBe(412);
    expect(await read()).toBe("2");
  });
});
