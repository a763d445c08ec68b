import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import type { PageBlobClient } from "@azure/storage-blob";
import { describe, expect, it, onTestFinished } from "vitest";

import { claimPages } from "../../src/index.js";
import { dropResponse, startFaultProxy } from "../../src/testing.js";
import { azurite, freshContainer } from "../support/clients.js";
import { fastContainer } from "../support/fast-clients.js";
import { connectionString } from "../support/clients.js";

async function freshDisk(): Promise<PageBlobClient> {
  const blob = (await freshContainer()).getPageBlobClient("disk");
  await blob.create(16 * 1024, { blobHTTPHeaders: { blobContentType: "application/x-disk" } });
  return blob;
}

const page = (value: number, count = 1): Uint8Array => new Uint8Array(count * 512).fill(value);

const firstBytes = async (blob: PageBlobClient, pages: number): Promise<number[]> => {
  const content = await blob.downloadToBuffer();
  return Array.from({ length: pages }, (_, n) => content[n * 512] ?? -1);
};

describe("page writes under a sequence number", () => {
  it("are refused once somebody else has claimed the blob", async () => {
    const blob = await freshDisk();
    const old = await claimPages(blob);
    await old.write(0, page(1, 2));
    const successor = await claimPages(blob);
    await expect(old.write(0, page(9))).rejects.toMatchObject({ name: "FencedError", epoch: old.sequenceNumber, fencedBy: successor.sequenceNumber });
    await expect(old.clear(0, 512)).rejects.toMatchObject({ name: "FencedError" });
    await successor.write(512, page(2));
    expect(await firstBytes(blob, 3)).toEqual([1, 2, 0]);
    expect((await blob.getProperties()).contentType).toBe("application/x-disk");
  });

  it("are refused once the blob was deleted and created again, and somebody else has claimed it", async () => {
    const blob = await freshDisk();
    const old = await claimPages(blob);
    await blob.delete();
    await blob.create(2048);
    const successor = await claimPages(blob);
    await successor.write(0, page(2));
    await expect(old.write(0, page(1))).rejects.toMatchObject({ name: "FencedError", fencedBy: successor.sequenceNumber });
    expect(await firstBytes(blob, 1)).toEqual([2]);
  });

  it("of one of many that claim at the same time get through, and only of that one", async () => {
    const blob = await freshDisk();
    const writers = await Promise.all(Array.from({ length: 12 }, () => claimPages(blob)));
    expect(new Set(writers.map((writer) => writer.sequenceNumber)).size).toBe(12);
    const outcomes = await Promise.allSettled(writers.map((writer, n) => writer.write(0, page(n + 1))));
    const last = writers.findIndex((writer) => writer.sequenceNumber === Math.max(...writers.map(({ sequenceNumber }) => sequenceNumber)));
    expect(outcomes.map((outcome) => outcome.status === "fulfilled")).toEqual(writers.map((_, n) => n === last));
    expect(await firstBytes(blob, 1)).toEqual([last + 1]);
  });

  it("go on after lost answers, under a number that shuts out what is still on its way", async () => {
    const blob = await freshDisk();
    const proxy = await startFaultProxy(azurite().blobUrl, [dropResponse({ when: ({ method }) => method === "PUT", probability: 0.3 })]);
    onTestFinished(() => proxy.stop());
    const through = fastContainer(connectionString({ blobUrl: proxy.url }), blob.containerName).getPageBlobClient("disk");
    const writer = await claimPages(through);
    for (let n = 1; n <= 40; n++) await writer.write(((n - 1) % 8) * 512, page(n));
    expect(proxy.faultCount()).toBeGreaterThan(3);
    expect(await firstBytes(blob, 8)).toEqual([33, 34, 35, 36, 37, 38, 39, 40]);
    expect((await blob.getProperties()).blobSequenceNumber).toBe(writer.sequenceNumber);
    await claimPages(blob);
    await expect(writer.write(0, page(99))).rejects.toMatchObject({ name: "FencedError" });
  });

  it("that their caller aborted do not undo a later one, although they arrive after it", async () => {
    const blob = await freshDisk();
    await using line = await lateLine(azurite().blobUrl);
    const through = fastContainer(connectionString({ blobUrl: line.url }), blob.containerName).getPageBlobClient("disk");
    const writer = await claimPages(through);
    for (let n = 1; n <= 8; n += 2) {
      const held = line.holdNextPages();
      const controller = new AbortController();
      const aborted = writer.write(0, page(n), { abortSignal: controller.signal });
      await held.arrived;
      controller.abort(new Error("enough"));
      // At once: the caller does not wait until the request has ended.
      const next = writer.write(0, page(n + 1));
      await expect(aborted).rejects.toThrow("enough");
      await next;
      await held.forward();
      expect(await firstBytes(blob, 1)).toEqual([n + 1]);
    }
  });

  it("larger than 4 MiB are several requests", async () => {
    const blob = (await freshContainer()).getPageBlobClient("large");
    await blob.create(8 * 1024 * 1024);
    const writer = await claimPages(blob);
    await writer.write(512, new Uint8Array(5 * 1024 * 1024).fill(3));
    const content = await blob.downloadToBuffer();
    expect([content[511], content[512], content[512 + 5 * 1024 * 1024 - 1], content[512 + 5 * 1024 * 1024]]).toEqual([0, 3, 3, 0]);
  });
});

interface HeldRequest {
  /** Resolves when the request has left the client. */
  readonly arrived: Promise<void>;
  /** Lets the service receive it, although the client has given it up. */
  forward(): Promise<void>;
}

/** Passes requests on, and keeps single page writes for as long as the test wants. */
async function lateLine(target: string): Promise<AsyncDisposable & { url: string; holdNextPages(): HeldRequest }> {
  const { hostname, port, pathname } = new URL(target);
  let onPages: ((forward: () => Promise<void>) => void) | undefined;
  const server = createServer((incoming, outgoing) => {
    const { method, url: path, headers } = incoming;
    void buffer(incoming).then((body) => {
      const forward = (): Promise<void> =>
        new Promise((resolve) => {
          const onward = httpRequest({ hostname, port, method, path, headers, agent: false }, (response) => {
            if (!outgoing.destroyed) outgoing.writeHead(response.statusCode ?? 500, response.headers);
            response.on("data", (chunk) => outgoing.destroyed || outgoing.write(chunk));
            response.on("end", () => {
              outgoing.end();
              resolve();
            });
          });
          onward.end(body);
        });
      const hold = path?.includes("comp=page") ? onPages : undefined;
      if (!hold) return forward();
      onPages = undefined;
      hold(forward);
      return undefined;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${pathname}`.replace(/\/$/, ""),
    holdNextPages() {
      let forward = (): Promise<void> => Promise.resolve();
      const arrived = new Promise<void>((resolve) => {
        onPages = (held) => {
          forward = held;
          resolve();
        };
      });
      return { arrived, forward: () => forward() };
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
