import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { createIfNotExists, encodedBlob, jsonBlob, jsonFile, optimisticUpdate, overwrite, readTarget, tableEntity } from "../../src/index.js";
import { adapterOf } from "../../src/target/target.js";
import type { Codec, FileLike } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { FakeTable } from "../fakes/fake-table.js";
import { notFaked } from "../support/not-faked.js";
import { rejection } from "../support/outcome.js";

function blobOf(text: string): { service: FakeService; blob: FakeBlockBlob; text: () => string } {
  const service = new FakeService();
  const blob = new FakeBlockBlob(service);
  blob.put(new TextEncoder().encode(text));
  return { service, blob, text: () => Buffer.from(blob.stored!.content).toString() };
}

interface Doc {
  n: number;
  [name: string]: unknown;
}
const increment = (doc: Doc): void => {
  doc.n++;
};

describe("a number that a mutator does not touch", () => {
  for (const literal of [
    "1234567890123456789",
    "-1234567890123456789",
    "12345678901234567890123",
    "0.12345678901234567890123",
    "1e400",
    "-1e400",
    "1e-400",
    "-0",
    "-0.0",
    "1.0",
    "1.50",
    "0.30000000000000004",
    "1e2",
    "1E+2",
    "100000000000000000000000",
    "9007199254740993",
    "-9999999999999999",
  ]) {
    it(`keeps its digits: ${literal}`, async () => {
      const { blob, text } = blobOf(`{"n":0,"id":${literal},"list":[{"id":${literal}}]}`);
      await optimisticUpdate<Doc>(blob, increment);
      await optimisticUpdate<Doc>(blob, increment);
      expect(text()).toBe(`{"n":2,"id":${literal},"list":[{"id":${literal}}]}`);
    });
  }

  it("keeps its digits over the mutators of one batch, and in a document that is a single number", async () => {
    const { blob, text } = blobOf('{ "n": 0, "id": 1234567890123456789 }');
    await Promise.all([1, 2, 3].map(() => optimisticUpdate<Doc>(blob, increment)));
    expect(text()).toBe('{"n":3,"id":1234567890123456789}');
    const single = blobOf("1234567890123456789");
    expect((await optimisticUpdate(single.blob, () => undefined)).outcome).toBe("unchanged");
  });

  it("is unchanged for an update that changes nothing", async () => {
    const { service, blob } = blobOf('{"n":0, "id":1234567890123456789, "one":1.0}');
    expect((await optimisticUpdate<Doc>(blob, (doc) => ({ ...doc }))).outcome).toBe("unchanged");
    expect(service.count("write")).toBe(0);
  });

  it("keeps its digits if its object is moved, sorted or copied", async () => {
    const { blob, text } = blobOf('{"n":0,"list":[{"id":1234567890123456789,"k":2},{"id":1234567890123456790,"k":1}]}');
    await optimisticUpdate<Doc & { list: { id: number; k: number }[] }>(blob, (doc) => {
      doc.list.sort((a, b) => a.k - b.k);
      doc.list.unshift({ id: 7, k: 0 });
    });
    expect(text()).toBe('{"n":0,"list":[{"id":7,"k":0},{"id":1234567890123456790,"k":1},{"id":1234567890123456789,"k":2}]}');
    const { blob: other, text: otherText } = blobOf('{"n":0,"a":1234567890123456789,"b":1234567890123456790}');
    await optimisticUpdate<Doc>(other, (doc) => ({ ...doc, n: 1 }));
    expect(otherText()).toBe('{"n":1,"a":1234567890123456789,"b":1234567890123456790}');
  });

  it("keeps its digits if it is copied to another place, and no other number looks the same", async () => {
    const { blob, text } = blobOf('{"n":0,"list":[1234567890123456789,5]}');
    await optimisticUpdate<Doc & { list: number[] }>(blob, (doc) => {
      doc["last"] = doc.list.shift();
    });
    expect(text()).toBe('{"n":0,"list":[5],"last":1234567890123456789}');
  });

  it("is an error that names its place if it cannot be told which stored number it was", async () => {
    const { service, blob } = blobOf('{"n":0,"list":[1234567890123456789,1234567890123456790]}');
    const error = await rejection(optimisticUpdate<Doc & { list: number[] }>(blob, (doc) => void doc.list.shift()));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain("list[0]");
    expect(service.count("write")).toBe(0);
    // In the same places they are what they were.
    expect((await optimisticUpdate<Doc>(blob, increment)).outcome).toBe("updated");
  });

  it("is another number once the mutator assigns one", async () => {
    const { blob, text } = blobOf('{"n":1.0,"id":1234567890123456789,"big":1e400}');
    await optimisticUpdate<Doc>(blob, (doc) => {
      doc.n = 2;
      doc["id"] = 5;
      delete doc["big"];
    });
    expect(text()).toBe('{"n":2,"id":5}');
  });

  it("keeps its digits under a schema", async () => {
    const schema = z.object({ n: z.number(), list: z.array(z.object({ id: z.number() })), level: z.string().default("info") });
    const { blob, text } = blobOf('{"n":1.0,"list":[{"id":1234567890123456789}],"other":12345678901234567891}');
    await optimisticUpdate(jsonBlob<z.infer<typeof schema>>(blob, { schema }), (doc) => void (doc.level = "debug"));
    expect(text()).toBe('{"n":1.0,"list":[{"id":1234567890123456789}],"level":"debug","other":12345678901234567891}');
  });

  it("survives in any document: strings that look like numbers, escapes, spaces", async () => {
    const numbers = fc.constantFrom("1234567890123456789", "1e400", "-0", "1.0", "5", "1.5e-7", "0.1");
    const strings = fc.oneof(fc.string(), fc.constantFrom(":1e5", "[1.0,", '\\"', '\\\\",1e9')).map((text) => JSON.stringify(text));
    const { document } = fc.letrec<{ document: string }>((tie) => ({
      document: fc.oneof(
        { maxDepth: 3 },
        numbers,
        strings,
        fc.array(tie("document"), { maxLength: 3 }).map((items) => `[ ${items.join(" , ")} ]`),
        fc.array(fc.tuple(fc.uuid(), tie("document")), { maxLength: 3 }).map((members) => `{${members.map(([name, value]) => `"${name}" :\n${value}`).join(",")}}`),
      ),
    }));
    await fc.assert(
      fc.asyncProperty(document, async (inner) => {
        const { blob, text } = blobOf(`{"n":0,"inner":${inner}}`);
        await optimisticUpdate<Doc>(blob, increment);
        const [before, after] = [`{"n":1,"inner":${inner}}`, text()];
        const numbersOf = (json: string): string[] => [...json.replace(/"(?:[^"\\]|\\.)*"/g, "s").matchAll(/-?\d[\d.eE+-]*/g)].map(([n]) => n);
        expect(numbersOf(after)).toEqual(numbersOf(before));
        expect(JSON.parse(after)).toEqual(JSON.parse(before));
      }),
      { numRuns: 200 },
    );
  });

  it.each([
    ["an object", '{"n":0,"a":12345678901234567891,"b":12345678901234567000}'],
    ["a list of objects", '{"n":0,"list":[{"id":90071992547409931},{"id":90071992547409940}]}'],
    ["a list", '{"n":0,"list":[12345678901234567891,12345678901234567000,12345678901234567000.0]}'],
    ["a zero", '{"n":0,"tiny":1e-400,"zero":0,"minus":-0}'],
    ["members of the same name", '{"n":0,"a":{"b":{"c":1.0}},"a":null}', '{"n":1,"a":null}'],
    ["a member of the same name that is a number", '{"n":0,"a":{"b":1.0},"a":2.0,"a":{"c":[3.0]}}', '{"n":1,"a":{"c":[3.0]}}'],
  ])("does not get the digits of another one that JavaScript cannot tell apart: %s", async (_, stored, expected = stored.replace('"n":0', '"n":1')) => {
    const { blob, text } = blobOf(stored);
    await optimisticUpdate<Doc>(blob, increment);
    expect(text()).toBe(expected);
    const copied = blobOf(stored);
    await optimisticUpdate<Doc>(copied.blob, (doc) => ({ ...doc, n: 1 }));
    expect(copied.text()).toBe(expected);
  });

  it("gives its digits neither to a number that the mutator computes nor, in another place, to one that is stored with other digits", async () => {
    const { blob, text } = blobOf('{"n":-1,"tiny":1e-400,"zero":0}');
    await optimisticUpdate<Doc>(blob, increment);
    expect(text()).toBe('{"n":0,"tiny":1e-400,"zero":0}');
    const { service, blob: other } = blobOf('{"n":0,"list":[12345678901234567891,12345678901234567000]}');
    const error = await rejection(optimisticUpdate<Doc & { list: number[] }>(other, (doc) => void doc.list.shift()));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain("list[0]");
    expect(service.count("write")).toBe(0);
  });

  for (const [what, stored, mutator, place] of [
    ["shifted within a list that keeps its length", '{"n":0,"ids":[12345678901234567891,12345678901234567892,7]}', (doc: Doc) => {
      (doc["ids"] as number[]).shift();
      (doc["ids"] as number[]).push(9);
    }, "ids[0]"],
    ["copied over another", '{"n":0,"current":12345678901234567891,"next":12345678901234567892}', (doc: Doc) => {
      doc["current"] = doc["next"];
      doc["next"] = 5;
    }, "current"],
    ["copied over another in a new object", '{"n":0,"current":12345678901234567891,"next":12345678901234567892}', (doc: Doc) => ({ ...doc, current: doc["next"], next: 5 }), "current"],
    ["copied over another in an object of a list", '{"n":0,"list":[{"id":12345678901234567891},{"id":12345678901234567892}]}', (doc: Doc) => {
      const list = doc["list"] as { id: number }[];
      list[0]!.id = list.pop()!.id;
    }, "list[0].id"],
    ["that JavaScript takes for a whole one, moved within a list", '{"n":0,"l":[1700000000000.0000001,5]}', (doc: Doc) => void (doc["l"] as number[]).unshift(3), "l[1]"],
    ["that JavaScript takes for a whole one, renamed", '{"n":0,"a":1700000000000.0000001}', (doc: Doc) => {
      doc["b"] = doc["a"];
      delete doc["a"];
    }, "b"],
  ] as const) {
    it(`is an error if it cannot be told which stored number it was: ${what}`, async () => {
      const { service, blob } = blobOf(stored);
      const error = await rejection(optimisticUpdate<Doc>(blob, mutator));
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toContain(`at ${place} `);
      expect(service.count("write")).toBe(0);
      expect((await optimisticUpdate<Doc>(blob, increment)).outcome).toBe("updated");
    });
  }

  it("may be computed as long as the stored one that looks the same is in its place", async () => {
    const { blob, text } = blobOf('{"n":0,"rate":1.00000000000000000001,"ids":[12345678901234567891,12345678901234567892]}');
    await optimisticUpdate<Doc>(blob, increment);
    expect(text()).toBe('{"n":1,"rate":1.00000000000000000001,"ids":[12345678901234567891,12345678901234567892]}');
  });

  it("is found in a document with a string of many megabytes", async () => {
    const { blob, text } = blobOf(`{"n":0,"long":"${'x\\"'.repeat(5_000_000)}","id":1234567890123456789}`);
    await optimisticUpdate<Doc>(blob, increment);
    expect(text().slice(-27)).toBe('","id":1234567890123456789}'.slice(-27));
  });
});

describe("what JSON cannot represent", () => {
  class Point {
    x = 1;
  }
  for (const [what, value] of [
    ["a Map", new Map([["a", 1]])],
    ["a Set", new Set([1])],
    ["a RegExp", /x/],
    ["an object of a class", new Point()],
    ["a Uint8Array", new Uint8Array(2)],
    ["a function", () => 1],
    ["a symbol", Symbol("s")],
    ["a bigint", 5n],
    ["NaN", Number.NaN],
    ["Infinity", Number.POSITIVE_INFINITY],
    ["an invalid date", new Date(Number.NaN)],
    ["an empty place of a list", [, 1]],
  ] as const) {
    it(`is refused with its place: ${what}`, async () => {
      for (const stored of ['{"n":0,"list":[{}]}', '{"n":0,"list":[{}],"id":1234567890123456789}']) {
        const { service, blob } = blobOf(stored);
        const error = await rejection(optimisticUpdate<Doc & { list: Record<string, unknown>[] }>(blob, (doc) => void (doc.list[0]!["deep"] = value)));
        expect(error).toBeInstanceOf(TypeError);
        expect(error.message).toContain("list[0].deep");
        const returned = await rejection(optimisticUpdate<Doc>(blob, (doc) => ({ ...doc, deep: value })));
        expect(returned).toBeInstanceOf(TypeError);
        expect(returned.message).toMatch(/at deep\b/);
        expect(await rejection(overwrite(jsonBlob(blob), { deep: value }))).toBeInstanceOf(TypeError);
        expect(service.count("write")).toBe(0);
      }
    });
  }

  it("is refused at any depth that the engine can write", async () => {
    for (let depth = 500; depth <= 8_000; depth += 500) {
      const { blob, text } = blobOf('{"n":0}');
      let value: unknown = new Map([[1, 2]]);
      for (let i = 0; i < depth; i++) value = [value];
      expect(["TypeError", "RangeError"]).toContain((await rejection(optimisticUpdate<Doc>(blob, (doc) => void (doc["deep"] = value)))).name);
      expect(text()).toBe('{"n":0}');
    }
  });

  it("is refused even where it would be stored as what was there before", async () => {
    const { blob } = blobOf('{"n":0,"set":{}}');
    expect(await rejection(optimisticUpdate<Doc>(blob, (doc) => void (doc["set"] = new Set([1]))))).toBeInstanceOf(TypeError);
  });

  it("a cycle is a TypeError, too", async () => {
    for (const stored of ['{"n":0}', '{"n":0,"id":1234567890123456789}']) {
      const { blob } = blobOf(stored);
      expect(await rejection(optimisticUpdate<Doc>(blob, (doc) => void (doc["self"] = doc)))).toBeInstanceOf(TypeError);
    }
  });

  it("does not concern dates, other objects with toJSON, objects without a prototype and undefined", async () => {
    const { blob, text } = blobOf('{"n":0,"gone":1}');
    const money = { toJSON: () => "5 EUR" };
    const bare = Object.assign(Object.create(null) as object, { a: 1 });
    await optimisticUpdate<Doc>(blob, (doc) => {
      Object.assign(doc, { at: new Date(0), money, bare, gone: undefined });
    });
    expect(text()).toBe('{"n":0,"at":"1970-01-01T00:00:00.000Z","money":"5 EUR","bare":{"a":1}}');
  });
});

describe("a mutator that changes its draft and returns another value", () => {
  it("is an error, and nothing is written", async () => {
    const { service, blob } = blobOf('{"n":0,"list":[]}');
    const target = jsonBlob<Doc & { list: number[] }>(blob);
    const both = "changed its draft and returned another value";
    expect((await rejection(optimisticUpdate(target, ((doc: { list: number[] }) => doc.list.push(1)) as never))).message).toContain(both);
    expect((await rejection(optimisticUpdate(target, ((doc: Doc) => doc.n++) as never))).message).toContain(both);
    const error = await rejection(
      optimisticUpdate(target, async (doc) => {
        doc.n = 1;
        return { n: 2, list: [] };
      }),
    );
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain(both);
    expect(service.count("write")).toBe(0);
  });

  it("is not said of a draft with too many levels to be encoded, whose mutator left it as it is", async () => {
    const levels = 20_000;
    const { service, blob } = blobOf(`${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`);
    const error = await rejection(optimisticUpdate<Doc>(blob, () => ({ n: 1 })));
    expect(error.message).toContain("nested too deeply");
    expect(service.count("write")).toBe(0);
  });

  it("may return the draft itself, or delete the target", async () => {
    const { blob } = blobOf('{"n":0}');
    const { value } = await optimisticUpdate<Doc>(blob, (doc) => {
      doc.n = 1;
      return doc;
    });
    expect(value).toEqual({ n: 1 });
  });

  it("may return another value if it leaves the draft as it is, whatever the spelling of what is stored", async () => {
    const { blob, text } = blobOf('{ "n": 1.0, "b": [1, 2] }');
    await optimisticUpdate<Doc>(blob, (doc) => ({ ...doc, n: 5 }));
    expect(text()).toBe('{"n":5,"b":[1,2]}');
    const loose: Codec<{ n: number }> = {
      decode: (bytes) => ({ n: Number(new TextDecoder().decode(bytes)) }),
      encode: ({ n }) => new TextEncoder().encode(`  ${n}`),
    };
    const { blob: other, text: otherText } = blobOf("7");
    await optimisticUpdate(encodedBlob(other, loose), ({ n }) => ({ n: n + 1 }));
    expect(otherText()).toBe("  8");
    expect(await rejection(optimisticUpdate(encodedBlob(other, loose), (draft) => ({ n: draft.n++ })))).toBeInstanceOf(TypeError);
  });

  it("is an error for an entity, too", async () => {
    const table = new FakeTable(new FakeService());
    table.put({ n: { type: "Int32", value: 1 } });
    const error = await rejection(
      optimisticUpdate(tableEntity<{ n: number }>(table, "p", "r"), (draft) => {
        draft.n++;
        return { ...draft, n: 7 };
      }),
    );
    expect(error).toBeInstanceOf(TypeError);
    expect(table.property("n")?.value).toBe(1);
  });
});

describe("a change of the kind of a document", () => {
  const documents = { object: '{"n":1}', list: "[1]", "single value": "1" };
  const values = { object: { n: 2 }, list: [2], "single value": 2 };
  const kinds = ["object", "list", "single value"] as const;
  for (const before of kinds) {
    for (const after of kinds) {
      const allowed = before === after || before === "single value";
      it(`from ${before} to ${after} is ${allowed ? "allowed" : "an error unless it is meant"}`, async () => {
        const { service, blob, text } = blobOf(documents[before]);
        const update = (target: Parameters<typeof optimisticUpdate>[0]) => optimisticUpdate(target, () => values[after]);
        if (allowed) expect((await update(blob)).outcome).toBe("updated");
        else {
          const error = await rejection(update(blob));
          expect(error).toBeInstanceOf(TypeError);
          expect(error.message).toContain("allowKindChange");
          expect(service.count("write")).toBe(0);
          expect((await update(jsonBlob(blob, { allowKindChange: true }))).outcome).toBe("updated");
        }
        expect(JSON.parse(text())).toEqual(values[after]);
      });
    }
  }

  it("is an error for the document in a file, too", () => {
    const file = { url: "https://account.file.core.windows.net/share/doc.json", name: "doc.json", pipeline: {}, uploadRange: notFaked, rename: notFaked } as unknown as FileLike;
    for (const allowKindChange of [false, true]) {
      const adapter = adapterOf(jsonFile(file, { allowKindChange }))!;
      const replace = (): unknown => adapter.encode(2, adapter.encode({ n: 1 }, undefined));
      if (allowKindChange) expect(replace).not.toThrow();
      else expect(replace).toThrow(TypeError);
    }
  });

  it("is not the business of calls that create or overwrite", async () => {
    const { blob, text } = blobOf('{"n":1}');
    await overwrite(jsonBlob(blob), 5);
    expect(text()).toBe("5");
    blob.drop();
    expect((await createIfNotExists(jsonBlob(blob), [1])).outcome).toBe("created");
  });
});

describe("the cost of a large document", () => {
  afterEach(() => vi.restoreAllMocks());

  it("is at most two parses and one stringify for each caller, and a few more for each read", async () => {
    const { blob } = blobOf(JSON.stringify({ n: 0, items: Array.from({ length: 2_000 }, (_, id) => ({ id, name: `item ${id}` })) }, null, 1));
    const parse = vi.spyOn(JSON, "parse");
    const stringify = vi.spyOn(JSON, "stringify");
    const callers = 50;
    await Promise.all(Array.from({ length: callers }, () => optimisticUpdate<Doc>(blob, increment)));
    const large = (calls: readonly unknown[]): number => calls.filter((call) => String(call).length > 10_000).length;
    const parses = large(parse.mock.calls.map(([text]) => text));
    const stringifies = large(stringify.mock.results.map(({ value }) => value as unknown));
    // One parse for the draft, one for the result.
    expect(parses).toBeLessThanOrEqual(2 * callers + 3);
    expect(stringifies).toBeLessThanOrEqual(callers + 2);
  });

  it("does not grow faster than the number of numbers and the depth: no path is made for each number", async () => {
    const depth = 1_500;
    const numbers = Array.from({ length: 3_000 }, () => "1.0").join();
    const { blob } = blobOf(`{"n":0,"deep":${'{"a":'.repeat(depth)}[${numbers}]${"}".repeat(depth)}}`);
    const parse = vi.spyOn(JSON, "parse");
    const stringify = vi.spyOn(JSON, "stringify");
    await optimisticUpdate<Doc>(blob, increment);
    // One for each name of a member, in each of a few passes.
    expect(parse.mock.calls.length + stringify.mock.calls.length).toBeLessThan(6 * depth);
  });

  it("recognises a document that has the same properties in another order", async () => {
    const { service, blob } = blobOf('{"a":1,"b":{"x":"12","y":"21"}}');
    expect((await optimisticUpdate(blob, () => ({ b: { y: "21", x: "12" }, a: 1 }))).outcome).toBe("unchanged");
    expect(service.count("write")).toBe(0);
    expect((await optimisticUpdate(blob, () => ({ b: { y: "12", x: "21" }, a: 1 }))).outcome).toBe("updated");
    expect((await readTarget(blob)).value).toEqual({ a: 1, b: { x: "21", y: "12" } });
  });
});

it("a value that is nested too deeply is a TypeError, and nothing is written", async () => {
  const { service, blob } = blobOf('{"n":0}');
  const deep = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);
  await expect(optimisticUpdate(jsonBlob<Doc>(blob), (doc) => { doc["deep"] = deep(50_000); })).rejects.toThrow(TypeError);
  blob.put(new TextEncoder().encode(`{"n":0,"deep":${"[".repeat(50_000)}${"]".repeat(50_000)}}`));
  await expect(optimisticUpdate(jsonBlob<Doc>(blob), (doc) => { doc.n++; })).rejects.toThrow("nested too deeply");
  expect(service.count("write")).toBe(0);
});
