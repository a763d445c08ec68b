import type { StandardSchemaLike } from "../clients/schema.js";
import { sha256 } from "../core/identity.js";
import { errorType } from "../core/telemetry.js";
import { createError, printable, SchemaError } from "../errors.js";
import type { TextReference } from "../overflow/stored-text.js";

/** Where the result of a record is, if it is in a blob. The name of the blob is derived from the place of the record and the hash. */
export interface BlobReference extends TextReference {
  /** Of the blob when it was written. Undefined: a proxy has removed it. */
  readonly etag: string | undefined;
}

/** What became of a call, as it is stored. */
export type StoredOutcome =
  /** What the function returned, as JSON. Undefined: it returned nothing that JSON has. */
  | { readonly kind: "value"; readonly text: string | undefined }
  /** The same, in a blob: it does not fit into the record. */
  | { readonly kind: "blob"; readonly reference: BlobReference }
  /** What the function threw: `name`, `message` and what JSON can represent of the rest. */
  | { readonly kind: "error"; readonly text: string }
  /** The function has returned, but its result cannot be stored. */
  | { readonly kind: "unstorable"; readonly reason: string };

/** What a function has returned, if it can be stored. */
export type ValueOutcome = StoredOutcome & { readonly kind: "value" | "unstorable" };

/** The longest result in a record, as JSON: with all other properties far below the 1 MiB of an entity. */
export const maxResultCharacters = 60_000;

/**
 * What is stored of a result. Never throws: the function has run, and that must be recorded in any case. `onFailure` gets the error of a
 * result that cannot be written: its message may contain the result, and is not stored.
 */
export function outcomeOfValue(value: unknown, onFailure?: (error: unknown) => void): ValueOutcome {
  try {
    return { kind: "value", text: jsonOf(value) };
  } catch (error) {
    onFailure?.(error);
    return { kind: "unstorable", reason: `it cannot be written as JSON (${errorType(error)})` };
  }
}

/** Whether a result needs a blob. */
export function isLarge(outcome: ValueOutcome): outcome is ValueOutcome & { kind: "value"; text: string } {
  return outcome.kind === "value" && outcome.text !== undefined && outcome.text.length > maxResultCharacters;
}

/** For a result that needs a blob, and has none. */
export function tooLarge(text: string): StoredOutcome & { kind: "unstorable" } {
  return { kind: "unstorable", reason: `it has ${text.length} characters as JSON, and ${maxResultCharacters} can be stored without the option overflow` };
}

/** Undefined for what JSON does not have: undefined itself, and functions. */
function jsonOf(value: unknown): string | undefined {
  return JSON.stringify(value);
}

/** The error that tells the caller, the first one and each that repeats it, that there is no result to return. */
export function unstorableError(reason: string, cause?: unknown): RangeError {
  const message = `The function of Once has returned, but its result is not stored: ${printable(reason)}. The key counts as done, and the function does not run again.`;
  return new RangeError(message, cause === undefined ? undefined : { cause });
}

/** What is stored of an error: its name and message, and what JSON can represent of its other properties. */
export function outcomeOfError(error: unknown): StoredOutcome {
  const isError = error instanceof Error;
  const basis = { isError, name: isError ? safeString(error.name).slice(0, 200) : undefined, message: safeString(isError ? error.message : error).slice(0, 10_000) };
  try {
    const text = JSON.stringify({ ...basis, properties: typeof error === "object" ? error : undefined, ...(!isError && { thrown: error }) });
    if (text.length <= maxResultCharacters) return { kind: "error", text };
  } catch {
    // A cycle, a bigint, or a getter that throws: without the properties.
  }
  return { kind: "error", text: JSON.stringify(basis) };
}

function safeString(value: unknown): string {
  try {
    return String(value);
  } catch {
    return "unknown";
  }
}

/**
 * The error of an earlier call, as far as it was stored.
 * @throws {@link SchemaError} if another program has changed it.
 */
export function storedError(text: string, url: string): unknown {
  const stored = parsed(text, url);
  if (typeof stored !== "object" || stored === null || typeof (stored as { message?: unknown }).message !== "string") throw damagedResult(url, "error");
  const { isError, name, message, properties, thrown } = stored as { isError?: unknown; name?: unknown; message: string; properties?: unknown; thrown?: unknown };
  if (isError !== true && thrown !== undefined) return thrown;
  if (name !== undefined && typeof name !== "string") throw damagedResult(url, "error");
  const error = new Error(message);
  const own = typeof properties === "object" && properties !== null ? Object.entries(properties) : [];
  for (const [key, value] of own) {
    // What every error has: a text in place of a method would throw when the error is printed.
    if (key in Error.prototype || key === "stack") continue;
    Object.defineProperty(error, key, { value: value as unknown, enumerable: true, configurable: true, writable: true });
  }
  if (name !== undefined) Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  return error;
}

/** A stored result, checked by the schema of the caller. */
export async function parsedResult<R>(text: string | undefined, schema: StandardSchemaLike<R> | undefined, url: string): Promise<R> {
  const value = text === undefined ? undefined : parsed(text, url);
  if (!schema) return value as R;
  const result = await schema["~standard"].validate(value);
  if (!result.issues) return result.value;
  const message = `The stored result of a key of Once in ${url} does not match the schema: ${result.issues.length} issues (see issues)`;
  throw createError(SchemaError, message, { url, phase: "read", issues: result.issues, etag: undefined });
}

function parsed(text: string, url: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw damagedResult(url, "result", error);
  }
}

/** What is stored is not what the library wrote. The function has run: this is never taken for a key that was not used. */
export function damagedResult(url: string, issue: string, cause?: unknown): SchemaError {
  const message = `A stored result of Once in ${url} cannot be read: another program has changed or deleted it. Delete its record with forget() if the call may run again.`;
  return createError(SchemaError, message, { url, phase: "read", issues: [{ message: issue }], etag: undefined, ...(cause !== undefined && { cause }) });
}

/**
 * The hash of what a call is about. The order of the properties does not count.
 * @throws `TypeError` if it cannot be written as JSON, or JSON has nothing of a part of it.
 */
export async function fingerprintOf(fingerprint: unknown): Promise<string | undefined> {
  if (fingerprint === undefined) return undefined;
  let text: string | undefined;
  try {
    text = jsonOf(sorted(fingerprint));
  } catch (error) {
    // Too deep, or a cycle.
    if (!(error instanceof RangeError)) throw error;
    throw new TypeError("fingerprint cannot be written as JSON: it refers to itself, or is nested too deeply", { cause: error });
  }
  if (text === undefined) throw new TypeError("fingerprint cannot be written as JSON");
  return sha256(text);
}

function sorted(value: unknown): unknown {
  const json: unknown = typeof (value as { toJSON?: unknown } | null)?.toJSON === "function" ? (value as { toJSON(): unknown }).toJSON() : value;
  if (Array.isArray(json)) return json.map(sorted);
  if (typeof json !== "object" || json === null) return json;
  checkHasContent(json);
  return Object.fromEntries(Object.entries(json).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, part]) => [name, sorted(part)]));
}

/** A Map, a Promise, URLSearchParams and the like are {} as JSON, whatever they contain: all of them would be the same call. */
function checkHasContent(value: object): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (isPlain || Object.keys(value).length > 0) return;
  const { name } = (prototype as { readonly constructor?: { readonly name?: unknown } }).constructor ?? {};
  throw new TypeError(`fingerprint has ${typeof name === "string" && name !== "" ? `a ${name}` : "an object"} of which JSON contains nothing. Pass its content.`);
}
