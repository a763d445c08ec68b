import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { encodedBlob, encodedFile, optimisticUpdate, readTarget, SchemaError } from "../../src/index.js";
import type { Codec, UpdateTarget } from "../../src/index.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { loseAnswer } from "../fakes/faults.js";
import { rejection } from "../support/outcome.js";

/** One `name=value` per line. */
const lines = {
  contentType: "text/x-lines",
  decode: (content: Uint8Array) => {
    const text = new TextDecoder().decode(content);
    return new Map(
      text.split("\n").map((line): [string, string] => {
        const at = line.indexOf("=");
        if (at < 0) throw new Error(`no = in ${line}`);
        return [line.slice(0, at), line.slice(at + 1)];
      }),
    );
  },
  encode: (value: Map<string, string>) => new TextEncoder().encode([...value].map(([name, text]) => `${name}=${text}`).join("\n")),
} satisfies Codec<Map<string, string>>;

function fake(content?: string): { service: FakeService; blob: FakeBlockBlob; text: () => string } {
  const service = new FakeService();
  const blob = new FakeBlockBlob(service);
  if (content !== undefined) blob.put(new TextEncoder().encode(content));
  return { service, blob, text: () => new TextDecoder().decode(blob.stored!.content) };
}

describe("encodedBlob", () => {
  it("has the type of its codec", () => {
    const { blob } = fake();
    expectTypeOf(encodedBlob(blob, lines)).toEqualTypeOf<UpdateTarget<Map<string, string>>>();
  });

  it("reads and writes in the format of the codec, and keeps what jsonBlob keeps", async () => {
    const { service, blob, text } = fake("a=1\nb=2");
    blob.put(blob.stored!.content, { metadata: { owner: "me" }, headers: { blobContentType: "text/x-old" } });
    const result = await optimisticUpdate(encodedBlob(blob, lines), (draft) => void draft.set("a", "3"));
    expect(result).toMatchObject({ outcome: "updated", etag: blob.stored?.etag });
    expect([...result.value]).toEqual([["a", "3"], ["b", "2"]]);
    expect(text()).toBe("a=3\nb=2");
    expect(blob.stored).toMatchObject({ headers: { blobContentType: "text/x-old" }, metadata: { owner: "me" } });
    expect(service.operations).toEqual(["download", "upload"]);
  });

  it.each([
    [lines, "text/x-lines"],
    [{ decode: lines.decode, encode: lines.encode }, "application/octet-stream"],
  ])("creates a blob with the content type of the codec", async (codec, contentType) => {
    const { blob } = fake();
    await optimisticUpdate(encodedBlob(blob, codec), () => undefined, { initial: new Map([["a", "1"]]) });
    expect(blob.stored?.headers).toMatchObject({ blobContentType: contentType });
  });

  it("writes nothing if the bytes are the same", async () => {
    const { service, blob } = fake("a=1");
    expect((await optimisticUpdate(encodedBlob(blob, lines), () => new Map([["a", "1"]]))).outcome).toBe("unchanged");
    expect(service.operations).toEqual(["download"]);
  });

  it("gives each mutator of a batch its own value, and applies each change once", async () => {
    const { service, blob, text } = fake("n=0");
    service.next("upload", loseAnswer);
    const drafts = new Set<unknown>();
    const add = (draft: Map<string, string>): void => {
      drafts.add(draft);
      draft.set("n", String(Number(draft.get("n")) + 1));
    };
    await Promise.all([1, 2, 3].map(() => optimisticUpdate(encodedBlob(blob, lines), add)));
    expect(drafts.size).toBe(3);
    expect(text()).toBe("n=3");
  });

  it("does not share a write with another codec for the same blob", async () => {
    const { blob, text } = fake("a=1");
    const other: Codec<string> = { decode: (content) => new TextDecoder().decode(content), encode: (value) => new TextEncoder().encode(value) };
    const [, second] = await Promise.all([
      optimisticUpdate(encodedBlob(blob, lines), (draft) => void draft.set("b", "2")),
      optimisticUpdate(encodedBlob(blob, other), (draft) => (typeof draft === "string" ? `${draft}\nc=3` : "the other codec decoded it")),
    ]);
    expect(typeof second.value).toBe("string");
    expect(text().split("\n").sort()).toEqual(["a=1", "b=2", "c=3"]);
  });

  it("rejects content that the codec cannot decode, without quoting it", async () => {
    const { service, blob, text } = fake("secret-content");
    const mutator = vi.fn(() => new Map<string, string>());
    for (const call of [readTarget(encodedBlob(blob, lines)), optimisticUpdate(encodedBlob(blob, lines), mutator)]) {
      const error = await rejection(call);
      expect(error).toBeInstanceOf(SchemaError);
      expect(error).toMatchObject({ phase: "read", url: blob.url });
      expect(error.message).not.toContain("secret");
      expect(JSON.stringify(error["issues"])).not.toContain("secret");
    }
    expect(mutator).not.toHaveBeenCalled();
    expect(service.count("write")).toBe(0);
    expect(text()).toBe("secret-content");
  });

  it("rejects a codec that does not return bytes, and writes nothing", async () => {
    const { service, blob } = fake("a=1");
    const wrong = { ...lines, encode: () => "a=2" as never };
    await expect(optimisticUpdate(encodedBlob(blob, wrong), (draft) => void draft.set("a", "2"))).rejects.toThrow(TypeError);
    expect(service.count("write")).toBe(0);
  });
});

describe.each([
  ["encodedBlob", (codec: unknown) => encodedBlob(fake().blob, codec as Codec<string>)],
  ["encodedFile", (codec: unknown) => encodedFile(fake().blob as never, codec as Codec<string>)],
])("%s", (name, make) => {
  it.each([undefined, null, "json", {}, { decode: lines.decode }, { decode: lines.decode, encode: 5 }])("throws a TypeError if the codec is %s", (codec) => {
    expect(() => make(codec)).toThrow(new TypeError(`${name}: the codec must have decode and encode.`));
  });
});
