import { isPlain } from "./content.js";

/**
 * Numbers in JSON documents that JavaScript changes when it parses and writes them: 1234567890123456789 becomes
 * 1234567890123456800, 1e400 becomes Infinity, 1.0 becomes 1. A mutator gets what JavaScript makes of them. What it does not touch is
 * written again with the digits that were stored.
 *
 * A number carries no mark of where it came from, so it is recognised
 * - by the object or array that it was parsed into, and its place there: such an object may be moved, sorted or spread;
 * - else by its value, if all stored numbers of this value have the same digits;
 * - else by its path, if the path does not lead through an array, whose items may have moved.
 * Otherwise it is a `TypeError` that names the path: guessing could exchange two ids.
 */

/** One number as it is stored. */
interface Literal {
  readonly text: string;
  /** What JavaScript makes of it. */
  readonly value: number;
  /** Whether `value` is another number. Otherwise only its spelling is another: 1.0 for 1. */
  readonly lossy: boolean;
  /** The names and indexes that lead to it. */
  readonly path: readonly (string | number)[];
}

/** The numbers of one document that JavaScript changes. */
export interface ExactNumbers {
  readonly byPath: ReadonlyMap<string, Literal>;
  /** Undefined: several stored numbers became the same value. */
  readonly byValue: ReadonlyMap<number, Literal | undefined>;
}

/** The numbers of a document that JavaScript changes; undefined: none. `text` must be valid JSON. */
export function exactNumbersIn(text: string): ExactNumbers | undefined {
  const byPath = new Map<string, Literal>();
  for (const { path, literal } of numbersIn(text)) {
    const value = Number(literal);
    const key = keyOf(path);
    // Of two members with one name, the last one counts.
    byPath.delete(key);
    if (JSON.stringify(value) !== literal) byPath.set(key, { text: literal, value, lossy: isLossy(literal, value), path });
  }
  return byPath.size === 0 ? undefined : { byPath, byValue: indexByValue(byPath.values()) };
}

/** Each number in the text, and where it is. */
function* numbersIn(text: string): Generator<{ path: readonly (string | number)[]; literal: string }> {
  /** The place of the current value in each open object and array; null: the name of a member comes next. */
  const places: (string | number | null)[] = [];
  const number = /[-\d.eE+]+/y;
  for (let at = 0; at < text.length; at++) {
    const last = places.length - 1;
    const place = places[last];
    const char = text.charAt(at);
    if (char === '"') {
      const end = endOfString(text, at);
      if (place === null) places[last] = JSON.parse(text.slice(at, end + 1)) as string;
      at = end;
    } else if (char === "{") places.push(null);
    else if (char === "[") places.push(0);
    else if (char === "}" || char === "]") places.pop();
    else if (char === ",") places[last] = typeof place === "number" ? place + 1 : null;
    else if (char === "-" || (char >= "0" && char <= "9")) {
      number.lastIndex = at;
      const literal = number.exec(text)?.[0] ?? char;
      yield { path: [...(places as (string | number)[])], literal };
      at += literal.length - 1;
    }
  }
}

/** Not by a regular expression: its stack overflows on strings of many megabytes. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charAt(end - 1 - backslashes) === "\\") backslashes++;
    if (backslashes % 2 === 0) return end;
  }
}

function indexByValue(literals: Iterable<Literal>): Map<number, Literal | undefined> {
  const byValue = new Map<number, Literal | undefined>();
  for (const literal of literals) {
    if (!literal.lossy) continue;
    const { value, text } = literal;
    byValue.set(value, !byValue.has(value) || byValue.get(value)?.text === text ? literal : undefined);
  }
  return byValue;
}

function isLossy(literal: string, value: number): boolean {
  return !Number.isFinite(value) || normalised(literal) !== normalised(String(value));
}

/** The digits without zeros at both ends, and the power of ten: the same for all spellings of one number. */
function normalised(literal: string): string {
  const [, whole = "", fraction = "", exponent = "0"] = /^-?(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  return significant === "" ? "0" : `${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

function keyOf(path: readonly (string | number)[]): string {
  return JSON.stringify(path);
}

/** The numbers that were parsed into an object or array, by their names or indexes there. */
const origins = new WeakMap<object, { readonly literals: Map<string, Literal>; readonly length: number | undefined }>();

/** Remembers which parts of a value that was just parsed hold such numbers. */
export function rememberNumbers(root: unknown, numbers: ExactNumbers): void {
  for (const literal of numbers.byPath.values()) {
    const place = literal.path.at(-1);
    let container = root;
    for (const step of literal.path.slice(0, -1)) container = (container as Record<string | number, unknown>)[step];
    if (place === undefined || typeof container !== "object" || container === null) continue;
    let known = origins.get(container);
    if (!known) origins.set(container, (known = { literals: new Map(), length: Array.isArray(container) ? container.length : undefined }));
    known.literals.set(String(place), literal);
  }
}

// Random: no document contains it by chance or by intention.
const marker = `number ${crypto.randomUUID()} `;
const marked = new RegExp(`"${marker}([^"]*)"`, "g");

/**
 * A copy of a value in which each number that is the same as before is a string with its stored digits. Throws a `TypeError` if these
 * are ambiguous. Parts that are not plain objects or arrays are not copied.
 */
export function withStoredNumbers(value: unknown, numbers: ExactNumbers): unknown {
  return markIn(value, undefined, [], numbers);
}

/** The JSON text of such a copy with the numbers in place of the strings. */
export function unmark(text: string): string {
  return text.replace(marked, (_, literal: string) => literal);
}

function markIn(value: unknown, container: object | undefined, path: readonly (string | number)[], numbers: ExactNumbers): unknown {
  if (typeof value === "number") {
    const literal = literalFor(value, container, path, numbers);
    return literal === undefined ? value : marker + literal;
  }
  if (typeof value !== "object" || value === null || typeof (value as { toJSON?: unknown }).toJSON === "function") return value;
  if (Array.isArray(value)) return Array.from(value, (item, index) => markIn(item, value, [...path, index], numbers));
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, markIn(member, value, [...path, name], numbers)]));
}

function literalFor(value: number, container: object | undefined, path: readonly (string | number)[], numbers: ExactNumbers): string | undefined {
  const origin = container && origins.get(container);
  const own = origin?.literals.get(String(path.at(-1)));
  // Items of a shorter or longer array may have moved.
  const inPlace = origin?.length === undefined || origin.length === (container as unknown[]).length;
  if (own && inPlace && Object.is(own.value, value)) return own.text;
  const byPath = numbers.byPath.get(keyOf(path));
  const samePath = byPath && Object.is(byPath.value, value) ? byPath : undefined;
  if (!numbers.byValue.has(value)) return samePath?.text;
  const only = numbers.byValue.get(value);
  if (only && Number.isFinite(value)) return only.text;
  if (samePath && path.every((step) => typeof step === "string")) return samePath.text;
  if (!Number.isFinite(value)) return undefined; // the caller rejects it, as any infinity
  throw new TypeError(
    `The number at ${describePath(path)} stands for one of several stored numbers that JavaScript cannot tell apart: store such numbers as strings.`,
  );
}

/** A path as it is written in JavaScript. */
export function describePath(path: readonly (string | number)[]): string {
  if (path.length === 0) return "the top level";
  return path.map((step) => (typeof step === "number" ? `[${step}]` : /^[\w$]+$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`)).join("").replace(/^\./, "");
}
