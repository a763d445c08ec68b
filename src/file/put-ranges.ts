import type { FileCallOptions, FileLike } from "../clients.js";

/** More than this the service does not take in one request. */
export const maxRangeInBytes: number = 4 * 1024 * 1024;

/**
 * Fills a file that was created with this length. One request for each 4 MiB, one after the other; none if it is empty.
 * Returns the ETag of the last one.
 */
export async function putRanges(file: FileLike, bytes: Uint8Array, options: () => FileCallOptions): Promise<string | undefined> {
  let etag: string | undefined;
  for (let offset = 0; offset < bytes.length; offset += maxRangeInBytes) {
    const part = bytes.subarray(offset, offset + maxRangeInBytes);
    ({ etag } = await file.uploadRange(part, offset, part.length, options()));
  }
  return etag;
}
