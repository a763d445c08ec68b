import { describe, expect, it } from "vitest";
import { appendExactlyOnce, blobHttpHeaders, blobMetadata, blobTags, claimPages, createIfNotExists, deleteIfUnchanged, IdAllocator, jsonBlob, leasedUpdate, optimisticUpdate, overwrite, readTarget, withLease } from "../../src/index.js";
import { FakeAppendBlob } from "../fakes/fake-append-blob.js";
import { FakeBlockBlob } from "../fakes/fake-block-blob.js";
import { FakePageBlob } from "../fakes/fake-page-blob.js";
import { FakeService } from "../fakes/fake-service.js";
import { increment } from "../support/counter.js";
import type { Counter } from "../support/counter.js";
import { rejection } from "../support/outcome.js";

const base = "https://account.blob.core.windows.net/docs/doc.json";

describe.each(["snapshot=2020-01-01T00:00:00.0000000Z", "versionid=2020-01-01T00%3A00%3A00.0000000Z", "sv=2020-08-04&snapshot=2020"])("a client of %s", (query) => {
  function snapshot(): { service: FakeService; blob: FakeBlockBlob } {
    const service = new FakeService();
    const blob = new FakeBlockBlob(service, { url: `${base}?${query}` });
    blob.put({ n: 1 });
    return { service, blob };
  }

  it("can be read", async () => {
    const { blob } = snapshot();
    expect((await readTarget(blob)).value).toEqual({ n: 1 });
    expect((await readTarget(jsonBlob<Counter>(blob))).value).toEqual({ n: 1 });
    expect((await readTarget(blobMetadata(blob))).value).toEqual({});
  });

  it("cannot be written: no request is sent", async () => {
    const { service, blob } = snapshot();
    const writes: (() => Promise<unknown>)[] = [
      () => optimisticUpdate<Counter>(blob, increment),
      () => optimisticUpdate(jsonBlob<Counter>(blob), increment),
      () => optimisticUpdate(blobMetadata(blob), () => ({})),
      () => optimisticUpdate(blobTags(blob), () => ({})),
      () => leasedUpdate<Counter>(blob, increment),
      () => overwrite(blob, { n: 2 }),
      () => createIfNotExists(blob, { n: 2 }),
      () => deleteIfUnchanged(blob, blob.stored!.etag),
      () => withLease(blob, () => undefined),
      async () => new IdAllocator(blob).next(),
      () => optimisticUpdate(blobHttpHeaders(blob), () => ({})),
      () => appendExactlyOnce(new FakeAppendBlob(service, { url: blob.url }), "record"),
      () => claimPages(Object.assign(new FakePageBlob(service), { url: blob.url })),
    ];
    for (const write of writes) {
      const error = await rejection(write());
      expect(error, String(write)).toBeInstanceOf(TypeError);
      expect(error.message, String(write)).toMatch(/snapshot|version/);
    }
    expect(service.count()).toBe(0);
  });
});
