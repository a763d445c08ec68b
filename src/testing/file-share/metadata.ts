import type { FileRequest } from "./request.js";
import { StorageFault } from "./storage-fault.js";

const prefix = "x-ms-meta-";
const limit = 8_192;

/** The metadata in the headers of a request. */
export function metadataOf({ headers }: FileRequest): Map<string, string> {
  const metadata = new Map<string, string>();
  let size = 0;
  for (const [header, value] of Object.entries(headers)) {
    if (!header.startsWith(prefix)) continue;
    const name = header.slice(prefix.length);
    if (name === "") throw new StorageFault("EmptyMetadataKey");
    if (!/^[\p{L}_][\p{L}\p{Nd}_]*$/u.test(name)) throw new StorageFault("InvalidMetadata");
    size += name.length + value.length;
    metadata.set(name, value);
  }
  if (size > limit) throw new StorageFault("MetadataTooLarge");
  return metadata;
}

export function metadataHeaders(metadata: ReadonlyMap<string, string>): Record<string, string> {
  return Object.fromEntries(Array.from(metadata, ([name, value]) => [prefix + name, value]));
}
