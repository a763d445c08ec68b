import fc from "fast-check";

/**
 * Text of all code points but halves of surrogate pairs. As `fc.string({ unit: "binary" })`, which takes a second of CPU
 * time to be made.
 */
export function anyText({ minLength = 0, maxLength = 60 }: { minLength?: number; maxLength?: number } = {}): fc.Arbitrary<string> {
  const ascii = fc.integer({ min: 0, max: 0x7f }); // where most of what is special is
  const codePoint = fc.oneof(ascii, fc.integer({ min: 0, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }));
  return fc.array(codePoint, { minLength, maxLength }).map((codes) => String.fromCodePoint(...codes));
}
