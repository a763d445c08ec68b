import { describe, expect, it } from "vitest";
import { readBody } from "../../src/internal/blob-body.js";

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
    await expect(readBody({ readableStreamBody: broken() })).rejects.toThrow("reset");
  });
});
