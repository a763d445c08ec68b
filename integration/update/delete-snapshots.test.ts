import { describe, expect, it } from "vitest";

import { ConcurrentBlob, deleteIfUnchanged, DELETE, jsonBlob, optimisticUpdate, textBlob } from "../../src/index.js";
import { freshContainer } from "../support/clients.js";

describe("a blob with snapshots", () => {
  it("is deleted with them only if its target says so", async () => {
    const container = await freshContainer();
    const blob = container.getBlockBlobClient("doc");
    await blob.uploadData(Buffer.from("{}"));
    await blob.createSnapshot();
    await expect(optimisticUpdate(jsonBlob(blob), () => DELETE)).rejects.toMatchObject({
      code: "TARGET_STATE",
      reason: "snapshots",
      cause: { statusCode: 409, code: "SnapshotsPresent" },
    });
    expect(await blob.exists()).toBe(true);

    expect(await optimisticUpdate(jsonBlob(blob, { deleteSnapshots: "include" }), () => DELETE)).toMatchObject({ outcome: "deleted" });
    expect(await blob.exists()).toBe(false);

    await blob.uploadData(Buffer.from("text"));
    await blob.createSnapshot();
    const { etag } = await blob.getProperties();
    await deleteIfUnchanged(textBlob(blob, { deleteSnapshots: "include" }), etag!);
    await blob.uploadData(Buffer.from("{}"));
    await blob.createSnapshot();
    await new ConcurrentBlob(blob, { deleteSnapshots: "include" }).update(() => DELETE);
    const left: string[] = [];
    for await (const { name } of container.listBlobsFlat({ includeSnapshots: true })) left.push(name);
    expect(left).toEqual([]);
  });

  it("is not taken for another option", async () => {
    const blob = (await freshContainer()).getBlockBlobClient("doc");
    // "only" would report a deletion although the blob still exists.
    expect(() => jsonBlob(blob, { deleteSnapshots: "only" as never })).toThrow(RangeError);
  });
});
