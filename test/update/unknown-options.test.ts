import { describe, expect, it, vi } from "vitest";
import {
  appendExactlyOnce,
  bytesBlob,
  bytesFile,
  claimPages,
  ConcurrentBlob,
  ConcurrentFile,
  ConcurrentTable,
  createIfNotExists,
  deleteIfUnchanged,
  downloadConsistent,
  downloadConsistentStream,
  encodedBlob,
  encodedFile,
  IdAllocator,
  jsonBlob,
  jsonFile,
  leasedUpdate,
  optimisticUpdate,
  overwrite,
  purgeStagingFiles,
  purgeTombstones,
  readIfChanged,
  readTarget,
  retryWhileInUse,
  runTransaction,
  tableEntity,
  textBlob,
  textFile,
  tryReadTarget,
  watch,
} from "../../src/index.js";
import type { Codec, DirectoryLike, FileLike } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakePageBlob } from "../fakes/fake-page-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { fakePartition } from "../transaction/fakes/partition.js";

const { service: blobService, blob } = counterBlob();
const { service: tableService, table } = fakePartition({ a: 1 });
const appendBlob = new FakeAppendBlob(blobService);
const pageService = new FakeService();
const pageBlob = new FakePageBlob(pageService);
const never = vi.fn<() => never>();
const file = Object.assign(
  Object.fromEntries(["create", "delete", "download", "getProperties", "setMetadata", "setHttpHeaders", "uploadRange", "rename", "getShareLeaseClient"].map((name) => [name, never])),
  { url: "https://account.file.core.windows.net/share/file.json", name: "file.json", path: "file.json", shareName: "share" },
) as unknown as FileLike;
const directory: DirectoryLike = { url: "https://account.file.core.windows.net/share", listFilesAndDirectories: never, getFileClient: never, getDirectoryClient: never };
const codec: Codec<string> = { decode: (content) => new TextDecoder().decode(content), encode: (value) => new TextEncoder().encode(value) };
const etag = '"0x1"';
const requests = (): number => blobService.count() + tableService.count() + pageService.count() + never.mock.calls.length;

/** Calls that return a promise, each with the argument for its options. */
const calls: Record<string, (options: never) => Promise<unknown>> = {
  readTarget: (options) => readTarget(blob, options),
  tryReadTarget: (options) => tryReadTarget(blob, options),
  readIfChanged: (options) => readIfChanged(blob, etag, options),
  optimisticUpdate: (options) => optimisticUpdate<Counter>(blob, increment, options),
  leasedUpdate: (options) => leasedUpdate<Counter>(blob, increment, options),
  createIfNotExists: (options) => createIfNotExists(blob, { n: 1 }, options),
  overwrite: (options) => overwrite(blob, { n: 1 }, options),
  deleteIfUnchanged: (options) => deleteIfUnchanged(blob, etag, options),
  retryWhileInUse: (options) => retryWhileInUse(never, options),
  runTransaction: (options) => runTransaction(table, "p", never, options),
  purgeTombstones: (options) => purgeTombstones(table, options),
  purgeStagingFiles: (options) => purgeStagingFiles(directory, options),
  downloadConsistent: (options) => downloadConsistent(blob, options),
  downloadConsistentStream: (options) => downloadConsistentStream(blob, options),
  appendExactlyOnce: (options) => appendExactlyOnce(appendBlob, "x", options),
  claimPages: (options) => claimPages(pageBlob, options),
  "IdAllocator.next": (options) => new IdAllocator(blob).next(options),
  "IdAllocator.nextMany": (options) => new IdAllocator(blob).nextMany(2, options),
  "ConcurrentBlob.read": (options) => new ConcurrentBlob(blob).read(options),
  "ConcurrentBlob.tryRead": (options) => new ConcurrentBlob(blob).tryRead(options),
  "ConcurrentBlob.readIfChanged": (options) => new ConcurrentBlob(blob).readIfChanged(etag, options),
  "ConcurrentBlob.update": (options) => new ConcurrentBlob<Counter>(blob).update(increment, options),
  "ConcurrentBlob.leasedUpdate": (options) => new ConcurrentBlob<Counter>(blob).leasedUpdate(increment, options),
  "ConcurrentBlob.createIfNotExists": (options) => new ConcurrentBlob(blob).createIfNotExists({ n: 1 }, options),
  "ConcurrentBlob.overwrite": (options) => new ConcurrentBlob(blob).overwrite({ n: 1 }, options),
  "ConcurrentBlob.deleteIfUnchanged": (options) => new ConcurrentBlob(blob).deleteIfUnchanged(etag, options),
  "ConcurrentBlob.metadata.update": (options) => new ConcurrentBlob(blob).metadata.update(() => undefined, options),
  "ConcurrentBlob.downloadConsistent": (options) => new ConcurrentBlob(blob).downloadConsistent(options),
  "ConcurrentBlob.downloadConsistentStream": (options) => new ConcurrentBlob(blob).downloadConsistentStream(options),
  "ConcurrentTable.entity().update": (options) => new ConcurrentTable(table).entity("p", "a").update(() => undefined, options),
  "ConcurrentTable.update": (options) => new ConcurrentTable(table).update({ partitionKey: "p", rowKey: "a" }, () => undefined, options),
  "ConcurrentTable.runTransaction": (options) => new ConcurrentTable(table).runTransaction("p", never, options),
  "ConcurrentTable.purgeTombstones": (options) => new ConcurrentTable(table).purgeTombstones(options),
  "ConcurrentFile.read": (options) => new ConcurrentFile(file).read(options),
  "ConcurrentFile.tryRead": (options) => new ConcurrentFile(file).tryRead(options),
  "ConcurrentFile.readIfChanged": (options) => new ConcurrentFile(file).readIfChanged(etag, options),
  "ConcurrentFile.update": (options) => new ConcurrentFile<Counter>(file).update(increment, options),
  "ConcurrentFile.updateMetadata": (options) => new ConcurrentFile(file).updateMetadata(() => undefined, options),
  "ConcurrentFile.updateHttpHeaders": (options) => new ConcurrentFile(file).updateHttpHeaders(() => undefined, options),
  "ConcurrentFile.createIfNotExists": (options) => new ConcurrentFile(file).createIfNotExists({ n: 1 }, options),
  "ConcurrentFile.overwrite": (options) => new ConcurrentFile(file).overwrite({ n: 1 }, options),
};

/** Functions and constructors that return at once: they may throw. */
const makers: Record<string, (options: never) => unknown> = {
  jsonBlob: (options) => jsonBlob(blob, options),
  textBlob: (options) => textBlob(blob, options),
  bytesBlob: (options) => bytesBlob(blob, options),
  encodedBlob: (options) => encodedBlob(blob, codec, options),
  jsonFile: (options) => jsonFile(file, options),
  textFile: (options) => textFile(file, options),
  bytesFile: (options) => bytesFile(file, options),
  encodedFile: (options) => encodedFile(file, codec, options),
  tableEntity: (options) => tableEntity(table, "p", "r", options),
  "tableEntity by entity": (options) => tableEntity(table, { partitionKey: "p", rowKey: "r" }, options),
  watch: (options) => watch(blob, options),
  "ConcurrentBlob.watch": (options) => new ConcurrentBlob(blob).watch(options),
  "ConcurrentFile.watch": (options) => new ConcurrentFile(file).watch(options),
  IdAllocator: (options) => new IdAllocator(blob, options),
  ConcurrentBlob: (options) => new ConcurrentBlob(blob, options),
  ConcurrentFile: (options) => new ConcurrentFile(file, options),
  ConcurrentTable: (options) => new ConcurrentTable(table, options),
};

const misspelt = { timeOutInMs: 5 } as never;

describe("an unknown option", () => {
  it.each(Object.entries(calls))("makes %s reject with a TypeError that names it, before any request", async (_name, call) => {
    const before = requests();
    const error = await rejection(call(misspelt));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(/unknown option "timeOutInMs"\. Known options: /);
    expect(requests()).toBe(before);
  });

  it.each(Object.entries(makers))("makes %s throw a TypeError that names it", (_name, make) => {
    expect(() => make(misspelt)).toThrow(TypeError);
    expect(() => make(misspelt)).toThrow(/unknown option "timeOutInMs"/);
  });

  it("of a page writer is rejected, too", async () => {
    const writer = await claimPages(pageBlob);
    const before = requests();
    await expect(writer.write(0, new Uint8Array(512), misspelt)).rejects.toThrow(/unknown option "timeOutInMs"/);
    await expect(writer.clear(0, 512, misspelt)).rejects.toThrow(/unknown option "timeOutInMs"/);
    expect(requests()).toBe(before);
  });

  it("that is undefined is no option", async () => {
    await expect(readTarget(blob, { timeOutInMs: undefined } as never)).resolves.toBeDefined();
  });
});

describe("options that are not an object", () => {
  it.each(Object.entries(calls).filter(([name]) => !name.includes(".")))("make %s reject with a TypeError, not throw", async (_name, call) => {
    const before = requests();
    for (const options of [null, "fast", 5]) expect(await rejection(call(options as never))).toBeInstanceOf(TypeError);
    expect(requests()).toBe(before);
  });
});

describe("a call without a client or target", () => {
  const nothing = undefined as never;

  it.each<[string, () => Promise<unknown>]>([
    ["readTarget", () => readTarget(nothing)],
    ["tryReadTarget", () => tryReadTarget(nothing)],
    ["readIfChanged", () => readIfChanged(nothing, etag)],
    ["readIfChanged without an ETag", () => readIfChanged(blob, nothing)],
    ["optimisticUpdate", () => optimisticUpdate(nothing, increment as never)],
    ["leasedUpdate", () => leasedUpdate(nothing, increment as never)],
    ["createIfNotExists", () => createIfNotExists(nothing, {})],
    ["overwrite", () => overwrite(nothing, {})],
    ["deleteIfUnchanged", () => deleteIfUnchanged(nothing, etag)],
    ["retryWhileInUse", () => retryWhileInUse(nothing)],
    ["runTransaction", () => runTransaction(nothing, "p", never)],
    ["runTransaction without a function", () => runTransaction(table, "p", nothing)],
    ["purgeTombstones", () => purgeTombstones(nothing)],
    ["purgeStagingFiles", () => purgeStagingFiles(nothing)],
    ["downloadConsistent", () => downloadConsistent(nothing)],
    ["downloadConsistentStream", () => downloadConsistentStream(nothing)],
    ["appendExactlyOnce", () => appendExactlyOnce(nothing, "x")],
    ["claimPages", () => claimPages(nothing)],
    ["ConcurrentTable.update", () => new ConcurrentTable(table).update(nothing, () => undefined)],
    ["ConcurrentTable.runTransaction", () => new ConcurrentTable(table).runTransaction(nothing, never)],
  ])("%s rejects with a TypeError that says what is needed, and does not throw", async (_name, call) => {
    const before = requests();
    const error = await rejection(call());
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).not.toMatch(/Cannot (read|destructure)|undefined \(/);
    expect(requests()).toBe(before);
  });
});
