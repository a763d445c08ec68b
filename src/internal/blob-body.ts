import type { BlobDownloadLike } from "../clients.js";

/** Gets a chunk of a body. `"complete"`: that was the last byte of interest, and its end is not waited for. */
export type TakeChunk = (chunk: Uint8Array) => "complete" | undefined;

/** Hands on the body of a download as it arrives: a stream of chunks in Node, a `Blob` in browsers. */
export async function eachChunk(answer: BlobDownloadLike, take: TakeChunk): Promise<void> {
  if (answer.blobBody) {
    take(new Uint8Array(await (await answer.blobBody).arrayBuffer()));
    return;
  }
  const body = answer.readableStreamBody ?? [];
  if (isNodeStream(body)) await flow(body, take);
  else for await (const chunk of body as AsyncIterable<Uint8Array>) if (take(chunk) === "complete") return;
}

/** What is used of a Node stream. */
interface NodeStreamLike {
  on(event: "data", listener: (chunk: Uint8Array) => void): unknown;
  on(event: "end" | "close", listener: () => void): unknown;
  on(event: "error", listener: (error: unknown) => void): unknown;
  destroy(): unknown;
}

function isNodeStream(body: unknown): body is NodeStreamLike {
  const { on, destroy } = body as Partial<NodeStreamLike>;
  return typeof on === "function" && typeof destroy === "function";
}

/** A loop over the stream would be shorter, but joins the chunks that have gathered: one more copy of everything. */
function flow(stream: NodeStreamLike, take: TakeChunk): Promise<void> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    stream.on("error", reject);
    stream.on("end", () => {
      isOver = true;
      resolve();
    });
    // Comes last, and alone if the stream was destroyed without an error. An error that nobody gets is not made: its
    // stack costs more than all the rest of this.
    stream.on("close", () => {
      if (!isOver) reject(new Error("the body was closed before its end"));
    });
    stream.on("data", (chunk) => {
      if (isOver) return;
      try {
        if (take(chunk) !== "complete") return;
        // It goes on to flow, so that its connection is free again.
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

/** Reads the body of a download to its end. */
export async function readBody(answer: BlobDownloadLike): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  await eachChunk(answer, (chunk) => {
    chunks.push(chunk);
    length += chunk.length;
    return undefined;
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
