import type { TableClient } from "@azure/data-tables";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";

import { createIfNotExists, type EdmType, optimisticUpdate, overwrite, readTarget, DELETE, tableEntity } from "../../src/index.js";
import { freshTable, tableClient } from "../support/clients.js";

interface Typed {
  type: EdmType;
  value: string | number | boolean;
}

let table: TableClient;
let rows = 0;

beforeAll(async () => {
  table = await freshTable();
});

/** A row of its own for each run: one table serves all. */
const nextRow = (): string => `row${rows++}`;

/** Whole seconds, milliseconds, and the ticks that a JavaScript date cannot hold. */
const dateTimes = fc
  .tuple(
    fc.date({ min: new Date("1700-01-01"), max: new Date("2300-01-01"), noInvalidDate: true }),
    fc.constantFrom("", ".5", ".123", ".1234567", ".0000001", ".9999999"),
  )
  .map(([date, fraction]) => `${date.toISOString().slice(0, 19)}${fraction}Z`);

const texts = fc.oneof(
  fc.constantFrom("", " ", "5", "5.0", "null", "true", '{"a":5.0}', '","x":5.0,"', "it's", 'a "quote"', "back\\slash", "\r\n\t", "😀", "ä\u0301"),
  fc.string({ unit: "grapheme", maxLength: 40 }),
);

const typedValues: fc.Arbitrary<Typed> = fc.oneof(
  texts.map((value): Typed => ({ type: "String", value })),
  fc.boolean().map((value): Typed => ({ type: "Boolean", value })),
  fc.oneof(fc.integer(), fc.constantFrom(0, -(2 ** 31), 2 ** 31 - 1)).map((value): Typed => ({ type: "Int32", value })),
  fc
    .oneof(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.constantFrom(0n, 5n, -(2n ** 63n), 2n ** 63n - 1n))
    .map((value): Typed => ({ type: "Int64", value: value.toString() })),
  fc
    .oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(5, -3, 0, 1e21, 2 ** 40, 1e-7))
    .map((value): Typed => ({ type: "Double", value })),
  dateTimes.map((value): Typed => ({ type: "DateTime", value })),
  fc.uuid().map((value): Typed => ({ type: "Guid", value })),
  fc.uint8Array({ maxLength: 50 }).map((bytes): Typed => ({ type: "Binary", value: Buffer.from(bytes).toString("base64") })),
);

// Without those that every object has, such as valueOf: Azurite loses them.
const names = fc.oneof(
  fc.constantFrom("a", "_", "A1", "größe", "名前", "value", "type", "Type"),
  fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,20}$/),
).filter((name) => !["touched", "spare", "__proto__"].includes(name) && !/^(partitionkey|rowkey|timestamp|etag)$/i.test(name));

const entities = fc.dictionary(names, typedValues, { maxKeys: 12, noNullPrototype: true });

/** The properties of a row to the letter, as the service writes them: `5.0` is not `5`. */
async function lettersOf(rowKey: string): Promise<string[]> {
  let body = "";
  await table.getEntity("p", rowKey, { onResponse: (raw) => { body = raw.bodyAsText ?? ""; }});
  const members = body.slice(1, -1).match(/"(?:[^"\\]|\\.)*":(?:"(?:[^"\\]|\\.)*"|[^,]*)/g) ?? [];
  return members.filter((member) => !/^"(odata\.|Timestamp|asc_journal|touched|spare)/.test(member)).sort();
}

describe("an update of an entity", () => {
  it("keeps every property that it does not change to the letter, by Merge and by Replace", async () => {
    await fc.assert(
      fc.asyncProperty(entities, async (properties) => {
        const rowKey = nextRow();
        await table.createEntity({ partitionKey: "p", rowKey, ...properties, spare: 1 });
        const before = await lettersOf(rowKey);
        const target = tableEntity(table, "p", rowKey);
        await optimisticUpdate(target, (entity) => { entity["touched"] = true; });
        expect(await lettersOf(rowKey)).toEqual(before);
        await optimisticUpdate(target, (entity) => { delete entity["spare"]; });
        expect(await lettersOf(rowKey)).toEqual(before);
        // Returned as a new object, as many mutators do.
        await optimisticUpdate(target, (entity) => ({ ...entity, touched: false }));
        expect(await lettersOf(rowKey)).toEqual(before);
      }),
      { numRuns: 40, seed: 1 },
    );
  });

  it("gives back what was stored", async () => {
    const values = fc.dictionary(
      names,
      fc.oneof(
        texts,
        fc.boolean(),
        fc.integer(),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n),
        fc.date({ min: new Date("1700-01-01"), max: new Date("2300-01-01"), noInvalidDate: true }),
        fc.uuid().map((value) => ({ type: "Guid", value })),
        fc.uint8Array({ maxLength: 50 }).map((bytes) => Uint8Array.from(bytes)),
      ),
      { maxKeys: 12, noNullPrototype: true },
    );
    await fc.assert(
      fc.asyncProperty(values, async (properties) => {
        const rowKey = nextRow();
        const target = tableEntity(table, "p", rowKey);
        const entity = { partitionKey: "p", rowKey, ...properties };
        expect((await createIfNotExists(target, entity)).value).toEqual(entity);
        expect((await readTarget(target)).value).toEqual(entity);
        expect(await optimisticUpdate(target, (same) => ({ ...same }))).toMatchObject({ outcome: "unchanged" });
        const changed = { ...entity, touched: 1n };
        expect((await optimisticUpdate(target, () => changed)).value).toEqual(changed);
        expect((await readTarget(target)).value).toEqual(changed);
        await overwrite(target, entity);
        expect((await readTarget(target)).value).toEqual(entity);
      }),
      { numRuns: 40, seed: 1 },
    );
  });

  it.each([NaN, Infinity, -Infinity, -0, 5, 1e300])("stores %d as a Double and gives it back", async (value) => {
    const rowKey = nextRow();
    const target = tableEntity<{ x: number; other?: number }>(table, "p", rowKey, { types: { x: "Double" } });
    await createIfNotExists(target, { x: value });
    await optimisticUpdate(target, (entity) => { entity.other = 1; });
    const { x } = await table.getEntity<{ x: unknown }>("p", rowKey, { disableTypeConversion: true });
    expect(x).toMatchObject({ type: expect.stringMatching(/^(Double|Int32)$/) as unknown });
    const read = (await readTarget(target)).value.x;
    // JSON has no minus zero: the service gives back 0.
    expect(Object.is(value, -0) ? Math.abs(read) : read).toBe(Object.is(value, -0) ? 0 : value);
  });

  it("keeps a number the kind of number that it was when it changes", async () => {
    const rowKey = nextRow();
    await table.createEntity({
      partitionKey: "p",
      rowKey,
      double: { type: "Double", value: 5 },
      int64: { type: "Int64", value: "5" },
      int32: { type: "Int32", value: 5 },
    });
    const target = tableEntity<{ double: number; int64: bigint | number; int32: number }>(table, "p", rowKey);
    await optimisticUpdate(target, (entity) => {
      entity.double += 1;
      entity.int64 = Number(entity.int64) + 1;
      entity.int32 += 1;
    });
    expect(await lettersOf(rowKey)).toEqual(
      expect.arrayContaining(['"double":6.0', '"int32":6', '"int64":"6"', '"int64@odata.type":"Edm.Int64"']),
    );
  });

  it("removes what is set to null or undefined, as tables store neither", async () => {
    const rowKey = nextRow();
    const target = tableEntity(table, "p", rowKey);
    await createIfNotExists(target, { partitionKey: "p", rowKey, a: 1, b: 2, c: 3, never: null });
    const { value } = await optimisticUpdate(target, (entity) => {
      entity["a"] = null;
      entity["b"] = undefined;
    });
    expect(value).toEqual({ partitionKey: "p", rowKey, c: 3 });
    expect((await readTarget(target)).value).toEqual(value);
    expect(await lettersOf(rowKey)).toEqual([`"PartitionKey":"p"`, `"RowKey":"${rowKey}"`, `"c":3`]);
  });

  it("takes property names that every object has", async () => {
    const rowKey = nextRow();
    const entity = { partitionKey: "p", rowKey, valueOf: 1, toString: "a", constructor: true };
    expect((await createIfNotExists(tableEntity(table, "p", rowKey), entity)).value).toEqual(entity);
  });

  it.each([
    ["32 Ki characters", "x".repeat(32 * 1024)],
    // No more of these: Azurite garbles a character of several bytes where a long request is cut in two.
    ["characters of two and four bytes", "ä😀".repeat(2 * 1024)],
    ["64 KiB", new Uint8Array(64 * 1024).fill(0xa5)],
  ])("gives back a property of %s", async (_what, long) => {
    const rowKey = nextRow();
    const target = tableEntity(table, "p", rowKey);
    await createIfNotExists(target, { partitionKey: "p", rowKey, long, spare: 1 });
    await optimisticUpdate(target, (entity) => { entity["touched"] = true; });
    await optimisticUpdate(target, (entity) => { delete entity["spare"]; });
    expect((await readTarget(target)).value).toEqual({ partitionKey: "p", rowKey, long, touched: true });
  });

  it("finds the row by its keys, whatever characters they have", async () => {
    const keys = fc
      .oneof(
        fc.constantFrom("'", "''", "it's", "%", "%25", "%2F", "a b", "a+b", "a&b=c", "()", ",", "😀", "日本", "ä", '"', "<>", "$", "@", "a%27b", "~!^*{}[]|`;:"),
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }),
      )
      // What the service forbids.
      .filter((key) => !/[/\\#?\u0000-\u001f\u007f-\u009f]/.test(key) && key.trim() === key && !/\p{Surrogate}/u.test(key));
    await fc.assert(
      fc.asyncProperty(keys, keys, async (partitionKey, rowKey) => {
        const target = tableEntity<{ n: number }>(table, partitionKey, rowKey);
        await overwrite(target, { n: 1 });
        expect((await optimisticUpdate(target, (entity) => { entity.n++; })).value).toEqual({ partitionKey, rowKey, n: 2 });
        expect((await readTarget(target)).value).toEqual({ partitionKey, rowKey, n: 2 });
        expect(await optimisticUpdate(target, () => DELETE)).toMatchObject({ outcome: "deleted" });
        expect(await optimisticUpdate(target, () => undefined).catch((error: unknown) => (error as Error).name)).toBe("TargetNotFoundError");
      }),
      { numRuns: 40, seed: 1 },
    );
  });

  it("keeps properties with names that the SDK uses for its own, which other clients can store", async () => {
    const foreign = tableClient(table.tableName);
    // The SDK cannot send these names: another client of the REST API can.
    foreign.pipeline.addPolicy({
      name: "otherNames",
      sendRequest: (request, next) => {
        if (typeof request.body === "string") {
          request.body = request.body.replace(/"own_/g, '"');
          request.headers.set("Content-Length", request.body.length);
        }
        return next(request);
      },
    });
    for (const name of ["etag", "timestamp"]) {
      const rowKey = nextRow();
      await foreign.createEntity({ partitionKey: "p", rowKey, n: 1, extra: 2, [`own_${name}`]: "mine" });
      const target = tableEntity<{ n: number; extra?: number }>(table, "p", rowKey);
      const { value } = await optimisticUpdate(target, (entity) => { entity.n++; });
      expect(value).toEqual({ partitionKey: "p", rowKey, n: 2, extra: 2 });
      await expect(optimisticUpdate(target, (entity) => { delete entity.extra; })).rejects.toThrow(`"${name}"`);
      let stored: Record<string, unknown> = {};
      await table.getEntity("p", rowKey, { onResponse: ({ bodyAsText }) => (stored = JSON.parse(bodyAsText ?? "") as typeof stored) });
      expect([stored[name], stored["n"], stored["extra"]]).toEqual(["mine", 2, 2]);
      expect(await optimisticUpdate(target, () => DELETE)).toMatchObject({ outcome: "deleted" });
    }
  });
});
