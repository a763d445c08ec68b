import type { BlobDownloadLike } from "../clients/blob.js";
import type { StandardSchemaLike } from "../clients/schema.js";
import { IncompleteBodyError, SecondaryReadError } from "../core/request.js";
import { WriteNotSentError } from "../core/resolve-write.js";
import { retry } from "../core/retry.js";
import { isNotFound, statusOf } from "../core/storage-errors.js";
import { checkNumber } from "../core/validate.js";
import { ContentTooLargeError, createError, isConcurrencyError, SchemaError } from "../errors.js";
import { asDocument } from "./schema-output.js";

/** Converts a value to the content of a blob and back. `Raw` is the form of drafts; it is never modified in place. */
export interface ContentCodec<T, Raw> {
  readonly contentType: string;
  readonly decode: (raw: Raw) => T;
  /** `previous`: what the value was decoded from, if it was. Throws a `TypeError` for a value that cannot be stored. */
  readonly encode: (value: T, previous?: Raw) => Raw;
  /** Throws a `TypeError` if one is a value of another kind than the other, which is hardly ever meant. */
  readonly checkKind?: (before: Raw, after: Raw) => void;
  readonly equals: (a: Raw, b: Raw) => boolean;
  readonly toBytes: (raw: Raw) => Uint8Array;
  /** Throws if the content is not of this type. */
  readonly fromBytes: (bytes: Uint8Array) => Raw;
}

const encoder = new TextEncoder();
// `fatal`: otherwise invalid UTF-8 would become replacement characters, and the next write would make them permanent.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const textCodec: ContentCodec<string, string> = {
  contentType: "text/plain; charset=utf-8",
  decode: (raw) => raw,
  encode(value) {
    if (typeof value !== "string") throw new TypeError(`The content must be a string, not ${typeof value}.`);
    // A lone surrogate has no UTF-8 encoding; the encoder would silently store a replacement character.
    if (/\p{Surrogate}/u.test(value)) throw new TypeError("The content must be well-formed Unicode.");
    return value;
  },
  equals: (a, b) => a === b,
  toBytes: (raw) => encoder.encode(raw),
  fromBytes: (bytes) => decoder.decode(bytes),
};

export const bytesCodec: ContentCodec<Uint8Array, Uint8Array> = {
  contentType: "application/octet-stream",
  decode: (raw) => raw.slice(),
  encode(value) {
    if (!(value instanceof Uint8Array)) throw new TypeError("The content must be a Uint8Array.");
    return new Uint8Array(value);
  },
  equals: (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]),
  toBytes: (raw) => raw,
  fromBytes: (bytes) => bytes,
};

/** Content that cannot be read or written as it is. */
export function unusable(url: string, phase: "read" | "write", message: string, details: { cause?: unknown; etag?: string } = {}): SchemaError {
  const what = phase === "read" ? `The content of ${url} cannot be used` : `${url} cannot be written`;
  return createError(SchemaError, `${what}: ${message}. Nothing was written.`, { url, phase, issues: [{ message }], etag: undefined, ...details });
}

/** The output of a schema for a value. Rejects with a `SchemaError`. */
export async function checkSchema<T>(schema: StandardSchemaLike<T>, value: unknown, phase: "read" | "write", url: string): Promise<T> {
  const result = await schema["~standard"].validate(value);
  if (!result.issues) return result.value;
  const { issues } = result;
  const what = phase === "read" ? `The value that is stored at ${url}` : `The new value for ${url}`;
  // The paths, but not the schema's messages: some quote the value, and error messages end up in logs.
  const places = issues.map((issue) => pathOf(issue.path)).join(", ");
  const message = `${what} does not match the schema, at ${places} (see issues). Nothing was written.`;
  throw createError(SchemaError, message, { url, phase, issues, etag: undefined });
}

/**
 * What a document becomes by its schema: the schema's output, with defaults and coercions. Properties that the schema strips are
 * kept: another version of the service may need them, and an update must not delete them. The same for reads and writes, so that
 * the next mutator of a batch gets what a reader would get.
 */
export async function validateDocument<T, Raw>(
  codec: Pick<ContentCodec<T, Raw>, "decode" | "encode">,
  schema: StandardSchemaLike<T>,
  raw: Raw,
  phase: "read" | "write",
  url: string,
): Promise<Raw> {
  const output = await checkSchema(schema, codec.decode(raw), phase, url);
  return codec.encode(asDocument(output, codec.decode(raw)) as T, raw);
}

function pathOf(path: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined): string {
  if (!path?.length) return "the top level";
  return path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
}

/** Receives a chunk of a body. `"complete"`: this was the last byte needed; the end of the body is not awaited. */
export type TakeChunk = (chunk: Uint8Array) => "complete" | undefined;

/** Passes on the body of a download as it arrives: a stream of chunks in Node, a `Blob` in browsers. */
export async function eachChunk(response: BlobDownloadLike, take: TakeChunk): Promise<void> {
  if (response.blobBody) {
    take(new Uint8Array(await (await response.blobBody).arrayBuffer()));
    return;
  }
  const body = response.readableStreamBody ?? [];
  if (isNodeStream(body)) await consume(body, take);
  else for await (const chunk of body as AsyncIterable<Uint8Array>) if (take(chunk) === "complete") return;
}

/**
 * For a response whose body is read later: from now on an error of the body does not end the process. Without a listener it would,
 * as an unhandled `error` event or an unhandled rejection.
 */
export function holdBody({ readableStreamBody, blobBody }: Pick<BlobDownloadLike, "readableStreamBody" | "blobBody">): void {
  blobBody?.catch(ignore);
  if (isNodeStream(readableStreamBody)) readableStreamBody.on("error", ignore);
}

/**
 * For a response whose body is not read, because the response is late or not what was requested. Closes the connection, which the
 * rest of the body would occupy.
 */
export function discardBody(response: Pick<BlobDownloadLike, "readableStreamBody" | "blobBody">): void {
  holdBody(response);
  const body = response.readableStreamBody;
  if (isNodeStream(body)) body.destroy();
}

function ignore(): void {
  // The body is not needed, or its reader gets the error.
}

/** The members of a Node stream that are used here. */
interface NodeStreamLike {
  readonly destroyed?: boolean;
  readonly errored?: unknown;
  on(event: "data", listener: (chunk: Uint8Array) => void): unknown;
  on(event: "end" | "close", listener: () => void): unknown;
  on(event: "error", listener: (error: unknown) => void): unknown;
  destroy(): unknown;
}

function isNodeStream(body: unknown): body is NodeStreamLike {
  const { on, destroy } = (body ?? {}) as Partial<NodeStreamLike>;
  return typeof on === "function" && typeof destroy === "function";
}

const closedEarly = "the body was closed before its end";

/** Listens to events: a loop over the stream would concatenate buffered chunks, which copies everything once more. */
function consume(stream: NodeStreamLike, take: TakeChunk): Promise<void> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    // It broke before it was read: its events have been emitted already.
    if (stream.destroyed) reject(stream.errored instanceof Error ? stream.errored : new Error(closedEarly));
    stream.on("error", reject);
    stream.on("end", () => {
      isOver = true;
      resolve();
    });
    // Emitted last, and without `error` if the stream was destroyed without one. An error is created only if it is needed:
    // its stack trace costs more than the rest of this function.
    stream.on("close", () => {
      if (!isOver) reject(new Error(closedEarly));
    });
    stream.on("data", (chunk) => {
      if (isOver) return;
      try {
        if (take(chunk) !== "complete") return;
        // The stream keeps flowing to its end, so that its connection can be reused.
        isOver = true;
        resolve();
      } catch (error) {
        isOver = true;
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the taker's own
        reject(error);
        stream.destroy();
      }
    });
  });
}

/** Content above this is neither read nor written, unless the caller says otherwise. */
const defaultMaxSizeInBytes = 64 * 1024 * 1024;

/** The option `maxSizeInBytes` of a target. */
export interface SizeLimit {
  readonly maxSizeInBytes: number;
  tooLarge(what: string, sizeInBytes: number): ContentTooLargeError;
  /** Of a body that is being read. */
  checkLength(length: number): void;
  /** Of content that is to be written. */
  checkBytes(bytes: Uint8Array): Uint8Array;
}

export function sizeLimit(url: string, given: number | undefined): SizeLimit {
  const maxSizeInBytes = checkNumber("maxSizeInBytes", given ?? defaultMaxSizeInBytes, { min: 1, integer: true });
  const tooLarge = (what: string, sizeInBytes: number): ContentTooLargeError => {
    const message = `${what}, more than maxSizeInBytes (${maxSizeInBytes}). Nothing was written.`;
    return createError(ContentTooLargeError, message, { url, sizeInBytes, maxSizeInBytes });
  };
  return {
    maxSizeInBytes,
    tooLarge,
    checkLength: (length) => {
      if (length > maxSizeInBytes) throw tooLarge(`${url} has at least ${length} bytes`, length);
    },
    checkBytes: (bytes) => {
      if (bytes.length <= maxSizeInBytes) return bytes;
      throw new WriteNotSentError(tooLarge(`${url} would have ${bytes.length} bytes`, bytes.length));
    },
  };
}

/**
 * Reads the body of a download to its end. Rejects with an `IncompleteBodyError` if the connection breaks: another read may succeed.
 *
 * @param check - Gets the length so far, and throws if it is too much: the service need not say how long a body is.
 */
export async function readBody(response: BlobDownloadLike, check?: (length: number) => void): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    await eachChunk(response, (chunk) => {
      chunks.push(chunk);
      length += chunk.length;
      check?.(length);
      return undefined;
    });
  } catch (error) {
    // The SDK resumes some bodies by itself. Then the error may be a response, for example that the blob has changed.
    throw statusOf(error) === undefined && !isConcurrencyError(error) ? new IncompleteBodyError(`the body broke off after ${length} bytes`, { cause: error }) : error;
  }
  const [only] = chunks;
  if (only && chunks.length === 1) return new Uint8Array(only.buffer, only.byteOffset, only.length);
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}

/** The maximum number of reads of content that changes, or whose connection breaks, during the read. */
const maxReads = 5;

/**
 * Reads content, again if a write or a broken connection tore the read. `undefined`: it does not exist. If that does not help, rejects
 * with an `IncompleteBodyError`: `readWithTries` then waits, and reads again until the deadline.
 */
export async function readWhole<S>(readOnce: () => Promise<S>, isTorn: (error: unknown) => boolean, abortSignal: AbortSignal): Promise<S | undefined> {
  try {
    return await readOnce();
  } catch (error) {
    if (isNotFound(error)) return undefined;
    if (!isTorn(error) || abortSignal.aborted) throw error;
  }
  try {
    return await retry(readOnce, { maxAttempts: maxReads - 1, shouldRetry: isTorn, abortSignal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw isTorn(error) ? new IncompleteBodyError(`${maxReads} reads in a row were torn`, { cause: error }) : error;
  }
}

/** Whether it is an object as JSON.parse creates it, of any realm: the prototype of its prototype is null. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

/**
 * Whether it is an object whose properties are its value: not a list, a `Map`, a `Date`, or a promise, whose properties would be taken for
 * none, so that all that is stored would be erased.
 */
export function hasProperties(value: unknown): value is object {
  return Object.prototype.toString.call(value) === "[object Object]" && typeof (value as { then?: unknown }).then !== "function";
}

/** What the SDKs keep of a request: with a response, and with an error. */
interface Sent {
  readonly _response?: { readonly request?: { readonly url?: unknown } | undefined } | undefined;
  readonly request?: { readonly url?: unknown } | undefined;
}

/**
 * The response to a read that decides what is written, or whether a write was committed. With `retryOptions.secondaryHost`, the SDK sends
 * every other try of a read to the secondary, which may lag behind by minutes: its state proves nothing.
 */
export async function fromPrimary<R extends object>(client: { readonly url: string }, context: { readonly primaryOnly?: boolean | undefined }, response: Promise<R>): Promise<R> {
  if (!context.primaryOnly) return response;
  try {
    const received = await response;
    requirePrimary(client, received, () => discardBody(received));
    return received;
  } catch (error) {
    if (!(error instanceof SecondaryReadError)) requirePrimary(client, error);
    throw error;
  }
}

function requirePrimary(client: { readonly url: string }, answer: unknown, discard?: () => void): void {
  const { _response, request } = answer as Sent;
  const url = _response?.request?.url ?? request?.url;
  // A client that does not tell where it read has no secondary.
  if (typeof url !== "string" || new URL(url).hostname === new URL(client.url).hostname) return;
  discard?.();
  throw new SecondaryReadError("The response is from the secondary, which may be outdated.");
}
