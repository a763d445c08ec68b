import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import type { BlobDownloadLike } from "../../src/clients.js";
import { eachChunk, readBody } from "../../src/target/content.js";

async function* chunks(...parts: string[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part);
}

describe("readBody", () => {
  it.each([[[]], [["one"]], [["one", "", "two"]]])("reads a stream of the chunks %j", async (parts) => {
    const bytes = await readBody({ readableStreamBody: chunks(...parts) });
    expect(Buffer.from(bytes).toString()).toBe(parts.join(""));
    expect(bytes.constructor).toBe(Uint8Array);
  });

  it("reads what a browser gets", async () => {
    expect(Buffer.from(await readBody({ blobBody: Promise.resolve(new Blob(["text"])) })).toString()).toBe("text");
  });

  it("reads no body as an empty one", async () => {
    expect(await readBody({})).toHaveLength(0);
  });

  it("passes on the error of a broken stream", async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("half");
      throw new Error("reset");
    }
    await expect(readBody({ readableStreamBody: broken() })).rejects.toMatchObject({ name: "IncompleteBodyError", cause: { message: "reset" } });
  });
});

describe("eachChunk", () => {
  const collect = async (answer: BlobDownloadLike): Promise<string[]> => {
    const taken: string[] = [];
    await eachChunk(answer, (chunk) => {
      taken.push(Buffer.from(chunk).toString());
      return undefined;
    });
    return taken;
  };

  it("hands on what Node gives chunk by chunk", async () => {
    expect(await collect({ readableStreamBody: Readable.from([Buffer.from("one"), Buffer.from("two")]) })).toEqual(["one", "two"]);
    expect(await collect({ readableStreamBody: Readable.from([]) })).toEqual([]);
  });

  it("passes on the error of a stream of Node, and that it was closed early", async () => {
    const broken = new Readable({ read: () => undefined });
    const failed = collect({ readableStreamBody: broken });
    broken.destroy(new Error("reset"));
    await expect(failed).rejects.toThrow("reset");
    const closed = new Readable({ read: () => undefined });
    const cut = collect({ readableStreamBody: closed });
    closed.destroy();
    await expect(cut).rejects.toThrow("closed before its end");
  });

  it("lets go of the stream when the taker throws", async () => {
    const stream = Readable.from([Buffer.from("one"), Buffer.from("two")]);
    let calls = 0;
    const taken = eachChunk({ readableStreamBody: stream }, () => {
      calls++;
      throw new Error("enough");
    });
    await expect(taken).rejects.toThrow("enough");
    expect(stream.destroyed).toBe(true);
    expect(calls).toBe(1);
  });
});
