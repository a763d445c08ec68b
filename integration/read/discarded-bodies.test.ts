import type { BlockBlobClient } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { type FaultProxy, type FaultRequest, rewriteResponse, startFaultProxy } from "../../src/testing.js";
import { azurite, connectionString, freshContainer } from "../support/clients.js";
import { startWorker } from "../support/workers.js";
import type { DownloaderConfig, DownloadResults } from "./workers/downloader.js";

const mebibyte = 1024 * 1024;

/**
 * A response whose body is not read must not end the process: its stream emits `error` when the request is aborted. Each download
 * runs in a process of its own, which an `error` event without a listener would end.
 */
describe.each([
  ["downloadConsistent", false],
  ["downloadConsistentStream", true],
])("a response that %s does not read", (_name, stream) => {
  let proxy: FaultProxy;
  let blob: BlockBlobClient;
  let container: string;

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().blobUrl);
    const client = await freshContainer();
    container = client.containerName;
    blob = client.getBlockBlobClient("doc");
  });

  afterEach(() => proxy.stop());

  function download(rest: Pick<DownloaderConfig, "downloads" | "options">): Promise<DownloadResults> {
    const config: DownloaderConfig = { connectionString: connectionString({ blobUrl: proxy.url }), container, blob: "doc", stream, ...rest };
    return startWorker<DownloadResults>(new URL("./workers/downloader.ts", import.meta.url), config).result;
  }

  it("does not end the process if the blob is larger than maxSizeInBytes", async () => {
    await blob.uploadData(Buffer.alloc(4 * mebibyte, 1));
    expect(await download({ downloads: 3, options: { maxSizeInBytes: 100 } })).toEqual({ ContentTooLargeError: 3 });
  });

  it("does not end the process if other clients empty and fill the blob", async () => {
    await blob.uploadData(Buffer.alloc(0));
    let full = false;
    // Between the request for the first range and the request for the whole blob, another client fills the blob, and then empties it.
    proxy.rules = [
      rewriteResponse(
        async (response) => {
          full = !full;
          const content = Buffer.alloc(full ? mebibyte : 0, 1);
          await blob.upload(content, content.length);
          return response;
        },
        { when: ({ method }) => method === "GET" },
      ),
    ];
    const results = await download({ downloads: 20, options: stream ? {} : { maxRestarts: 0 } });
    expect(Object.values(results).reduce((sum, count) => sum + count, 0)).toBe(20);
    expect(Object.keys(results).filter((name) => !["done", "RestError", "ContentChangedError"].includes(name))).toEqual([]);
  });

  const inTheMiddle = ({ headers }: FaultRequest): boolean => (headers["x-ms-range"] ?? "").startsWith(`bytes=${mebibyte}-`);

  it.each([
    ["another ETag", { etag: '"0xOTHER"' }, { ContentChangedError: 3 }],
    ["another Content-Range, with the same ETag", { "content-range": `bytes 0-${mebibyte - 1}/${4 * mebibyte}` }, { done: 3 }],
  ])("does not end the process if a response in the middle has %s", async (_what, headers, expected) => {
    await blob.uploadData(Buffer.alloc(4 * mebibyte, 1));
    let seen = 0;
    // For the range: only every other request, so that the download can continue.
    const wrong = (request: FaultRequest): boolean => inTheMiddle(request) && ("etag" in headers || seen++ % 2 === 0);
    proxy.rules = [rewriteResponse((response) => ({ ...response, headers: { ...response.headers, ...headers } }), { when: wrong })];
    expect(await download({ downloads: 3, options: { blockSizeInBytes: mebibyte, concurrency: 2, ...(!stream && { maxRestarts: 0 }) } })).toEqual(expected);
  });
});
