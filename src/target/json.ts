import { deepEqual } from "fast-equals";
import { isPlain } from "./content.js";
import type { ContentCodec } from "./content.js";
import { describePath, exactNumbersIn, rememberNumbers, unmark, withStoredNumbers } from "./json-numbers.js";
import type { ExactNumbers } from "./json-numbers.js";

/** A JSON document in its stored form. */
export class JsonDocument {
  readonly text: string;
  readonly numbers: ExactNumbers | undefined;
  /** What the text was parsed to, until it is given away: the first reader needs no copy. */
  #parsed: { readonly value: unknown } | undefined;
  #canonical: string | undefined;

  constructor(text: string, numbers: ExactNumbers | undefined, parsed: { readonly value: unknown } | undefined, canonical?: string) {
    this.text = text;
    this.numbers = numbers;
    this.#parsed = parsed;
    this.#canonical = canonical;
  }

  /** A private copy of the value. */
  value(): unknown {
    const { value } = this.#parsed ?? { value: JSON.parse(this.text) as unknown };
    this.#parsed = undefined;
    if (this.numbers) rememberNumbers(value, this.numbers);
    return value;
  }

  /** The text without insignificant spaces and spellings: computed once, and then compared with that of each mutator. */
  get canonical(): string {
    return (this.#canonical ??= textOf(this.value(), this.numbers));
  }
}

const encoder = new TextEncoder();
// `fatal`: otherwise invalid UTF-8 would become replacement characters, and the next write would make them permanent.
const decoder = new TextDecoder("utf-8", { fatal: true });

/** The codec of JSON documents. */
export const jsonCodec: ContentCodec<unknown, JsonDocument> = {
  contentType: "application/json",
  decode: (raw) => raw.value(),
  encode(value, previous) {
    const text = textOf(value, previous?.numbers);
    return new JsonDocument(text, previous?.numbers && numbersIn(text), undefined, text);
  },
  checkKind: (before, after) => checkKind(kindOf(before.text), kindOf(after.text)),
  equals,
  toBytes: (raw) => encoder.encode(raw.text),
  fromBytes(bytes) {
    const text = decoder.decode(bytes);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      // The engine's own message quotes the text, which must not appear in logs.
      throw new SyntaxError("it is not valid JSON");
    }
    return new JsonDocument(text, numbersIn(text), { value });
  },
};

/** Finds each number that JavaScript may not keep as it is, and few others: most documents have none, and pay for this test only. */
const suspicious = /(?:^|[\s:[,])-?(?:0(?=[\s,\]}]|$)(?<=-0)|\d{16}|[\d.]{17}|[\d.]+[eE]|\d+\.\d*0(?!\d))/;

function numbersIn(text: string): ExactNumbers | undefined {
  return suspicious.test(text) ? exactNumbersIn(text) : undefined;
}

/** The JSON text of a value. Throws a `TypeError` that names the path for what JSON cannot represent. */
function textOf(value: unknown, numbers: ExactNumbers | undefined): string {
  let text: string;
  let checked = value;
  try {
    text = JSON.stringify(value);
    if (numbers) {
      checked = withStoredNumbers(value, numbers);
      text = unmark(JSON.stringify(checked));
    }
  } catch (error) {
    // For a bigint the engine does not name the path.
    rejectUnrepresentable(checked, () => undefined);
    // The engine writes some thousands of levels, however large its stack is at this moment.
    throw error instanceof RangeError ? new TypeError("The value is nested too deeply to be written as JSON.") : error;
  }
  // Too deep for the stack, but written by the engine: it has no cycle.
  rejectUnrepresentable(checked, () => checkDeep(checked));
  return text;
}

/** Throws a `TypeError` for a part of the value that `JSON.stringify` silently drops, or stores as something else. */
function rejectUnrepresentable(value: unknown, onTooDeep: () => void): void {
  try {
    try {
      check(value);
    } catch (error) {
      // A cycle, or too many levels for the stack.
      if (!(error instanceof RangeError)) throw error;
      onTooDeep();
    }
  } catch (error) {
    if (!(error instanceof Unrepresentable)) throw error;
    const place = error.path.length > 0 ? `at ${describePath(error.path)}` : "at the top level, or at a depth of thousands of levels";
    throw new TypeError(`JSON cannot represent ${error.message}, ${place}.`);
  }
}

/** The same check without recursion, and without the path. */
function checkDeep(root: unknown): void {
  const open = [root];
  while (open.length > 0) {
    const value = open.pop();
    const isContainer = typeof value === "object" && value !== null && typeof (value as { toJSON?: unknown }).toJSON !== "function";
    if (isContainer && Array.isArray(value)) for (const item of value) open.push(item);
    else if (isContainer && isPlain(value)) open.push(...(Object.values(value) as unknown[]).filter((member) => member !== undefined));
    else check(value);
  }
}

/** Collects its path on the way up: a path for each value would cost more than the check. */
class Unrepresentable extends Error {
  readonly path: (string | number)[] = [];
}

/** Runs for each mutator: a third of the time of `JSON.stringify`. */
function check(value: unknown): void {
  switch (typeof value) {
    case "string":
    case "boolean":
      return;
    case "number":
      if (!Number.isFinite(value)) throw new Unrepresentable(String(value));
      return;
    case "object":
      if (value !== null) checkObject(value);
      return;
    default:
      throw new Unrepresentable(`a value of type ${typeof value}`);
  }
}

function checkObject(value: object): void {
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") {
    const stored: unknown = toJSON.call(value, "");
    if (stored === null && Object.prototype.toString.call(value) === "[object Date]") throw new Unrepresentable("an invalid date");
    check(stored);
    return;
  }
  let place: string | number = 0;
  try {
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) check((value as unknown[])[(place = index)]);
      return;
    }
    if (isPlain(value)) {
      for (const name of Object.keys(value)) {
        const member = (value as Record<string, unknown>)[(place = name)];
        // JSON.stringify leaves the property out, which removes it: that is what the caller means.
        if (member !== undefined) check(member);
      }
      return;
    }
  } catch (error) {
    if (error instanceof Unrepresentable) error.path.unshift(place);
    throw error;
  }
  const { name } = value.constructor as { name?: string };
  throw new Unrepresentable(`an object of the class ${name ?? "(unknown)"} (it has no toJSON)`);
}

/**
 * Documents are equal if they differ in spaces and in the order of properties only. For each mutator, two strings are compared; they
 * are parsed only if they have the same characters in another order.
 */
function equals(a: JsonDocument, b: JsonDocument): boolean {
  if (a.text === b.text) return true;
  const [one, other] = [a.canonical, b.canonical];
  if (one === other) return true;
  if (one.length !== other.length || a.numbers || b.numbers) return false;
  const start = firstDifference(one, other);
  const end = one.length - lastDifference(one, other, one.length - start);
  if (sumOfCodes(one, start, end) !== sumOfCodes(other, start, end)) return false;
  return deepEqual(JSON.parse(one), JSON.parse(other));
}

/** Compared in pieces of this length, which the engine does faster than character by character. */
const pieceLength = 4_096;

function firstDifference(a: string, b: string): number {
  let at = 0;
  while (a.slice(at, at + pieceLength) === b.slice(at, at + pieceLength)) at += pieceLength;
  while (a.charCodeAt(at) === b.charCodeAt(at)) at++;
  return at;
}

/** The length of what both strings end with, at most `limit`. */
function lastDifference(a: string, b: string, limit: number): number {
  const { length } = a;
  let same = 0;
  while (same + pieceLength < limit && a.slice(length - same - pieceLength, length - same) === b.slice(length - same - pieceLength, length - same)) {
    same += pieceLength;
  }
  while (same < limit && a.charCodeAt(length - same - 1) === b.charCodeAt(length - same - 1)) same++;
  return same;
}

function sumOfCodes(text: string, start: number, end: number): number {
  let sum = 0;
  for (let at = start; at < end; at++) sum += text.charCodeAt(at);
  return sum;
}

type Kind = "object" | "list" | "single value";

function kindOf(text: string): Kind {
  const first = text.trimStart().charAt(0);
  return first === "{" ? "object" : first === "[" ? "list" : "single value";
}

/** `(draft) => draft.count + 1` returns a number: written, it would replace the document. */
function checkKind(before: Kind, after: Kind): void {
  if (before === after || before === "single value") return;
  const name = (kind: Kind): string => (kind === "object" ? "an object" : `a ${kind}`);
  throw new TypeError(
    `The mutator would replace the document, ${name(before)}, by ${name(after)}. If it changes the draft in place, let it return nothing; if the replacement is meant, pass allowKindChange.`,
  );
}
