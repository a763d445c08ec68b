import { text } from "node:stream/consumers";
import type { BlockBlobClient } from "@azure/storage-blob";
import type { ShareFileClient } from "@azure/storage-file-share";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { acquireLease, leasedUpdate, withLease } from "../../src/index.js";
import { type FileShareServer, startFileShareServer } from "../../src/testing.js";
import { freshShare } from "../file/support.js";
import { freshContainer } from "../support/clients.js";

/** These calls also show that the options fit the types of the SDKs as they are. */
describe("lease.requestOptions of a blob", () => {
  let blob: BlockBlobClient;
  beforeEach(async () => {
    blob = (await freshContainer()).getBlockBlobClient("doc");
    await blob.upload("{}", 2);
  });

  it("let the SDK write under the lease, also after the id was changed", async () => {
    await withLease(blob, async (lease) => {
      await blob.setMetadata({ state: "first" }, lease.requestOptions);
      await lease.change();
      await blob.setMetadata({ state: "second" }, lease.requestOptions);
      await blob.upload("[]", 2, lease.requestOptions);
      await expect(blob.setMetadata({ state: "third" })).rejects.toMatchObject({ statusCode: 412 });
      expect((await blob.getProperties(lease.requestOptions)).contentLength).toBe(2);
    });
    await expect(blob.downloadToBuffer().then(String)).resolves.toBe("[]");
  });

  it("do not let it write after the release: the service knows the id no more", async () => {
    const lease = await acquireLease(blob);
    const { requestOptions } = lease;
    await lease.release();
    await expect(blob.setMetadata({ state: "late" }, requestOptions)).rejects.toMatchObject({ statusCode: 412 });
    expect((await blob.getProperties()).metadata).toEqual({});
  });

  it("leave a download alone whose body is read after the release, or never", async () => {
    await blob.upload("content", 7);
    const [read] = await Promise.all([
      withLease(blob, (lease) => blob.download(0, undefined, lease.requestOptions)),
      new Promise((resolve) => setTimeout(resolve, 50)),
    ]);
    await withLease(blob, (lease) => blob.download(0, undefined, lease.requestOptions));
    expect(await text(read.readableStreamBody!)).toBe("content");
  });

  it("leasedUpdate inside withLease of the same blob rejects at once, and works with the lease", async () => {
    const started = performance.now();
    await expect(withLease(blob, () => leasedUpdate(blob, () => ({ n: 1 })))).rejects.toThrow(/^leasedUpdate would wait forever: the withLease around it holds the lease on http.*\/doc/);
    expect(performance.now() - started).toBeLessThan(5_000);
    const { value } = await withLease(blob, (lease) => leasedUpdate(blob, () => ({ n: 1 }), { lease }));
    expect(value).toEqual({ n: 1 });
  });
});

describe("lease.requestOptions of a file", () => {
  let server: FileShareServer;
  let file: ShareFileClient;
  beforeAll(async () => {
    server = await startFileShareServer();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    file = (await freshShare(server)).rootDirectoryClient.getFileClient("f");
    await file.create(4);
  });

  it("let the SDK write under the lease, also after the id was changed", async () => {
    await withLease(file, async (lease) => {
      await file.setMetadata({ state: "first" }, lease.requestOptions);
      await lease.change();
      await file.setMetadata({ state: "second" }, lease.requestOptions);
      await file.uploadRange("data", 0, 4, lease.requestOptions);
      await expect(file.uploadRange("late", 0, 4)).rejects.toMatchObject({ statusCode: 412 });
    });
    expect((await file.getProperties()).metadata).toEqual({ state: "second" });
  });
});
