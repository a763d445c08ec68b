import type { BlobDownloadLike } from "../clients.js";

/** Reads the body of a download to its end: a stream of chunks in Node, a `Blob` in browsers. */
export async function readBody(answer: BlobDownloadLike): Promise<Uint8Array> {
  if (answer.blobBody) return new Uint8Array(await (await answer.blobBody).arrayBuffer());
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (answer.readableStreamBody ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk);
    length += chunk.length;
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
