import { isPlain } from "./content.js";

/**
 * Numbers in JSON documents that JavaScript changes when it parses and writes them: 1234567890123456789 becomes
 * 1234567890123456800, 1e400 becomes Infinity, 1.0 becomes 1. A mutator gets what JavaScript makes of them. What it does not touch is
 * written again with the digits that were stored.
 *
 * A number carries no mark of where it came from. It is in its place if the object or array that it was parsed into has it where it was
 * (such an object may be moved, sorted or spread), or if it has the same path, and the path does not lead through an array, whose items
 * may have moved. It is recognised
 * - by its value, if all stored numbers of this value have the same digits, and it is not one that a mutator may well compute;
 * - else if it is in its place, and so are all other stored numbers of this value: otherwise it may be a copy of one that is not.
 * Otherwise it is a `TypeError` that names the path: guessing could exchange two ids.
 */

/** One number as it is stored. */
interface Literal {
  readonly text: string;
  /** What JavaScript makes of it. */
  readonly value: number;
}

/** The names of an object's members, or the indexes of an array's items. */
type Place = string | number;

/** What one object or array holds. */
interface Container {
  readonly literals: Map<Place, Literal>;
  /** The objects and arrays in it that hold such numbers, at any depth. */
  readonly inner: Map<Place, Container>;
}

/** The numbers of one document that JavaScript changes, and those that JavaScript cannot distinguish from them. */
export interface ExactNumbers {
  /** Its only place is 0: the document. */
  readonly root: Container;
  /** The numbers of which JavaScript keeps another value. Undefined: several different stored numbers became this value. */
  readonly byValue: ReadonlyMap<number, Literal | undefined>;
  /** Of those that are not recognised by their value: how many must be in their places. */
  readonly counts: ReadonlyMap<number, number>;
}

/** The numbers of a document that JavaScript changes; undefined: none. `text` must be valid JSON. */
export function exactNumbersIn(text: string): ExactNumbers | undefined {
  const byValue = new Map<number, Literal | undefined>();
  const root = collect(text, (literal) => {
    const value = Number(literal);
    if (String(value) === literal) return undefined;
    const found = { text: literal, value };
    if (isLossy(literal, value)) byValue.set(value, byValue.has(value) && byValue.get(value)?.text !== literal ? undefined : found);
    return found;
  });
  if (byValue.size === 0) return isEmpty(root) ? undefined : { root, byValue, counts: new Map() };
  // Another pass: a number that JavaScript keeps as it is may be the value of one that it changes.
  const all = collect(text, (literal) => {
    const value = Number(literal);
    if (byValue.has(value)) {
      if (byValue.get(value)?.text !== literal) byValue.set(value, undefined);
    } else if (String(value) === literal) return undefined;
    return { text: literal, value };
  });
  const counts = new Map<number, number>();
  for (const [value, only] of byValue) if (!only || isComputable(value)) counts.set(value, 0);
  if (counts.size > 0) countIn(all, counts);
  return { root: all, byValue, counts };
}

/** A mutator may well compute such a number: the 0 of a counter is not the 1e-400 of another property. */
function isComputable(value: number): boolean {
  return Number.isSafeInteger(value);
}

/** Whether it is open where others of its value came from if it is not in its place. A counter that goes from 0 to 1 is nothing unusual. */
function mustStay({ text, value }: Literal): boolean {
  return !isComputable(value) || isLossy(text, value);
}

/** In the containers, not in the text: of two members with one name, the last one counts. */
function countIn(root: Container, counts: Map<number, number>): void {
  const open = [root];
  for (let container = open.pop(); container; container = open.pop()) {
    for (const literal of container.literals.values()) {
      const count = counts.get(literal.value);
      if (count !== undefined && mustStay(literal)) counts.set(literal.value, count + 1);
    }
    open.push(...container.inner.values());
  }
}

function emptyContainer(): Container {
  return { literals: new Map(), inner: new Map() };
}

function isEmpty({ literals, inner }: Container): boolean {
  return literals.size === 0 && inner.size === 0;
}

/** Visits each number of the text once. Those for which `take` returns a literal are returned by the containers that hold them. */
function collect(text: string, take: (literal: string) => Literal | undefined): Container {
  let current = emptyContainer();
  /** Where the current value is; null: the name of a member comes next. */
  let place: Place | null = 0;
  const open: { readonly container: Container; readonly place: Place }[] = [];
  const number = /[-\d.eE+]+/y;
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === '"') {
      const end = endOfString(text, at);
      if (place === null) {
        place = JSON.parse(text.slice(at, end + 1)) as string;
        // Of two members with one name, the last one counts.
        current.literals.delete(place);
        current.inner.delete(place);
      }
      at = end;
    } else if (char === "{" || char === "[") {
      open.push({ container: current, place: place ?? 0 });
      current = emptyContainer();
      place = char === "[" ? 0 : null;
    } else if (char === "}" || char === "]") {
      const outer = open.pop();
      if (!outer) break;
      if (!isEmpty(current)) outer.container.inner.set(outer.place, current);
      ({ container: current, place } = outer);
    } else if (char === ",") place = typeof place === "number" ? place + 1 : null;
    else if (char === "-" || (char >= "0" && char <= "9")) {
      number.lastIndex = at;
      const literal = number.exec(text)?.[0] ?? char;
      const taken = take(literal);
      if (taken) current.literals.set(place ?? 0, taken);
      at += literal.length - 1;
    }
  }
  return current;
}

/** Not by a regular expression: its stack overflows on strings of many megabytes. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charAt(end - 1 - backslashes) === "\\") backslashes++;
    if (backslashes % 2 === 0) return end;
  }
}

/** Whether the value is another number. Otherwise at most its spelling is another: 1.0 for 1. */
function isLossy(literal: string, value: number): boolean {
  // JavaScript keeps 15 digits.
  if (literal.length <= 16 && /^-?\d+\.\d*$/.test(literal)) return false;
  return !Number.isFinite(value) || normalised(literal) !== normalised(String(value));
}

/** The digits without zeros at both ends, and the power of ten: the same for all spellings of one number. */
function normalised(literal: string): string {
  const [, whole = "", fraction = "", exponent = "0"] = /^-?(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  return significant === "" ? "0" : `${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

/** The numbers that were parsed into an object or array. */
const origins = new WeakMap<object, { readonly literals: ReadonlyMap<Place, Literal>; readonly length: number | undefined }>();

/** Remembers which parts of a value that was just parsed hold such numbers. */
export function rememberNumbers(root: unknown, numbers: ExactNumbers): void {
  const open: { readonly value: unknown; readonly container: Container | undefined }[] = [{ value: root, container: numbers.root.inner.get(0) }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { value, container } = next;
    if (!container || typeof value !== "object" || value === null) continue;
    if (container.literals.size > 0) origins.set(value, { literals: container.literals, length: Array.isArray(value) ? value.length : undefined });
    for (const [place, inner] of container.inner) open.push({ value: (value as Record<Place, unknown>)[place], container: inner });
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
  const marking = new Marking(numbers);
  // Another walk before it: one number that is not in its place leaves it open where the others of its value came from.
  if (numbers.counts.size > 0) marking.survey(value);
  return marking.mark(value, undefined, 0, numbers.root);
}

/** The JSON text of such a copy with the numbers in place of the strings. */
export function unmark(text: string): string {
  return text.replace(marked, (_, literal: string) => literal);
}

/** One walk through a value, together with what is stored at the same path. */
class Marking {
  readonly #numbers: ExactNumbers;
  /** Of the current object or array. One list for all: a path for each number would cost more than the rest. */
  readonly #path: Place[] = [];
  #openArrays = 0;
  /** The numbers that were found in their places, by their values. */
  readonly #inPlace = new Map<number, Set<Literal>>();
  #isSurvey = false;

  constructor(numbers: ExactNumbers) {
    this.#numbers = numbers;
  }

  survey(value: unknown): void {
    this.#isSurvey = true;
    this.mark(value, undefined, 0, this.#numbers.root);
    this.#isSurvey = false;
  }

  /** `parent`: the object or array that has the value at `place`. `stored`: what is stored at the path of the parent. */
  mark(value: unknown, parent: object | undefined, place: Place, stored: Container | undefined): unknown {
    if (typeof value === "number") {
      const literal = this.#literalFor(value, parent, place, stored);
      return literal === undefined ? value : marker + literal;
    }
    if (typeof value !== "object" || value === null || typeof (value as { toJSON?: unknown }).toJSON === "function") return value;
    const isArray = Array.isArray(value);
    if (!isArray && !isPlain(value)) return value;
    const inner = stored?.inner.get(place);
    if (parent) this.#path.push(place);
    if (isArray) this.#openArrays++;
    let copy: object;
    // Loops: callbacks would need several times the stack for each level.
    if (isArray) {
      const items: unknown[] = [];
      for (let index = 0; index < value.length; index++) items.push(this.mark(value[index], value, index, inner));
      copy = items;
    } else {
      const members = Object.entries(value) as [string, unknown][];
      for (const member of members) member[1] = this.mark(member[1], value, member[0], inner);
      copy = Object.fromEntries(members);
    }
    if (isArray) this.#openArrays--;
    if (parent) this.#path.pop();
    return copy;
  }

  #literalFor(value: number, parent: object | undefined, place: Place, stored: Container | undefined): string | undefined {
    const { byValue, counts } = this.#numbers;
    const count = counts.get(value);
    if (this.#isSurvey) {
      const found = count === undefined ? undefined : this.#storedAt(value, parent, place, stored);
      if (found && mustStay(found)) this.#inPlace.set(value, (this.#inPlace.get(value) ?? new Set<Literal>()).add(found));
      return undefined;
    }
    const found = this.#storedAt(value, parent, place, stored);
    // At most its spelling is another.
    if (!byValue.has(value)) return found?.text;
    const only = byValue.get(value);
    if (only && (found || count === undefined) && (found || Number.isFinite(value))) return only.text;
    const allInPlace = (this.#inPlace.get(value)?.size ?? 0) === count;
    if (allInPlace && found) return found.text;
    if (allInPlace && isComputable(value)) return undefined;
    if (!Number.isFinite(value) && !found) return undefined; // the caller rejects it, as any infinity
    const path = parent ? [...this.#path, place] : [];
    throw new TypeError(
      `The number at ${describePath(path)} stands for one of several stored numbers that JavaScript cannot tell apart: store such numbers as strings.`,
    );
  }

  /** What is stored in the place of a number that has not changed. */
  #storedAt(value: number, parent: object | undefined, place: Place, stored: Container | undefined): Literal | undefined {
    const origin = parent && origins.get(parent);
    const own = origin?.literals.get(place);
    // Items of a shorter or longer array may have moved.
    const inPlace = origin?.length === undefined || origin.length === (parent as unknown[]).length;
    if (own && inPlace && Object.is(own.value, value)) return own;
    const atPath = stored?.literals.get(place);
    return atPath && Object.is(atPath.value, value) && (this.#openArrays === 0 || !this.#numbers.byValue.has(value)) ? atPath : undefined;
  }
}

/** A path as it is written in JavaScript. */
export function describePath(path: readonly (string | number)[]): string {
  if (path.length === 0) return "the top level";
  return path.map((step) => (typeof step === "number" ? `[${step}]` : /^[\w$]+$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`)).join("").replace(/^\./, "");
}
