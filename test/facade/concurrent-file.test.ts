import { describe, expect, it } from "vitest";
import { ConcurrentFile, containerMetadata, jsonFile, leasedUpdate, queueMetadata, shareMetadata } from "../../src/index.js";

describe("ConcurrentFile", () => {
  it("wants a ShareFileClient", () => {
    for (const wrong of [undefined, null, {}, "file", { uploadRange: 1 }]) {
      expect(() => new ConcurrentFile(wrong as never)).toThrow(/ShareFileClient/);
    }
  });
});

describe("guarded targets", () => {
  it.each([
    ["jsonFile", () => jsonFile({} as never)],
    ["shareMetadata", () => shareMetadata({} as never)],
    ["containerMetadata", () => containerMetadata({} as never)],
    ["queueMetadata", () => queueMetadata({} as never)],
  ])("%s wants the client of its service", (_, make) => {
    expect(make).toThrow(TypeError);
  });

  it("are wanted by leasedUpdate", async () => {
    await expect(leasedUpdate(undefined as never, () => 1)).rejects.toThrow(/^Not a target/);
  });
});
