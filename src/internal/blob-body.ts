import type { BlobDownloadLike } from "../clients.js";

/** Hands on the body of a download as it arrives: a stream of chunks in Node, a `Blob` in browsers. */
export async function eachChunk(answer: BlobDownloadLike, take: (chunk: Uint8Array) => void): Promise<void> {
  if (answer.blobBody) {
    take(new Uint8Array(await (await answer.blobBody).arrayBuffer()));
    return;
  }
  for await (const chunk of (answer.readableStreamBody ?? []) as AsyncIterable<Uint8Array>) take(chunk);
}

/** Reads the body of a download to its end. */
export async function readBody(answer: BlobDownloadLike): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  await eachChunk(answer, (chunk) => {
    chunks.push(chunk);
    length += chunk.length;
  });
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
