import type { ContainerClient } from "@azure/storage-blob";
import { beforeAll, expect, it } from "vitest";

import { jsonBlob, optimisticUpdate } from "../../src/index.js";
import type { UpdateTarget } from "../../src/index.js";
import { freshContainer } from "../support/clients.js";

let container: ContainerClient;

beforeAll(async () => {
  container = await freshContainer();
});

/** Two updates, the second of which continues from the write of the first without a read. Its mutator does something meanwhile. */
async function updateTwice(target: UpdateTarget<{ n: number }>, meanwhile: () => Promise<unknown>): Promise<void> {
  let began = (): void => undefined;
  const mutatorRan = new Promise<void>((resolve) => (began = resolve));
  const first = optimisticUpdate(target, (doc) => {
    doc.n++;
    began();
  });
  await mutatorRan;
  const second = optimisticUpdate(target, async (doc) => {
    await meanwhile();
    doc.n++;
  });
  expect((await first).value.n).toBe(1);
  expect((await second).value.n).toBe(2);
}

it("a tag update that was confirmed is kept by a write that continues from an earlier write of its group", async () => {
  const blob = container.getBlockBlobClient("tags");
  await blob.upload('{"n":0}', 7, { tags: { state: "new" } });
  await updateTwice(jsonBlob(blob), () => blob.setTags({ state: "done", by: "another client" }));
  expect((await blob.getTags()).tags).toEqual({ state: "done", by: "another client" });
});

it("so are a tier, and tags that the blob did not have, with keepTier", async () => {
  const blob = container.getBlockBlobClient("tier");
  await blob.upload('{"n":0}', 7);
  await updateTwice(jsonBlob(blob, { keepTier: true }), async () => {
    await blob.setTags({ a: "1" });
    await blob.setAccessTier("Cool");
  });
  expect((await blob.getTags()).tags).toEqual({ a: "1" });
  expect((await blob.getProperties()).accessTier).toBe("Cool");
});

it("what the service returns for an upload does not say whether the blob has tags", async () => {
  const blob = container.getBlockBlobClient("count");
  const uploaded = await blob.upload("1", 1, { tags: { a: "1" } });
  expect(Object.keys(uploaded).filter((name) => /tag/i.test(name))).toEqual(["etag"]);
  expect((await blob.download()).tagCount).toBe(1);
});

it("the SDK returns metadata names in lower case, so that a rewrite cannot keep their case", async () => {
  const blob = container.getBlockBlobClient("case");
  await blob.upload("1", 1, { metadata: { MixedCase: "1" } });
  const { metadata, _response: response } = await blob.getProperties();
  expect(metadata).toEqual({ mixedcase: "1" });
  // Node's HTTP client has lowered the names before any policy of the SDK sees them.
  const names = response.headers.headerNames();
  expect(names.filter((name) => /^x-ms-meta-/i.test(name))).toEqual(["x-ms-meta-mixedcase"]);
});
