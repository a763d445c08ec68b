import { newPipeline, type ShareClient, ShareFileClient, ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { fileMetadata, leasedUpdate, type LockProviderLike, readTarget, textFile } from "../../src/index.js";
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

type Update = (change: (n: string) => string | Promise<string>, options?: { timeoutInMs?: number; tryTimeoutInMs?: number; abortSignal?: AbortSignal }) => Promise<unknown>;

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
  "for which the time was over": (update) => update(() => "1", { timeoutInMs: 300, tryTimeoutInMs: 10_000 }),
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

it("a lease that was asked for by one who gave up, and arrives late, does not stay", async () => {
  holdUpFirst((request) => request.headers["x-ms-lease-action"] === "acquire");
  const call = leasedUpdate(textFile(file), () => "1", { timeoutInMs: 300 });
  await expect(call).rejects.toMatchObject({ name: "OperationTimeoutError" });
  expect((await proxy.waitFor(isLate)).storageStatus).toBe(201);
  const direct = share.rootDirectoryClient.getFileClient("file");
  await expect.poll(async () => (await direct.getProperties()).leaseState, { timeout: 8_000, interval: 100 }).toBe("available");
}, 15_000);

/** Under a crash guard the lease has one id only: what was sent under it, and what is sent again, cannot be told apart. */
const guard: LockProviderLike = {
  acquire: (name) => {
    const lock = { url: name, epoch: 1, previousEpoch: 0, signal: new AbortController().signal, remainingInMs: Infinity, assertHeld: () => undefined, release: () => Promise.resolve() };
    return Promise.resolve(lock);
  },
  tryAcquire: (name) => guard.acquire(name),
};

it("a rename whose answer was lost, and which arrives in the middle of the next try, does not bring half a file", async () => {
  let late: (() => Promise<unknown>) | undefined;
  let outage = false;
  const seen: string[] = [];
  const lost = (): Error => Object.assign(new Error("connection reset"), { code: "ECONNRESET" });
  class Haunted extends ShareFileClient {
    override rename(...args: Parameters<ShareFileClient["rename"]>): ReturnType<ShareFileClient["rename"]> {
      if (late) return super.rename(...args);
      const [path, options] = args;
      // Nothing ends it any more.
      late = () => super.rename(path, { ...options, abortSignal: new AbortController().signal });
      outage = true;
      return Promise.reject(lost());
    }
    /** What would call the rename off is lost as well. */
    override delete(...args: Parameters<ShareFileClient["delete"]>): ReturnType<ShareFileClient["delete"]> {
      if (!outage) return super.delete(...args);
      outage = false;
      return Promise.reject(lost());
    }
    override async uploadRange(...args: Parameters<ShareFileClient["uploadRange"]>): ReturnType<ShareFileClient["uploadRange"]> {
      if (late) {
        await late().catch(() => undefined);
        seen.push((await readTarget(textFile(file))).value);
      }
      return super.uploadRange(...args);
    }
  }
  const pipeline = newPipeline(new StorageSharedKeyCredential(server.accountName, server.accountKey), { retryOptions: { maxTries: 1 } });
  const result = await leasedUpdate(textFile(new Haunted(file.url, pipeline)), () => "of another length", { crashGuard: guard });
  expect(result.value).toBe("of another length");
  expect(seen).toEqual(["0"]);
  expect((await readTarget(textFile(file))).value).toBe("of another length");
});
