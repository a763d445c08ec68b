import fc from "fast-check";
import { expect } from "vitest";

/** A failure prints its seed. */
export const runs = { numRuns: 1_000, seed: 20_261_118 };

/** Values that no record should have, but may. */
export const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>("", "0", "-1", "1e999", "NaN", "9007199254740991", "9007199254740993", "__proto__", "constructor", "\u0000", "\ud800", "a".repeat(5_000), null, undefined, true, -1, 0, 1.5, 1e15, 2 ** 53, NaN, Infinity, 10n ** 18n, -5n, {}, []),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.integer(),
  fc.double(),
  fc.jsonValue({ maxDepth: 3 }),
);

/** A text that was cut, extended or changed in a few places. */
export function damaged(valid: string): fc.Arbitrary<string> {
  const edits = fc.array(fc.record({ at: fc.nat(valid.length), cut: fc.nat(8), put: fc.string({ unit: "binary", maxLength: 6 }) }), { minLength: 1, maxLength: 4 });
  return fc.oneof(
    { weight: 3, arbitrary: edits.map((all) => all.reduce((text, { at, cut, put }) => text.slice(0, at) + put + text.slice(at + cut), valid)) },
    { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 200 }) },
  );
}

/** A record some of whose properties have odd values, or are missing; and some that no record has. */
export function forged(valid: Readonly<Record<string, unknown>>, value: fc.Arbitrary<unknown> = odd): fc.Arbitrary<Record<string, unknown>> {
  const names = [...Object.keys(valid), "__proto__", "constructor", "toJSON", "then"];
  const change = fc.record({ name: fc.constantFrom(...names), value });
  return fc.array(change, { minLength: 1, maxLength: 4 }).map((changes) => {
    const record: Record<string, unknown> = { ...valid };
    for (const { name, value } of changes) Object.defineProperty(record, name, { value, enumerable: true, configurable: true, writable: true });
    return record;
  });
}

/** As a producer without this library may have written it. */
export function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? String(part) : part));
}

export function expectUnpolluted(): void {
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
}
