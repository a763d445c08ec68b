import { gzipSync } from "node:zlib";

import type { ShareClient, ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { bytesFile, createIfNotExists, leasedUpdate, overwrite, readTarget, DELETE, textFile } from "../../src/index.js";
import { delay, type FaultProxy, type FileShareServer, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let proxy: FaultProxy;
let share: ShareClient;
let file: ShareFileClient;
/** The same file, through the proxy. */
let through: ShareFileClient;

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
  through = serviceOf(server, proxy.url).getShareClient(share.name).rootDirectoryClient.getFileClient("file");
});

interface Limits {
  abortSignal?: AbortSignal;
  timeoutInMs?: number;
}

const calls: Record<string, { before: string | undefined; run: (options: Limits) => Promise<unknown>; after: string | undefined }> = {
  "an update that grows": { before: "old", run: (o) => leasedUpdate(textFile(through), () => "longer", o), after: "longer" },
  "an update in place": { before: "old", run: (o) => leasedUpdate(textFile(through), () => "new", o), after: "new" },
  "an update that creates": { before: undefined, run: (o) => leasedUpdate(textFile(through), () => "new", { initial: "", ...o }), after: "new" },
  "an update that removes": { before: "old", run: (o) => leasedUpdate(textFile(through), () => DELETE, o), after: undefined },
  "overwrite": { before: "old", run: (o) => overwrite(textFile(through), "new", o), after: "new" },
  "createIfNotExists": { before: undefined, run: (o) => createIfNotExists(textFile(through), "new", o), after: "new" },
};

const reason = new Error("enough");

describe.each(Object.entries(calls))("%s", (_, { before, run, after }) => {
  async function expectOldOrNewAndNothingLeft(): Promise<void> {
    const look = async (): Promise<{ content: string | undefined; names: string[]; lease: string | undefined }> => {
      const names: string[] = [];
      for await (const entry of share.rootDirectoryClient.listFilesAndDirectories()) names.push(entry.name);
      const exists = names.includes("file");
      return { content: exists ? (await file.downloadToBuffer()).toString() : undefined, names, lease: exists ? (await file.getProperties()).leaseState : undefined };
    };
    // A call that holds no lease returns at once, and tidies up behind its caller's back.
    await expect.poll(async () => (await look()).names.filter((name) => name !== "file"), { timeout: 5_000 }).toEqual([]);
    const { content, lease } = await look();
    expect([before, after]).toContain(content);
    expect(lease).toBe(content === undefined ? undefined : "available");
  }

  it.each([1, 2, 3, 4, 5, 6])("that is cancelled at its request %i leaves the old or the new state, and nothing else", async (n) => {
    if (before !== undefined) await file.uploadData(Buffer.from(before));
    const [controller, over] = [new AbortController(), new AbortController()];
    let seen = 0;
    proxy.reset([delay(300, { name: "slow", at: "response", when: () => ++seen === n })]);
    // It has been carried out, and its answer is on the way.
    const carriedOut = proxy.waitFor((r) => r.ruleNames.includes("slow") && r.storageStatus !== undefined, { abortSignal: over.signal });
    void carriedOut.then(() => controller.abort(reason), () => undefined);
    const error = await run({ abortSignal: controller.signal }).catch((e: unknown) => e);
    over.abort();
    // One that was through by then, but for the release, has its result.
    if (error instanceof Error) expect(error).toBe(reason);
    await expectOldOrNewAndNothingLeft();
  });

  it.each([1, 2, 3, 4, 5, 6])("that is out of time at its request %i leaves the old or the new state, and nothing else", async (n) => {
    if (before !== undefined) await file.uploadData(Buffer.from(before));
    let seen = 0;
    proxy.reset([delay(600, { at: "response", when: () => ++seen === n })]);
    const error = await run({ timeoutInMs: 300 }).catch((e: unknown) => e);
    if (error instanceof Error) expect(error.name).toMatch(/^(OperationTimeoutError|CommitUnknownError)$/);
    await expectOldOrNewAndNothingLeft();
  });
});

it("reads and writes the bytes of a file that says it is compressed as they are", async () => {
  const bytes = gzipSync("x".repeat(1_000));
  await file.uploadData(bytes, { fileHttpHeaders: { fileContentEncoding: "gzip" } });
  expect(Buffer.compare((await readTarget(bytesFile(file))).value, bytes)).toBe(0);
  const other = gzipSync("y".repeat(5_000));
  await leasedUpdate(bytesFile(file), () => other);
  expect(Buffer.compare((await readTarget(bytesFile(file))).value, other)).toBe(0);
  expect((await file.getProperties()).contentEncoding).toBe("gzip");
});
