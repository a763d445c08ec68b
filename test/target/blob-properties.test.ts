import { describe, expect, it, vi } from "vitest";
import { blobHttpHeaders, blobMetadata, blobTags, createIfNotExists, optimisticUpdate, DELETE, deleteIfUnchanged, overwrite } from "../../src/index.js";
import { before } from "../fakes/faults.js";
import { counterBlob, increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

describe("blobMetadata", () => {
  it("updates the metadata and nothing else, in two requests", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 5 }, { metadata: { a: "1" }, headers: { blobContentType: "x/y" }, tags: { t: "1" } });
    const result = await optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["b"] = "2"));
    expect(result).toMatchObject({ value: { a: "1", b: "2" }, etag: blob.stored?.etag, outcome: "updated" });
    expect(blob.stored).toMatchObject({ metadata: { a: "1", b: "2" }, headers: { blobContentType: "x/y" }, tags: { t: "1" } });
    expect(blob.json).toEqual({ n: 5 });
    expect(service.operations).toEqual(["getProperties", "setMetadata"]);
  });

  it("shares one journal with the content", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment);
    await optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["b"] = "2"));
    expect(blob.metadata["asc_journal"]).toMatch(/~2~/);
    await optimisticUpdate<Counter>(blob, increment);
    expect(blob.metadata).toMatchObject({ b: "2", asc_journal: expect.stringMatching(/~3~/) as unknown });
  });

  it("keeps the claims of the appenders of an append blob, and does not show them", async () => {
    const { blob } = counterBlob();
    const claims = "1~1a.idOfClaim0002+order-2~0.idOfClaim0001+order-1";
    blob.put({}, { metadata: { a: "1", asc_appends: claims } });
    const replaced = await optimisticUpdate(blobMetadata(blob), () => ({ b: "2" }));
    expect(replaced.value).toEqual({ b: "2" });
    await overwrite(blobMetadata(blob), { c: "3" });
    expect(blob.metadata).toMatchObject({ c: "3", asc_appends: claims });
    const own = await rejection(optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["asc_Appends"] = "mine")));
    expect(own).toBeInstanceOf(TypeError);
    expect(blob.metadata).toMatchObject({ asc_appends: claims });
  });

  it("leaves room for the journal when the claims fill the metadata", async () => {
    const { blob } = counterBlob();
    const operation = `+operation-${"x".repeat(100)}`;
    const entries = Array.from({ length: 60 }, (_, n) => `${(1_000 - n).toString(36)}.idOfClaim${n}${operation}`);
    const claims = ["1", ...entries].join("~");
    blob.put({}, { metadata: { asc_appends: claims } });
    await optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["a"] = "1"));
    const { asc_appends: kept = "", asc_journal: journal } = blob.metadata;
    expect(journal).toMatch(/^1~/);
    expect(kept.length).toBeLessThan(4_096);
    // The newest claims keep their operations, the oldest ones lose them first.
    expect(kept.startsWith(claims.slice(0, 1_000))).toBe(true);
    expect(kept.split("~").length).toBe(61);
  });

  it("keeps claims in a form that it does not know", async () => {
    const { blob } = counterBlob();
    blob.put({}, { metadata: { asc_appends: "2~of a later version" } });
    await optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["a"] = "1"));
    expect(blob.metadata).toMatchObject({ a: "1", asc_appends: "2~of a later version" });
  });

  it("removes an entry that was deleted or set to undefined", async () => {
    const { blob } = counterBlob();
    blob.put({}, { metadata: { a: "1", b: "2", c: "3" } });
    await optimisticUpdate<Record<string, string>>(blobMetadata(blob), (metadata) => {
      delete metadata["a"];
      (metadata as Record<string, unknown>)["b"] = undefined;
    });
    expect(Object.keys(blob.metadata)).toEqual(["c", "asc_journal"]);
  });

  it("gives names back as a reader would read them: in lower case", async () => {
    const { blob } = counterBlob();
    const results = await Promise.all([
      optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["Owner"] = "me")),
      optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["owner"] = `${metadata["owner"] ?? ""}!`)),
    ]);
    expect(results.map(({ value }) => value)).toEqual([{ owner: "me" }, { owner: "me!" }]);
    expect(blob.metadata["owner"]).toBe("me!");
  });

  it("refuses two values under names that the service treats as one", async () => {
    const { service, blob } = counterBlob();
    const error = await rejection(
      optimisticUpdate(blobMetadata(blob), (metadata) => {
        metadata["abc"] = "2";
        metadata["Abc"] = "1";
      }),
    );
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain('"Abc"');
    expect(service.count("write")).toBe(0);
    await optimisticUpdate(blobMetadata(blob), () => ({ abc: "1", ABC: "1" }));
    expect(blob.metadata["abc"]).toBe("1");
  });

  it("refuses the name __proto__, which the SDK does not return", async () => {
    const { service, blob } = counterBlob();
    const metadata = JSON.parse('{"a":"1","__proto__":"2"}') as Record<string, string>;
    await expect(optimisticUpdate(blobMetadata(blob), () => metadata)).rejects.toThrow(TypeError);
    expect(service.operations).toEqual(["getProperties"]);
  });

  it("refuses values that are no strings", async () => {
    const { service, blob } = counterBlob();
    await expect(optimisticUpdate(blobMetadata(blob), () => ({ a: 5 }) as never)).rejects.toBeInstanceOf(TypeError);
    await expect(optimisticUpdate(blobMetadata(blob), () => "a" as never)).rejects.toBeInstanceOf(TypeError);
    expect(service.count("write")).toBe(0);
  });

  it("notices a race", async () => {
    const { service, blob } = counterBlob();
    service.next("setMetadata", before(() => blob.put({ n: 0 }, { metadata: { count: "10" } })));
    const count = (metadata: Record<string, string>): void => {
      metadata["count"] = String(Number(metadata["count"] ?? 0) + 1);
    };
    const result = await inFakeTime(optimisticUpdate(blobMetadata(blob), count));
    expect(result).toMatchObject({ value: { count: "11" }, attempts: 2 });
  });

  it("keeps the journal of others if it writes none", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate<Counter>(blob, increment);
    const journal = blob.metadata["asc_journal"];
    await optimisticUpdate(blobMetadata(blob), (metadata) => void (metadata["b"] = "2"), { journal: false });
    expect(blob.metadata).toEqual({ b: "2", asc_journal: journal });
  });
});

describe("blobHttpHeaders", () => {
  it("updates the headers, and keeps the others and the hash of the content", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { headers: { blobContentType: "text/plain", blobContentLanguage: "de" }, metadata: { a: "1" } });
    const hash = blob.stored!.headers.blobContentMD5;
    const result = await optimisticUpdate(blobHttpHeaders(blob), (headers) => {
      headers.cacheControl = "no-store";
      headers.contentLanguage = undefined;
    });
    expect(result.value).toEqual({ contentType: "text/plain", cacheControl: "no-store" });
    expect(blob.stored?.headers).toEqual({ blobContentType: "text/plain", blobCacheControl: "no-store", blobContentMD5: hash });
    expect(blob.metadata).toEqual({ a: "1" });
    expect(service.operations).toEqual(["getProperties", "setHTTPHeaders"]);
  });

  it("refuses headers that it cannot set", async () => {
    const { service, blob } = counterBlob();
    await expect(optimisticUpdate(blobHttpHeaders(blob), () => ({ contentMD5: "x" }) as never)).rejects.toThrow(/contentMD5/);
    expect(service.count("write")).toBe(0);
  });
});

describe("blobTags", () => {
  it("updates the tags under a condition on what was read, and leaves the ETag of the blob", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { tags: { b: "2", a: "1" } });
    const { etag } = blob.stored!;
    const setTags = vi.spyOn(blob, "setTags");
    const result = await optimisticUpdate(blobTags(blob), (tags) => void (tags["a"] = "3"));
    expect(setTags.mock.calls[0]![1]?.conditions).toEqual({ tagConditions: `"a" = '1' AND "b" = '2'` });
    expect(result.value).toEqual({ a: "3", b: "2" });
    expect(blob.stored).toMatchObject({ tags: { a: "3", b: "2" }, etag });
    expect(service.operations).toEqual(["getTags", "setTags"]);
  });

  it("notices that a tag was changed in between", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { tags: { count: "1" } });
    service.next("setTags", before(() => (blob.stored!.tags = { count: "10" })));
    const result = await inFakeTime(optimisticUpdate(blobTags(blob), (tags) => void (tags["count"] = String(Number(tags["count"]) + 1))));
    expect(result).toMatchObject({ value: { count: "11" }, attempts: 2 });
  });

  it("gives a caller whose tags have been superseded an ETag that never matches: no write, not even a request for one", async () => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0 }, { tags: { a: "0" } });
    const target = blobTags(blob);
    const [first, second] = await Promise.all(["1", "2"].map((value) => optimisticUpdate(target, (tags) => void (tags["a"] = value))));
    expect(first!.etag).not.toBe(second!.etag);
    const writes = service.count("setTags");
    const conflict = { name: "ConflictError" };
    expect(await rejection(overwrite(target, { a: "mine" }, { ifMatch: first!.etag }))).toMatchObject(conflict);
    expect(await rejection(optimisticUpdate(target, (tags) => void (tags["a"] = "mine"), { ifMatch: first!.etag }))).toMatchObject(conflict);
    blob.stored!.tags = {};
    expect(await rejection(overwrite(target, { a: "mine" }, { ifMatch: first!.etag }))).toMatchObject(conflict);
    expect(service.count("setTags")).toBe(writes);
    expect(blob.stored!.tags).toEqual({});
  });

  it("sets the first tags of a blob that had none", async () => {
    const { blob } = counterBlob();
    await optimisticUpdate(blobTags(blob), (tags) => void (tags["a"] = "1"));
    expect(blob.stored?.tags).toEqual({ a: "1" });
  });
});

for (const target of [blobMetadata, blobHttpHeaders, blobTags]) {
  describe(target.name, () => {
    it("belongs to a blob that exists: it can be neither created nor removed", async () => {
      const { service, blob } = counterBlob();
      const any = target(blob) as ReturnType<typeof blobMetadata>;
      await expect(optimisticUpdate(any, () => DELETE)).rejects.toBeInstanceOf(TypeError);
      await expect(deleteIfUnchanged(any, '"x"')).rejects.toBeInstanceOf(TypeError);
      blob.drop();
      expect(await rejection(optimisticUpdate(any, () => undefined))).toMatchObject({ name: "TargetNotFoundError" });
      await expect(optimisticUpdate(any, () => undefined, { initial: {} })).rejects.toBeInstanceOf(TypeError);
      await expect(createIfNotExists(any, {})).rejects.toBeInstanceOf(TypeError);
      expect(service.count("write")).toBe(0);
    });
  });
}
