import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { SparseContent } from "../../../src/testing/file-share/sparse-content.js";

describe("sparse content", () => {
  it("reads zeros where nothing was written", () => {
    const content = new SparseContent(4 * 1024 ** 4);
    content.write(3 * 1024 ** 4, Buffer.from("far"));
    expect(content.read(3 * 1024 ** 4 - 1, 3 * 1024 ** 4 + 3)).toEqual(Buffer.from("\0far\0"));
  });

  it("lists written ranges joined, and keeps the odd ends of a cleared one", () => {
    const content = new SparseContent(4096);
    content.write(0, Buffer.alloc(1000, 1));
    content.write(1000, Buffer.alloc(1000, 2));
    expect(content.ranges).toEqual([{ start: 0, end: 1999 }]);
    content.clear(100, 1200);
    expect(content.ranges).toEqual([{ start: 0, end: 511 }, { start: 1024, end: 1999 }]);
    expect(content.read(99, 101)).toEqual(Buffer.from([1, 0, 0]));
    expect(content.read(1200, 1201)).toEqual(Buffer.from([0, 2]));
  });

  it("shows zeros, not old bytes, when it shrank and grew again", () => {
    const content = new SparseContent(100_000);
    content.write(0, Buffer.alloc(100_000, 7));
    content.resize(70_000);
    content.resize(100_000);
    expect(content.read(69_999, 70_000)).toEqual(Buffer.from([7, 0]));
    expect(content.ranges).toEqual([{ start: 0, end: 69_999 }]);
  });

  it("copies by value", () => {
    const content = new SparseContent(3);
    content.write(0, Buffer.from("abc"));
    const copy = content.copy();
    content.write(0, Buffer.from("x"));
    expect(copy.read(0, 2).toString()).toBe("abc");
  });

  it("holds the same bytes as a plain buffer, whatever is done to it", () => {
    const size = 140_000;
    const step = fc.record({ at: fc.nat(size - 1), length: fc.integer({ min: 1, max: 70_000 }), kind: fc.constantFrom("write", "clear", "cut") });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const content = new SparseContent(size);
        const plain = Buffer.alloc(size);
        steps.forEach(({ at, length, kind }, i) => {
          const end = Math.min(at + length, size);
          if (kind === "write") {
            content.write(at, Buffer.alloc(end - at, i + 1));
            plain.fill(i + 1, at, end);
          } else if (kind === "clear") {
            content.clear(at, end - 1);
            plain.fill(0, at, end);
          } else {
            content.resize(at);
            content.resize(size);
            plain.fill(0, at);
          }
        });
        expect(content.read(0, size - 1).equals(plain)).toBe(true);
        // Whatever is not zero must be in a listed range.
        const listed = Buffer.alloc(size);
        for (const { start, end } of content.ranges) listed.fill(1, start, end + 1);
        expect(plain.some((byte, i) => byte !== 0 && listed[i] === 0)).toBe(false);
      }),
      { numRuns: 40 },
    );
  });
});
