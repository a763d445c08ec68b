import { setTimeout as pause } from "node:timers/promises";

import { type ShareClient, type ShareFileClient, ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { breakLease, type LockProviderLike, createIfNotExists, isConcurrencyError, leasedUpdate, overwrite, readTarget, textFile } from "../../src/index.js";
import { delay, type FaultProxy, type FaultRequest, type FileShareServer, dropRequest, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let proxy: FaultProxy;
let share: ShareClient;
let file: ShareFileClient;
/** The same file for one that is going to die. */
let doomed: ShareFileClient;

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
  // A crash guard knows a file by its URL, so all go through the proxy; one of them can be told by its name.
  file = fileOf(serviceOf(server, proxy.url));
  const credential = new StorageSharedKeyCredential(server.accountName, server.accountKey);
  const options = { retryOptions: { maxTries: 1 }, userAgentOptions: { userAgentPrefix: "doomed" } };
  doomed = fileOf(new ShareServiceClient(proxy.url, credential, options));
});

function fileOf(service: ShareServiceClient): ShareFileClient {
  return service.getShareClient(share.name).rootDirectoryClient.getFileClient("file");
}

function isDoomed(request: FaultRequest): boolean {
  return request.headers["user-agent"]?.startsWith("doomed") ?? false;
}

async function names(): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of share.rootDirectoryClient.listFilesAndDirectories()) found.push(entry.name);
  return found;
}

/** After so many of its requests the process is dead, as far as the storage can tell. */
function dieAfter(requests: number): void {
  let seen = 0;
  proxy.reset([dropRequest({ when: (request) => isDoomed(request) && ++seen > requests })]);
}

/** Locks that everybody gets at once: all other holders are dead in these tests. */
function guardOfTheDead(): LockProviderLike {
  let epoch = 0;
  const acquire = (name: string): ReturnType<LockProviderLike["acquire"]> => {
    const previousEpoch = epoch++;
    const lock = { url: name, epoch, previousEpoch, signal: new AbortController().signal, remainingInMs: Infinity, assertHeld: () => undefined, release: () => Promise.resolve() };
    return Promise.resolve(lock);
  };
  return { acquire, tryAcquire: acquire };
}

const old = "what was there before";
const contents = {
  "shorter content": "short",
  "longer content": "x".repeat(100_000),
  "content of the same length": old.toUpperCase(),
  "no content": "",
  "content of two ranges": "y".repeat(5 * 1024 * 1024),
};

/** Acquire, read, create, lease, range, range, rename, release: the largest number that any of the updates takes. */
const points = Array.from({ length: 9 }, (_, i) => i);

describe.each(Object.entries(contents))("a process that dies while it writes %s", (_, wanted) => {
  it.each(points)("after %i requests leaves the old or the new content, and the next one goes on", async (requests) => {
    await file.uploadData(Buffer.from(old));
    const crashGuard = guardOfTheDead();
    dieAfter(requests);
    await leasedUpdate(textFile(doomed), () => wanted, { crashGuard, timeoutInMs: 100, waitInMs: 0 }).catch(() => undefined);

    const { value } = await readTarget(textFile(file));
    expect([old, wanted]).toContain(value);
    // The next one changes neither the length nor, perhaps, anything: it must not depend on that.
    const next = await leasedUpdate(textFile(file), (text) => text, { crashGuard, waitInMs: 0 });
    expect(next).toMatchObject({ value, outcome: "unchanged" });
    expect(await names()).toEqual(["file"]);
    const last = await leasedUpdate(textFile(file), (text) => `${text}!`, { crashGuard, waitInMs: 0 });
    expect(last.value).toBe(`${value}!`);
    expect((await file.downloadToBuffer()).toString()).toBe(`${value}!`);
    expect(await names()).toEqual(["file"]);
    expect((await file.getProperties()).leaseState).toBe("available");
  });

  it.each(points)("after %i requests can be helped by hand if there is no crash guard", async (requests) => {
    await file.uploadData(Buffer.from(old));
    dieAfter(requests);
    await leasedUpdate(textFile(doomed), () => wanted, { timeoutInMs: 100, waitInMs: 0 }).catch(() => undefined);

    const { value } = await readTarget(textFile(file));
    expect([old, wanted]).toContain(value);
    await breakLease(file);
    await leasedUpdate(textFile(file), (text) => `${text}!`);
    expect((await file.downloadToBuffer()).toString()).toBe(`${value}!`);
    expect(await names()).toEqual(["file"]);
  });
});

/** What one that holds no lease can leave: its own file beside, which is in nobody's way. */
async function expectAtMostOneLeft(): Promise<void> {
  const left = (await names()).filter((name) => name !== "file");
  expect(left.length).toBeLessThanOrEqual(1);
  for (const name of left) expect(name).toMatch(/^file\.asc-new-[0-9a-f]{12}$/);
}

const guards: Record<string, () => LockProviderLike | undefined> = { "a crash guard": guardOfTheDead, "nothing to guard it": () => undefined };

describe.each(Object.entries(guards))("with %s, a process that dies while it creates the file", (_, guard) => {
  it.each(points)("after %i requests leaves nothing or all of it, and the next one goes on", async (requests) => {
    const crashGuard = guard();
    dieAfter(requests);
    await leasedUpdate(textFile(doomed), () => "first", { initial: "", crashGuard, timeoutInMs: 100, waitInMs: 0 }).catch(() => undefined);

    const before = (await file.exists()) ? (await readTarget(textFile(file))).value : "";
    expect(["", "first"]).toContain(before);
    const next = await leasedUpdate(textFile(file), (text) => `${text}, second`, { initial: "", crashGuard, waitInMs: 0 });
    expect(next.value).toBe(`${before}, second`);
    expect((await file.downloadToBuffer()).toString()).toBe(next.value);
    expect((await file.getProperties()).leaseState).toBe("available");
    await expectAtMostOneLeft();
  });
});

describe("a process that holds no lease, and dies", () => {
  it.each(points)("after %i requests to overwrite the file, leaves the old or the new content, and no lease", async (requests) => {
    await file.uploadData(Buffer.from(old));
    dieAfter(requests);
    await overwrite(textFile(doomed), "new").catch(() => undefined);
    expect([old, "new"]).toContain((await readTarget(textFile(file))).value);
    await leasedUpdate(textFile(file), () => "the next", { waitInMs: 0 });
    expect((await file.downloadToBuffer()).toString()).toBe("the next");
    await expectAtMostOneLeft();
  });

  it.each(points)("after %i requests to create the file, leaves nothing or all of it, and no lease", async (requests) => {
    dieAfter(requests);
    await createIfNotExists(textFile(doomed), "new").catch(() => undefined);
    const { outcome } = await createIfNotExists(textFile(file), "of the next");
    expect((await file.downloadToBuffer()).toString()).toBe(outcome === "created" ? "of the next" : "new");
    await overwrite(textFile(file), "the last");
    expect((await file.downloadToBuffer()).toString()).toBe("the last");
    await expectAtMostOneLeft();
  });
});

describe("a process that was given up for dead", () => {
  it("has its rename refused when it wakes up, and is told that the lease is lost", async () => {
    await file.uploadData(Buffer.from(old));
    proxy.reset([delay(1_000, { name: "late", when: (request) => isDoomed(request) && request.query.get("comp") === "rename" })]);
    const zombie = leasedUpdate(textFile(doomed), () => "of the zombie").catch((error: unknown) => error);
    await proxy.waitFor((request) => request.ruleNames.includes("late"));
    await breakLease(file);
    await leasedUpdate(textFile(file), () => "of its successor");
    expect(isConcurrencyError(await zombie, "LEASE_LOST")).toBe(true);
    expect((await file.downloadToBuffer()).toString()).toBe("of its successor");
    expect(await names()).toEqual(["file"]);
  });

  it("cannot garble what its successor writes beside the file", async () => {
    await file.uploadData(Buffer.from(old));
    // Both are at their aside file at the same time: the range of the first comes when the second has it.
    proxy.reset([delay(1_000, { name: "late", when: (request) => isDoomed(request) && request.query.get("comp") === "range" })]);
    const zombie = leasedUpdate(textFile(doomed), () => "Z".repeat(1_000)).catch((error: unknown) => error);
    await proxy.waitFor((request) => request.ruleNames.includes("late"));
    await breakLease(file);
    await leasedUpdate(textFile(file), async () => {
      await pause(100);
      return "s".repeat(2_000);
    });
    expect(isConcurrencyError(await zombie, "LEASE_LOST")).toBe(true);
    expect((await file.downloadToBuffer()).toString()).toBe("s".repeat(2_000));
    expect(await names()).toEqual(["file"]);
  });
});

it("is not misled by one that makes the aside file anew before it is leased", async () => {
  await file.uploadData(Buffer.from(old));
  proxy.reset([delay(500, { name: "late", when: (request) => isDoomed(request) && request.path.endsWith(".asc-new") && request.query.get("comp") === "lease" })]);
  const update = leasedUpdate(textFile(doomed), () => "as it should be");
  await proxy.waitFor((request) => request.ruleNames.includes("late"));
  await share.rootDirectoryClient.getFileClient("file.asc-new").create(5_000);
  await update;
  expect((await file.downloadToBuffer()).toString()).toBe("as it should be");
  expect(await names()).toEqual(["file"]);
});

it("shows readers one whole version after the other, whatever the lengths", async () => {
  const versions = ["a".repeat(10), "b".repeat(200_000), "c".repeat(10), "", "d".repeat(3)];
  await file.uploadData(Buffer.from(versions[0] ?? ""));
  const writer = { done: false };
  const seen = new Set<string>();
  const reader = (async () => {
    while (!writer.done) seen.add((await readTarget(textFile(file))).value);
  })();
  for (let round = 0; round < 5; round++) for (const version of versions) await leasedUpdate(textFile(file), () => version);
  writer.done = true;
  await reader;
  for (const text of seen) expect(versions).toContain(text);
  expect(seen.size).toBeGreaterThan(2);
});
