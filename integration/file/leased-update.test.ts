import { randomUUID } from "node:crypto";

import { FileSystemAttributes, type ShareClient, type ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { acquireLease, bytesFile, createIfNotExists, fileHttpHeaders, fileMetadata, jsonFile, leasedUpdate, overwrite, readTarget, DELETE, shareMetadata, textFile } from "../../src/index.js";
import { type FileShareServer, startFaultProxy, startFileShareServer } from "../../src/testing.js";
import { freshShare, serviceOf } from "./support.js";

let server: FileShareServer;
let share: ShareClient;
let file: ShareFileClient;

beforeAll(async () => {
  server = await startFileShareServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  share = await freshShare(server);
  file = share.rootDirectoryClient.getFileClient("settings.json");
});

async function put(content: string | Uint8Array, of = file): Promise<void> {
  await of.uploadData(Buffer.from(content));
}

async function contentOf(of = file): Promise<string> {
  return (await of.downloadToBuffer()).toString();
}

/** What lies beside the file, and whether the file is leased. */
async function state(of = file): Promise<{ names: string[]; lease: string | undefined }> {
  const names: string[] = [];
  for await (const entry of share.rootDirectoryClient.listFilesAndDirectories()) names.push(entry.name);
  const lease = (await of.exists()) ? (await of.getProperties()).leaseState : undefined;
  return { names, lease };
}

async function requestsOf(call: () => Promise<unknown>): Promise<number> {
  const before = server.requests;
  await call();
  return server.requests - before;
}

const clean = { names: ["settings.json"], lease: "available" };

describe("the content of a file", () => {
  it("is changed in place or by a new value, and the result is what a reader reads", async () => {
    await put('{"n":1}');
    const first = await leasedUpdate<{ n: number }>(jsonFile(file), (draft) => {
      draft.n++;
    });
    expect(first).toMatchObject({ value: { n: 2 }, outcome: "updated", attempts: 1 });
    expect(await readTarget(jsonFile(file))).toEqual({ value: { n: 2 }, etag: first.etag });
    const second = await leasedUpdate<{ n: number }>(jsonFile(file), async (draft) => ({ n: draft.n + 100 }));
    expect(second).toMatchObject({ value: { n: 102 }, outcome: "updated" });
    expect(await readTarget(jsonFile(file))).toEqual({ value: { n: 102 }, etag: second.etag });
    expect(await state()).toEqual(clean);
  });

  it.each([
    ["longer", "0123456789", "0123456789ab"],
    ["shorter", "0123456789", "0123"],
    ["of the same length", "0123456789", "9876543210"],
    ["empty", "0123456789", ""],
    ["no longer empty", "", "0123456789"],
  ])("can become %s", async (_, before, after) => {
    await put(before);
    expect(await leasedUpdate(textFile(file), () => after)).toMatchObject({ value: after, outcome: "updated" });
    expect(await contentOf()).toBe(after);
    expect(await state()).toEqual(clean);
  });

  it("can be larger than one request takes", async () => {
    const bytes = new Uint8Array(9 * 1024 * 1024).map((_, i) => i % 251);
    await put("small");
    await leasedUpdate(bytesFile(file), () => bytes);
    expect(Buffer.compare(await file.downloadToBuffer(), bytes)).toBe(0);
    bytes[5_000_000] = 255;
    await leasedUpdate(bytesFile(file), () => bytes);
    expect(Buffer.compare(await file.downloadToBuffer(), bytes)).toBe(0);
    expect(await state()).toEqual(clean);
  });

  it("is not written if the mutator changes nothing", async () => {
    await put('{ "n": 1 }');
    const { etag } = await file.getProperties();
    expect(await leasedUpdate(jsonFile(file), () => undefined)).toMatchObject({ value: { n: 1 }, etag, outcome: "unchanged" });
    expect(await leasedUpdate(jsonFile(file), () => ({ n: 1 }))).toMatchObject({ outcome: "unchanged" });
    expect((await file.getProperties()).etag).toBe(etag);
    expect(await state()).toEqual(clean);
  });

  it("is not written if the mutator throws, and the lease is released", async () => {
    await put("old");
    const error = new Error("no");
    await expect(leasedUpdate(textFile(file), () => { throw error; })).rejects.toBe(error); // prettier-ignore
    expect(await contentOf()).toBe("old");
    expect(await state()).toEqual(clean);
  });

  it("is created from the initial value, and not without one", async () => {
    await expect(leasedUpdate(jsonFile(file), () => 1)).rejects.toMatchObject({ name: "TargetNotFoundError" });
    const result = await leasedUpdate<{ n: number }>(jsonFile(file), (draft) => { draft.n++; }, { initial: () => ({ n: 5 }) });
    expect(result).toMatchObject({ value: { n: 6 }, outcome: "created", attempts: 1 });
    expect(await readTarget(jsonFile(file))).toEqual({ value: { n: 6 }, etag: result.etag });
    expect((await file.getProperties()).contentType).toBe("application/json");
    expect(await state()).toEqual(clean);
  });

  it("is created by one of many, and all count", async () => {
    const target = jsonFile<{ n: number }>(file);
    const results = await Promise.all(Array.from({ length: 12 }, () => leasedUpdate(target, (d) => { d.n++; }, { initial: { n: 0 } })));
    expect(results.filter(({ outcome }) => outcome === "created")).toHaveLength(1);
    expect(await contentOf()).toBe('{"n":12}');
    expect(await state()).toEqual(clean);
  });

  it("is deleted by DELETE, after which it can be created again", async () => {
    await put("1");
    expect(await leasedUpdate(jsonFile(file), () => DELETE)).toStrictEqual({ value: 1, outcome: "deleted", attempts: 1, operationId: expect.any(String) as string });
    expect(await file.exists()).toBe(false);
    expect(await leasedUpdate(jsonFile<number>(file), (n) => n + 1, { initial: 1 })).toMatchObject({ outcome: "created", value: 2 });
  });

  it("survives deletions and creations by many at once", async () => {
    const target = jsonFile<{ n: number }>(file);
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) => leasedUpdate(target, (d) => (i % 4 === 3 ? DELETE : { n: d.n + 1 }), { initial: { n: 0 }, maxAttempts: 100 })),
    );
    const count = (outcome: string): number => outcomes.filter((r) => r.outcome === outcome).length;
    expect(count("created") - count("deleted")).toBe((await file.exists()) ? 1 : 0);
    expect((await state()).names).toEqual((await file.exists()) ? ["settings.json"] : []);
  });

  it("keeps headers, metadata, attributes and creation time when its length changes, and loses a hash that is wrong by then", async () => {
    await put("old");
    await file.setMetadata({ owner: "me" });
    const creationTime = new Date("2020-02-03T04:05:06.789Z");
    await file.setProperties({
      fileHttpHeaders: { fileContentType: "text/x", fileCacheControl: "no-store", fileContentLanguage: "de", fileContentMD5: new Uint8Array(16) },
      fileAttributes: FileSystemAttributes.parse("Hidden|Archive"),
      creationTime,
    });
    for (const content of ["of another length", "OF ANOTHER LENGTH"]) {
      await leasedUpdate(textFile(file), () => content);
      const after = await file.getProperties();
      expect(after).toMatchObject({
        metadata: { owner: "me" },
        contentType: "text/x",
        cacheControl: "no-store",
        contentLanguage: "de",
        fileAttributes: "Hidden | Archive",
        fileCreatedOn: creationTime,
      });
      expect(after.contentMD5).toBeUndefined();
    }
  });

  it.each([
    ["Hidden | Archive", "Hidden|Archive"],
    ["Hidden", "Hidden"],
    ["System | Offline", "System|Offline"],
    ["None", "None"],
  ])("keeps the attributes %s: sends them as %s", async (attributes, sent) => {
    await put("old");
    await file.setProperties({ fileAttributes: sent as never });
    await using proxy = await startFaultProxy(server.url);
    await leasedUpdate(textFile(serviceOf(server, proxy.url).getShareClient(share.name).rootDirectoryClient.getFileClient(file.name)), () => "of another length");
    expect((await file.getProperties()).fileAttributes).toBe(attributes);
    const values = proxy.log.flatMap(({ headers }) => headers["x-ms-file-attributes"] ?? []);
    expect([values.length, new Set(values)]).toEqual([2, new Set([sent])]);
  });

  it("keeps a creation time that has 100 ns", async () => {
    await put("old");
    await file.setProperties({ creationTime: "2020-02-03T04:05:06.1234567Z" as never });
    await leasedUpdate(textFile(file), () => "of another length");
    const { _response } = await file.getProperties();
    expect(_response.headers.get("x-ms-file-creation-time")).toBe("2020-02-03T04:05:06.1234567Z");
  });

  it("does not keep a hash that is wrong, though its length stays", async () => {
    await put("old");
    await file.setHttpHeaders({ fileContentMD5: new Uint8Array(16) });
    await leasedUpdate(textFile(file), () => "new");
    expect((await file.getProperties()).contentMD5).toBeUndefined();
    expect(await contentOf()).toBe("new");
  });

  it("is updated under a lease that the caller holds, which stays", async () => {
    await put("1");
    const lease = await acquireLease(file);
    await leasedUpdate(jsonFile<number>(file), (n) => n + 1, { lease });
    await leasedUpdate(jsonFile<number>(file), (n) => n + 98, { lease });
    lease.assertHeld();
    expect(await state()).toEqual({ names: ["settings.json"], lease: "leased" });
    await lease.release();
    expect(await contentOf()).toBe("100");
    expect(await state()).toEqual(clean);
  });

  it("is updated by concurrent calls under one lease of the caller, one after the other", async () => {
    await put('{"n":0}');
    await file.setMetadata({ n: "0" });
    const grow = (draft: { n: number; text?: string }): void => {
      draft.n++;
      draft.text = `${draft.text ?? ""}text`;
    };
    const lease = await acquireLease(file);
    const updates = Array.from({ length: 5 }, () => [
      leasedUpdate(jsonFile<{ n: number; text?: string }>(file), grow, { lease }),
      leasedUpdate(fileMetadata(file), (metadata) => void (metadata["n"] = String(Number(metadata["n"]) + 1)), { lease }),
    ]);
    await Promise.all(updates.flat());
    await lease.release();
    expect(await contentOf()).toBe(JSON.stringify({ n: 5, text: "text".repeat(5) }));
    expect((await file.getProperties()).metadata).toEqual({ n: "5" });
    expect(await state()).toEqual(clean);
  });

  it("waits for another holder, no longer than it may", async () => {
    await put("1");
    const lease = await acquireLease(file);
    await expect(leasedUpdate(jsonFile(file), () => 2, { waitInMs: 0 })).rejects.toMatchObject({ name: "LeaseUnavailableError" });
    await lease.release();
    expect(await contentOf()).toBe("1");
  });

  it("is written without a lease by overwrite, whole, and not if somebody holds one", async () => {
    await put("a long text");
    const { etag } = await overwrite(textFile(file), "short");
    expect(await readTarget(textFile(file))).toEqual({ value: "short", etag });
    expect(await state()).toEqual(clean);
    await overwrite(textFile(share.rootDirectoryClient.getFileClient("new")), "made");
    const lease = await acquireLease(file);
    await expect(overwrite(textFile(file), "no")).rejects.toMatchObject({ name: "LeaseUnavailableError" });
    await overwrite(textFile(file), "yes", { conditions: lease.conditions });
    await lease.release();
    expect(await contentOf()).toBe("yes");
    expect(await state()).toEqual({ names: ["new", "settings.json"], lease: "available" });
  });

  it("is created by createIfNotExists if it is absent", async () => {
    expect(await createIfNotExists(textFile(file), "a")).toMatchObject({ outcome: "created", value: "a" });
    expect(await createIfNotExists(textFile(file), "b")).toMatchObject({ outcome: "unchanged", value: "a" });
    expect(await state()).toEqual(clean);
  });

  it("is created by exactly one of many", async () => {
    const all = await Promise.all(Array.from({ length: 10 }, (_, i) => createIfNotExists(textFile(file), `content ${i}`)));
    const winners = all.filter(({ outcome }) => outcome === "created");
    expect(winners).toHaveLength(1);
    for (const { value } of all) expect(value).toBe(winners[0]?.value);
    expect(await contentOf()).toBe(winners[0]?.value);
    expect(await state()).toEqual(clean);
  });

  it("is that of the last of many that overwrite it at once, whole", async () => {
    const texts = Array.from({ length: 10 }, (_, i) => String(i).repeat(i * 100 + 1));
    await Promise.all(texts.map((text) => overwrite(textFile(file), text)));
    expect(texts).toContain(await contentOf());
    expect(await state()).toEqual(clean);
  });
});

describe("properties", () => {
  it("update the metadata and the headers of a file, and the metadata of a share", async () => {
    await put("x");
    await file.setHttpHeaders({ fileContentType: "a/b", fileContentMD5: new Uint8Array(16) });
    expect(await leasedUpdate(fileMetadata(file), (m) => ({ ...m, Color: "red" }))).toMatchObject({ value: { color: "red" }, outcome: "updated" });
    await leasedUpdate(fileHttpHeaders(file), (h) => void (h.cacheControl = "no-cache"));
    expect(await file.getProperties()).toMatchObject({ metadata: { color: "red" }, contentType: "a/b", cacheControl: "no-cache", contentMD5: Buffer.alloc(16) });
    await leasedUpdate(shareMetadata(share), (m) => void (m["team"] = "blue"));
    expect((await share.getProperties()).metadata).toEqual({ team: "blue" });
    await overwrite(fileMetadata(file), { a: "b" });
    expect((await readTarget(fileMetadata(file))).value).toEqual({ a: "b" });
  });

  it("cannot be created or deleted", async () => {
    await expect(leasedUpdate(fileMetadata(file), () => ({}), { initial: {} })).rejects.toThrow(/Create the file first/);
    await put("x");
    await expect(leasedUpdate(fileMetadata(file), () => DELETE)).rejects.toThrow(/cannot be deleted/);
    expect((await state()).lease).toBe("available");
  });
});

describe("costs", () => {
  it.each([
    ["of the same length", "abc", "xyz", 4],
    ["of another length", "abc", "abcdef", 7],
    ["that becomes empty", "abc", "", 6],
    ["of 9 MiB", "abc", "x".repeat(9 * 1024 * 1024), 9],
    ["that is unchanged", "abc", "abc", 3],
  ])("a file %s: what the same by hand would", async (_, before, after, requests) => {
    await put(before);
    expect(await requestsOf(() => leasedUpdate(textFile(file), () => after))).toBe(requests);
  });

  it("a new file: a look for it, and three requests to make it", async () => {
    expect(await requestsOf(() => leasedUpdate(textFile(file), () => "x", { initial: "" }))).toBe(4);
    expect(await requestsOf(() => overwrite(textFile(file), "y"))).toBe(3);
    expect(await requestsOf(() => createIfNotExists(textFile(share.rootDirectoryClient.getFileClient(randomUUID())), "y"))).toBe(3);
    expect(await requestsOf(() => leasedUpdate(fileMetadata(file), () => ({ a: "b" })))).toBe(4);
    expect(await requestsOf(() => leasedUpdate(shareMetadata(share), () => ({ a: "b" })))).toBe(4);
    expect(await requestsOf(() => leasedUpdate(textFile(file), () => DELETE))).toBe(4);
  });
});
