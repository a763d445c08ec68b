import { describe, expect, it } from "vitest";
import { z } from "zod";
import { createIfNotExists, jsonBlob, optimisticUpdate, overwrite, readIfChanged, readTarget, tryReadTarget, watch } from "../../src/index.js";
import type { UpdateTarget } from "../../src/index.js";
import type { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import type { FakeService } from "../fakes/fake-service.js";
import { before, loseAnswerForGood } from "../fakes/faults.js";
import { counterBlob } from "../support/counter.js";
import { rejection } from "../support/outcome.js";
import { inFakeTime, useFakeTimers } from "../support/timers.js";

useFakeTimers();

const schema = z.object({
  n: z.coerce.number(),
  level: z.string().default("info"),
  inner: z.object({ a: z.number() }).optional(),
  items: z.array(z.object({ id: z.number() })).optional(),
});
type Document = z.infer<typeof schema>;

function stored(content: object): { service: FakeService; blob: FakeBlockBlob; target: UpdateTarget<Document> } {
  const { service, blob } = counterBlob();
  blob.put(content);
  return { service, blob, target: jsonBlob(blob, { schema }) };
}

describe("the output of a schema", () => {
  it("is what every read returns: defaults and coercions", async () => {
    const { target } = stored({ n: "5" });
    const value = { n: 5, level: "info" };
    expect((await readTarget(target)).value).toEqual(value);
    expect((await tryReadTarget(target))?.value).toEqual(value);
    expect(await readIfChanged(target, '"0x0"')).toMatchObject({ changed: true, value });
    await using states = watch(target);
    expect((await states.next()).value).toMatchObject({ value });
  });

  it("is what a mutator gets, and what is written together with its change", async () => {
    const { blob, target } = stored({ n: "5" });
    const seen: unknown[] = [];
    const result = await optimisticUpdate(target, (draft) => {
      seen.push({ ...draft });
      draft.n++;
    });
    expect(seen).toEqual([{ n: 5, level: "info" }]);
    expect(result).toMatchObject({ outcome: "updated", value: { n: 6, level: "info" } });
    expect(blob.json).toEqual({ n: 6, level: "info" });
  });

  it("is not written by an update that changes nothing", async () => {
    const { service, blob, target } = stored({ n: "5" });
    const { etag } = blob.stored!;
    expect(await optimisticUpdate(target, () => undefined)).toMatchObject({ outcome: "unchanged", etag, value: { n: 5, level: "info" } });
    expect(await optimisticUpdate(target, (draft) => ({ ...draft }))).toMatchObject({ outcome: "unchanged", etag });
    expect(service.count("write")).toBe(0);
    expect(blob.json).toEqual({ n: "5" });
  });

  it("is what each mutator of a batch sees, also after one that left out a property with a default", async () => {
    const { service, blob, target } = stored({ n: "0" });
    const seen: (string | undefined)[] = [];
    await Promise.all(
      [1, 2, 3].map(() =>
        optimisticUpdate(target, (draft) => {
          seen.push(draft.level);
          return { n: draft.n + 1 } as Document;
        }),
      ),
    );
    expect(seen).toEqual(["info", "info", "info"]);
    expect(service.operations).toEqual(["download", "upload"]);
    expect(blob.json).toEqual({ n: 3, level: "info" });
  });

  it("is what a mutator gets after a conflict, of what the other writer stored", async () => {
    const { service, blob, target } = stored({ n: "0" });
    service.next("upload", before(() => blob.putKeeping({ n: "10" })));
    const { value } = await inFakeTime(optimisticUpdate(target, (draft) => { draft.n++; }));
    expect(value).toEqual({ n: 11, level: "info" });
  });

  it("is what an update starts from that gets the result of a read", async () => {
    const { service, blob, target } = stored({ n: "0" });
    const startFrom = await readTarget(target);
    await optimisticUpdate(target, (draft) => { draft.n++; }, { startFrom });
    expect(blob.json).toEqual({ n: 1, level: "info" });
    expect(service.operations).toEqual(["download", "upload"]);
  });

  it("is applied to a value that is created or overwrites another", async () => {
    const { blob, target } = stored({ n: 0 });
    await overwrite(target, { n: 1 } as Document);
    expect(blob.json).toEqual({ n: 1, level: "info" });
    blob.drop();
    expect((await createIfNotExists(target, { n: 2 } as Document)).value).toEqual({ n: 2, level: "info" });
    blob.drop();
    expect((await optimisticUpdate(target, (draft) => { draft.n++; }, { initial: { n: 3 } as Document })).value).toEqual({ n: 4, level: "info" });
    expect(blob.json).toEqual({ n: 4, level: "info" });
  });

  it("is recognised as this write after a lost response", async () => {
    const { service, blob, target } = stored({ n: "0" });
    service.next("upload", loseAnswerForGood);
    expect(await inFakeTime(optimisticUpdate(target, (draft) => { draft.n++; }))).toMatchObject({ attempts: 1, etag: blob.stored?.etag });
    expect(blob.json).toEqual({ n: 1, level: "info" });
  });
});

describe("properties that a schema does not know", () => {
  const content = { n: 1, extra: "x", inner: { a: 1, b: { c: 2 } }, items: [{ id: 1, note: "first" }, { id: 2 }] };

  it("are returned and kept, also in objects and arrays", async () => {
    const { blob, target } = stored(content);
    expect((await readTarget(target)).value).toEqual({ ...content, level: "info" });
    await optimisticUpdate(target, (draft) => { draft.n++; });
    expect(blob.json).toEqual({ ...content, n: 2, level: "info" });
  });

  it("are removed by a mutator that removes them", async () => {
    const { blob, target } = stored(content);
    await optimisticUpdate(target, (draft) => {
      Reflect.deleteProperty(draft, "extra");
      draft.items = [{ id: 3 }];
    });
    expect(blob.json).toEqual({ n: 1, level: "info", inner: content.inner, items: [{ id: 3 }] });
  });

  it.each<[string, (items: { id: number }[]) => { id: number }[]]>([
    ["drops", (items) => items.filter(({ id }) => id > 1)],
    ["sorts", (items) => items.toSorted((a, b) => a.id - b.id)],
    ["changes", (items) => items.map(({ id }) => ({ id: id + 1 }))],
  ])("neither move to another element nor get lost if the schema %s elements of an array: it is refused", async (_, transform) => {
    const { service, blob } = counterBlob();
    blob.put({ items: [{ id: 2, note: "second" }, { id: 1, note: "first" }] });
    const target = jsonBlob(blob, { schema: z.object({ items: z.array(z.object({ id: z.number() })).transform(transform) }) });
    expect(await rejection(readTarget(target))).toBeInstanceOf(TypeError);
    expect(await rejection(optimisticUpdate(target, () => undefined))).toBeInstanceOf(TypeError);
    expect(service.count("upload")).toBe(0);
  });

  const byId = (a: { id: number }, b: { id: number }): number => b.id - a.id;
  it.each<[string, object[], z.ZodType]>([
    [
      "sorts by what it coerces",
      [{ id: "1", x: "A" }, { id: "2", x: "B" }],
      z.array(z.object({ id: z.coerce.number() })).transform((items) => items.toSorted(byId)),
    ],
    [
      "sorts by something nested",
      [{ o: { id: 1 }, x: "A" }, { o: { id: 2 }, x: "B" }],
      z.array(z.object({ o: z.object({ id: z.number() }) })).transform((items) => items.toSorted((a, b) => byId(a.o, b.o))),
    ],
    [
      "sorts items with unknown properties in depth only",
      [{ id: 1, o: { k: 1, h: "A" } }, { id: 2, o: { k: 1, h: "B" } }],
      z.array(z.object({ id: z.number(), o: z.object({ k: z.number() }) })).transform((items) => items.toSorted(byId)),
    ],
    [
      "sorts items with unknown properties in an inner list",
      [{ list: [{ k: 1, h: "A" }] }, { list: [{ k: 2, h: "B" }] }],
      z.array(z.object({ list: z.array(z.object({ k: z.number() })) })).transform((items) => items.toReversed()),
    ],
    [
      "removes duplicates",
      [{ o: { k: 1, h: "A" } }, { o: { k: 1, h: "B" } }],
      z.array(z.object({ o: z.object({ k: z.number() }) })).transform((items) => items.slice(0, 1)),
    ],
    ["replaces items by one of their properties", [{ id: 1, x: "A" }], z.array(z.object({ id: z.number() })).transform((items) => items.map(({ id }) => id))],
  ])("neither move nor get lost if a schema %s: it is refused", async (_, items, list) => {
    const { service, blob } = counterBlob();
    blob.put({ n: 0, items });
    const target = jsonBlob<{ n: number }>(blob, { schema: z.object({ n: z.number(), items: list }) });
    const error = await rejection(optimisticUpdate(target, (draft) => { draft.n++; }));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain("declare them in the schema");
    expect(service.count("upload")).toBe(0);
  });

  it("let a schema rearrange elements that it knows in depth, add defaults and coerce to another text", async () => {
    const { blob } = counterBlob();
    blob.put({ sorted: [{ o: { id: "1" } }, { o: { id: "2" } }], spelled: [{ id: "5.0" }, { id: "6" }], added: [{ id: "7", o: { h: "kept" } }] });
    const item = z.object({ id: z.coerce.number() });
    const target = jsonBlob(blob, {
      schema: z.object({
        sorted: z.array(z.object({ o: item })).transform((items) => items.toSorted((a, b) => byId(a.o, b.o))),
        spelled: z.array(item),
        added: z.array(item.extend({ level: z.string().default("info"), o: z.object({ d: z.number().default(1) }) })),
      }),
    });
    expect((await readTarget(target)).value).toEqual({
      sorted: [{ o: { id: 2 } }, { o: { id: 1 } }],
      spelled: [{ id: 5 }, { id: 6 }],
      added: [{ id: 7, level: "info", o: { d: 1, h: "kept" } }],
    });
  });

  it("let a schema rearrange elements that it knows completely, and keep those of elements that it coerces", async () => {
    const { blob } = counterBlob();
    blob.put({ items: [{ id: 2 }, { id: 1 }], coerced: [{ id: "7", note: "kept" }] });
    const sorted = z.array(z.object({ id: z.number() })).transform((items) => items.toSorted((a, b) => a.id - b.id));
    const target = jsonBlob(blob, { schema: z.object({ items: sorted, coerced: z.array(z.object({ id: z.coerce.number() })) }) });
    expect((await readTarget(target)).value).toEqual({ items: [{ id: 1 }, { id: 2 }], coerced: [{ id: 7, note: "kept" }] });
  });
});

describe("a schema whose output JSON cannot represent", () => {
  const dates = z.object({ at: z.coerce.date() });

  it("is a TypeError that names the class, and nothing is written", async () => {
    const { service, blob } = counterBlob();
    blob.put({ at: "2030-01-01T00:00:00.000Z" });
    const target = jsonBlob(blob, { schema: dates });
    for (const call of [readTarget(target), optimisticUpdate(target, () => undefined), overwrite(target, { at: new Date(0) })]) {
      const error = await rejection(call);
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toContain("Date");
    }
    expect(service.count("write")).toBe(0);
  });
});
