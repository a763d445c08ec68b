import { bytesCodec } from "./content.js";
import type { ContentCodec } from "./content.js";

/**
 * Translates between bytes and values, for formats other than JSON. Pass it to {@link encodedBlob} or {@link encodedFile}.
 *
 * @example
 * ```ts
 * const yaml: Codec<Settings> = {
 *   contentType: "application/yaml",
 *   decode: (content) => parse(new TextDecoder().decode(content)) as Settings,
 *   encode: (settings) => new TextEncoder().encode(stringify(settings)),
 * };
 * ```
 */
export interface Codec<T> {
  /** The content type of a blob or file that is created. @defaultValue `"application/octet-stream"`: nothing is known of the bytes */
  readonly contentType?: string | undefined;
  /**
   * The value of the content. Each call returns a new value, because each mutator changes its own. Throws if the content is not of
   * this format: the call then rejects with a {@link SchemaError}.
   */
  decode(content: Uint8Array): T;
  /**
   * The content for a value. The same value gives the same bytes, so that an update without a change is recognised. `decode` must
   * accept them: otherwise the call rejects with a `TypeError`, and nothing is written.
   */
  encode(value: T): Uint8Array;
}

/** The codec of the library for a codec of a caller. Drafts are kept as bytes. */
export function contentCodecOf<T>(kind: string, codec: Codec<T>): ContentCodec<T, Uint8Array> {
  const given = codec as Partial<Codec<T>> | null | undefined;
  if (typeof given?.decode !== "function" || typeof given.encode !== "function") throw new TypeError(`${kind}: the codec must have decode and encode.`);
  return {
    contentType: codec.contentType ?? bytesCodec.contentType,
    decode: (raw) => codec.decode(bytesCodec.decode(raw)),
    encode(value) {
      const bytes = bytesCodec.encode(codec.encode(value));
      try {
        codec.decode(bytesCodec.decode(bytes));
      } catch (cause) {
        // Written, it could not be read any more: every later update of the target would fail.
        throw new TypeError("The codec cannot decode what it has encoded for this value.", { cause });
      }
      return bytes;
    },
    equals: bytesCodec.equals,
    toBytes: bytesCodec.toBytes,
    fromBytes(bytes) {
      try {
        codec.decode(bytesCodec.decode(bytes));
      } catch (cause) {
        // The codec's own message may quote the content, which must not appear in logs.
        throw new SyntaxError("the codec cannot decode it", { cause });
      }
      return bytes;
    },
  };
}
