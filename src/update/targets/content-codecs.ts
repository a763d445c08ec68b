import { deepEqual } from "fast-equals";

/** How a value becomes the content of a blob. `Raw` is the form in which drafts are kept; it is never changed in place. */
export interface ContentCodec<T, Raw> {
  readonly contentType: string;
  readonly decode: (raw: Raw) => T;
  readonly encode: (value: T) => Raw;
  readonly same: (a: Raw, b: Raw) => boolean;
  readonly toBytes: (raw: Raw) => Uint8Array;
  /** Throws if the content is not of this kind. */
  readonly fromBytes: (bytes: Uint8Array) => Raw;
}

const encoder = new TextEncoder();
// Not fatal would turn what is no UTF-8 into replacement characters, and the next write would make that permanent.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const jsonDecoder = new TextDecoder("utf-8", { fatal: true });

export const jsonCodec: ContentCodec<unknown, string> = {
  contentType: "application/json",
  decode: (raw): unknown => JSON.parse(raw),
  encode(value) {
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined) throw new TypeError(`a ${typeof value} is no JSON value`);
    // JSON.stringify turns NaN and Infinity into null without a word. Only a text with a null in it can have had them.
    if (text.includes("null")) JSON.stringify(value, refuseNonFinite);
    return text;
  },
  same: (a, b) => a === b || deepEqual(JSON.parse(a), JSON.parse(b)),
  toBytes: (raw) => encoder.encode(raw),
  fromBytes(bytes) {
    const text = jsonDecoder.decode(bytes);
    try {
      JSON.parse(text);
    } catch {
      // The engine's own message quotes from the text, which is nobody's business who merely reads logs.
      throw new SyntaxError("it is not valid JSON");
    }
    return text;
  },
};

export const textCodec: ContentCodec<string, string> = {
  contentType: "text/plain; charset=utf-8",
  decode: (raw) => raw,
  encode(value) {
    if (typeof value !== "string") throw new TypeError(`the content of a text blob must be a string, not ${typeof value}`);
    // Half a surrogate pair has no UTF-8; the encoder would store a replacement character without a word.
    if (/\p{Surrogate}/u.test(value)) throw new TypeError("the content of a text blob must be well-formed Unicode");
    return value;
  },
  same: (a, b) => a === b,
  toBytes: (raw) => encoder.encode(raw),
  fromBytes: (bytes) => decoder.decode(bytes),
};

export const bytesCodec: ContentCodec<Uint8Array, Uint8Array> = {
  contentType: "application/octet-stream",
  decode: (raw) => raw.slice(),
  encode(value) {
    if (!(value instanceof Uint8Array)) throw new TypeError("the content of a bytes blob must be a Uint8Array");
    return new Uint8Array(value);
  },
  same: (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]),
  toBytes: (raw) => raw,
  fromBytes: (bytes) => bytes,
};

function refuseNonFinite(key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new TypeError(`JSON has no ${value} (at ${JSON.stringify(key)}): it would be stored as null`);
  }
  return value;
}
