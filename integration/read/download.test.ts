import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import type { BlockBlobClient } from "@azure/storage-blob";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { ContentChangedError, downloadConsistent, downloadConsistentStream } from "../../src/index.js";
import { type FaultProxy, type FaultRequest, type FaultRule, rewriteResponse, startFaultProxy } from "../../src/testing.js";
import { azurite, containerClient, freshContainer } from "../support/clients.js";

const mebibyte = 1024 * 1024;

/** Content of which each byte tells its version. */
const version = (value: number, sizeInMebibytes: number): Buffer => Buffer.alloc(sizeInMebibytes * mebibyte, value);

/** Which versions the bytes are of. */
function versionsIn(content: Uint8Array): number[] {
  const counts = new Set<number>();
  for (let at = 0; at < content.length; ) {
    const value = content[at]!;
    counts.add(value);
    while (at < content.length && content[at] === value) at++;
  }
  return [...counts];
}

describe("a blob that is rewritten while it is downloaded", () => {
  let proxy: FaultProxy;
  let truth: BlockBlobClient;
  let blob: BlockBlobClient;
  let newest: number;

  beforeEach(async () => {
    proxy = await startFaultProxy(azurite().blobUrl);
    const { containerName } = await freshContainer();
    truth = containerClient(containerName).getBlockBlobClient("doc");
    blob = containerClient(containerName, { through: proxy }).getBlockBlobClient("doc");
    newest = 1;
  });

  afterEach(() => proxy.stop());

  const startsAt = (offset: number) => ({ headers }: FaultRequest) => (headers["x-ms-range"] ?? headers["range"])?.startsWith(`bytes=${offset}-`) ?? false;

  /** After the range at `offset` was read, and before anybody hears of it, the next version is stored. */
  function rewriteAt(offset: number, sizeInMebibytes: number, times: number): FaultRule {
    return rewriteResponse(
      async (answer) => {
        await truth.upload(version(++newest, sizeInMebibytes), sizeInMebibytes * mebibyte);
        return answer;
      },
      { when: startsAt(offset), times },
    );
  }

  it("comes back mixed from the SDK's downloadToBuffer, and never from downloadConsistent", async () => {
    await truth.uploadData(version(1, 64));
    const middle = 32 * mebibyte;

    proxy.rules = [rewriteAt(middle, 64, 1)];
    expect(versionsIn(await blob.downloadToBuffer(0, undefined, { concurrency: 1 }))).toEqual([1, 2]);

    proxy.rules = [rewriteAt(middle, 64, 1)];
    const oneByOne = await downloadConsistent(blob, { concurrency: 1 });
    expect(oneByOne.restarts).toBe(1);
    expect(versionsIn(oneByOne.content)).toEqual([3]);

    // At the first range: the others are asked for when its answer is there.
    proxy.rules = [rewriteAt(0, 64, 2)];
    const { content, restarts, etag } = await downloadConsistent(blob);
    expect(restarts).toBe(2);
    expect(versionsIn(content)).toEqual([5]);
    expect(content).toHaveLength(64 * mebibyte);
    expect(etag).toBe((await truth.getProperties()).etag);
  });

  it("is an error if that is asked for, and for a stream, of which only the old beginning was handed out", async () => {
    await truth.uploadData(version(1, 4));
    proxy.rules = [rewriteAt(mebibyte, 4, 1)];
    await expect(downloadConsistent(blob, { blockSizeInBytes: mebibyte, concurrency: 1, onChange: "throw" })).rejects.toThrow(ContentChangedError);

    proxy.rules = [rewriteAt(mebibyte, 4, 1)];
    const { content } = await downloadConsistentStream(blob, { blockSizeInBytes: mebibyte, concurrency: 1 });
    const parts: Uint8Array[] = [];
    const read = async (): Promise<void> => {
      for await (const part of content) parts.push(part);
    };
    await expect(read()).rejects.toThrow(ContentChangedError);
    expect(versionsIn(Buffer.concat(parts))).toEqual([2]);
  });

  it("may be deleted, or become shorter", async () => {
    await truth.uploadData(version(1, 4));
    proxy.rules = [rewriteAt(mebibyte, 1, 1)];
    const options = { blockSizeInBytes: mebibyte, concurrency: 1 };
    expect(await downloadConsistent(blob, options)).toMatchObject({ sizeInBytes: mebibyte, restarts: 1 });

    await truth.uploadData(version(1, 4));
    proxy.rules = [rewriteResponse(async (answer) => (await truth.delete(), answer), { when: startsAt(mebibyte), times: 1 })];
    await expect(downloadConsistent(blob, options)).rejects.toMatchObject({ name: "TargetNotFoundError" });
  });
});

describe("an append blob that other clients keep appending to", () => {
  it("is downloaded up to its end at the first response, with stablePrefix, and without it only if nothing is appended", async () => {
    await using proxy = await startFaultProxy(azurite().blobUrl);
    const { containerName } = await freshContainer();
    const truth = containerClient(containerName).getAppendBlobClient("log");
    await truth.create();
    for (let n = 1; n <= 4; n++) await truth.appendBlock(version(n, 1), mebibyte);
    const blob = containerClient(containerName, { through: proxy }).getAppendBlobClient("log");
    const appendMore = rewriteResponse(async (response) => (await truth.appendBlock("more", 4), response), { when: ({ method }) => method === "GET" });
    const options = { blockSizeInBytes: mebibyte, concurrency: 1 };

    proxy.rules = [appendMore];
    await expect(downloadConsistent(blob, { ...options, maxRestarts: 2 })).rejects.toThrow(ContentChangedError);

    const sizeInBytes = (await truth.getProperties()).contentLength!;
    const { content, restarts } = await downloadConsistent(blob, { ...options, stablePrefix: true });
    expect(restarts).toBe(0);
    expect(content).toHaveLength(sizeInBytes);
    expect(versionsIn(content.subarray(0, 4 * mebibyte))).toEqual([1, 2, 3, 4]);
    const stream = await downloadConsistentStream(blob, { ...options, stablePrefix: true });
    expect((await new Response(stream.content).arrayBuffer()).byteLength).toBe(stream.sizeInBytes);

    // Created again during the download: another blob, never a mix of both.
    let gets = 0;
    proxy.rules = [
      rewriteResponse(
        async (response) => {
          await truth.create();
          await truth.appendBlock(version(9, 1), mebibyte);
          return response;
        },
        { when: ({ method }) => method === "GET" && ++gets === 2, times: 1 },
      ),
    ];
    const again = await downloadConsistent(blob, { ...options, stablePrefix: true });
    expect(again.restarts).toBe(1);
    expect(versionsIn(again.content)).toEqual([9]);
  });
});

describe("what a download costs", () => {
  it.each([
    ["an empty blob", 0, 2],
    ["a small blob", 1, 1],
    ["three blocks", 3, 3],
  ])("for %s: one request per block, two for nothing", async (_name, sizeInMebibytes, requests) => {
    await using proxy = await startFaultProxy(azurite().blobUrl);
    const { containerName } = await freshContainer();
    await containerClient(containerName).getBlockBlobClient("doc").uploadData(version(7, sizeInMebibytes));
    const blob = containerClient(containerName, { through: proxy }).getBlockBlobClient("doc");
    const { content } = await downloadConsistent(blob, { blockSizeInBytes: mebibyte });
    expect(content).toHaveLength(sizeInMebibytes * mebibyte);
    expect(proxy.requests).toBe(requests);
    expect(proxy.count(({ headers }) => headers["if-match"] !== undefined)).toBe(Math.max(0, sizeInMebibytes - 1));
  });
});

describe("a download over a bad line", () => {
  it("goes on where a body was cut off", async () => {
    const { containerName } = await freshContainer();
    const content = Buffer.from(Uint8Array.from({ length: 3 * mebibyte }, (_, i) => (i * 7 + (i >> 8)) & 0xff));
    await containerClient(containerName).getBlockBlobClient("doc").uploadData(content);
    await using line = await cuttingLine(azurite().blobUrl, 2);
    const blob = containerClient(containerName, { through: line.url }).getBlockBlobClient("doc");
    const download = await downloadConsistent(blob, { blockSizeInBytes: mebibyte });
    expect(content.equals(download.content)).toBe(true);
    expect(line.cuts()).toBe(2);
    await using again = await cuttingLine(azurite().blobUrl, 2);
    const stream = await downloadConsistentStream(containerClient(containerName, { through: again.url }).getBlockBlobClient("doc"), { blockSizeInBytes: mebibyte });
    expect(content.equals(Buffer.from(await new Response(stream.content).arrayBuffer()))).toBe(true);
    expect(again.cuts()).toBe(2);
  });

  it("is cancelled in the middle of a body", async () => {
    const { containerName } = await freshContainer();
    const blob = containerClient(containerName).getBlockBlobClient("doc");
    await blob.uploadData(version(1, 16));
    const controller = new AbortController();
    const cancelled = downloadConsistent(blob, {
      abortSignal: controller.signal,
      onProgress: ({ loadedBytes }) => loadedBytes > mebibyte && controller.abort(new Error("enough")),
    });
    await expect(cancelled).rejects.toThrow("enough");
  });
});

/** Passes requests on, and cuts the connection in the middle of the first bodies. */
async function cuttingLine(target: string, times: number): Promise<AsyncDisposable & { url: string; cuts(): number }> {
  let cuts = 0;
  const { hostname, port, pathname } = new URL(target);
  const server = createServer((incoming, outgoing) => {
    const { method, url: path, headers } = incoming;
    const onward = httpRequest({ hostname, port, method, path, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      let passed = 0;
      answer.on("data", (chunk: Buffer) => {
        passed += chunk.length;
        outgoing.write(chunk);
        if (passed < mebibyte / 4 || cuts >= times) return;
        cuts++;
        answer.destroy();
        outgoing.destroy();
      });
      answer.on("end", () => outgoing.end());
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${pathname}`.replace(/\/$/, ""),
    cuts: () => cuts,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
