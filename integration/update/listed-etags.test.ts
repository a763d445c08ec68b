import { describe, expect, it } from "vitest";
import { deleteIfUnchanged, jsonBlob, optimisticUpdate, overwrite, readIfChanged } from "../../src/index.js";
import type { ContainerClient } from "@azure/storage-blob";
import { freshContainer } from "../support/clients.js";

interface Counter {
  n: number;
}

/** The ETag of the only blob as the listing returns it: without quotes. */
async function listedETag(container: ContainerClient): Promise<string> {
  for await (const { properties } of container.listBlobsFlat()) {
    expect(properties.etag).toMatch(/^0x/);
    return properties.etag;
  }
  throw new Error("the container is empty");
}

describe("the ETag of a listing", () => {
  it("is that of the version, in every call that takes one", async () => {
    const container = await freshContainer();
    const counter = jsonBlob<Counter>(container.getBlockBlobClient("counter"));
    await overwrite(counter, { n: 1 });
    const first = await listedETag(container);
    expect(await readIfChanged(counter, first)).toMatchObject({ changed: false });
    await optimisticUpdate(counter, (draft) => { draft.n++; }, { ifMatch: first });
    await expect(optimisticUpdate(counter, (draft) => { draft.n++; }, { ifMatch: first })).rejects.toMatchObject({ code: "CONFLICT" });
    await overwrite(counter, { n: 3 }, { ifMatch: await listedETag(container) });
    await expect(overwrite(counter, { n: 4 }, { ifMatch: first })).rejects.toMatchObject({ code: "CONFLICT" });
    await deleteIfUnchanged(counter, await listedETag(container));
  });
});
