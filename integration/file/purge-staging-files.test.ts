import { newPipeline, type ShareClient, type ShareDirectoryClient, type ShareFileClient, ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";

import { createIfNotExists, leasedUpdate, overwrite, purgeStagingFiles, readTarget, textFile } from "../../src/index.js";
import { dropResponse, type FaultProxy, type FileShareServer, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { accountSas, freshShare, serviceOf } from "./support.js";

const hour = 3_600_000;
let server: FileShareServer;
let proxy: FaultProxy;
let share: ShareClient;
let root: ShareDirectoryClient;

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
  root = share.rootDirectoryClient;
});
afterEach(() => void vi.restoreAllMocks());

async function names(directory: ShareDirectoryClient = root): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of directory.listFilesAndDirectories()) found.push(entry.name);
  return found;
}

/** Lets the requests of one client through one at a time. */
class Actor {
  readonly service: ShareServiceClient;
  #waiting: (() => void) | undefined;
  #changed: (() => void) | undefined;
  #ended = false;

  constructor(url = server.url) {
    const pipeline = newPipeline(new StorageSharedKeyCredential(server.accountName, server.accountKey), { retryOptions: { maxTries: 1 } });
    pipeline.factories.unshift({
      create: (next) => ({
        sendRequest: async (request) => {
          await new Promise<void>((resolve) => {
            this.#waiting = resolve;
            this.#changed?.();
          });
          return next.sendRequest(request);
        },
      }),
    });
    this.service = new ShareServiceClient(url, pipeline);
  }

  get share(): ShareClient {
    return this.service.getShareClient(share.name);
  }

  start<R>(call: (actor: this) => Promise<R>): Promise<R> {
    const running = call(this).finally(() => {
      this.#ended = true;
      this.#changed?.();
    });
    running.catch(() => undefined);
    return running;
  }

  /** Lets so many requests through, and returns when the next one waits, or the call has ended. */
  async pass(requests: number): Promise<void> {
    for (let sent = 0; sent <= requests; sent++) {
      while (!this.#waiting && !this.#ended) await new Promise<void>((resolve) => (this.#changed = resolve));
      if (sent === requests || !this.#waiting) return;
      const release = this.#waiting;
      this.#waiting = undefined;
      release();
    }
  }
}

const fileOf = (actor: Actor): ShareFileClient => actor.share.rootDirectoryClient.getFileClient("file");

describe("purgeStagingFiles", () => {
  it("deletes old staging files, leased or not, and nothing else", async () => {
    const unique = "data.json.asc-new-0123456789ab";
    for (const name of ["data.json", "data.json.asc-new", "gone.asc-new", unique, "x.asc-new-0123", "x.asc-new.bak", ".asc-new", "x.asc-newer"]) await root.getFileClient(name).create(1);
    // Writers that died before they renamed them, and a purge that died.
    for (const name of ["data.json.asc-new", "gone.asc-new", unique]) await root.getFileClient(name).getShareLeaseClient().acquireLease(-1);
    server.clock.advance(2 * hour);
    expect(await purgeStagingFiles(root)).toEqual({ deleted: 3, kept: 0 });
    expect(await names()).toEqual([".asc-new", "data.json", "x.asc-new-0123", "x.asc-new.bak", "x.asc-newer"]);
    expect(await purgeStagingFiles(share)).toEqual({ deleted: 0, kept: 0 });
  });

  it("keeps a staging file that is younger than olderThanInMs, by the clock of the service", async () => {
    await root.getFileClient("a.asc-new").create(1);
    vi.spyOn(Date, "now").mockReturnValue(Date.now() + 100 * hour);
    expect(await purgeStagingFiles(root)).toEqual({ deleted: 0, kept: 0 });
    server.clock.advance(700_000);
    expect(await purgeStagingFiles(root)).toEqual({ deleted: 0, kept: 0 });
    expect(await purgeStagingFiles(root, { olderThanInMs: 600_000 })).toEqual({ deleted: 1, kept: 0 });
  });

  it("keeps a staging file that is leased while its target is: an update may be about to rename it", async () => {
    const update = new Actor();
    await root.getFileClient("file").uploadData(Buffer.from("old"));
    const updating = update.start((actor) => leasedUpdate(textFile(fileOf(actor)), () => "new content"));
    await update.pass(5); // acquire, read, create, write, lease
    expect(await names()).toEqual(["file", "file.asc-new"]);
    server.clock.advance(2 * hour);
    expect(await purgeStagingFiles(root)).toEqual({ deleted: 0, kept: 1 });
    await update.pass(Infinity);
    expect(await updating).toMatchObject({ value: "new content" });
    expect(await names()).toEqual(["file"]);
  });

  it("searches subdirectories if asked", async () => {
    const inner = root.getDirectoryClient("a").getDirectoryClient("b ü%");
    await root.getDirectoryClient("a").create();
    await inner.create();
    await inner.getFileClient("x %.asc-new").create(1);
    await root.getDirectoryClient("a").getFileClient("y.asc-new").create(1);
    server.clock.advance(2 * hour);
    expect(await purgeStagingFiles(share)).toEqual({ deleted: 0, kept: 0 });
    expect(await purgeStagingFiles(root.getDirectoryClient("a"))).toEqual({ deleted: 1, kept: 0 });
    expect(await purgeStagingFiles(share, { recursive: true })).toEqual({ deleted: 1, kept: 0 });
    expect(await names(inner)).toEqual([]);
  });

  it("costs a listing, a read of each staging file, and two requests for each that it deletes", async () => {
    for (let n = 0; n < 5; n++) await root.getFileClient(`${n}.asc-new`).create(1);
    const young = server.requests;
    await purgeStagingFiles(root);
    expect(server.requests - young).toBe(1 + 5);
    server.clock.advance(2 * hour);
    const before = server.requests;
    await purgeStagingFiles(root);
    expect(server.requests - before).toBe(1 + 5 * 3);
  });

  it("keeps what an SMB client has open, without a lease, and goes on", async () => {
    for (const name of ["a.asc-new", "b.asc-new"]) await root.getFileClient(name).create(1);
    server.clock.advance(2 * hour);
    server.smb.open(share.name, "a.asc-new");
    expect(await purgeStagingFiles(root)).toEqual({ deleted: 1, kept: 1 });
    expect(await names()).toEqual(["a.asc-new"]);
    expect((await root.getFileClient("a.asc-new").getProperties()).leaseState).toBe("available");
  });

  it("rejects with what the service refuses, with the reason of the caller's signal, and for a directory that does not exist", async () => {
    await root.getFileClient("a.asc-new").create(1);
    server.clock.advance(2 * hour);
    const reader = new ShareServiceClient(`${server.url}?${accountSas(server, "rlw")}`).getShareClient(share.name);
    await expect(purgeStagingFiles(reader)).rejects.toMatchObject({ statusCode: 403 });
    expect((await root.getFileClient("a.asc-new").getProperties()).leaseState).toBe("available");
    await expect(purgeStagingFiles(root, { abortSignal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough");
    await expect(purgeStagingFiles(root.getDirectoryClient("none"))).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    await expect(purgeStagingFiles(serviceOf(server).getShareClient("none"))).rejects.toMatchObject({ code: "TARGET_NOT_FOUND" });
    expect(await names()).toEqual(["a.asc-new"]);
  });

  it("is told of wrong arguments before any request", async () => {
    const before = server.requests;
    await expect(purgeStagingFiles(root, { olderThanInMs: 599_999 })).rejects.toThrow(RangeError);
    await expect(purgeStagingFiles(root, { recursive: 1 as never })).rejects.toThrow(TypeError);
    await expect(purgeStagingFiles(root, { older: 1 } as object)).rejects.toThrow(/unknown option "older"/);
    await expect(purgeStagingFiles(root.getFileClient("a") as never)).rejects.toThrow(/needs a ShareDirectoryClient or a ShareClient/);
    await expect(purgeStagingFiles(undefined as never)).rejects.toThrow(TypeError);
    expect(server.requests).toBe(before);
  });
});

/** What is there when an update and a purge begin. */
const leftovers: Record<string, () => Promise<unknown>> = {
  "no staging file": () => Promise.resolve(),
  "the staging file of a writer that died while it wrote": () => root.getFileClient("file.asc-new").create(3),
  "the staging file of a writer that died before the rename": async () => {
    await root.getFileClient("file.asc-new").create(3);
    await root.getFileClient("file.asc-new").getShareLeaseClient().acquireLease(-1);
  },
};

describe.each(Object.entries(leftovers))("a purge beside an update that finds %s", (_, leave) => {
  // Some requests of the update, some of the purge, some of the update, the rest of the purge, the rest of the update.
  const orders = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((first) => [1, 2, 3, 4, 5].flatMap((second) => [1, 2, 4].map((third) => [first, second, third] as const)));

  it("never disturbs it, whatever the order of their requests", async () => {
    for (const [first, second, third] of orders) {
      share = await freshShare(server);
      root = share.rootDirectoryClient;
      await root.getFileClient("file").uploadData(Buffer.from("old"));
      await leave();
      server.clock.advance(2 * hour);
      const [update, purge] = [new Actor(), new Actor()];
      const updating = update.start((actor) => leasedUpdate(textFile(fileOf(actor)), (text) => `${text}, new`, { waitInMs: 0 }));
      await update.pass(first);
      const purging = purge.start((actor) => purgeStagingFiles(actor.share));
      await purge.pass(second);
      await update.pass(third);
      await purge.pass(Infinity);
      await update.pass(Infinity);
      const order = `order ${first}, ${second}, ${third}`;
      // Its file was not deleted while it used it: its first attempt succeeded.
      expect(await updating, order).toMatchObject({ value: "old, new", attempts: 1 });
      await purging;
      expect((await readTarget(textFile(root.getFileClient("file")))).value, order).toBe("old, new");
      expect(await names(), order).toEqual(["file"]);
      expect((await root.getFileClient("file").getProperties()).leaseState, order).toBe("available");
    }
  }, 120_000);
});

it("does not delete the file of an update that began after its target was found free, even if the purge breaks the lease of that file", async () => {
  await root.getFileClient("file").uploadData(Buffer.from("old"));
  await leftovers["the staging file of a writer that died before the rename"]!();
  server.clock.advance(2 * hour);
  const [update, purge] = [new Actor(), new Actor()];
  const purging = purge.start((actor) => purgeStagingFiles(actor.share));
  await purge.pass(3); // list, read the staging file, read the target
  const updating = update.start((actor) => leasedUpdate(textFile(fileOf(actor)), (text) => `${text}, new`, { waitInMs: 0 }));
  await update.pass(7); // acquire, read, create, break, create, write, lease
  expect((await root.getFileClient("file.asc-new").getProperties()).leaseState).toBe("leased");
  await purge.pass(Infinity);
  expect(await purging).toEqual({ deleted: 0, kept: 1 });
  await update.pass(Infinity);
  // Its rename was rejected, as the lease of its file was broken, and it began again.
  expect(await updating).toMatchObject({ value: "old, new", attempts: 2 });
  expect(await names()).toEqual(["file"]);
});

describe("a call without a lease that was suspended for longer than its staging file is kept", () => {
  it.each<[string, (file: ShareFileClient) => Promise<unknown>]>([
    ["overwrite", (file) => overwrite(textFile(file), "new")],
    ["createIfNotExists", (file) => createIfNotExists(textFile(file), "new")],
  ])("does not take the deleted staging file for a renamed one: %s", async (_, call) => {
    const actor = new Actor(proxy.url);
    const calling = actor.start(() => call(fileOf(actor)));
    while ((await names()).length === 0) await actor.pass(1);
    await actor.pass(1); // its content; the rename is next
    server.clock.advance(2 * hour);
    expect(await purgeStagingFiles(root)).toEqual({ deleted: 1, kept: 0 });
    vi.spyOn(Date, "now").mockReturnValue(Date.now() + 2 * hour);
    proxy.reset([dropResponse({ when: ({ query }) => query.get("comp") === "rename" })]);
    await actor.pass(Infinity);
    const outcome = await calling.then(() => "written", () => "not known");
    // A create may be repeated after that, and an overwrite is not.
    expect(outcome).toBe((await names()).includes("file") ? "written" : "not known");
    expect((await names()).filter((name) => name !== "file")).toEqual([]);
  });
});
