import { describe, expect, it } from "vitest";
import type { BlobLocksOptions } from "../../src/index.js";
import { acquireLease, tryAcquireLease, withLease } from "../../src/lease/with-lease.js";
import { BlobLocks } from "../../src/lock/blob-locks.js";
import { breakLease, inspectLease } from "../../src/lock/inspect-lease.js";
import { ReaderWriterLock } from "../../src/lock/reader-writer-lock.js";
import { Semaphore } from "../../src/lock/semaphore.js";
import { TableLock } from "../../src/lock/table-lock.js";
import { FakeLeaseServer } from "../lease/fakes/fake-lease-server.js";
import { pass, useFakeClock } from "../lease/fakes/time.js";
import { fakePartition } from "../transaction/fakes/partition.js";
import { locksOn, run } from "./support.js";

useFakeClock();

const wrong = { timeoutMs: 1 } as object;
const fn = (): number => 1;

async function first(items: AsyncIterable<unknown>): Promise<unknown> {
  for await (const item of items) return item;
  return undefined;
}

interface Scene {
  readonly server: FakeLeaseServer;
  readonly locks: BlobLocks;
  readonly semaphore: Semaphore;
  readonly readerWriter: ReaderWriterLock;
  readonly table: TableLock;
}

function scene(): Scene {
  const server = new FakeLeaseServer();
  server.addBlob();
  const locks = locksOn(server);
  return { server, locks, semaphore: new Semaphore(locks, "s", 2), readerWriter: new ReaderWriterLock(locks, "rw"), table: new TableLock(fakePartition().table, locks) };
}

describe("an unknown option is a TypeError that names it, and nothing is sent", () => {
  it.each<[string, (scene: Scene, options: object) => Promise<unknown>]>([
    ["withLease", ({ server }, options) => withLease(server.blob(), fn, options)],
    ["acquireLease", ({ server }, options) => acquireLease(server.blob(), options)],
    ["tryAcquireLease", ({ server }, options) => tryAcquireLease(server.blob(), options)],
    ["inspectLease", ({ server }, options) => inspectLease(server.blob(), options)],
    ["breakLease", ({ server }, options) => breakLease(server.blob(), options)],
    ["BlobLocks.withLock", ({ locks }, options) => locks.withLock("a", fn, options)],
    ["BlobLocks.acquire", ({ locks }, options) => locks.acquire("a", options)],
    ["BlobLocks.tryAcquire", ({ locks }, options) => locks.tryAcquire("a", options)],
    ["BlobLocks.withLocks", ({ locks }, options) => locks.withLocks(["a"], fn, options)],
    ["BlobLocks.acquireAll", ({ locks }, options) => locks.acquireAll(["a"], options)],
    ["BlobLocks.inspect", ({ locks }, options) => locks.inspect("a", options)],
    ["BlobLocks.list", ({ locks }, options) => first(locks.list(options))],
    ["BlobLocks.break", ({ locks }, options) => locks.break("a", options)],
    ["Semaphore.withSlot", ({ semaphore }, options) => semaphore.withSlot(fn, options)],
    ["Semaphore.acquire", ({ semaphore }, options) => semaphore.acquire(options)],
    ["Semaphore.tryAcquire", ({ semaphore }, options) => semaphore.tryAcquire(options)],
    ["Semaphore.inspect", ({ semaphore }, options) => semaphore.inspect(options)],
    ["ReaderWriterLock.withReadLock", ({ readerWriter }, options) => readerWriter.withReadLock(fn, options)],
    ["ReaderWriterLock.acquireReadLock", ({ readerWriter }, options) => readerWriter.acquireReadLock(options)],
    ["ReaderWriterLock.tryAcquireReadLock", ({ readerWriter }, options) => readerWriter.tryAcquireReadLock(options)],
    ["ReaderWriterLock.withWriteLock", ({ readerWriter }, options) => readerWriter.withWriteLock(fn, options)],
    ["ReaderWriterLock.acquireWriteLock", ({ readerWriter }, options) => readerWriter.acquireWriteLock(options)],
    ["ReaderWriterLock.tryAcquireWriteLock", ({ readerWriter }, options) => readerWriter.tryAcquireWriteLock(options)],
    ["ReaderWriterLock.inspect", ({ readerWriter }, options) => readerWriter.inspect(options)],
    ["TableLock.withLock", ({ table }, options) => table.withLock(fn, options)],
    ["TableLock.acquire", ({ table }, options) => table.acquire(options)],
    ["TableLock.tryAcquire", ({ table }, options) => table.tryAcquire(options)],
  ])("%s", async (name, call) => {
    const given = scene();
    const rejected = expect(call(given, wrong)).rejects.toThrow(new RegExp(`^${name.replace(".", "\\.")}: unknown option "timeoutMs"`));
    await pass(100);
    await rejected;
    // No call throws: it returns a promise that rejects.
    const noObject = expect(call(given, 5 as never)).rejects.toThrow(TypeError);
    await pass(100);
    await noObject;
    expect(given.server.requests).toEqual([]);
  });

  it.each(["createIfNotExists", "crashGuard", "leaseId"])("%s is not an option of locks", async (name) => {
    const { locks, server } = scene();
    await expect(locks.acquire("a", { [name]: "x" })).rejects.toThrow(`unknown option "${name}"`);
    expect(server.requests).toEqual([]);
  });

  it("waitInMs is not an option of one attempt, but may be a default", async () => {
    const { server } = scene();
    const locks = new BlobLocks(server.container(), { defaults: { waitInMs: 5 } });
    await expect(locks.tryAcquire("a", { waitInMs: 5 } as object)).rejects.toThrow("waitInMs");
    const lock = await run(locks.tryAcquire("a"));
    expect(lock).toBeDefined();
    await run(lock!.release());
    const slot = await run(new Semaphore(locks, "s", 1).acquire(), 50);
    await run(slot.release());
  });
});

describe("constructors", () => {
  const { locks } = scene();
  const { table } = fakePartition();
  it.each<[string, () => unknown, string]>([
    ["BlobLocks without a container", () => new BlobLocks(undefined as never), "BlobLocks needs a ContainerClient"],
    ["BlobLocks with a blob", () => new BlobLocks(new FakeLeaseServer().blob() as never), "BlobLocks needs a ContainerClient"],
    ["BlobLocks with a misspelt option", () => new BlobLocks(new FakeLeaseServer().container(), { prefixes: "a" } as BlobLocksOptions), 'BlobLocks: unknown option "prefixes"'],
    ["BlobLocks with a misspelt default", () => new BlobLocks(new FakeLeaseServer().container(), { defaults: wrong }), 'BlobLocks: defaults: unknown option "timeoutMs"'],
    ["BlobLocks with a default for one call", () => new BlobLocks(new FakeLeaseServer().container(), { defaults: { abortSignal: AbortSignal.abort() } as object }), 'unknown option "abortSignal"'],
    ["BlobLocks with a prefix that is no text", () => new BlobLocks(new FakeLeaseServer().container(), { prefix: 1 as never }), "prefix must be a string"],
    ["Semaphore without locks", () => new Semaphore({} as never, "s", 1), "Semaphore needs a BlobLocks"],
    ["ReaderWriterLock without locks", () => new ReaderWriterLock({} as never, "rw"), "ReaderWriterLock needs a BlobLocks"],
    ["TableLock without a table", () => new TableLock({} as never, locks), "TableLock needs a TableClient"],
    ["TableLock without locks", () => new TableLock(table, undefined as never), "TableLock needs a BlobLocks"],
    ["TableLock with a misspelt option", () => new TableLock(table, locks, { by: "table" } as object), 'TableLock: unknown option "by"'],
  ])("throw a TypeError: %s", (_, construct, message) => {
    expect(construct).toThrow(TypeError);
    expect(construct).toThrow(message);
  });
});
