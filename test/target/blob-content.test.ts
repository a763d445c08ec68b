import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { bytesBlob, createIfNotExists, jsonBlob, optimisticUpdate, overwrite, readTarget, SchemaError, textBlob } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { anyText } from "../support/any-text.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";

function blobOf(content: Uint8Array | string): { service: FakeService; blob: FakeBlockBlob } {
  const service = new FakeService();
  const blob = new FakeBlockBlob(service);
  blob.put(typeof content === "string" ? new TextEncoder().encode(content) : content);
  return { service, blob };
}

describe("what an update of the content keeps", () => {
  it("headers, metadata and tags, but not the hash of the old content", async () => {
    const { service, blob } = counterBlob();
    const headers = {
      blobContentType: "application/vnd.x+json",
      blobCacheControl: "max-age=5",
      blobContentEncoding: "identity",
      blobContentLanguage: "de",
      blobContentDisposition: "inline",
    };
    blob.put({ n: 0 }, { headers, metadata: { Owner: "me" }, tags: { a: "1", b: "2" } });
    const { blobContentMD5: oldHash } = blob.stored!.headers;
    await optimisticUpdate<Counter>(blob, increment);
    const { blobContentMD5: newHash, ...rest } = blob.stored!.headers;
    expect(rest).toEqual(headers);
    expect(newHash).not.toEqual(oldHash);
    expect(blob.metadata).toEqual({ owner: "me", asc_journal: expect.any(String) as unknown });
    expect(blob.stored?.tags).toEqual({ a: "1", b: "2" });
    expect(service.operations).toEqual(["download", "getTags", "upload"]);
  });

  it("the tier, if asked to: one set for the blob, not one that it has from its account", async () => {
    const { service, blob } = counterBlob();
    const target = jsonBlob<Counter>(blob, { keepTier: true });
    await optimisticUpdate(target, increment);
    expect(blob.stored?.tier).toBeUndefined();
    blob.stored!.tier = "Cool";
    await optimisticUpdate(target, increment);
    expect(blob.stored?.tier).toBe("Cool");
    expect(service.operations.slice(3)).toEqual(["download", "getProperties", "upload"]);
  });

  it("all of it over several writes of one group", async () => {
    const { blob } = counterBlob();
    blob.put({ n: 0 }, { metadata: { a: "1" }, tags: { t: "1" }, headers: { blobCacheControl: "x" } });
    await Promise.all([1, 2].map(() => optimisticUpdate<Counter>(blob, increment)));
    await optimisticUpdate<Counter>(blob, increment);
    expect(blob.stored).toMatchObject({ metadata: { a: "1" }, tags: { t: "1" }, headers: { blobCacheControl: "x" } });
    expect(blob.json).toEqual({ n: 3 });
  });
});

describe("jsonBlob", () => {
  it("stores any JSON value as it was", async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (value) => {
        const service = new FakeService();
        const blob = new FakeBlockBlob(service);
        await createIfNotExists(jsonBlob(blob), value);
        const expected: unknown = JSON.parse(JSON.stringify(value));
        expect((await readTarget(jsonBlob(blob))).value).toEqual(expected);
        expect((await optimisticUpdate(jsonBlob(blob), () => undefined)).outcome).toBe("unchanged");
      }),
      { numRuns: 50 },
    );
  });

  it("is not polluted by a document with __proto__ keys, and keeps them", async () => {
    const text = '{"__proto__":{"polluted":true},"n":0,"constructor":{"prototype":{"polluted":true}}}';
    const { blob } = blobOf(text);
    const { value } = await optimisticUpdate<Counter>(blob, increment);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect(Object.keys(value)).toContain("__proto__");
    expect(Buffer.from(blob.stored!.content).toString()).toBe(text.replace('"n":0', '"n":1'));
  });

  for (const [what, content] of [
    ["no JSON", "hello"],
    ["nothing", ""],
    ["half a document", '{"n":'],
    ["no UTF-8", new Uint8Array([0x22, 0xff, 0x22])],
  ] as const) {
    it(`refuses a blob that holds ${what}, and leaves it alone`, async () => {
      const { service, blob } = blobOf(content);
      const error = await rejection(optimisticUpdate<Counter>(blob, increment, { initial: { n: 0 } }));
      expect(error).toBeInstanceOf(SchemaError);
      expect(error).toMatchObject({ phase: "read", message: expect.stringContaining(blob.url) as unknown });
      expect(service.operations).toEqual(["download"]);
    });
  }

  it("reads a document with a byte order mark", async () => {
    const { blob } = blobOf('\ufeff{"n":1}');
    expect((await optimisticUpdate<Counter>(blob, increment)).value).toEqual({ n: 2 });
  });

  for (const [what, value] of [
    ["a function", () => undefined],
    ["a symbol", Symbol("x")],
    ["NaN", { n: Number.NaN }],
    ["Infinity", { n: [Number.POSITIVE_INFINITY] }],
    ["a bigint", { n: 5n }],
  ] as const) {
    it(`refuses to store ${what}`, async () => {
      const { service, blob } = counterBlob();
      await expect(optimisticUpdate(blob, () => value)).rejects.toBeInstanceOf(TypeError);
      expect(service.operations).toEqual(["download"]);
    });
  }

  it("stores null and strings that say null", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate(blob, () => ({ a: null, b: "null" }));
    expect(blob.json).toEqual({ a: null, b: "null" });
  });

  it("notices a download that is cut off or was unpacked on its way", async () => {
    const { blob } = counterBlob();
    const download = blob.download.bind(blob);
    vi.spyOn(blob, "download").mockImplementation(async (...args) => ({ ...(await download(...args)), contentLength: 1_000 }));
    expect(await rejection(readTarget(blob))).toBeInstanceOf(SchemaError);
  });

  describe("with a schema", () => {
    const schema = z.object({ n: z.number().max(5) });

    it("refuses what is stored if it does not fit, and writes nothing", async () => {
      const { service, blob } = counterBlob();
      blob.put({ n: "one" });
      const error = await rejection(optimisticUpdate(jsonBlob<{ n: number }>(blob, { schema }), () => ({ n: 1 })));
      expect(error).toBeInstanceOf(SchemaError);
      expect(error).toMatchObject({ phase: "read", issues: [{ path: ["n"] }], message: expect.stringContaining("at n (") as unknown });
      expect(service.operations).toEqual(["download"]);
      expect(await rejection(readTarget(jsonBlob<{ n: number }>(blob, { schema })))).toMatchObject({ phase: "read" });
    });

    it("refuses what is to be stored if it does not fit, of that caller alone", async () => {
      const { service, blob } = counterBlob();
      const target = jsonBlob<{ n: number }>(blob, { schema });
      const [tooMuch, fine] = await Promise.allSettled([optimisticUpdate(target, () => ({ n: 6 })), optimisticUpdate(target, () => ({ n: 5 }))]);
      expect(tooMuch).toMatchObject({ reason: { name: "SchemaError", phase: "write" } });
      expect(fine).toMatchObject({ status: "fulfilled", value: { value: { n: 5 } } });
      expect(service.operations).toEqual(["download", "upload"]);
    });

    it("checks creates, overwrites and initial values", async () => {
      const { service, blob } = counterBlob();
      blob.drop();
      const target = jsonBlob<{ n: number }>(blob, { schema });
      expect(await rejection(createIfNotExists(target, { n: 6 }))).toBeInstanceOf(SchemaError);
      expect(await rejection(overwrite(target, { n: 6 }))).toBeInstanceOf(SchemaError);
      expect(service.count()).toBe(0);
      expect(await rejection(optimisticUpdate(target, () => undefined, { initial: { n: 6 } }))).toBeInstanceOf(SchemaError);
      expect(service.count("write")).toBe(0);
    });

    it("strips and converts nothing: properties that it does not know survive", async () => {
      const { blob } = counterBlob();
      blob.put({ n: 0, extra: { kept: true } });
      const seen: unknown[] = [];
      const { value } = await optimisticUpdate(jsonBlob<{ n: number }>(blob, { schema }), (doc) => {
        seen.push({ ...doc });
        doc.n++;
      });
      expect(seen).toEqual([{ n: 0, extra: { kept: true } }]);
      expect(value).toEqual({ n: 1, extra: { kept: true } });
      expect(blob.json).toEqual({ n: 1, extra: { kept: true } });
    });

    it("may be async", async () => {
      const { blob } = counterBlob();
      const slow = z.object({ n: z.number() }).refine(async ({ n }) => n < 2);
      const target = jsonBlob<{ n: number }>(blob, { schema: slow });
      await optimisticUpdate(target, (doc) => void (doc.n = 1));
      expect(await rejection(optimisticUpdate(target, (doc) => void (doc.n = 2)))).toMatchObject({ phase: "write" });
    });
  });
});

describe("textBlob", () => {
  it("stores any text as it was, byte order mark included", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "grapheme" }), anyText(), async (first, second) => {
        const { blob } = blobOf(`\ufeff${first}`);
        const result = await optimisticUpdate(textBlob(blob), (text) => `${text}${second}`);
        expect(result.value).toBe(`\ufeff${first}${second}`);
        expect(Buffer.from(blob.stored!.content).toString("utf8")).toBe(result.value);
      }),
      { numRuns: 50 },
    );
  });

  it("refuses a blob that is no UTF-8 rather than mend it", async () => {
    const { service, blob } = blobOf(new Uint8Array([0x61, 0xff, 0x62]));
    expect(await rejection(optimisticUpdate(textBlob(blob), (text) => `${text}!`))).toMatchObject({ name: "SchemaError", phase: "read" });
    expect(service.operations).toEqual(["download"]);
  });

  it("refuses what is no string", async () => {
    const { blob } = blobOf("a");
    await expect(optimisticUpdate(textBlob(blob), () => 5 as unknown as string)).rejects.toBeInstanceOf(TypeError);
  });

  it("refuses half a surrogate pair rather than store something else", async () => {
    const { service, blob } = blobOf("a");
    await expect(optimisticUpdate(textBlob(blob), () => "😀".slice(0, 1))).rejects.toBeInstanceOf(TypeError);
    expect(service.count("write")).toBe(0);
    expect((await optimisticUpdate(textBlob(blob), () => "😀")).value).toBe("😀");
  });

  it("may be empty", async () => {
    const { blob } = blobOf("a");
    expect((await optimisticUpdate(textBlob(blob), () => "")).outcome).toBe("updated");
    expect(blob.stored?.content).toHaveLength(0);
    expect((await optimisticUpdate(textBlob(blob), (text) => `${text}b`)).value).toBe("b");
  });
});

describe("bytesBlob", () => {
  it("stores any bytes as they were, changed in place or returned", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array(), fc.uint8Array({ minLength: 1 }), async (first, second) => {
        const { blob } = blobOf(first);
        const target = bytesBlob(blob);
        expect((await readTarget(target)).value).toEqual(first);
        await optimisticUpdate(target, () => second);
        expect(new Uint8Array(blob.stored!.content)).toEqual(second);
        await optimisticUpdate(target, (bytes) => void (bytes[0] = (bytes[0]! + 1) & 0xff));
        expect(blob.stored!.content[0]).toBe((second[0]! + 1) & 0xff);
      }),
      { numRuns: 50 },
    );
  });

  it("takes a Buffer, and keeps no hold of it", async () => {
    const { blob } = blobOf("a");
    const buffer = Buffer.from("hello");
    const { value } = await optimisticUpdate(bytesBlob(blob), () => buffer);
    buffer[0] = 0;
    expect(Buffer.from(value).toString()).toBe("hello");
    expect((await optimisticUpdate(bytesBlob(blob), () => Buffer.from("hello"))).outcome).toBe("unchanged");
  });

  it("carries 8 MiB", async () => {
    const { blob } = blobOf("a");
    const large = new Uint8Array(8 * 1024 * 1024).fill(7);
    await optimisticUpdate(bytesBlob(blob), () => large);
    expect(blob.stored!.content).toHaveLength(large.length);
  });

  it("refuses what is no Uint8Array", async () => {
    const { blob } = blobOf("a");
    await expect(optimisticUpdate(bytesBlob(blob), () => "x" as unknown as Uint8Array)).rejects.toBeInstanceOf(TypeError);
  });
});
