/**
 * Names of locks may hold any character; names of blobs are picky (`../`, a dot at the end, control characters), and
 * tools more so. Letters, digits, `-` and `_` stand for themselves, every other byte of the UTF-8 form is `~XX`.
 */
export function blobNameOf(prefix: string, name: string): string {
  if (typeof name !== "string" || name === "") throw new RangeError("the name of a lock must be a string that is not empty");
  const encoded = prefix + encode(name);
  if (encoded.length > maxBlobName) {
    throw new RangeError(`the name of a lock is too long: ${encoded.length} characters as a blob name, ${maxBlobName} at most`);
  }
  return encoded;
}

/** The name of the lock in this blob, or undefined if it is no lock. */
export function lockNameOf(prefix: string, blobName: string): string | undefined {
  if (!blobName.startsWith(prefix)) return undefined;
  try {
    const name = decodeURIComponent(blobName.slice(prefix.length).replaceAll("~", "%"));
    return name !== "" && prefix + encode(name) === blobName ? name : undefined;
  } catch {
    return undefined;
  }
}

const maxBlobName = 1024;

function encode(name: string): string {
  try {
    return encodeURIComponent(name)
      .replace(/[!'()*.~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
      .replaceAll("%", "~");
  } catch {
    throw new RangeError("the name of a lock must be well-formed text: it holds half of a surrogate pair");
  }
}
