import { quotedText } from "../errors.js";

/** The types that a table can store, for the option `types` of {@link tableEntity} and {@link runTransaction}. */
export type EdmType = "Binary" | "Boolean" | "DateTime" | "Double" | "Guid" | "Int32" | "Int64" | "String";

/** A stored property: its type, and its value as it is sent (see {@link fromEdm}). */
export interface EdmValue {
  readonly type: EdmType;
  readonly value: string | number | boolean;
  /** The SDK cannot send a property of this name. */
  readonly unsendable?: true;
}

const edmTypes: ReadonlySet<string> = new Set<EdmType>(["Binary", "Boolean", "DateTime", "Double", "Guid", "Int32", "Int64", "String"]);

export function isEdmType(type: unknown): type is EdmType {
  return typeof type === "string" && edmTypes.has(type);
}

/** Whether a property was given with its type, like the SDK's `Edm<T>`. */
function isTyped(value: unknown): value is { type: EdmType; value: unknown } {
  return typeof value === "object" && value !== null && "value" in value && "type" in value && isEdmType(value.type);
}

/** The JavaScript value that a mutator sees: the same as the SDK's, except that `NaN` and infinities are numbers. */
export function fromEdm({ type, value }: EdmValue): unknown {
  switch (type) {
    case "Int64":
      return BigInt(value);
    case "DateTime":
      return new Date(String(value));
    case "Binary":
      return Uint8Array.from(atob(String(value)), (char) => char.charCodeAt(0));
    case "Guid":
      return { type, value };
    case "Double":
      return Number(value);
    default:
      return value;
  }
}

/**
 * The stored form of a JavaScript value. `wanted` is the type that the caller requires, `previous` the type that the property
 * had before: a number keeps its numeric type, text for a Guid, DateTime or Int64 has to be one, and text for a Boolean is an error. A caller that wants another type says so:
 * `{ type: "String", value }`.
 */
export function toEdm(name: string, value: unknown, wanted: EdmType | undefined, previous: EdmType | undefined): EdmValue {
  if (isTyped(value)) return convert(name, value.value, value.type);
  if (wanted) return convert(name, value, wanted);
  switch (typeof value) {
    case "string":
      if (previous === "Boolean") throw new TypeError(`Property ${quotedText(name)}: this string is not an Edm.Boolean.`);
      return convert(name, value, previous === "Guid" || previous === "DateTime" || previous === "Int64" ? previous : "String");
    case "boolean":
      return convert(name, value, "Boolean");
    case "bigint":
      return convert(name, value, "Int64");
    case "number":
      if (previous === "Double") return convert(name, value, "Double");
      if (previous === "Int64" && Number.isSafeInteger(value)) return convert(name, value, "Int64");
      return convert(name, value, isInt32(value) ? "Int32" : "Double");
    case "object":
      if (value instanceof Date) return convert(name, value, "DateTime");
      if (value instanceof Uint8Array) return convert(name, value, "Binary");
  }
  throw new TypeError(`Property ${quotedText(name)}: a table cannot store ${describe(value)}.`);
}

const guid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const dateTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

function convert(name: string, value: unknown, type: EdmType): EdmValue {
  const stored = forms[type](value);
  if (stored === undefined) throw new TypeError(`Property ${quotedText(name)}: ${describe(value)} is not an Edm.${type}.`);
  return { type, value: stored };
}

/** The form in which a value of each type is sent; undefined: the value is not of that type. */
const forms: Record<EdmType, (value: unknown) => string | number | boolean | undefined> = {
  String: (value) => (typeof value === "string" ? value : undefined),
  Boolean: (value) => (typeof value === "boolean" ? value : value === "true" ? true : value === "false" ? false : undefined),
  Int32: (value) => {
    const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
    return typeof number === "number" && isInt32(number) ? number + 0 : undefined;
  },
  Int64: (value) => {
    if (typeof value === "string" ? !/^-?\d+$/.test(value) : typeof value !== "bigint" && !Number.isSafeInteger(value)) return undefined;
    const integer = BigInt(value as string | bigint | number);
    return BigInt.asIntN(64, integer) === integer ? integer.toString() : undefined;
  },
  Double: (value) => {
    const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
    if (typeof number !== "number" || (Number.isNaN(number) && value !== "NaN" && typeof value === "string")) return undefined;
    // JSON has no minus zero: store the zero that a reader would get.
    return Number.isFinite(number) ? number + 0 : String(number);
  },
  DateTime: (value) => {
    if (value instanceof Date) {
      // toISOString writes years after 9999 in a form that the service does not accept.
      return value.getTime() >= -11644473600000 && value.getTime() < 253402300800000 ? value.toISOString() : undefined;
    }
    return typeof value === "string" && dateTime.test(value) && !Number.isNaN(Date.parse(value)) ? value : undefined;
  },
  Guid: (value) => (typeof value === "string" && guid.test(value) ? value : undefined),
  Binary: (value) => {
    if (value instanceof Uint8Array) return toBase64(value);
    return typeof value === "string" && base64.test(value) ? value : undefined;
  },
};

function isInt32(value: number): boolean {
  return (value | 0) === value;
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

function describe(value: unknown): string {
  if (value === null) return "null";
  // Never the value itself: messages end up in logs.
  if (typeof value !== "object") return `this ${typeof value}`;
  return `a ${(value.constructor as { name: string } | undefined)?.name ?? "object"}`; // no constructor without a prototype
}
