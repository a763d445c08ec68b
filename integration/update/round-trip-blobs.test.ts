import { createHash, randomBytes } from "node:crypto";

import type { ContainerClient } from "@azure/storage-blob";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";

import { blobHttpHeaders, blobMetadata, blobTags, bytesBlob, createIfNotExists, jsonBlob, optimisticUpdate, overwrite, readTarget, textBlob } from "../../src/index.js";
import { freshContainer } from "../support/clients.js";

let container: ContainerClient;
let blobs = 0;

beforeAll(async () => {
  container = await freshContainer();
});

const md5Of = (text: string): Uint8Array => new Uint8Array(createHash("md5").update(text).digest());

const nextBlob = () => container.getBlockBlobClient(`blob${blobs++}`);

const visible = fc.stringMatching(/^[!-~]([ -~]{0,30}[!-~])?$/);
const headerSets = fc.record(
  {
    blobContentType: fc.constantFrom("application/json; charset=utf-8", "text/plain", "application/vnd.x+json"),
    blobCacheControl: fc.constantFrom("no-store", "max-age=60, public"),
    blobContentEncoding: fc.constantFrom("identity", "x-own"),
    blobContentLanguage: fc.constantFrom("de", "en-GB"),
    blobContentDisposition: fc.constantFrom("inline", 'attachment; filename="a b.json"'),
  },
  { requiredKeys: ["blobContentType"] },
);
const metadataSets = fc.dictionary(fc.stringMatching(/^[a-z_][a-z0-9_]{0,15}$/).filter((name) => name !== "__proto__"), visible, {
  maxKeys: 6,
  noNullPrototype: true,
});
const tagSets = fc.dictionary(
  fc.stringMatching(/^[A-Za-z0-9+\-./:=_]{1,20}$/).filter((name) => name !== "__proto__"), // which the SDK loses
  fc.stringMatching(/^[A-Za-z0-9+\-./:=_]{1,20}$/), // Azurite does not take empty ones in Set Blob Tags
  { maxKeys: 5, noNullPrototype: true },
);

describe("an update of a blob's content", () => {
  it("keeps headers, metadata, tags and tier", async () => {
    const tiers = fc.constantFrom("Hot", "Cool", undefined);
    await fc.assert(
      fc.asyncProperty(headerSets, metadataSets, tagSets, tiers, async (blobHTTPHeaders, metadata, tags, tier) => {
        const blob = nextBlob();
        await blob.upload('{"n":1}', 7, { blobHTTPHeaders, metadata, tags, ...(tier && { tier }) });
        const before = await blob.getProperties();
        await optimisticUpdate(jsonBlob<{ n: number }>(blob, { keepTier: true }), (doc) => { doc.n++; });
        const after = await blob.getProperties();
        const { asc_journal: journal, ...own } = after.metadata ?? {};
        expect(journal).toBeDefined();
        expect(own).toEqual(metadata);
        for (const name of ["contentType", "cacheControl", "contentEncoding", "contentLanguage", "contentDisposition"] as const) {
          expect(after[name], name).toBe(before[name]);
        }
        expect((await blob.getTags()).tags).toEqual(tags);
        expect([after.accessTier, after.accessTierInferred]).toEqual([before.accessTier, before.accessTierInferred]);
        expect((await blob.downloadToBuffer()).toString()).toBe('{"n":2}');
      }),
      { numRuns: 30, seed: 1 },
    );
  });

  it("does not keep the hash of the old content", async () => {
    const blob = nextBlob();
    await blob.upload("old", 3, { blobHTTPHeaders: { blobContentMD5: md5Of("old") } });
    await optimisticUpdate(textBlob(blob), () => "new");
    const { contentMD5 } = await blob.getProperties();
    expect(contentMD5 && Buffer.from(contentMD5)).not.toEqual(Buffer.from(md5Of("old")));
  });

  it("gives back any JSON document", async () => {
    const documents = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
    await fc.assert(
      fc.asyncProperty(documents, documents, async (first, second) => {
        const target = jsonBlob(nextBlob(), { allowKindChange: true });
        expect((await createIfNotExists(target, first)).value).toEqual(first);
        expect((await readTarget(target)).value).toEqual(first);
        // A mutator that returns null or a primitive value means just that value; undefined is not JSON.
        expect((await optimisticUpdate(target, () => ({ second }))).value).toEqual({ second });
        expect((await readTarget(target)).value).toEqual({ second });
      }),
      { numRuns: 40, seed: 1 },
    );
  });

  it("keeps the digits of numbers that JavaScript cannot hold", async () => {
    const blob = nextBlob();
    const text = '{"n":1,"id":1234567890123456789,"huge":1e400,"price":1.50}';
    await blob.upload(text, text.length);
    await optimisticUpdate<{ n: number }>(blob, (doc) => { doc.n++; });
    expect((await blob.downloadToBuffer()).toString()).toBe(text.replace('"n":1', '"n":2'));
  });

  it("keeps __proto__ a mere name", async () => {
    const blob = nextBlob();
    const text = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}},"n":1}';
    await blob.upload(text, text.length);
    const { value } = await optimisticUpdate<{ n: number }>(blob, (doc) => { doc.n++; });
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect((value as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect((await blob.downloadToBuffer()).toString()).toBe(text.replace('"n":1', '"n":2'));
    expect(await optimisticUpdate(jsonBlob(blob), () => JSON.parse(text.replace('"n":1', '"n":2')) as unknown)).toMatchObject({ outcome: "unchanged" });
    expect(await optimisticUpdate(jsonBlob(blob), () => ({ n: 2 }))).toMatchObject({ outcome: "updated" });
  });

  it("gives back any text", async () => {
    const texts = fc.oneof(fc.constantFrom("", "\ufeffBOM", "\u0000", "\r\n", "😀"), fc.string({ unit: "grapheme", maxLength: 100 }));
    await fc.assert(
      fc.asyncProperty(texts, texts, async (first, second) => {
        const target = textBlob(nextBlob());
        await createIfNotExists(target, first);
        expect((await readTarget(target)).value).toBe(first);
        const { outcome } = await optimisticUpdate(target, () => second);
        expect(outcome).toBe(first === second ? "unchanged" : "updated");
        expect((await readTarget(target)).value).toBe(second);
      }),
      { numRuns: 40, seed: 1 },
    );
  });

  it("gives back any bytes", async () => {
    const bytes = fc.uint8Array({ maxLength: 2_000 }).map((array) => Uint8Array.from(array));
    await fc.assert(
      fc.asyncProperty(bytes, bytes, async (first, second) => {
        const target = bytesBlob(nextBlob());
        await createIfNotExists(target, first);
        await optimisticUpdate(target, (found) => {
          expect(found).toEqual(first);
          return second;
        });
        expect((await readTarget(target)).value).toEqual(second);
      }),
      { numRuns: 30, seed: 1 },
    );
  });

  it("takes it from empty to 8 MiB and back", async () => {
    const blob = nextBlob();
    const target = bytesBlob(blob);
    const large = new Uint8Array(randomBytes(8 * 1024 * 1024));
    await createIfNotExists(target, new Uint8Array());
    await optimisticUpdate(target, () => large);
    expect(Buffer.compare((await readTarget(target)).value, large)).toBe(0);
    await optimisticUpdate(target, (bytes) => { bytes[5] = bytes[5]! ^ 0xff; });
    large[5] = large[5]! ^ 0xff;
    expect(Buffer.compare(await blob.downloadToBuffer(), large)).toBe(0);
    await optimisticUpdate(target, () => new Uint8Array());
    expect((await readTarget(target)).value).toHaveLength(0);
  });

  it("finds the blob by its name, whatever characters that has", async () => {
    const names = fc
      .oneof(
        fc.constantFrom("a b", "a+b", "a%20b", "100%", "#1", "what?", "it's", "ä/ö", "日本", "😀", "a&b=c", "[x]", "a~b", "a;b,c", "@", "a:b"),
        fc.stringMatching(/^[a-z0-9 %+#?&='()!~,;@$^_-]{1,30}$/),
      )
      .filter((name) => name.trim() === name);
    await fc.assert(
      fc.asyncProperty(names, async (name) => {
        const blob = container.getBlockBlobClient(name);
        await overwrite(jsonBlob(blob), { n: 1 });
        const { value } = await optimisticUpdate<{ n: number }>(blob, (doc) => { doc.n++; });
        expect(value).toEqual({ n: 2 });
        expect((await container.getBlockBlobClient(name).downloadToBuffer()).toString()).toBe('{"n":2}');
      }),
      { numRuns: 40, seed: 1 },
    );
  });
});

describe("an update of what a blob has besides its content", () => {
  it("gives back any metadata, and leaves the rest alone", async () => {
    await fc.assert(
      fc.asyncProperty(headerSets, metadataSets, metadataSets, tagSets, async (blobHTTPHeaders, first, second, tags) => {
        const blob = nextBlob();
        await blob.upload("content", 7, { blobHTTPHeaders, metadata: first, tags });
        const before = await blob.getProperties();
        expect((await readTarget(blobMetadata(blob))).value).toEqual(first);
        await optimisticUpdate(blobMetadata(blob), () => second);
        expect((await readTarget(blobMetadata(blob))).value).toEqual(second);
        expect(await blob.getProperties()).toMatchObject({ contentType: before.contentType, contentLength: 7 });
        expect((await blob.getTags()).tags).toEqual(tags);
      }),
      { numRuns: 20, seed: 1 },
    );
  });

  it("gives back any headers, and leaves the rest alone, the hash of the content included", async () => {
    const blob = nextBlob();
    const md5 = md5Of("content");
    await blob.upload("content", 7, {
      blobHTTPHeaders: { blobContentType: "text/plain", blobCacheControl: "no-store", blobContentMD5: md5 },
      metadata: { a: "b" },
      tags: { c: "d" },
    });
    await optimisticUpdate(blobHttpHeaders(blob), (headers) => {
      headers.contentLanguage = "de";
      headers.cacheControl = undefined;
    });
    expect((await readTarget(blobHttpHeaders(blob))).value).toEqual({ contentType: "text/plain", contentLanguage: "de" });
    const after = await blob.getProperties();
    expect(Buffer.from(after.contentMD5!)).toEqual(Buffer.from(md5));
    expect(after.metadata).toEqual({ a: "b" });
    expect((await blob.getTags()).tags).toEqual({ c: "d" });
  });

  it("gives back any tags, and leaves the rest alone", async () => {
    await fc.assert(
      fc.asyncProperty(metadataSets, tagSets, tagSets, async (metadata, first, second) => {
        const blob = nextBlob();
        await blob.upload("content", 7, { metadata, tags: first });
        expect((await readTarget(blobTags(blob))).value).toEqual(first);
        await optimisticUpdate(blobTags(blob), () => second);
        expect((await blob.getTags()).tags).toEqual(second);
        expect((await blob.getProperties()).metadata ?? {}).toEqual(metadata);
      }),
      { numRuns: 20, seed: 1 },
    );
  });
});
