import fc from "fast-check";

const guids = fc.uuid().map((value) => ({ type: "Guid" as const, value }));

/** All that a table can store, in the form in which a mutator sees it. */
export const entityValues: fc.Arbitrary<unknown> = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.boolean(),
  fc.integer(),
  fc.double().map((number) => number + 0), // JSON has no minus zero
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.date({ min: new Date("1601-01-01"), max: new Date("9999-12-31"), noInvalidDate: true }),
  fc.uint8Array(),
  guids,
);

const names = fc.oneof(fc.stringMatching(/^[A-Za-z_]\w{0,10}$/), fc.constantFrom("größe", "名前", "constructor", "toString", "hasOwnProperty"));

/** The properties of an entity. */
export const entities: fc.Arbitrary<Record<string, unknown>> = fc
  .array(fc.tuple(names, entityValues), { maxLength: 6 })
  .map((entries) => Object.fromEntries(entries.filter(([name]) => !["partitionKey", "rowKey", "etag", "timestamp", "__proto__"].includes(name))));
